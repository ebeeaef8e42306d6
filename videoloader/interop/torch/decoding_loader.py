"""``DecodingLoader``: decodes the clips of a torch DataLoader in the main process."""

from __future__ import annotations

import copy
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate, islice
from operator import attrgetter
from typing import Any, NamedTuple, get_args

import torch

from videoloader.batching.account import LoaderAccount
from videoloader.batching.batch import Batch
from videoloader.batching.clip_plan import UNREADABLE
from videoloader.batching.collate import clip_of
from videoloader.batching.made_batch import BatchInMaking, BatchRequest
from videoloader.batching.one_loop import OneLoop
from videoloader.batching.options import RaiseOrSkip, pipeline_of
from videoloader.batching.prefetch import give_out, has_room_for_clips
from videoloader.batching.rows import COLLATE, Collate
from videoloader.batching.stats import LoaderStats
from videoloader.convert.spec import Color, Layout
from videoloader.dataset import VideoDataset
from videoloader.decoding.engine import Decode
from videoloader.errors import ConfigurationError, CorruptFramesError, FrameRangeError, reason_of
from videoloader.errors.argument_names import tells_of_arguments
from videoloader.errors.attribute_names import tells_of_attributes
from videoloader.errors.checks import check_choice, check_positive_or_none, check_type, check_uint64
from videoloader.errors.notes import note
from videoloader.errors.of_handlers import raise_of_handler
from videoloader.indexing import IndexStore
from videoloader.interop.torch.batch_requests import Requests, find_requests, replace_requests
from videoloader.interop.torch.clip_request import ClipRequest
from videoloader.interop.torch.request_planner import RequestPlanner, VideoIndexes
from videoloader.order.epoch import check_state
from videoloader.reading.cancellation import CancelToken
from videoloader.reading.corrupt_frames import KeepRaiseOrSkip, OnCorrupt, check_on_corrupt
from videoloader.runtime.cores import available_cores
from videoloader.runtime.device import resolve_device
from videoloader.runtime.ranks import shard_of_environment
from videoloader.transforms.compose import Compose
from videoloader.transforms.normalize import DType
from videoloader.transforms.planning.pipeline import Transforms

_NO_REQUESTS = "no batch of the epoch held a ClipRequest: let the data set give ClipRequest(path, mode) for each clip"


class _Progress(NamedTuple):
    """The progress of an epoch.

    Attributes:
        epoch: number of the epoch.
        batches, requests: numbers of batches and requests yielded.
        loader: the state of the torch loader at that point, if it has ``state_dict``; else None.
    """

    epoch: int
    batches: int = 0
    requests: int = 0
    loader: Any = None


class _Pending(NamedTuple):
    """A batch of the torch loader whose clips are being made.

    Attributes:
        batch: the batch of the torch loader.
        requests: requests in it, in order; a list of requests is one item.
        clips: number of clips in it.
        making: the batches in the making for the requests.
        then: progress after the batch is yielded.
    """

    batch: Any
    requests: list[Requests]
    clips: int
    making: list[BatchInMaking]
    then: _Progress

    def is_made(self) -> bool:
        """Whether nobody has to wait for it any more."""
        return all(each.is_made() for each in self.making)

    def drop(self) -> None:
        """Cancel the jobs that have not begun, and wait for the others."""
        for each in self.making:
            each.drop()


