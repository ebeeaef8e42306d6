"""Makes clips of unopened image files, or folders of them: reads, draws and decodes each in one go.

Files can also be prepared for a GPU's JPEG engines.

This module also runs in other processes; see ``ProcessPool``.
"""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple, TypeAlias, TypeGuard

import numpy as np
import numpy.typing as npt
import torch

from videoloader.batching.clip_plan import UNREADABLE, ClipRule, PlannedClip
from videoloader.batching.rows import BatchRow
from videoloader.convert.spec import Layout, OutputSpec, as_planes
from videoloader.dataset import VideoEntry
from videoloader.decoding.engine import Engine, choose_engine
from videoloader.errors import VideoLoaderError
from videoloader.errors.of_handlers import raise_of_handler
from videoloader.indexing import FolderSource, VideoIndex
from videoloader.indexing.images.index import image_of_a_pixel
from videoloader.indexing.index import Times
from videoloader.indexing.sources.base import ByteSource
from videoloader.indexing.sources.patience import cancellable
from videoloader.indexing.sources.remote_reads import NO_READS, RemoteReads, reads_so_far
from videoloader.order.video_range import UNOPENED, SameIndex, VideoRange
from videoloader.packets.decode_plan import plan_frames
from videoloader.padding.pad import real_frames
from videoloader.reading.cancellation import CancelToken
from videoloader.reading.clip import frame_times
from videoloader.reading.clip_reader import ClipReader, ClipsReport
from videoloader.reading.clip_sink import MOST_PIXELS_HELD
from videoloader.reading.clip_slots import whole_clip
from videoloader.reading.jpeg_lists import EngineFile, EngineList, engine_file, pack_files
from videoloader.reading.read_request import ReadRequest
from videoloader.transforms.geometry.coordinates import picture_box
from videoloader.transforms.geometry.source_matrix import source_matrices
from videoloader.transforms.planning.pipeline import DrawnView

# Stands in for the index of each image file in a batch: once the file is decoded, nothing asks for the real one. It
# claims a size of 1×1.
IMAGE_INDEX = image_of_a_pixel()
_ALL_IMAGES = SameIndex(IMAGE_INDEX)


class WantedImage(NamedTuple):
    """A clip of an image file, or of ``frames`` of them, to make: arguments of ``ClipRule.views``, and the entry."""

    epoch: int
    clip: int
    clip_in_video: int
    frames: int
    row: int
    path: str
    label: int | None
    columns: Mapping[str, Any]
    times: Times


