"""Rows that show image files: each file is read, drawn for and decoded in one go, several of them by one job.

Nobody opens the files before. So an image costs the thread that plans batches next to nothing, and where processes
decode (``ReaderProcesses``), all that is done for it is done there.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import torch

from videoloader.batching.clip_plan import UNREADABLE, BatchRow, DrawRule, PlannedClip
from videoloader.batching.row_decoding import SubmittedJob
from videoloader.convert import Layout, OutputSpec
from videoloader.dataset import VideoEntry
from videoloader.decoding import Decode
from videoloader.decoding.jpeg_engine import why_not_jpeg_engine
from videoloader.errors import DecodeError, VideoLoaderError
from videoloader.indexing import ByteSource, VideoIndex
from videoloader.indexing.forks import after_fork
from videoloader.indexing.images import image_of_a_pixel
from videoloader.indexing.one_image import read_image
from videoloader.indexing.sources.patience import cancellable
from videoloader.indexing.sources.remote_reads import NO_READS
from videoloader.order.clip_table import EntryFrames, SameIndex
from videoloader.packets.decode_plan import DecodePlan, plan_frames
from videoloader.padding import CONSTANT_FRAME
from videoloader.reading.cancellation import CancelToken
from videoloader.reading.clip_reader import ClipReader, ClipsReport, ImageRead
from videoloader.reading.corrupt_frames import OnCorrupt, tell_of_corrupt
from videoloader.reading.decode_job import ClipSlots, whole_clip
from videoloader.reading.engine_files import EngineFile, engine_file, engine_files_of
from videoloader.reading.own_code import is_own
from videoloader.reading.reader_processes import ProcessDied, ProcessReader
from videoloader.reading.workers import DecodeWorkers, Reader
from videoloader.transforms.planning.pipeline import DrawnView

# Files that one job reads at most: to hand a job over costs a tenth of what an image does.
_MOST_FILES = 16
# Pixels of files that are read before the first of them is decoded, and decoded before the first is converted, but for
# the last: 16 MiB of 8 bits and 4:2:0.
_MOST_PIXELS = (16 << 20) * 2 // 3
# Of the transforms and frame modes of a program nothing is known: they may count on being called by one thread.
_one_at_a_time = threading.Lock()
# What an index tells of all image files that were decoded already.
_SEEN = image_of_a_pixel()
_ALL_SEEN = SameIndex(_SEEN)
T = TypeVar("T")


def _free() -> None:
    global _one_at_a_time
    _one_at_a_time = threading.Lock()


after_fork(_free)  # another thread may have had it


class WantedImage(NamedTuple):
    """A clip of an image file that is to be made: arguments of ``DrawRule.views``, and the file's row."""

    clip: int
    epoch: int
    clip_in_video: int
    entry: VideoEntry
    row: int


class MadeView(NamedTuple):
    """A view of such a clip: fields of ``PlannedClip`` and ``ClipSlots``; ``corrupt`` is None where it is not made."""

    frame_numbers: npt.NDArray[np.int64]
    mask: npt.NDArray[np.bool_]
    drawn: DrawnView
    corrupt: npt.NDArray[np.bool_] | None


class MadeImage(NamedTuple):
    """The outcome of a clip.

    Attributes:
        views: views of the clip.
        report: report of its decoding. None where it was not decoded: its frames have another shape than those in
            memory.
        known: the file's index; None where it is no longer needed.
        error: reason why the file cannot be used, and there is nothing else; None where it can.
    """

    views: list[MadeView]
    report: ClipsReport | None
    known: VideoIndex | None
    error: BaseException | None