@tells_of_arguments
@tells_of_attributes("loader")
class DecodingLoader(OneLoop):
    """Iterate over a torch DataLoader, and replace every ``ClipRequest`` in its batches by frames.

    The DataLoader's worker processes run the data set's own logic, and send requests of a few hundred bytes. Threads of
    the main process do all decoding, some batches ahead, with one CUDA context and without frames in pipes. Requests
    may be anywhere in a batch, in mappings, lists, tuples and dataclasses; everything else is left unchanged. A list of
    requests, as ``default_collate`` makes it, becomes frames [B, T, C, H, W]; a single request becomes [T, C, H, W].

    The frames of a request without a seed depend on the loader's seed, the epoch, and the number of earlier requests in
    the epoch, provided that the torch loader's order is the same. Each loop is one epoch, and the next loop is the next
    epoch. A loop that is left early, or ends with an error, ends its epoch if it has yielded a batch; ``state_dict``
    still holds the position, not counting the batch that failed. Only one loop runs at a time: starting another ends
    the previous one, which raises ConfigurationError if it is continued.

    Args:
        torch_loader: iterable of batches. A ``torch.utils.data.DataLoader`` with any sampler, ``collate_fn``, workers
            and pinning, or any other iterable. One with ``state_dict``, such as torchdata's ``StatefulDataLoader``,
            resumes exactly.
        device, transforms, layout, dtype, color, collate, fill_value: as in ``VideoLoader``, with the same defaults,
            for the frames.
        num_workers, decode, cpu_workers, num_processes, gop_cache: as in ``VideoLoader``, with the same defaults, for
            decoding.
        seed: int, default 0. The seed of random frames and transforms for requests without a seed.
        prefetch: int, default enough for two clips a thread, at least two. The number of batches prepared ahead while
            one is used; none with ``num_workers=0``.
        on_error: str, default ``"raise"``. The treatment of a video that cannot be read or lacks the requested clip:
            ``"raise"``, or ``"skip"``, which skips the whole batch, since it is not known what else in it belongs to
            the clip. With several ranks use ``"raise"``: the others would wait for the batch that one skips.
        on_corrupt: str, default ``"keep"``. The treatment of damaged frames: ``"keep"`` returns them, and warns once
            for each file and process; ``"raise"`` and ``"skip"`` do the same as in ``on_error``, independently of it.
        index: ``IndexStore`` or its path, default None. The videos' indexes. Without it a video is indexed when it is
            first requested, and recently used indexes are kept.
        replace_with: function, default its ``frames``. It returns what replaces requests, and is called with a
            ``Batch`` for a list and a ``Clip`` for a single request.

    Attributes:
        device: torch.device. The device of the frames.
        unreadable: (path, reason) for the files because of which batches were skipped so far, each once with the first
            reason. A warning counts the clips at the end of a loop that meets new ones.

    Raises:
        ConfigurationError: an argument has a value that is not allowed.

    Examples:
        >>> loader = DecodingLoader(
        ...     DataLoader(captioned, batch_size=8, shuffle=True, num_workers=4),
        ...     device="cuda", transforms=[RandomResizedCrop(224), Normalize()], dtype="float16",
        ... )
        >>> for batch in loader:
        ...     loss = model(batch["video"], batch["tokens"].cuda())

        With the times of the frames:

        >>> loader = DecodingLoader(torch_loader, replace_with=lambda clips: (clips.frames, clips.timestamps))
    """

    def __init__(
        self,
        torch_loader: Iterable[Any],
        *,
        device: str | torch.device = "auto",
        transforms: Transforms | Compose = (),
        layout: Layout = "TCHW",
        dtype: DType | torch.dtype | None = None,
        color: Color = "rgb",
        seed: int = 0,
        num_workers: int | None = None,
        decode: Decode = "auto",
        cpu_workers: int | None = None,
        num_processes: int | None = None,
        prefetch: int | None = None,
        gop_cache: int = 0,
        collate: Collate = "stack",
        fill_value: float | Sequence[float] = 0,
        on_error: RaiseOrSkip = "raise",
        on_corrupt: KeepRaiseOrSkip = "keep",
        index: IndexStore | str | os.PathLike[str] | None = None,
        replace_with: Callable[[Any], Any] = attrgetter("frames"),
    ) -> None:
        # Arrays without dimensions have the method of iterables.
        holds = isinstance(torch_loader, Iterable) and getattr(torch_loader, "ndim", 1) != 0
        holds = holds and not isinstance(torch_loader, VideoDataset | OneLoop)
        check_type("torch_loader", torch_loader, holds, "a torch DataLoader of samples that hold a ClipRequest")
        check_type("replace_with", replace_with, callable(replace_with), "a function")
        check_choice("on_error", on_error, get_args(RaiseOrSkip))
        check_on_corrupt(on_corrupt, get_args(KeepRaiseOrSkip))
        check_positive_or_none(prefetch=prefetch)
        self._loader = torch_loader
        pipeline = pipeline_of(transforms, dtype, color, fill_value).one_view()
        self._seed, self._on_error, self._on_corrupt, self._replace_with = seed, on_error, on_corrupt, replace_with
        shard = shard_of_environment()
        check_uint64(seed=seed)
        on, numbers = resolve_device(device), (num_workers, cpu_workers, num_processes)
        damage: OnCorrupt = "keep" if on_corrupt == "keep" else "raise"
        super().__init__(on, pipeline, layout, collate, decode, gop_cache, *numbers, "raise", damage)
        self._prefetch = prefetch if self._workers.num_workers else 0
        indexes = VideoIndexes(index, available_cores() if self._workers.num_workers else 0)
        self._planner = RequestPlanner(indexes, pipeline, seed, shard)
        self._progress = _Progress(0)
        self._resumed = self._begun = self._told = False
        self._account = LoaderAccount(expects_padding=COLLATE[collate].pads)
        self.unreadable = self._account.unreadable

    def __repr__(self) -> str:
        return f"DecodingLoader({type(self._loader).__name__}, epoch {self._progress.epoch}, on {self.device})"

    def __len__(self) -> int:
        """The number of batches in an epoch of the torch loader."""
        return len(self._loader)  # type: ignore[arg-type]

    @property
    def sampler(self) -> Any:
        """The torch loader's sampler, for frameworks that set its epoch."""
        return getattr(self._loader, "sampler", None)

    def set_epoch(self, epoch: int) -> None:
        """Make this the next epoch; right after ``load_state_dict``, the state's epoch keeps its position.

        From now on, ``set_epoch`` of the torch loader's samplers and data set is called for every epoch, if they have
        it.
        """
        check_uint64(epoch=epoch)
        if not (self._resumed and epoch == self._progress.epoch):
            # The state of a torch loader that has ended is where the next epoch begins.
            ended = None if self._progress.batches else self._progress.loader
            self._progress, self._resumed = _Progress(epoch, loader=ended), False
        self._told, self._begun = True, False
        self._tell_epoch(epoch)

    def _tell_epoch(self, epoch: int) -> None:
        for name in ("batch_sampler", "batch_sampler.sampler", "sampler", "dataset"):
            try:
                tell = attrgetter(f"{name}.set_epoch")(self._loader)
            except AttributeError:
                continue
            tell(epoch)

    def state_dict(self) -> dict[str, Any]:
        """The loader's position after the last batch that it yielded, not counting batches made ahead.

        If the torch loader has ``state_dict``, its state holds the position. Any other loader is iterated again up to
        that position on resuming, without decoding, which is exact if it yields the same batches again, as with a
        seeded sampler that has ``set_epoch``.
        """
        return {**self._progress._asdict(), "seed": self._seed, "told": self._told}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume where a state was taken.

        Raises:
            ConfigurationError: the state belongs to a loader with another seed, or to one whose torch loader has a
                state.
        """
        check_state(state, ("seed", "told", *_Progress._fields), ("epoch", "batches", "requests"), "a DecodingLoader")
        if state["seed"] != self._seed:
            raise ConfigurationError(f"the state is of a loader with the seed {state['seed']}, not {self._seed}")
        progress = _Progress(**{name: state[name] for name in _Progress._fields})
        if progress.loader is not None and not hasattr(self._loader, "load_state_dict"):
            raise ConfigurationError(
                "the state was saved with a torch loader that has load_state_dict, such as StatefulDataLoader, but a "
                f"{type(self._loader).__name__} has none"
            )
        self._progress, self._resumed, self._begun, self._told = progress, True, False, bool(state["told"])

    def _loader_state(self) -> Any:
        return copy.deepcopy(self._loader.state_dict()) if hasattr(self._loader, "state_dict") else None

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the batches of one epoch, or of the rest of it after ``load_state_dict``.

        Raises:
            VideoLoaderError: a clip cannot be made (with ``on_error="raise"``), or none of a whole epoch can; the error
                names the file.
            ConfigurationError: clips of one list differ in size or number of frames (see ``collate``); another loop
                over this loader has begun; the loader is closed; or the epoch is over and none of its batches held a
                request.
        """
        token = self._begin_loop()
        if self._begun:
            self._progress, self._begun = _Progress(self._progress.epoch + 1), False
        resumed = self._resumed  # the rest of an epoch may consist of skipped batches
        end: list[_Progress | Exception] = []
        begun, finish = self._start_batches(end, token), partial(self._finish, end)
        try:
            yield from give_out(begun, self._has_room, finish, self._workers.set_pace, self._account, token)
            if isinstance(end[0], Exception):
                raise end[0]
            self._progress, self._begun, self._resumed = end[0], False, False
            if not resumed:
                self._account.raise_if_nothing()
        finally:
            # An error's traceback keeps this frame alive; clearing lets the torch loader's processes end nevertheless.
            end.clear()

    def _start_batches(self, end: list[_Progress | Exception], token: CancelToken) -> Iterator[list[_Pending]]:
        """Begin the batches; after the last one, append to ``end`` how the torch loader ended."""
        start = self._progress
        if self._told:
            self._tell_epoch(start.epoch)
        if self._resumed and start.loader is not None:
            self._loader.load_state_dict(copy.deepcopy(start.loader))  # type: ignore[attr-defined]
        batches = iter(self._loader)
        if self._resumed and start.loader is None:
            given = map(find_requests, islice(batches, start.batches))
            requests = sum(len(group) for found in given for group in _groups(found))
            if requests != start.requests:
                raise ConfigurationError(
                    f"the state was saved after {start.batches} batches with {start.requests} clips, but the torch "
                    f"loader's first {start.batches} batches have {requests}: give it the batch size and rows of then"
                )
        before = self._progress = start._replace(loader=self._loader_state())
        batch, error = _next(batches)
        # The state was taken after the last batch. A loop that names epochs goes on to the next one itself.
        if isinstance(error, StopIteration) and self._resumed and not self._told and start.batches:
            before = self._progress = _Progress(start.epoch + 1)
            batches = iter(self._loader)
            batch, error = _next(batches)
        while error is None:
            found = find_requests(batch)
            groups = _groups(found)
            firsts = list(accumulate(map(len, groups), initial=before.requests))
            plans = [
                BatchRequest(
                    partial(self._planner.plan, group, before.epoch, first),
                    "list" if isinstance(each, ClipRequest) else self._collate,
                )
                for each, group, first in zip(found, groups, firsts[:-1], strict=True)
            ]
            then = _Progress(before.epoch, before.batches + 1, firsts[-1], self._loader_state())
            # The next batch is taken first, so that the state after the last one is that of the next epoch.
            this, (batch, error) = batch, _next(batches)
            if error is not None:
                end.append(self._ended(then, error))
            yield [_Pending(this, found, firsts[-1] - before.requests, self._maker.start(plans, token), then)]
            before = then
        if not end:
            end.append(self._ended(before, error))

    def _ended(self, last: _Progress, error: Exception) -> _Progress | Exception:
        """The start of the next epoch, or the error with which the torch loader ended after this progress."""
        if not isinstance(error, StopIteration):
            return error
        if last.batches and not last.requests:
            return ConfigurationError(_NO_REQUESTS)
        return _Progress(last.epoch + 1, loader=self._loader_state())

    def _has_room(self, pending: Sequence[_Pending]) -> bool:
        if self._prefetch is not None:
            return len(pending) <= self._prefetch
        threads = self._workers.num_workers + self._workers.cpu_workers
        return has_room_for_clips([each.clips for each in pending], threads)

    def _finish(self, end: Sequence[_Progress | Exception], pending: deque[_Pending]) -> list[Any]:
        """Wait for the oldest batch, and return it in a list, which is empty if the batch is skipped."""
        given_out = self._put_together(pending[0])
        then = pending.popleft().then
        last = end[0] if end and not pending else None
        self._progress = last if isinstance(last, _Progress) else then
        self._begun, self._resumed = self._progress is then, False
        return given_out

    def _put_together(self, pending: _Pending) -> list[Any]:
        try:
            made = [each.result() for each in pending.making]
        except (*UNREADABLE, FrameRangeError) as error:
            raise_of_handler(error)
            if (self._on_corrupt if isinstance(error, CorruptFramesError) else self._on_error) != "skip":
                raise  # "keep" is for frames, and not for such an error of a transform
            path = error.source or ""
            self._account.leave_out(path, reason_of(error, path))
            self._account.add(LoaderStats(skipped=pending.clips))
            pending.drop()
            return []
        for each in made:
            self._account.add(each.stats)
        shown = (self._shown(asked, each.hand_over()) for asked, each in zip(pending.requests, made, strict=True))
        return [replace_requests(pending.batch, lambda asked: next(shown))]

    def _shown(self, asked: Requests, made: Batch | None) -> Any:
        """The replacement of requests in a batch."""
        assert made is not None, "clips that cannot be made are errors"
        with note("in replace_with, for {}", asked):
            return self._replace_with(clip_of(made, 0) if isinstance(asked, ClipRequest) else made)


def _next(batches: Iterator[Any]) -> tuple[Any, Exception | None]:
    """The next batch, or what there is in its place: earlier batches come before an error."""
    try:
        return next(batches), None
    except Exception as error:
        return None, error


def _groups(found: list[Requests]) -> list[list[ClipRequest]]:
    return [[each] if isinstance(each, ClipRequest) else each for each in found]
