"""``BatchStream``: a VideoLoader as a torch data set of finished batches."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NoReturn

from torch.utils.data import IterableDataset, get_worker_info
from torch.utils.data._utils.collate import default_collate_fn_map

from videoloader.batching.batch import Batch
from videoloader.errors import ConfigurationError, warn_user
from videoloader.errors.argument_names import tells_of_arguments
from videoloader.errors.checks import check_shared_epoch
from videoloader.interop.epoch_loop import EpochLoop, check_maker
from videoloader.loader import VideoLoader
from videoloader.runtime.ranks import shard_of
from videoloader.runtime.shared_memory import shared_number


@tells_of_arguments
class BatchStream(IterableDataset[Batch]):
    """Wrap a ``VideoLoader`` for a torch DataLoader or torchdata's ``StatefulDataLoader``.

    Use it with ``batch_size=None``, since its items are already batches. Without worker processes, batches are on the
    loader's device, such as a GPU. With N worker processes, each is a shard that decodes on the CPU, and batches come
    from the workers in turn. ``StatefulDataLoader`` saves its state, and resumes exactly with the same number of
    workers.

    New worker processes do not know of earlier epochs: give the DataLoader ``persistent_workers=True``, or call
    ``set_epoch`` before each loop over it. A worker warns once about a loop that begins with the same random epoch
    again.

    Its batches are already dealt to the ranks, so do not pass the DataLoader to ``accelerator.prepare``.

    Args:
        make: function. It makes the loader, called as ``make(shard_id=…, num_shards=…)`` in each process on first use,
            in workers also with ``device="cpu"``; usually a ``functools.partial`` of ``VideoLoader``. For spawned
            workers it must be picklable.
        shard_id, num_shards: int, default from torchrun's environment. The number of this process's shard, and the
            number of shards. Workers divide the shard among themselves.

    Raises:
        ConfigurationError: only one of ``shard_id`` and ``num_shards`` is given, or ``make`` does not take these
            arguments.

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
        # Shared, so that worker processes see it. Without another ``set_epoch``, each loader advances by itself.
        self._epoch = shared_number(0)
        # Calls of ``set_epoch``, and how many there were before the last loop of this process.
        self._calls, self._calls_before = shared_number(0), 0
        # Shared as well: whether new processes have begun a loop since ``set_epoch``: 0, 1, or 2 after the warning.
        self._begun = shared_number(0)
        self._begun_in: int | None = None  # the process that began a loop with this object

    def __repr__(self) -> str:
        shard, shards = self._shard
        return f"BatchStream(shard {shard} of {shards}, epoch {int(self._epoch)})"

    def set_epoch(self, epoch: int) -> None:
        """Make this the next epoch. Without persistent workers, call it before each epoch.

        Raises:
            ConfigurationError: it is not an integer in [0, 2**63).
        """
        check_shared_epoch(epoch)
        self._epoch.fill_(epoch)
        self._calls += 1
        self._begun.fill_(0)
        self._loaded = False

    def state_dict(self) -> dict[str, Any]:
        """The position of this process's loader, and the current epoch; or the epoch that ``set_epoch`` has set."""
        loop = self._own_loop()
        return loop.state_before(int(self._epoch)) if self._is_epoch_set() else loop.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume where a state was taken.

        Raises:
            ConfigurationError: the state belongs to another data set, frame mode, order or seed.
        """
        self._loaded, self._nothing_left = True, self._own_loop().load_state_dict(state)

    def __iter__(self) -> Iterator[Batch]:
        """Iterate over the batches of one epoch, or of the rest of it after ``load_state_dict``, perhaps none.

        Raises:
            ConfigurationError: Accelerate would deal the batches to the ranks a second time.
        """
        _refuse_to_be_dealt_again()
        loop, loaded, is_set = self._own_loop(), self._loaded, self._is_epoch_set()
        is_new, self._loaded, self._begun_in = self._begun_in != os.getpid(), False, os.getpid()
        self._calls_before = int(self._calls)
        if loaded and self._nothing_left:
            return loop.end_epoch()
        if is_set:
            loop.set_epoch(int(self._epoch))
        if not loaded and is_new:
            self._warn_of_same_epoch(loop)
        yield from loop

    def _is_epoch_set(self) -> bool:
        """Whether the next loop begins the epoch that ``set_epoch`` has set."""
        return int(self._calls) > self._calls_before and not self._loaded

    def _warn_of_same_epoch(self, loop: EpochLoop) -> None:
        worker = get_worker_info()
        if worker is None or worker.id:  # one worker warns for all
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


def _refuse_to_collate(*_: object, **__: object) -> NoReturn:
    raise ConfigurationError("the items of a BatchStream are batches already: give the DataLoader batch_size=None")


default_collate_fn_map[Batch] = _refuse_to_collate


def _refuse_to_be_dealt_again() -> None:
    """Raise an error if Accelerate's loaders iterate, which would take one rank's batches for those of all ranks.

    Forked workers see the stack that started them.
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