class WantedImages(list[WantedImage]):
    """Clips of image files to make. They are pickled by columns, in a third of the time that it takes one by one."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _from_columns, tuple(zip(*self, strict=True))


def _from_columns(*columns: Sequence[Any]) -> WantedImages:
    return WantedImages(map(WantedImage._make, zip(*columns, strict=True)))


class MadeImage(NamedTuple):
    """A clip of an image file, with all its views.

    Attributes:
        frame_numbers, mask: see ``PlannedClip``.
        drawn: the outcome of drawing, for each view.
        corrupt: bool[T], see ``ClipSlots``; None where the clip was not made, because its frames do not have the shape
            of the memory.
        known: the index of the file or folder; None for a file whose clip was made, which does not need it any more.
    """

    frame_numbers: npt.NDArray[np.int64]
    mask: npt.NDArray[np.bool_]
    drawn: list[DrawnView]
    corrupt: npt.NDArray[np.bool_] | None
    known: VideoIndex | None

    def put_into(self, row: BatchRow) -> None:
        """Let a row show what was made for it."""
        old, video = row.clip, row.clip.video
        known = _ALL_IMAGES if self.known is None else SameIndex(self.known)
        video = VideoRange(video.entry, video.first, video.stop, known, video.row)
        drawn = self.drawn[old.view]
        # The constructor is four times as fast as ``replace``.
        clip = PlannedClip(old.number, video, self.frame_numbers, self.mask, drawn, old.view, old.repeated, old.roles)
        row.settle(clip, self.corrupt)


# The outcome of a clip: the error tells why its file cannot be used.
Outcome: TypeAlias = MadeImage | VideoLoaderError


class MadeImages(NamedTuple):
    """The outcome of some clips. Those that are alike are columns, which cost a process that receives them little.

    Attributes:
        others: the clips that are objects, by place; None for a file that JPEG engines cannot decode.
        places: the places of the clips in columns. They are made, without damage, and have the same number of frames.
        frame_numbers, mask, timestamps: int64[N, T], bool[N, T] and float64[N, T] of all their views; see ``Batch``.
        boxes, matrices: see ``Batch.boxes`` and ``Batch.source_matrix``.
        drawn: pickled list of what was drawn for their views, since most programs never look at it.
        known: pickled list of ``MadeImage.known`` of each clip, which only objects need.
        report: report of the decoding of all clips.
    """

    others: dict[int, Outcome | None]
    places: list[int]
    frame_numbers: npt.NDArray[np.int64]
    mask: npt.NDArray[np.bool_]
    timestamps: npt.NDArray[np.float64]
    boxes: npt.NDArray[np.int64]
    matrices: npt.NDArray[np.float64]
    drawn: bytes
    known: bytes
    report: ClipsReport

    def outcomes(self) -> list[Outcome]:
        """The outcome of each clip in order, once none is left to be made."""
        drawn, indexes = pickle.loads(self.drawn), pickle.loads(self.known)
        all_clips = {place: outcome for place, outcome in self.others.items() if outcome is not None}
        views = len(drawn) // max(len(self.places), 1)
        for at, place in enumerate(self.places):
            if place not in all_clips:
                first = at * views
                numbers, mask = self.frame_numbers[first], self.mask[first]
                sound = np.zeros(len(numbers), np.bool_)
                all_clips[place] = MadeImage(numbers, mask, drawn[first : first + views], sound, indexes[at])
        return [all_clips[place] for place in sorted(all_clips)]


def gather_images(
    columns: Mapping[int, MadeImage],
    others: Mapping[int, Outcome | None],
    reports: Sequence[ClipsReport] = (),
    remote: RemoteReads | None = None,
) -> MadeImages:
    """One record of clips, by place.

    Args:
        columns: the clips that become columns.
        others: the other clips.
        reports: reports of their decoding.
        remote: all reads from servers for them; the sum of the reports' own by default.
    """
    images = list(columns.values())
    drawn, known = [view for image in images for view in image.drawn], [image.known for image in images]
    numbers = np.array([image.frame_numbers for image in images], np.int64)
    if any(known):
        times = np.array([frame_times(of or IMAGE_INDEX, shown) for of, shown in zip(known, numbers, strict=True)])
    else:  # one by one, the times of files would take longer than all else here
        times = frame_times(IMAGE_INDEX, numbers)
    views = [len(image.drawn) for image in images]
    report = joined_reports(reports)
    return MadeImages(
        dict(others),
        list(columns),
        np.repeat(numbers, views, axis=0),
        np.repeat(np.array([image.mask for image in images], np.bool_), views, axis=0),
        np.repeat(times, views, axis=0),
        np.array([picture_box(view.geometry) for view in drawn], np.int64).reshape(-1, 4),
        source_matrices(drawn).reshape(-1, 3, 3),
        pickle.dumps(drawn, pickle.HIGHEST_PROTOCOL),
        pickle.dumps(known, pickle.HIGHEST_PROTOCOL),
        report if remote is None else replace(report, remote=remote),
    )


def make_images(
    wanted: Sequence[WantedImage],
    layout: Layout,
    by_columns: bool,
    reader: ClipReader,
    rule: ClipRule,
    frames: Sequence[torch.Tensor],
    token: CancelToken,
) -> MadeImages:
    """Make clips of image files, or of folders of them.

    Args:
        wanted: the clips.
        layout: layout of their memory.
        by_columns: whether clips become columns. ``frames`` is then one tensor.
        reader: the reader that decodes them.
        rule: rule by which they are drawn.
        frames: memory for all their views in order, of the probable shape.
        token: the token that cancels the work.

    Raises:
        ReadCancelled: it was cancelled.
        ConfigurationError: as in ``ClipRule.views_by``.
    """
    read_before = reads_so_far()
    rest = iter(frames[0] if by_columns else frames)
    coming = deque((each, [as_planes(there, layout) for there in islice(rest, rule.num_views)]) for each in wanted)
    outcomes: list[Outcome] = []
    reports: list[ClipsReport] = []
    while coming:
        # Python code between two decoder calls runs several times slower than in one go; see ``_many_at_once`` in
        # ``engines.py``. So files are read until they have many pixels, then decoded, then converted.
        some: list[tuple[Outcome, ReadRequest | None]] = []
        size = 0
        while coming and size < MOST_PIXELS_HELD:
            each, slots = coming.popleft()
            image = _draw_image(each, slots, rule, token)
            if isinstance(image, _DrawnImage):
                read = _as_read(image, slots, rule.transforms.decoded)
                some.append((image.made(read.clips[0].corrupt), read))
                pixels = image.known.stream.width * image.known.stream.height
                size += pixels * len(image.frame_numbers)
            else:
                some.append((image, None))
                size += 1
        decoded = iter(_decode([read for _, read in some if read], reader, token))
        for outcome, to_decode in some:
            report = next(decoded) if to_decode else None
            if isinstance(report, ClipsReport):
                reports.append(report)
            outcomes.append(report if isinstance(report, VideoLoaderError) else outcome)
    all_clips = dict(enumerate(outcomes))
    alike = {at: each for at, each in all_clips.items() if by_columns and _is_plain(each)}
    others = {at: each for at, each in all_clips.items() if at not in alike}
    return gather_images(alike, others, reports, reads_so_far() - read_before)


def _is_plain(outcome: Outcome) -> TypeGuard[MadeImage]:
    return isinstance(outcome, MadeImage) and outcome.corrupt is not None and not outcome.corrupt.any()


def prepare_images(
    wanted: Sequence[WantedImage],
    layout: Layout,
    shapes: Sequence[tuple[tuple[int, ...], tuple[int, ...]]],
    reader: ClipReader,
    rule: ClipRule,
    memory: Sequence[torch.Tensor],
    token: CancelToken,
) -> tuple[MadeImages, EngineList]:
    """Read and plan clips of image files for the JPEG engines. This needs no GPU.

    Args:
        wanted, layout, rule, token: as in ``make_images``.
        shapes: sizes and strides of the frames for the views of each clip.
        reader: not used; all work of processes has this argument.
        memory: memory for the contents of files, uint8[N].

    Returns:
        The clips, of which the engines shall make those in columns, and the files of these.

    Raises:
        ReadCancelled, ConfigurationError: as in ``make_images``.
    """
    read_before = reads_so_far()
    slots = [as_planes(torch.empty_strided(size, stride, device="meta"), layout) for size, stride in shapes]
    strides = [each.stride() for each in slots]
    columns: dict[int, MadeImage] = {}
    others: dict[int, Outcome | None] = {}
    files: list[EngineFile] = []
    for at, each in enumerate(wanted):
        image = _draw_image(each, slots, rule, token)
        if not isinstance(image, _DrawnImage):
            others[at] = image
            continue
        geometries = [view.drawn.geometry for view in image.views]
        file = engine_file(image.source, image.known, image.frame_numbers, geometries, strides, rule.transforms.decoded)
        if file is None:
            others[at] = None
        else:
            files.append(file)
            columns[at] = image.made(np.zeros(len(image.frame_numbers), np.bool_))
    made = gather_images(columns, others, remote=reads_so_far() - read_before)
    return made, pack_files(files, memory[0])


def joined_reports(reports: Sequence[ClipsReport]) -> ClipsReport:
    """The sum of several reports."""
    packets, frames, corrupt, seconds = (
        sum([getattr(each, name) for each in reports]) for name in ("packets", "frames", "corrupt_frames", "seconds")
    )
    ready = [event for each in reports for event in each.ready]
    engine: Engine = next((each.engine for each in reports if each.engine != "cpu"), "cpu")
    remote = sum((each.remote for each in reports), NO_READS)
    return ClipsReport(packets, frames, corrupt, IMAGE_INDEX, (), ready, seconds, engine, remote)


class _DrawnImage(NamedTuple):
    """An image file or a folder that was read, and the views drawn for it, which have the shape of their memory."""

    source: ByteSource
    known: VideoIndex
    views: list[PlannedClip]

    @property
    def frame_numbers(self) -> npt.NDArray[np.int64]:
        """Numbers of the frames that all views show."""
        return self.views[0].frame_numbers

    def made(self, corrupt: npt.NDArray[np.bool_] | None) -> MadeImage:
        """The clip; see ``MadeImage``."""
        known = self.known if corrupt is None or isinstance(self.source, FolderSource) else None
        return MadeImage(self.frame_numbers, self.views[0].mask, [view.drawn for view in self.views], corrupt, known)


def _draw_image(
    wanted: WantedImage, slots: Sequence[torch.Tensor], rule: ClipRule, token: CancelToken
) -> _DrawnImage | Outcome:
    """Read and draw a clip. The outcome is known already if its file cannot be used, or it has another shape."""
    epoch, clip, clip_in_video, frames, row, path, label, columns, times = wanted
    token.raise_if_cancelled()
    video = VideoRange(VideoEntry(path, label, columns=columns, times=times), 0, frames, UNOPENED, row)
    try:
        with cancellable(token.raise_if_cancelled):
            drawn = _DrawnImage(*rule.views_of_unopened(clip, epoch, video, clip_in_video))
    except UNREADABLE as error:
        raise_of_handler(error)
        return error
    if any(there.shape != (view.shape[0], 3, *view.shape[1:]) for there, view in zip(slots, drawn.views, strict=True)):
        return drawn.made(None)
    return drawn


def _as_read(image: _DrawnImage, slots: Sequence[torch.Tensor], output: OutputSpec) -> ReadRequest:
    numbers = image.frame_numbers
    parts = [whole_clip(numbers, view.drawn.geometry, there) for there, view in zip(slots, image.views, strict=True)]
    return ReadRequest(image.source, image.known, parts, output, plan_frames(image.known, real_frames(numbers)))


def _decode(
    images: Sequence[ReadRequest], reader: ClipReader, token: CancelToken
) -> list[ClipsReport | VideoLoaderError]:
    if reader.device.type == "cpu" and all(
        image.index.container == "images" and choose_engine(image.index, reader.device, reader.decode) == "cpu"
        for image in images
    ):
        return reader.read_images(images, token)
    return [_read_alone(image, reader, token) for image in images]


def _read_alone(image: ReadRequest, reader: ClipReader, token: CancelToken) -> ClipsReport | VideoLoaderError:
    try:
        return reader.read(image, token)
    except UNREADABLE as error:
        raise_of_handler(error)
        return error
