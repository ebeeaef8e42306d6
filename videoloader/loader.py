"""Batches of clips: decoded ahead by worker threads, in an order that depends on nothing but the seed."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import torch

from videoloader.batch import Batch, LoaderStats, collate_rows
from videoloader.batch_plan import BatchRow, DecodeJob, PlannedClip, decode_jobs
from videoloader.clip_table import ClipTable, build_clip_table
from videoloader.clips import ClipReader, ClipsReport
from videoloader.collation import Collate, FrameMemory, Layout, fill_up, list_rows, show_instead, stack_rows
from videoloader.convert import Color, fill_color
from videoloader.dataset import VideoDataset
from videoloader.decoding import Decode, FrameCache
from videoloader.device import resolve_device
from videoloader.errors import ConfigurationError, DecodeError, SourceError, UnsupportedError
from videoloader.indexing import IndexStore
from videoloader.indexing.sources import reopen_source
from videoloader.sampling import FrameMode, clip_frames, clip_rng
from videoloader.sharding import batch_positions, batch_range, num_batches, permute, shard_of_environment
from videoloader.transforms import Transform, plan_geometry, plan_output
from videoloader.workers import DecodeWorkers, available_cores

OnError = Literal["raise", "skip", "replace"]
_DTYPES = {
    "uint8": torch.uint8, "float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32,
}  # fmt: skip
# What on_error is about: the video is to blame, not the caller.
_UNREADABLE = (DecodeError, SourceError, UnsupportedError)
# Clips tried for one that cannot be made: so many that do not decode, so many with those that do not fit.
_REPLACEMENTS = 16
_CANDIDATES = 256
_CLIPS_AHEAD = 2


@dataclass(eq=False)
class _Pending:
    """A batch whose clips are being decoded, all in one tensor unless it is a list."""

    next_position: int
    stacked: torch.Tensor | None
    rows: list[BatchRow]
    jobs: list[tuple[Future[ClipsReport], list[BatchRow]]] = field(default_factory=list)


class VideoLoader:
    """Clips of a data set in batches, decoded ahead in worker threads.

    What a batch holds depends on (seed, epoch) and the shard, never on workers, prefetching or the device.
    Iterating gives one epoch and goes on to the next; leaving a loop early ends its epoch.

    Args:
        dataset: the videos.
        mode: how frames are chosen.
        batch_size: clips in a batch.
        device: where batches lie: ``"auto"``, ``"cpu"``, ``"cuda"`` or ``"cuda:N"``.
        transforms: resize, crops, flips, padding and Normalize, carried out together with the colour conversion.
        layout: of ``frames``: ``"TCHW"`` gives [B, T, C, H, W], ``"CTHW"`` [B, C, T, H, W], ``"THWC"`` [B, T, H, W, C].
        dtype: ``"uint8"`` (0 … 255), ``"float16"``, ``"bfloat16"`` or ``"float32"`` (0 … 1, or normalised).
        color: ``"rgb"``, or ``"ycbcr"`` for Y'CbCr as coded, with chroma at full resolution; see ``OutputSpec``.
        shuffle: whether clips come in a random order, another one every epoch.
        seed: of that order and of all random frames and transforms.
        last_batch: ``"partial"``, ``"drop"`` or ``"fill"``; see ``sharding.num_batches``.
        shard_id, num_shards: this process's part; from torchrun's environment unless given.
        num_workers: threads that feed NVDEC, or decode on the CPU. Default: two for each NVDEC engine, else one
            for each core.
        decode: on a CUDA device ``"nvdec"`` or ``"cpu"`` for that engine alone. With ``"auto"`` NVDEC decodes, the
            CPU what NVDEC cannot, and idle cores take clips off a queue that is long; the pixels are the same.
        cpu_workers: how many cores that may take. Default: half of those this process may use, shared with
            the other processes of the machine (``LOCAL_WORLD_SIZE``).
        prefetch: batches in the making while one is used. Default: enough for two clips a thread.
        gop_cache: bytes of GPU memory for decoded frames that later clips may want too, least recently used GOPs
            leave first. For long videos sampled often; off by default.
        collate: how clips of a batch go together. ``"stack"``: all must have the same number of frames. ``"pad"``:
            shorter ones are filled up to the longest of the batch with frames of constant padding (``mask`` False,
            ``frame_numbers`` -1, ``timestamps`` NaN). ``"list"``: each keeps its own length and size, and
            ``batch.frames`` is a list; see ``Batch``. Only a list takes frames of different sizes: the others need a
            transform that makes them equal, such as ``Letterbox``.
        fill_value: of frames of constant padding: red, green and blue, or one number for all, 0 … 255 whatever
            ``dtype`` and normalisation are; they are converted like any other pixel.
        on_error: a video that cannot be read: ``"raise"``; ``"skip"`` leaves its clips out; ``"replace"``
            leaves unreadable files out too, and takes another clip for one that does not decode: with ``"stack"``
            one of the same shape, with ``"pad"`` one no longer than the longest that was planned, with ``"list"``
            any.
        index: an ``IndexStore``, or its path, that holds the videos' indexes (``dataset.build_index``). Without one
            all videos are indexed now, by every process, and all indexes are kept in memory.
        on_indexed: called after each video of the data set was indexed, for progress bars.

    Attributes:
        unreadable: (path, error) of every file left out and every clip skipped or replaced so far.

    Raises:
        ConfigurationError: an argument has no such value, or the data set gives no clips.
        VideoLoaderError: a video cannot be indexed (with ``on_error="raise"``).
        NotIndexedError: a video is not in the given ``index``, whatever ``on_error`` says.

    Example:
        >>> loader = VideoLoader(data, RandomWindow(16, stride=4), batch_size=8)  # doctest: +SKIP
        >>> for batch in loader:  # doctest: +SKIP
        ...     train(batch.frames, batch.labels)

        Whole videos of any length and size, for a model that takes padded batches:

        >>> loader = VideoLoader(  # doctest: +SKIP
        ...     data, WholeVideo(stride=8), batch_size=8, collate="pad", transforms=[Letterbox(224)]
        ... )
        >>> for batch in loader:  # doctest: +SKIP
        ...     features = model(batch.frames, torch.from_numpy(batch.mask).cuda())
    """

    def __init__(
        self,
        dataset: VideoDataset,
        mode: FrameMode,
        *,
        batch_size: int,
        device: str | torch.device = "auto",
        transforms: Sequence[Transform] = (),
        layout: Layout = "TCHW",
        dtype: str | torch.dtype = "uint8",
        color: Color = "rgb",
        shuffle: bool = False,
        seed: int = 0,
        last_batch: str = "partial",
        shard_id: int | None = None,
        num_shards: int | None = None,
        num_workers: int | None = None,
        decode: Decode = "auto",
        cpu_workers: int | None = None,
        prefetch: int | None = None,
        gop_cache: int = 0,
        collate: Collate = "stack",
        fill_value: float | Sequence[float] = 0,
        on_error: OnError = "raise",
        index: IndexStore | str | os.PathLike[str] | None = None,
        on_indexed: Callable[[], object] = lambda: None,
    ) -> None:
        self.device = resolve_device(device)
        self._dataset, self._mode, self._batch_size = dataset, mode, batch_size
        self._transforms, self._collate = tuple(transforms), collate
        if isinstance(dtype, str) and dtype not in _DTYPES:
            raise ConfigurationError(f"dtype is {dtype!r}, not one of {', '.join(_DTYPES)}")
        self._output = plan_output(transforms, _DTYPES[dtype] if isinstance(dtype, str) else dtype, color)
        self._output = replace(self._output, fill_value=fill_color(fill_value))
        for name, value, allowed in (
            ("layout", layout, Layout),
            ("on_error", on_error, OnError),
            ("decode", decode, Decode),
            ("collate", collate, Collate),
        ):
            if value not in get_args(allowed):
                raise ConfigurationError(f"{name} is {value!r}, not one of {', '.join(get_args(allowed))}")
        self._memory = FrameMemory(layout, self._output.dtype, self.device)
        self._shuffle, self._seed, self._last_batch = shuffle, seed, last_batch
        if (shard_id is None) != (num_shards is None):
            raise ConfigurationError("give both of shard_id and num_shards, or none")
        environment = shard_of_environment() if shard_id is None or num_shards is None else (shard_id, num_shards)
        self._shard_id, self._num_shards = environment
        if not 0 <= self._shard_id < self._num_shards:
            raise ConfigurationError(f"shard_id is {shard_id}, not in [0, {num_shards})")
        if batch_size < 1:
            raise ConfigurationError(f"batch_size is {batch_size}, not positive")
        # Kept from epoch to epoch, since its threads own open decoders.
        self._workers = DecodeWorkers(self.device, decode=decode, num_workers=num_workers, cpu_workers=cpu_workers)
        threads = self._workers.num_workers + self._workers.cpu_workers
        self._prefetch = max(2, -(-_CLIPS_AHEAD * threads // batch_size)) if prefetch is None else prefetch
        if self._prefetch < 1 or gop_cache < 0:
            raise ConfigurationError(f"prefetch is {prefetch} and gop_cache {gop_cache}: too little")
        self._cache = FrameCache(gop_cache) if gop_cache else None
        self._on_error = on_error
        self._table: ClipTable = build_clip_table(
            dataset,
            mode,
            store=IndexStore(index) if isinstance(index, str | os.PathLike) else index,
            workers=available_cores(),
            skip_unreadable=on_error != "raise",
            on_indexed=on_indexed,
        )
        self.unreadable = list(self._table.unreadable)
        if not len(self._table):
            reason = f"; {len(self.unreadable)} cannot be read: {self.unreadable[0][1]}" if self.unreadable else ""
            raise ConfigurationError(f"{mode} gives no clip of the data set's {len(dataset)} videos{reason}")
        self._epoch, self._start, self._position = 0, 0, 0
        self._left_early = False
        self._stats = LoaderStats()
        self._check_batches()

    def _check_batches(self) -> None:
        num_batches(len(self._table), self._batch_size, self._num_shards, self._last_batch, start=self._start)

    def __len__(self) -> int:
        """Batches of this shard in the epoch that comes next, or in what is left of it after a resume."""
        return num_batches(len(self._table), self._batch_size, self._num_shards, self._last_batch, start=self._start)

    @property
    def num_clips(self) -> int:
        """Clips in an epoch over all shards."""
        return len(self._table)

    def set_epoch(self, epoch: int) -> None:
        """Begin with this epoch next. Not needed in a plain loop: epochs follow one another by themselves."""
        self._epoch, self._start, self._position = epoch, 0, 0
        self._left_early = False

    def state_dict(self) -> dict[str, Any]:
        """Where the loader is: after the batch given out last. Valid for any number of shards."""
        return {"epoch": self._epoch, "position": self._position, "fingerprint": self._fingerprint()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where a state was taken: each clip of its epoch still comes exactly once over all shards.

        Raises:
            ConfigurationError: the state is of another data set, frame mode, order or seed.
        """
        if state["fingerprint"] != self._fingerprint():
            raise ConfigurationError("the state is of another data set, frame mode, order or seed than this loader")
        self._epoch, self._start = int(state["epoch"]), int(state["position"])
        self._position = self._start
        self._left_early = False
        self._check_batches()

    def _fingerprint(self) -> str:
        return self._table.fingerprint(self._mode, self._shuffle, self._seed)

    def stats(self) -> LoaderStats:
        """What the clips given out so far have cost."""
        return self._stats

    def __iter__(self) -> Iterator[Batch]:
        """The batches of one epoch, or of what is left of it after ``load_state_dict``.

        Raises:
            DecodeError, SourceError: a clip cannot be made (with ``on_error="raise"``).
            ConfigurationError: clips of one batch differ in their size or number of frames; see ``collate``.
        """
        if self._left_early:
            self.set_epoch(self._epoch + 1)
        epoch, start = self._epoch, self._start
        clips, shards = len(self._table), self._num_shards
        setting = (clips, self._batch_size, shards, self._last_batch)
        batches = num_batches(*setting, start=start)
        pending: deque[_Pending] = deque()
        try:
            following = 0
            while following < batches or pending:
                while following < batches and len(pending) <= self._prefetch:
                    positions = batch_positions(following, self._shard_id, *setting, start=start)
                    _, end = batch_range(following, *setting, start=start)
                    pending.append(self._submit(positions, epoch, min(end, clips)))
                    following += 1
                first = pending.popleft()
                batch = self._finish(first, epoch)
                self._position = first.next_position
                if not pending and following == batches:
                    self.set_epoch(epoch + 1)
                if batch is not None:
                    yield batch
        finally:
            left = [job for each in pending for job, _ in each.jobs if not job.cancel()]
            wait(left)
            # A loop that was left early can still be saved and resumed; a new loop is a new epoch.
            self._left_early = self._epoch == epoch and self._position != start

    def _submit(self, positions: npt.NDArray[np.int64], epoch: int, next_position: int) -> _Pending:
        planned = [self._plan(clip, epoch) for clip in self._clips_at(positions, epoch)]
        if self._collate == "list":
            pending = _Pending(next_position, None, list_rows(planned, self._memory))
        else:
            if self._collate == "pad":
                longest = max(len(clip.frame_numbers) for clip in planned)
                planned = [fill_up(clip, longest) for clip in planned]
            pending = _Pending(next_position, *stack_rows(planned, self._memory))
        for job in decode_jobs(pending.rows):
            future = self._workers.submit(partial(self._make, job), job.index, job.packets)
            pending.jobs.append((future, job.rows))
        return pending

    def _clips_at(self, positions: npt.NDArray[np.int64], epoch: int) -> list[int]:
        order = permute(positions, len(self._table), self._seed, epoch) if self._shuffle else positions
        return [int(clip) for clip in order]

    def _plan(self, clip: int, epoch: int) -> PlannedClip:
        """What a clip consists of, from the index alone."""
        video, number = self._table[clip]
        rng = clip_rng(self._seed, epoch, clip)
        numbers, mask = clip_frames(self._mode, video, number, rng)
        geometry = plan_geometry(self._transforms, video.index.stream.display_size, rng)
        return PlannedClip(clip, video, numbers, mask, geometry)

    def _make(self, job: DecodeJob, reader: ClipReader, decode: Decode) -> ClipsReport:
        """Decode frames of one video into the rows of a batch."""
        video = job.rows[0].clip.video
        source, slots = reopen_source(video.entry.path), [part.slots for part in job.parts]
        report = reader.read(source, job.index, slots, self._output, decode=decode, cache=self._cache)
        video.index = report.index
        for row, part, corrupt in zip(job.rows, job.parts, report.corrupt, strict=True):
            row.corrupt[part.positions] = corrupt
        return report

    def _make_replaced(self, row: BatchRow, epoch: int, reader: ClipReader, decode: Decode) -> ClipsReport | None:
        """Decode a clip that could not be made with others by itself, or, where it may be replaced, another one."""
        planned, clip, failed = row.clip, row.clip, 0
        for candidate in range(_CANDIDATES):
            if clip is planned or show_instead(row, clip, self._collate, self._memory):
                try:
                    return self._make(next(decode_jobs([row])), reader, decode)
                except _UNREADABLE as error:
                    self.unreadable.append((clip.video.entry.path, str(error)))
                    if self._on_error == "skip":
                        return None
                    failed += 1
                    if failed == _REPLACEMENTS:
                        break
            # Which clip stands in depends on the failed one alone, so that epochs repeat exactly.
            counter = [0, candidate, epoch, clip.number]
            stand_in = np.random.Generator(np.random.Philox(key=self._seed, counter=counter))
            clip = self._plan(int(stand_in.integers(len(self._table))), epoch)
        raise DecodeError(
            f"no clip can stand in for clip {planned.number}: {failed} of {candidate + 1} tried do not decode, "
            "the others do not fit into the batch",
            planned.video.entry.path,
        )

    def _finish(self, pending: _Pending, epoch: int) -> Batch | None:
        """The batch, when all its clips are made; None when none could be."""
        reports: list[ClipsReport] = []
        failed: list[BatchRow] = []
        for job, rows in pending.jobs:
            try:
                reports.append(job.result())
            except _UNREADABLE:
                if self._on_error == "raise":
                    raise
                failed += [row for row in rows if row not in failed]
        if failed:
            # What other parts of these clips wrote must not come after what replaces it.
            for event in [event for report in reports for event in report.ready]:
                event.synchronize()
        for row in failed:
            again = self._workers.submit(partial(self._make_replaced, row, epoch), row.clip.video.index, 0).result()
            if again is None:
                row.left_out = True
            else:
                reports.append(again)
        kept = [number for number, row in enumerate(pending.rows) if not row.left_out]
        for report in reports:
            for event in report.ready:
                torch.cuda.current_stream(self.device).wait_event(event)
        self._stats += LoaderStats(
            len(kept), sum(report.frames for report in reports), sum(report.packets for report in reports)
        )
        if not kept:
            return None
        rows, stacked = [pending.rows[number] for number in kept], pending.stacked
        if self.device.type == "cuda":
            for tensor in [row.frames for row in rows] if stacked is None else [stacked]:
                tensor.record_stream(torch.cuda.current_stream(self.device))
        if stacked is None:
            return collate_rows([row.frames for row in rows], rows, list)
        if len(rows) < len(pending.rows):
            stacked = stacked[torch.tensor(kept, device=self.device)]
        return collate_rows(stacked, rows, np.stack)
