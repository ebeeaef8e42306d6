"""Loops over the epochs of a VideoLoader for frameworks that count batches themselves."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator, Mapping
from operator import index
from typing import Any

from videoloader.batching.batch import Batch
from videoloader.errors import ArgumentError
from videoloader.errors.checks import check_type
from videoloader.errors.short_text import short_text
from videoloader.loader import VideoLoader
from videoloader.order.epoch import check_state
from videoloader.order.shuffle import InOrder


def check_maker(name: str, make: object) -> None:
    """Raise ArgumentError unless an argument can be called to make a loader for each process."""
    try:
        if callable(make):
            inspect.signature(make).bind(shard_id=0, num_shards=1)
            return
    except TypeError:
        pass  # it does not take these arguments
    except ValueError:
        return  # some functions have no known signature
    wanted = "a function of shard_id= and num_shards=, such as partial(VideoLoader, data, mode, batch_size=8)"
    raise ArgumentError(f"{name} must be {wanted}, got {short_text(make)}")


class EpochLoop:
    """Wraps a VideoLoader to keep track of the current epoch and the number of its batches yielded.

    After its last batch a VideoLoader is already in the next epoch, but frameworks still have to end this one, and may
    do so without requesting another batch. The length is that of the whole epoch, even after a resume.

    Args:
        loader: loader of the batches.

    Raises:
        ArgumentError: ``loader`` is not a VideoLoader.
    """

    def __init__(self, loader: VideoLoader) -> None:
        check_type("the loader that the function makes", loader, isinstance(loader, VideoLoader), "a VideoLoader")
        self._loader = loader
        self._under_way: int | None = None
        self._before = self._batches = 0
        self._resumed: tuple[int | None, int] | None = None  # "under_way" and "batches" of a state, before its loop

    def __len__(self) -> int:
        """The number of batches of the current or next epoch, including those yielded before a resume."""
        return len(self._loader) + (0 if self.ended else self._before)

    @property
    def ended(self) -> bool:
        """Whether the last batch of the current epoch was yielded."""
        return self._under_way not in (None, self._epoch())

    @property
    def is_random(self) -> bool:
        """Whether epochs differ in order, or in what is drawn for the first clip of the data set."""
        return self._loader._epochs.order != InOrder() or self._loader._planner.is_random(0)

    def _epoch(self) -> int:
        return int(self._loader.state_dict()["epoch"])

    def __iter__(self) -> Iterator[Batch]:
        """Iterate over the batches of one epoch, or of the rest of it after ``load_state_dict``."""
        self._resumed = None
        if self._under_way is not None:  # the last loop was left early
            self.set_epoch(self._under_way + 1)
        self._under_way, self._batches = self._epoch(), self._before
        for batch in self._loader:
            self._batches += 1
            yield batch
        self._under_way, self._before = None, 0

    def set_epoch(self, epoch: int) -> None:
        """Make this the next epoch."""
        self._loader.set_epoch(epoch)
        self._under_way, self._before, self._resumed = None, 0, None

    def state_before(self, epoch: int) -> dict[str, Any]:
        """The state after ``set_epoch(epoch)``, which is not called."""
        return {"loader": self._loader._state_before(epoch), "under_way": None, "batches": 0}

    def state_dict(self, length: float = math.inf) -> dict[str, Any]:
        """The position of the loader, the current epoch, and the number of its batches yielded.

        Args:
            length: float, default infinity. The number of batches after which the framework ends an epoch.
        """
        under_way, batches = self._resumed or (self._under_way, self._batches)
        loader = self._loader.state_dict()
        if under_way == loader["epoch"] and batches >= length:
            loader = self._loader._state_before(loader["epoch"] + 1)
        return {"loader": loader, "under_way": under_way, "batches": batches}

    def end_epoch(self) -> None:
        """Leave an epoch all of whose batches were yielded before a resume, without a loop over nothing."""
        self.set_epoch(self._epoch())

    def load_state_dict(self, state: Mapping[str, Any]) -> bool:
        """Resume where a state was taken; return whether that was after the last batch of an epoch.

        Raises:
            ConfigurationError: the state belongs to another data set, frame mode, order or seed, or is not such a
                state.
        """
        check_state(state, ("loader", "under_way", "batches"), ("batches",), "a BatchStream or a VideoDataModule")
        self._loader.load_state_dict(state["loader"])
        ended = state["under_way"] not in (None, self._epoch())
        in_epoch = state["under_way"] is not None and not ended
        self._under_way, self._before = None, index(state["batches"]) if in_epoch else 0
        self._resumed = state["under_way"], state["batches"]
        return ended
