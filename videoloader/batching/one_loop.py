"""Base of all loaders: runs one loop at a time, can be closed, and refuses to be copied."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn, TypeVar, get_args

import torch

from videoloader.batching.account import LoaderAccount
from videoloader.batching.batch_maker import BatchMaker
from videoloader.batching.completion import OnError
from videoloader.batching.options import tell_of_unused
from videoloader.batching.rows import COLLATE, Collate
from videoloader.batching.stats import LoaderStats
from videoloader.convert.spec import Layout
from videoloader.decoding.engine import Decode, check_decode
from videoloader.decoding.gop_cache import GopCache
from videoloader.errors import ArgumentError, ConfigurationError, no_copy
from videoloader.errors.checks import check_choice, check_integer
from videoloader.reading.cancellation import CancelToken
from videoloader.reading.corrupt_frames import OnCorrupt
from videoloader.reading.workers import DecodeWorkers
from videoloader.runtime.device import raise_if_forked
from videoloader.transforms.planning.pipeline import TransformPipeline

LoaderT = TypeVar("LoaderT", bound="OneLoop")

# The message for a frame mode or a transform, or whatever else a loader's own threads call.
_OF_ITSELF = "a loader cannot be looped over by its own frame mode or transforms: make another loader for them"
_CLOSED = "the loader is closed: make another one"


class OneLoop:
    """The part of a loader that owns its threads, and begins and ends its loops.

    Args:
        device: device that clips are decoded to.
        pipeline: transforms of the clips.
        layout, collate, decode, gop_cache: the loader's arguments.
        num_workers, cpu_workers, num_processes: the loader's arguments for the number of threads and processes.
        on_error, on_corrupt: the remedies for clips that cannot be made.
        images: whether all clips are of image files, or of folders of them.

    Raises:
        ConfigurationError: an argument has a value that is not allowed.
    """

    device: torch.device
    _account: LoaderAccount

    def __init__(
        self,
        device: torch.device,
        pipeline: TransformPipeline,
        layout: Layout,
        collate: Collate,
        decode: Decode,
        gop_cache: int,
        num_workers: int | None,
        cpu_workers: int | None,
        num_processes: int | None,
        on_error: OnError,
        on_corrupt: OnCorrupt,
        *,
        images: bool = False,
    ) -> None:
        check_choice("layout", layout, get_args(Layout))
        check_decode(decode, device)
        check_choice("collate", collate, COLLATE)
        if pipeline.mixing is not None and not COLLATE[collate].stacks:
            ways = " or ".join(f'"{name}"' for name, rule in COLLATE.items() if rule.stacks)
            raise ConfigurationError(f"clips of a list cannot be mixed: take collate={ways}")
        check_integer("gop_cache", gop_cache, 0)
        tell_of_unused(device, decode, gop_cache=gop_cache, cpu_workers=cpu_workers)
        self.device, self._collate = device, collate
        numbers = {"num_workers": num_workers, "cpu_workers": cpu_workers, "num_processes": num_processes}
        # The workers are kept from epoch to epoch, since their threads own open decoders.
        self._workers = DecodeWorkers(device, decode=decode, images=images, **numbers)
        cache = GopCache(gop_cache) if gop_cache else None
        self._maker = BatchMaker(
            self._workers, pipeline, layout, device, cache=cache, on_error=on_error, on_corrupt=on_corrupt
        )
        self._token, self._closed = CancelToken(self._maker.works_now), False

    def __enter__(self: LoaderT) -> LoaderT:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise no_copy(self)

    if not TYPE_CHECKING:  # type checkers report this themselves

        def __next__(self) -> NoReturn:
            raise ArgumentError("a loader is not its own iterator: write next(iter(loader))")

    def stats(self) -> LoaderStats:
        """The cost of the clips yielded so far, and where the time went.

        The time of a torch DataLoader is in ``waiting``, since it runs while the consumer waits.
        """
        return self._account.stats

    def close(self) -> None:
        """End the current loop, and the loader's threads and processes.

        Continuing that loop, or beginning another one, raises ConfigurationError. A loader that is no longer used
        closes by itself.

        Jobs that have begun are waited for: a frame mode or transform that never returns keeps this from returning,
        too. Called by a frame mode or transform of this loader, it only ends the loop, because its thread cannot wait
        for itself: the threads end once the loader is closed from elsewhere or is no longer used.

        Examples:
            >>> with VideoLoader(data, RandomWindow(16), batch_size=8) as loader:
            ...     batch = next(iter(loader))
        """
        self._closed = True
        self._token.cancel(_CLOSED)
        if not self._token.in_own_thread():
            self._maker.close()

    def _begin_loop(self) -> CancelToken:
        """End the previous loop, and return the token of the new one.

        Raises:
            ConfigurationError: the loader is closed, a thread of its own begins a loop, or CUDA cannot be used.
        """
        if self._token.in_own_thread():
            raise ConfigurationError(_OF_ITSELF)
        raise_if_forked(self.device)
        self._token.cancel()
        token = self._token = CancelToken(self._maker.works_now)
        if self._closed:  # checked after the token is set, which ``close`` in another thread cancels
            raise ConfigurationError(_CLOSED)
        return token