def submit_images(
    workers: DecodeWorkers,
    rows: Sequence[BatchRow],
    layout: Layout,
    token: CancelToken,
    on_corrupt: OnCorrupt,
    raises: Callable[[BaseException], bool],
) -> list[SubmittedJob]:
    """Have the rows of a batch made whose clips are not drawn yet. What they show is settled when their job is done.

    A row whose file cannot be read stays undrawn; one that does not fit into the memory it has says so.

    Args:
        workers: the threads that decode.
        rows: the rows, all views of a clip one after the other.
        layout: layout of the rows' memory.
        token, on_corrupt: as in ``submit_rows``.
        raises: whether an error ends the job.
    """
    clips: list[list[BatchRow]] = []
    for row in rows:
        if row.clip.view == 0 or not clips:
            clips.append([])
        clips[-1].append(row)
    together = max(min(-(-len(clips) // max(workers.num_workers, 1)), _MOST_FILES), 1)
    jobs = []
    for first in range(0, len(clips), together):
        some = clips[first : first + together]
        make = partial(_make_rows, some, layout, token, on_corrupt, raises)
        report = workers.submit(make, _SEEN, len(some), in_process=True)
        jobs.append(SubmittedJob(report, [row for each in some for row in each]))
        workers.let_others_run()
    return jobs


def _make_rows(
    clips: Sequence[list[BatchRow]],
    layout: Layout,
    token: CancelToken,
    on_corrupt: OnCorrupt,
    raises: Callable[[BaseException], bool],
    reader: Reader,
    decode: Decode,
) -> ClipsReport:
    reports: list[ClipsReport] = []
    for rows, made in zip(clips, _make(clips, layout, token, reader, decode), strict=True):
        error = made.error or _settle(rows, made, on_corrupt)
        if error is not None and raises(error):
            raise error
        if made.report is not None:
            reports.append(made.report)
    packets, frames, corrupt, seconds = (
        sum([getattr(each, name) for each in reports]) for name in ("packets", "frames", "corrupt_frames", "seconds")
    )
    ready = [event for each in reports for event in each.ready]
    by_gpu = any(each.by_gpu for each in reports)
    remote = sum((each.remote for each in reports), NO_READS)
    return ClipsReport(packets, frames, corrupt, _SEEN, (), ready, seconds, by_gpu, remote)


def _make(
    clips: Sequence[list[BatchRow]], layout: Layout, token: CancelToken, reader: Reader, decode: Decode
) -> list[MadeImage]:
    wanted = [_wanted(rows[0].clip) for rows in clips]
    frames = [row.frames for rows in clips for row in rows]
    rule = _rule_of(clips[0][0].clip)
    process = reader if isinstance(reader, ProcessReader) and rule.is_own and all(map(_is_own, wanted)) else None
    local = reader.local if isinstance(reader, ProcessReader) else reader
    try:
        if local.device.type == "cuda":
            return _make_by_engines(wanted, layout, process, local, rule, frames, token, decode)
        return _carry_out(partial(make_images, wanted, layout), process, local, rule, frames, token)
    except ProcessDied as error:
        if len(clips) == 1:
            return [MadeImage([], None, None, DecodeError(error.message, wanted[0].entry.path))]
        # Each by itself: one of them is to blame.
        return [each for rows in clips for each in _make([rows], layout, token, reader, decode)]


def _carry_out(
    work: Callable[[Reader, DrawRule, Sequence[torch.Tensor], CancelToken], T],
    process: ProcessReader | None,
    local: ClipReader,
    rule: DrawRule,
    frames: Sequence[torch.Tensor],
    token: CancelToken,
) -> T:
    """Have some work done by another process, or here where none can."""
    done: T | None = None if process is None else process.do(work, rule, frames, token)
    return work(local, rule, frames, token) if done is None else done


def _make_by_engines(
    wanted: Sequence[WantedImage],
    layout: Layout,
    process: ProcessReader | None,
    local: ClipReader,
    rule: DrawRule,
    frames: Sequence[torch.Tensor],
    token: CancelToken,
    decode: Decode,
) -> list[MadeImage]:
    """Have a GPU's JPEG engines make what they can of some clips, all at once; the rest is made file by file."""
    views = rule.repeats * rule.transforms.views
    memory = [frames[first : first + views] for first in range(0, len(frames), views)]
    prepared: list[PreparedImage | MadeImage | None] = [None] * len(wanted)
    if decode == "auto" and not why_not_jpeg_engine(local.device.index):
        work = partial(prepare_images, wanted, layout, [(tuple(each.shape), each.stride()) for each in frames])
        prepared = _carry_out(work, process, local, rule, [], token)
    files = [(each, there) for each, there in zip(prepared, memory, strict=True) if isinstance(each, PreparedImage)]
    begin = time.perf_counter()
    done = engine_files_of(local.device).make([each.file for each, _ in files], [there for _, there in files])
    seconds, errors, ready = time.perf_counter() - begin, iter(done.errors), [done.ready]
    made: list[MadeImage] = []
    for each, one, there in zip(prepared, wanted, memory, strict=True):
        if isinstance(each, MadeImage):
            made.append(each)
        elif isinstance(each, PreparedImage) and next(errors) is None:
            report = ClipsReport(1, 1, 0, _SEEN, (), ready, seconds, True)
            made.append(MadeImage(each.views, report, None, None))
            ready, seconds = [], 0.0  # told once
        else:
            made += make_images([one], layout, local, rule, there, token, decode)
    return made


def _wanted(clip: PlannedClip) -> WantedImage:
    assert clip.undrawn is not None
    _, epoch, clip_in_video = clip.undrawn
    return WantedImage(clip.number, epoch, clip_in_video, clip.video.entry, clip.video.row)


def _is_own(wanted: WantedImage) -> bool:
    return not wanted.entry.columns or is_own(dict(wanted.entry.columns))


def _rule_of(clip: PlannedClip) -> DrawRule:
    assert clip.undrawn is not None
    return clip.undrawn.rule


def make_images(
    wanted: Sequence[WantedImage],
    layout: Layout,
    reader: Reader,
    rule: DrawRule,
    frames: Sequence[torch.Tensor],
    token: CancelToken,
    decode: Decode = "auto",
) -> list[MadeImage]:
    """Make clips of image files.

    Args:
        wanted: the clips.
        layout: layout of their memory.
        reader: reads them.
        rule: rule by which they are drawn.
        frames: memory of a likely shape for all their views, one after the other.
        token: cancels it.
        decode: engines that may decode; see ``choose_engine``.

    Raises:
        ReadCancelled: it was cancelled.
        ConfigurationError: as in ``plan_views``.
    """
    rest, views = iter(frames), rule.repeats * rule.transforms.views
    coming = deque((each, list(islice(rest, views))) for each in wanted)
    made: list[MadeImage] = []
    while coming:
        # Python between two calls of a decoder takes several times as long as in one go: see ``ClipReader``.
        read: list[_ReadImage | MadeImage] = []
        size = 0
        while coming and size < _MOST_PIXELS:
            read.append(each := _read_image(*coming.popleft(), layout, rule, token))
            stream = each.known.stream if each.known else _SEEN.stream
            size += stream.width * stream.height
        made += _decode_images(read, reader, rule, token, decode)
    return made


class PreparedImage(NamedTuple):
    """A clip of an image file that the JPEG engines are to decode, as it is once they have: ``MadeImage.views``."""

    views: list[MadeView]
    file: EngineFile


def prepare_images(
    wanted: Sequence[WantedImage],
    layout: Layout,
    memory: Sequence[tuple[tuple[int, ...], tuple[int, ...]]],
    reader: Reader,
    rule: DrawRule,
    frames: Sequence[torch.Tensor],
    token: CancelToken,
) -> list[PreparedImage | MadeImage | None]:
    """Read and plan clips of image files for the JPEG engines. No GPU is needed for that.

    Args:
        wanted, layout, rule, token: as in ``make_images``.
        memory: sizes and strides of the frames for all views of the clips, one after the other.
        reader, frames: not used: the work of processes has them.

    Returns:
        None for each file that is not for the engines.

    Raises:
        ReadCancelled, ConfigurationError: as in ``make_images``.
    """
    rest, views = iter(memory), rule.repeats * rule.transforms.views
    prepared: list[PreparedImage | MadeImage | None] = []
    for each in wanted:
        slots = [torch.empty_strided(size, stride, device="meta") for size, stride in islice(rest, views)]
        read = _read_image(each, slots, layout, rule, token)
        if isinstance(read, MadeImage):
            prepared.append(read)
            continue
        file = engine_file(read.image, read.known, read.parts, rule.transforms.decoded)
        made = [
            MadeView(view.frame_numbers, view.mask, view.drawn, np.zeros(len(view.mask), np.bool_))
            for view in read.views
        ]
        prepared.append(None if file is None else PreparedImage(made, file))
    return prepared


class _ReadImage(NamedTuple):
    """An image file that was read, its views, and their memory."""

    path: str
    image: ByteSource
    known: VideoIndex
    views: list[PlannedClip]
    parts: list[ClipSlots]
    plan: DecodePlan


def _read_image(
    wanted: WantedImage, frames: Sequence[torch.Tensor], layout: Layout, rule: DrawRule, token: CancelToken
) -> _ReadImage | MadeImage:
    clip, epoch, clip_in_video, entry, row = wanted
    token.raise_if_cancelled()
    try:
        with cancellable(token.raise_if_cancelled):
            image, index = read_image(entry.path)
        video = EntryFrames(entry, 0, 1, SameIndex(index), row)
        with nullcontext() if rule.is_own else _one_at_a_time:
            views = rule.views(clip, epoch, video, clip_in_video)
    except UNREADABLE as error:
        return MadeImage([], None, None, error)
    slots = [each.permute([layout.index(axis) for axis in "TCHW"]) for each in frames]
    if any(there.shape != (len(view.mask), 3, *view.shape[1:]) for there, view in zip(slots, views, strict=True)):
        unmade = [MadeView(view.frame_numbers, view.mask, view.drawn, None) for view in views]
        return MadeImage(unmade, None, index, None)
    parts = [
        whole_clip(view.frame_numbers, view.drawn.geometry, there) for there, view in zip(slots, views, strict=True)
    ]
    numbers = np.concatenate([view.frame_numbers for view in views])
    return _ReadImage(entry.path, image, index, views, parts, plan_frames(index, numbers[numbers != CONSTANT_FRAME]))


def _decode_images(
    images: Sequence[_ReadImage | MadeImage], reader: Reader, rule: DrawRule, token: CancelToken, decode: Decode
) -> list[MadeImage]:
    """The outcomes of files, of which those that are made already are left as they are."""
    output = rule.transforms.decoded
    reads = [each for each in images if isinstance(each, _ReadImage)]
    if (
        isinstance(reader, ClipReader)
        and reader.device.type == "cpu"
        and all(each.known.container == "images" for each in reads)
    ):
        together = [ImageRead(read.image, read.known, read.parts, read.plan) for read in reads]
        outcomes = iter(reader.read_images(together, output, token))
    else:
        outcomes = map(partial(_read_alone, reader, output, token, decode), reads)
    return [_made(each, next(outcomes)) if isinstance(each, _ReadImage) else each for each in images]


def _read_alone(
    reader: Reader, output: OutputSpec, token: CancelToken, decode: Decode, read: _ReadImage
) -> ClipsReport | VideoLoaderError:
    source = read.image if isinstance(reader, ClipReader) else read.path
    try:
        return reader.read(source, read.known, read.parts, output, decode=decode, token=token, plan=read.plan)
    except UNREADABLE as error:
        return error


def _made(read: _ReadImage, outcome: ClipsReport | VideoLoaderError) -> MadeImage:
    if isinstance(outcome, VideoLoaderError):
        return MadeImage([], None, None, outcome)
    made = [
        MadeView(view.frame_numbers, view.mask, view.drawn, part.corrupt)
        for view, part in zip(read.views, read.parts, strict=True)
    ]
    return MadeImage(made, replace(outcome, index=_SEEN), None, None)


def _settle(rows: Sequence[BatchRow], made: MadeImage, on_corrupt: OnCorrupt) -> DecodeError | None:
    """Let rows show what was made for them; or the error that damage in it is."""
    path = rows[0].clip.video.entry.path
    if made.report is not None and made.report.corrupt_frames:
        damaged = [view.frame_numbers[view.corrupt] for view in made.views if view.corrupt is not None]
        try:
            tell_of_corrupt(path, np.concatenate(damaged), on_corrupt)
        except DecodeError as error:
            return error
    video = rows[0].clip.video
    video = EntryFrames(video.entry, 0, 1, SameIndex(made.known) if made.known else _ALL_SEEN, video.row)
    for row, view in zip(rows, made.views, strict=True):
        old, slots = row.clip, row.slots  # ``replace`` takes four times as long
        row.clip = PlannedClip(
            old.number, video, view.frame_numbers, view.mask, view.drawn, old.view, old.repeated, old.roles
        )
        if view.corrupt is None:
            row.fits = False
        else:
            row.slots = ClipSlots(view.frame_numbers, view.drawn.geometry, slots.slots, view.corrupt, slots.positions)
    return None
