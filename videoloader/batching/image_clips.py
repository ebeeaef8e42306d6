"""Clips of image files: each file is read, drawn for and decoded in one go, or prepared for a GPU's engines.

What is here also runs in other processes; see ``ReaderProcesses``.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import lru_cache, partial
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from videoloader.batching.clip_plan import UNREADABLE, DrawRule, PlannedClip, as_planes
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
from videoloader.order.clip_table import EntryFrames, SameIndex
from videoloader.packets.decode_plan import DecodePlan, plan_frames
from videoloader.padding import CONSTANT_FRAME
from videoloader.reading.cancellation import CancelToken
from videoloader.reading.clip_reader import ClipReader, ClipsReport, ImageRead
from videoloader.reading.decode_job import ClipSlots, whole_clip
from videoloader.reading.engine_files import EngineFile, engine_file, move_contents
from videoloader.reading.workers import Reader
from videoloader.transforms.planning.pipeline import DrawnView

# Pixels of files that are read before the first of them is decoded, and decoded before the first is converted, but for
# the last: 16 MiB of 8 bits and 4:2:0.
_MOST_PIXELS = (16 << 20) * 2 // 3
# Of the transforms and frame modes of a program nothing is known: they may count on being called by one thread.
_one_at_a_time = threading.Lock()
# What an index tells of all image files that were decoded already.
SEEN = image_of_a_pixel()


def _free() -> None:
    global _one_at_a_time
    _one_at_a_time = threading.Lock()


after_fork(_free)  # another thread may have had it


class WantedImage(NamedTuple):
    """A clip of an image file that is to be made: arguments of ``DrawRule.views``, and the file's entry."""

    clip: int
    epoch: int
    clip_in_video: int
    row: int
    path: str
    label: int | None
    columns: Mapping[str, Any]
    times: Times


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
        report: report of its decoding, one for all clips that were decoded together. None where it was not decoded: its
            frames have another shape than those in memory.
        known: the file's index; None where it is no longer needed.
        error: reason why the file cannot be used, and there is nothing else; None where it can.
    """

    views: list[MadeView]
    report: ClipsReport | None
    known: VideoIndex | None
    error: BaseException | None


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
    coming = deque((each, [as_planes(there, layout) for there in islice(rest, views)]) for each in wanted)
    made: list[MadeImage] = []
    while coming:
        # Python between two calls of a decoder takes several times as long as in one go: see ``ClipReader``.
        read: list[_ReadImage | MadeImage] = []
        size = 0
        while coming and size < _MOST_PIXELS:
            read.append(each := _read_image(*coming.popleft(), rule, token))
            stream = each.known.stream if each.known else SEEN.stream
            size += stream.width * stream.height
        made += _decode_images(read, reader, rule, token, decode)
    return made


class PreparedImages(NamedTuple):
    """Clips of image files of which JPEG engines are to decode some.

    Attributes:
        images: the clips. Those for the engines are as they will be, without a report; None is a file of another kind.
        files: the files for the engines.
        places: the place in ``images`` of each of these.
    """

    images: list[MadeImage | None]
    files: list[EngineFile]
    places: list[int]


def prepare_images(
    wanted: Sequence[WantedImage],
    layout: Layout,
    shapes: Sequence[tuple[tuple[int, ...], tuple[int, ...]]],
    reader: Reader,
    rule: DrawRule,
    memory: Sequence[torch.Tensor],
    token: CancelToken,
) -> PreparedImages:
    """Read and plan clips of image files for the JPEG engines. No GPU is needed for that.

    Args:
        wanted, layout, rule, token: as in ``make_images``.
        shapes: sizes and strides of the frames for all views of the clips, one after the other.
        reader: not used: the work of processes has it.
        memory: memory for the contents of files, uint8[N].

    Raises:
        ReadCancelled, ConfigurationError: as in ``make_images``.
    """
    rest, views = iter(shapes), rule.repeats * rule.transforms.views
    images: list[MadeImage | None] = []
    files: list[EngineFile] = []
    places: list[int] = []
    # Most clips of files have equal numbers and marks. What is one object is pickled once.
    known: dict[tuple[str, bytes], npt.NDArray[Any]] = {}
    for at, each in enumerate(wanted):
        slots = [_slots_without_memory(size, stride, layout) for size, stride in islice(rest, views)]
        read = _read_image(each, slots, rule, token)
        if isinstance(read, MadeImage):
            images.append(read)
            continue
        file = engine_file(read.image, read.known, read.parts, rule.transforms.decoded)
        if file is None:
            images.append(None)
            continue
        made = [
            MadeView(
                _one_of_equals(known, view.frame_numbers),
                _one_of_equals(known, view.mask),
                view.drawn,
                _one_of_equals(known, part.corrupt),
            )
            for view, part in zip(read.views, read.parts, strict=True)
        ]
        images.append(MadeImage(made, None, None, None))
        files.append(file)
        places.append(at)
    return PreparedImages(images, move_contents(files, memory[0]), places)


@lru_cache(maxsize=16)
def _slots_without_memory(size: tuple[int, ...], stride: tuple[int, ...], layout: Layout) -> torch.Tensor:
    """The slots of frames of this size, to plan with. Kept, since PyTorch takes longer to make them than to plan."""
    return as_planes(torch.empty_strided(size, stride, device="meta"), layout)


def _one_of_equals(known: dict[tuple[str, bytes], npt.NDArray[Any]], array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return known.setdefault((array.dtype.char, array.tobytes()), array)


class _ReadImage(NamedTuple):
    """An image file that was read, its views, and their memory."""

    path: str
    image: ByteSource
    known: VideoIndex
    views: list[PlannedClip]
    parts: list[ClipSlots]
    plan: DecodePlan


def _read_image(
    wanted: WantedImage, slots: Sequence[torch.Tensor], rule: DrawRule, token: CancelToken
) -> _ReadImage | MadeImage:
    clip, epoch, clip_in_video, row, path, label, columns, times = wanted
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
    return MadeImage(made, replace(outcome, index=SEEN), None, None)
