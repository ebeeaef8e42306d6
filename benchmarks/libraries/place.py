"""Where one of several processes stands that measure together, each with a GPU of its own."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch

# That one process waits for the others.
_PATIENCE = 300


class Place(NamedTuple):
    """One of several processes.

    Attributes:
        rank, ranks: which of how many.
        kind: ``"cuda"``, where each has the GPU of its rank, or ``"cpu"``.
        meeting: a folder that they have in common, a new one for each measurement.
    """

    rank: int
    ranks: int
    kind: str
    meeting: str

    @property
    def device(self) -> torch.device:
        """This process's; it becomes the current one."""
        if self.kind == "cpu":
            return torch.device("cpu")
        torch.cuda.set_device(self.rank)
        return torch.device("cuda", self.rank)

    @property
    def cores(self) -> int:
        """That this process has for itself."""
        return len(os.sched_getaffinity(0))

    def arrive(self, point: str) -> None:
        """Tell the others."""
        Path(self.meeting, f"{point}.{self.rank}").touch()

    def all_at(self, point: str) -> bool:
        """Whether all have arrived there."""
        return all(Path(self.meeting, f"{point}.{rank}").exists() for rank in range(self.ranks))

    def meet(self, point: str) -> None:
        """Wait there for the others.

        Raises:
            TimeoutError: they do not come.
        """
        self.arrive(point)
        end = time.perf_counter() + _PATIENCE
        while not self.all_at(point):
            if time.perf_counter() > end:
                raise TimeoutError(f"process {self.rank} of {self.ranks} waits for others in vain: {point}")
            time.sleep(0.001)


def synchronize(device: torch.device) -> None:
    """Wait for a GPU."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def rate_together(step: Callable[[], int], seconds: float, warmup: float, place: Place) -> float:
    """Things a second that a step does while all processes do theirs; see ``common.rate``.

    All begin to count when the last one is warm, and go on until the last one has counted.
    """
    end = time.perf_counter() + warmup
    step()
    while time.perf_counter() < end:
        step()
    place.arrive("warm")
    while not place.all_at("warm"):
        step()
    start, count = time.perf_counter(), 0
    while (now := time.perf_counter()) < start + seconds:
        count += step()
    place.arrive("counted")
    while not place.all_at("counted"):
        step()
    return count / (now - start)


def epoch_together(
    first: Callable[[float], Any], epoch: Callable[[], int], warmup: float, place: Place
) -> dict[str, float]:
    """Seconds of an epoch that all processes begin together, and the frames of this one's part.

    Args:
        first: called with the seconds of warm-up.
        epoch: goes through an epoch once and gives the number of frames that came.
        warmup: in seconds.
        place: of this process.
    """
    first(warmup)
    place.meet("warm")
    start = time.perf_counter()
    frames = epoch()
    synchronize(place.device)
    return {"s": time.perf_counter() - start, "frames": frames, "cores each": place.cores}
