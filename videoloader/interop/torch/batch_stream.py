"""A VideoLoader as a torch data set of ready batches."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch.utils.data import IterableDataset, get_worker_info

from videoloader.argument_names import tells_of_arguments
from videoloader.batching.batch import Batch
from videoloader.errors import ConfigurationError, warn_user
from videoloader.interop.epoch_loop import EpochLoop, check_maker
from videoloader.loader import VideoLoader
from videoloader.order.ranks import shard_of


@tells_of_arguments
class BatchStream(IterableDataset[Batch]):
    """Batches of a ``VideoLoader`` for a torch DataLoader or torchdata's ``StatefulDataLoader``.

    Use it with ``batch_size=None``, since its items are batches already. Without worker processes they lie where the
    loader puts them, also on a GPU. With N of them each is a shard that decodes on the CPU, and batches come from the
    workers in turn. It has the state that ``StatefulDataLoader`` saves and resumes exactly, with as many workers.

    New worker processes know of no epoch before: give the DataLoader ``persistent_workers=True``, or call ``set_epoch``
    before each loop over it. A worker warns once of a loop that begins with the same random epoch again.

    Its batches are dealt to the ranks already: do not give the DataLoader to ``accelerator.prepare``.

    Args:
        make: function. It makes the loader, called as ``make(shard_id=…, num_shards=…)`` in each process when it is
            first wanted, in a worker with ``device="cpu"`` besides; mostly a ``functools.partial`` of ``VideoLoader``.
            For spawned workers it must be picklable.
        shard_id, num_shards: int, default from torchrun's environment. This process's part, and the number of parts.
            Workers share it out.

    Raises:
        ConfigurationError: only one of ``shard_id`` and ``num_shards`` is given, or ``make`` cannot be called so.

    Examples:
        >>> from functools import partial
        >>> from torchdata.stateful_dataloader import StatefulDataLoader
        >>> make = partial(VideoLoader, data, RandomWindow(16), batch_size=8, num_workers=1)
        >>> stream = BatchStream(make)
        >>> loader = StatefulDataLoader(stream, batch_size=None, num_workers=8, persistent_workers=True)
    """

    def __init__(
        self, make: Callable[..., VideoLoader], *, shard_id: int | None = None, num_shards: int | None = None
    ) -> None:
        check_maker("make", make)
        self._make = make
        self._shard = shard_of(shard_id, num_shards)
        self._loop: EpochLoop | None = None
        self._process = os.getpid()
        self._loaded = self._nothing_left = False
        # Shared, so that worker processes hear of it. Negative: each loader goes on from epoch to epoch by itself.
        self._epoch = torch.full((), -1, dtype=torch.int64).share_memory_()  # type: ignore[no-untyped-call]
        # The same for loops that new processes have begun: 0, 1, or 2 once all is told.
        self._begun = torch.zeros((), dtype=torch.int64).share_memory_()  # type: ignore[no-untyped-call]
        self._begun_in: int | None = None  # the process that has begun a loop with this object

    def __repr__(self) -> str:
        shard, shards = self._shard
        return f"BatchStream(shard {shard} of {shards}, epoch {max(int(self._epoch), 0)})"

    def set_epoch(self, epoch: int) -> None:
        """Begin with this epoch next. Workers that do not stay from epoch to epoch know of no epoch before."""
        self._epoch.fill_(epoch)
        self._loaded = False

    def state_dict(self) -> dict[str, Any]:
        """The position of this process's loader, and the epoch under way."""
        return self._own_loop().state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where a state was taken.

        Raises:
            ConfigurationError: the state is of another data set, frame mode, order or seed.
        """
        self._loaded, self._nothing_left = True, self._own_loop().load_state_dict(state)

    def __iter__(self) -> Iterator[Batch]:
        """The batches of one epoch, or of what is left of it after ``load_state_dict``, which may be none.

        Raises:
            ConfigurationError: Accelerate deals the batches to the ranks once more.
        """
        _refuse_to_be_dealt_again()
        loop, epoch, loaded = self._own_loop(), int(self._epoch), self._loaded
        is_new, self._loaded, self._begun_in = self._begun_in != os.getpid(), False, os.getpid()
        if loaded and self._nothing_left:
            return
        if not loaded and epoch >= 0:
            loop.set_epoch(epoch)
        elif not loaded and is_new:
            self._warn_of_same_epoch(loop)
        yield from loop

    def _warn_of_same_epoch(self, loop: EpochLoop) -> None:
        worker = get_worker_info()
        if worker is None or worker.id:  # one tells it for all
            return
        if int(self._begun) == 1 and loop.is_random:
            warn_user(
                "BatchStream: new worker processes begin with the same epoch as those before: give the DataLoader "
                "persistent_workers=True, or call set_epoch(epoch) on the stream before each loop over it"
            )
        self._begun += 1

    def _own_loop(self) -> EpochLoop:
        if self._loop is None or self._process != os.getpid():  # threads do not survive a fork
            worker, (shard_id, num_shards) = get_worker_info(), self._shard
            if worker is None:
                loader = self._make(shard_id=shard_id, num_shards=num_shards)
            else:
                part = {"shard_id": shard_id * worker.num_workers + worker.id, "device": "cpu"}
                loader = self._make(num_shards=num_shards * worker.num_workers, **part)
            self._loop, self._process = EpochLoop(loader), os.getpid()
        return self._loop

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_loop": None}


def _refuse_to_be_dealt_again() -> None:
    """Raise an error where Accelerate's loaders ask, which would take one rank's batches for those of all.

    Workers that were forked see who has started them.
    """
    frame = sys._getframe(1) if "accelerate.data_loader" in sys.modules else None
    while frame is not None:
        if frame.f_globals.get("__name__") == "accelerate.data_loader":
            asking: Any = frame.f_locals.get("self")
            if type(asking).__name__ == "DataLoaderDispatcher" and asking.state.num_processes > 1:
                raise ConfigurationError(
                    "a BatchStream has the batches of its own rank only, and accelerator.prepare would deal them to "
                    "the ranks again: leave its DataLoader out of prepare, and iterate over it as it is"
                )
        frame = frame.f_back
