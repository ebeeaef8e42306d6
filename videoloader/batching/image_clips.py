"""Makes clips of image files: reads, draws and decodes each file in one go, or prepares it for a GPU's JPEG engines.

This module also runs in other processes; see ``ReaderProcesses``.
"""

from __future__ import annotations

import pickle
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from videoloader.batching.boxes import source_matrices
from videoloader.batching.clip_plan import UNREADABLE, BatchRow, DrawRule, PlannedClip, as_planes
from videoloader.convert import Layout, OutputSpec
from videoloader.dataset import VideoEntry
from videoloader.decoding import Decode
from videoloader.errors import VideoLoaderError
from videoloader.indexing import ByteSource, VideoIndex
from videoloader.indexing.forks import after_fork
from videoloader.indexing.images import image_of_a_pixel
from videoloader.indexing.index import Times
from videoloader.indexing.one_image import read_image
from videoloader.indexing.sources.patience import cancellable
from videoloader.indexing.sources.remote_reads import NO_READS
from videoloader.order.clip_table import EntryFrames, SameIndex
from videoloader.packets.decode_plan import DecodePlan, plan_frames
from videoloader.padding import CONSTANT_FRAME
from videoloader.reading.cancellation import CancelToken
from videoloader.reading.clip_reader import ClipReader, ClipsReport, ImageRead
from videoloader.reading.decode_job import ClipSlots, whole_clip
from videoloader.reading.engine_files import EngineFile, EngineList, engine_file, list_files
from videoloader.reading.workers import Reader
from videoloader.transforms.geometry.coordinates import picture_box
from videoloader.transforms.planning.pipeline import DrawnView

# Files are read until they have so many pixels, then decoded, then converted: 16 MiB in 8-bit 4:2:0, not counting the
# last file.
_MOST_PIXELS = (16 << 20) * 2 // 3
# Users' transforms and frame modes may not be thread-safe, so only one thread at a time calls them.
_one_at_a_time = threading.Lock()
# One index for all image files that were already decoded.
SEEN = image_of_a_pixel()
_ALL_SEEN = SameIndex(SEEN)


def _free() -> None:
    global _one_at_a_time
    _one_at_a_time = threading.Lock()


after_fork(_free)  # another thread may have held it


@dataclass(frozen=True)
class WantedImages:
    """Clips of image files to make, as columns: arguments of ``DrawRule.views``, and the files' entries."""

    epoch: int
    clips: list[int]
    clips_in_video: list[int]
    rows: list[int]
    paths: list[str]
    labels: list[int | None]
    columns: list[Mapping[str, Any]]
    times: list[Times]

    def __len__(self) -> int:
        return len(self.clips)

    def __iter__(self) -> Iterator[WantedImage]:
        columns = self.clips, self.clips_in_video, self.rows, self.paths, self.labels, self.columns, self.times
        return map(partial(WantedImage, self.epoch), *columns)

    def at(self, place: int) -> WantedImages:
        """The clip at one position."""
        one: list[Any] = [[column[place]] for name, column in vars(self).items() if name != "epoch"]
        return WantedImages(self.epoch, *one)


class WantedImage(NamedTuple):
    """One clip of ``WantedImages``."""

    epoch: int
    clip: int
    clip_in_video: int
    row: int
    path: str
    label: int | None
    columns: Mapping[str, Any]
    times: Times


class MadeView(NamedTuple):
    """A view of such a clip: fields of ``PlannedClip`` and ``ClipSlots``; ``corrupt`` is None where it was not made."""

    frame_numbers: npt.NDArray[np.int64]
    mask: npt.NDArray[np.bool_]
    drawn: DrawnView
    corrupt: npt.NDArray[np.bool_] | None


def show_view(row: BatchRow, view: MadeView, known: VideoIndex | None = None) -> None:
    """Set what a row shows to what was made for it.

    Args:
        row: the row.
        view: the view that was made.
        known: see ``MadeImage``.
    """
    old, video = row.clip, row.clip.video
    video = EntryFrames(video.entry, 0, 1, SameIndex(known) if known else _ALL_SEEN, video.row)
    # The constructor is four times as fast as ``replace``.
    clip = PlannedClip(old.number, video, view.frame_numbers, view.mask, view.drawn, old.view, old.repeated, old.roles)
    row.settle(clip, view.corrupt)


