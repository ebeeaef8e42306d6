"""Frame modes and transforms that use the loader that calls them, in threads that cannot wait for themselves."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from image_files import picture
from stopped_loaders import all_idle
from waiting import PATIENCE, becomes

import videoloader as vl

# How to call a function in the thread that plans, in the one that finishes batches, and in one that decodes.
THREADS = ["planning", "finishing", "decoding"]


@dataclass
class Calling:
    """A frame mode that calls a function for each clip."""

    pad = "edge"
    call: Callable[[], object] = field(repr=False)

    def num_clips(self, video: vl.VideoInfo) -> int:
        return 1

    def frame_numbers(self, video: vl.VideoInfo, clip: int, rng: np.random.Generator) -> np.ndarray:
        self.call()
        return np.array([0])


@pytest.fixture
def make(data: vl.VideoDataset, tmp_path: Path) -> Callable[..., vl.VideoLoader]:
    for number in range(4):
        picture(number, (48, 32)).save(tmp_path / f"{number}.png")
    images = vl.VideoDataset.from_paths(sorted(tmp_path.iterdir()))

    def made(thread: str, call: Callable[[], object], workers: int = 2) -> vl.VideoLoader:
        mode: Any = [0] if thread == "finishing" else Calling(call)
        transforms = [vl.PythonFunction(lambda frames, rng: (call(), frames)[1])] if thread == "finishing" else []
        settings: dict[str, Any] = {"batch_size": 2, "device": "cpu", "num_workers": workers, "num_processes": 0}
        return vl.VideoLoader(images if thread == "decoding" else data, mode, transforms=transforms, **settings)

    return made


@pytest.mark.parametrize("thread", THREADS)
def test_a_loop_over_the_loader_is_refused(make: Callable[..., vl.VideoLoader], thread: str) -> None:
    loader = make(thread, lambda: next(iter(loader)))
    with pytest.raises(vl.ConfigurationError, match="cannot be looped over by its own frame mode or transforms"):
        next(iter(loader))


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("thread", THREADS)
def test_closing_the_loader_ends_its_loop(make: Callable[..., vl.VideoLoader], thread: str, workers: int) -> None:
    loader = make(thread, lambda: loader.close(), workers)
    with pytest.raises(vl.ConfigurationError, match="the loader is closed"):
        list(loader)
    loader.close()
    assert becomes(all_idle)


def test_a_loop_can_be_collected_in_the_thread_that_plans_it(make: Callable[..., vl.VideoLoader]) -> None:
    loops: list[Iterator[vl.Batch]] = []
    calls, given_up = count(1), threading.Event()

    def collect() -> None:
        if next(calls) == 12:  # while the last batch is planned
            given_up.wait(PATIENCE)
            loops.clear()

    loader = make("planning", collect)
    loops.append(iter(loader))
    for _ in range(4):
        next(loops[0])
    given_up.set()
    assert becomes(lambda: not loops)
    assert sum(map(len, loader)) == 12