class MadeImage(NamedTuple):
    """The outcome of a clip.

    Attributes:
        views: views of the clip.
        report: report of its decoding, shared by all clips that were decoded together. None where it was not decoded,
            because its frames do not have the shape of the memory.
        known: the file's index; None where it is no longer needed.
        error: reason why the file cannot be used, in which case nothing else is set; None where it can.
    """

    views: list[MadeView]
    report: ClipsReport | None
    known: VideoIndex | None
    error: BaseException | None


def make_images(
    wanted: WantedImages,
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
        reader: the reader that decodes them.
        rule: rule by which they are drawn.
        frames: memory for all their views in order, of the probable shape.
        token: the token that cancels the work.
        decode: engines that may decode; see ``choose_engine``.

    Raises:
        ReadCancelled: it was cancelled.
        ConfigurationError: as in ``plan_views``.
    """
    rest, views = iter(frames), rule.repeats * rule.transforms.views
    coming = deque((each, [as_planes(there, layout) for there in islice(rest, views)]) for each in wanted)
    made: list[MadeImage] = []
    while coming:
        # Python code between two decoder calls runs several times slower than in one go; see ``_many_at_once`` in
        # ``engines.py``.
        read: list[_ReadImage | MadeImage] = []
        size = 0
        while coming and size < _MOST_PIXELS:
            read.append(each := _read_image(*coming.popleft(), rule, token))
            stream = each.known.stream if each.known else SEEN.stream
            size += stream.width * stream.height
        made += _decode_images(read, reader, rule, token, decode)
    return made


class PreparedImages(NamedTuple):
    """Clips of image files, as columns, some of which JPEG engines can decode.

    Attributes:
        others: the clips that are not for the engines, by position; None for a file of another format.
        files: the files for the engines, in order.
        views: the views of these, in order.
    """

    others: dict[int, MadeImage | None]
    files: EngineList
    views: PreparedViews


class PreparedViews(NamedTuple):
    """Views of clips of a single frame, as columns.

    Attributes:
        frame_numbers, mask: int64[N] and bool[N]; see ``PlannedClip``.
        boxes, matrices: see ``Batch.boxes`` and ``Batch.source_matrix``.
        drawn: pickled list of their ``DrawnView``, since most programs never look at it.
    """

    frame_numbers: npt.NDArray[np.int64]
    mask: npt.NDArray[np.bool_]
    boxes: npt.NDArray[np.int64]
    matrices: npt.NDArray[np.float64]
    drawn: bytes

    def some(self, wanted: npt.NDArray[np.bool_]) -> PreparedViews:
        """The views selected by a mask, bool[N]."""
        drawn = [view for view, kept in zip(pickle.loads(self.drawn), wanted.tolist(), strict=True) if kept]
        numbers, mask, boxes, matrices, _ = self
        return PreparedViews(numbers[wanted], mask[wanted], boxes[wanted], matrices[wanted], pickle.dumps(drawn))

    def each(self) -> Iterator[MadeView]:
        """Iterate over the views as objects."""
        for at, drawn in enumerate(pickle.loads(self.drawn)):
            one = slice(at, at + 1)
            yield MadeView(self.frame_numbers[one], self.mask[one], drawn, np.zeros(1, np.bool_))


def prepare_images(
    wanted: WantedImages,
    layout: Layout,
    shapes: Sequence[tuple[tuple[int, ...], tuple[int, ...]]],
    reader: Reader,
    rule: DrawRule,
    memory: Sequence[torch.Tensor],
    token: CancelToken,
) -> PreparedImages:
    """Read and plan clips of image files for the JPEG engines. This needs no GPU.

    Args:
        wanted, layout, rule, token: as in ``make_images``.
        shapes: sizes and strides of the frames for the views of each clip.
        reader: not used; all work of processes has this argument.
        memory: memory for the contents of files, uint8[N].

    Raises:
        ReadCancelled, ConfigurationError: as in ``make_images``.
    """
    slots = [as_planes(torch.empty_strided(size, stride, device="meta"), layout) for size, stride in shapes]
    others: dict[int, MadeImage | None] = {}
    files: list[EngineFile] = []
    views: list[PlannedClip] = []
    for at, each in enumerate(wanted):
        read = _read_image(each, slots, rule, token)
        if isinstance(read, MadeImage):
            others[at] = read
        elif (file := engine_file(read.image, read.known, read.parts, rule.transforms.decoded)) is None:
            others[at] = None
        else:
            files.append(file)
            views += read.views
    return PreparedImages(others, list_files(files, memory[0]), _by_columns(views))


def _by_columns(views: Sequence[PlannedClip | MadeView]) -> PreparedViews:
    drawn = [view.drawn for view in views]
    return PreparedViews(
        np.array([view.frame_numbers[0] for view in views], np.int64),
        np.array([view.mask[0] for view in views], np.bool_),
        np.array([picture_box(view.geometry) for view in drawn], np.int64).reshape(-1, 4),
        source_matrices(drawn).reshape(-1, 3, 3),
        pickle.dumps(drawn, pickle.HIGHEST_PROTOCOL),
    )


class MadeColumns(NamedTuple):
    """Clips of image files that were made together, by columns.

    Attributes:
        others: the clips that need objects, by their place: those with an error, damage, or frames of another shape.
        views: views of the other clips, one after the other.
        report: one report of their decoding.
    """

    others: dict[int, MadeImage]
    views: PreparedViews
    report: ClipsReport


def make_columns(
    wanted: WantedImages,
    layout: Layout,
    reader: Reader,
    rule: DrawRule,
    frames: Sequence[torch.Tensor],
    token: CancelToken,
) -> MadeColumns:
    """``make_images`` for clips of a single frame.

    Args:
        wanted, layout, reader, rule, token: as in ``make_images``.
        frames: one tensor, with a row for each view.

    Raises:
        ReadCancelled, ConfigurationError: as in ``make_images``.
    """
    images = make_images(wanted, layout, reader, rule, list(frames[0]), token)
    others: dict[int, MadeImage] = {}
    views: list[MadeView] = []
    reports: list[ClipsReport] = []
    for at, image in enumerate(images):
        if image.report is None or image.report.corrupt_frames:
            others[at] = image
        else:
            views += image.views
            reports.append(image.report)
    return MadeColumns(others, _by_columns(views), joined_reports(reports))


def joined_reports(reports: Sequence[ClipsReport]) -> ClipsReport:
    """One report for what several tell of."""
    packets, frames, corrupt, seconds = (
        sum([getattr(each, name) for each in reports]) for name in ("packets", "frames", "corrupt_frames", "seconds")
    )
    ready = [event for each in reports for event in each.ready]
    by_gpu = any(each.by_gpu for each in reports)
    remote = sum((each.remote for each in reports), NO_READS)
    return ClipsReport(packets, frames, corrupt, SEEN, (), ready, seconds, by_gpu, remote)


class _ReadImage(NamedTuple):
    """An image file that was read, with its views and their memory."""

    path: str
    image: ByteSource
    known: VideoIndex
    views: list[PlannedClip]
    parts: list[ClipSlots]
    plan: DecodePlan


def _read_image(
    wanted: WantedImage, slots: Sequence[torch.Tensor], rule: DrawRule, token: CancelToken
) -> _ReadImage | MadeImage:
    epoch, clip, clip_in_video, row, path, label, columns, times = wanted
    token.raise_if_cancelled()
    try:
        with cancellable(token.raise_if_cancelled):
            image, index = read_image(path)
        entry = VideoEntry(path, label, columns=columns, times=times)
        video = EntryFrames(entry, 0, 1, SameIndex(index), row)
        with nullcontext() if rule.is_own else _one_at_a_time:
            views = rule.views(clip, epoch, video, clip_in_video)
    except UNREADABLE as error:
        return MadeImage([], None, None, error)
    if any(there.shape != (len(view.mask), 3, *view.shape[1:]) for there, view in zip(slots, views, strict=True)):
        unmade = [MadeView(view.frame_numbers, view.mask, view.drawn, None) for view in views]
        return MadeImage(unmade, None, index, None)
    parts = [
        whole_clip(view.frame_numbers, view.drawn.geometry, there) for there, view in zip(slots, views, strict=True)
    ]
    numbers = np.concatenate([view.frame_numbers for view in views])
    return _ReadImage(path, image, index, views, parts, plan_frames(index, numbers[numbers != CONSTANT_FRAME]))


def _decode_images(
    images: Sequence[_ReadImage | MadeImage], reader: Reader, rule: DrawRule, token: CancelToken, decode: Decode
) -> list[MadeImage]:
    """Decode the files that were read; outcomes that exist already are passed through."""
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
    return MadeImage(made, replace(outcome, index=SEEN), None, None)
