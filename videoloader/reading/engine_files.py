"""JPEG files that a GPU's engines decode many at once: what is settled before, where no GPU is needed, and the rest.

A file's plan holds all that Python has to say about it. Other processes make it, and the process that has the GPU
hands a whole list of files to the engines, and all of their pictures to one kernel.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from functools import cache
from itertools import islice
from typing import NamedTuple, TypeAlias

import numpy as np
import torch

from videoloader.convert import OutputSpec, PicturePlan, SurfaceLayout, color_spec, convert_each, picture_plan
from videoloader.decoding import CodedPicture, JpegDecoder, coded_picture, engine_layout
from videoloader.device import event_to_sleep_for, own_stream
from videoloader.errors import DecodeError
from videoloader.indexing import ByteSource, VideoIndex
from videoloader.indexing.images import is_cut_off
from videoloader.padding import CONSTANT_FRAME
from videoloader.reading.decode_job import ClipSlots
from videoloader.shared_memory import MemoryBlock, can_share, new_block, own_block

# Pixels of pictures that are decoded before the first is converted: 192 MiB of planes.
_MOST_PIXELS = 64 << 20
# Bytes of files that one piece of shared memory holds: of 32 files on average 128 KiB each. More go through the pipe.
_CONTENTS = 4 << 20


class EngineFile(NamedTuple):
    """A JPEG file for the engines. It can be sent to another process.

    Attributes:
        content: the bytes of the file; or their place in memory that both processes share.
        size: number of bytes.
        layout: places where the engines put its samples.
        plans: the conversion of its picture for each of the views that are wanted.
    """

    content: bytes | int
    size: int
    layout: SurfaceLayout
    plans: list[PicturePlan]


class Made(NamedTuple):
    """The outcome of some files.

    Attributes:
        errors: the error of each file that the engines refuse, else None.
        ready: the CUDA event after which the others are in their slots.
    """

    errors: list[DecodeError | None]
    ready: torch.cuda.Event


def engine_file(
    source: ByteSource, index: VideoIndex, views: Sequence[ClipSlots], output: OutputSpec
) -> EngineFile | None:
    """Plan the decoding and the conversion of an image file.

    Args:
        source: the file.
        index: the index of the file.
        views: the clips that are wanted. Of their slots, the strides count.
        output: the pixel values wanted.

    Returns:
        None where the file has to be read in another way: it is cut off or of a kind that is not for the engines, or
        its picture is wanted with a border or several times, or is padding.
    """
    stream = index.stream
    if index.container != "images" or stream.codec != "mjpeg" or any(not _is_plain(view) for view in views):
        return None
    (content,) = source.read_ranges([int(index.packet_offset[0])], [int(index.packet_size[0])])
    layout = None if is_cut_off(content) else engine_layout(content, stream)
    if layout is None:
        return None
    plans = []
    for view in views:
        _, *strides = view.slots.stride()
        across = (strides[0], strides[1], strides[2])
        color = color_spec(stream)
        plans.append(picture_plan(layout, color, stream.rotation, stream.mirrored, view.geometry, output, across))
    return EngineFile(content, len(content), layout, plans)


def _is_plain(view: ClipSlots) -> bool:
    return len(view.frame_numbers) == 1 and view.frame_numbers[0] != CONSTANT_FRAME and view.geometry.border is None


def move_contents(files: Sequence[EngineFile], memory: torch.Tensor) -> list[EngineFile]:
    """The same files with their contents in some memory, uint8[N], as far as they fit."""
    there, moved, used = memory.numpy(), list(files), 0
    for number, file in enumerate(files):
        if isinstance(file.content, bytes) and used + file.size <= len(there):
            there[used : used + file.size] = np.frombuffer(file.content, np.uint8)
            moved[number] = file._replace(content=used)
            used += file.size
    return moved


class _Order(NamedTuple):
    """Files that one thread wants: see ``EngineFiles.make``."""

    pictures: list[CodedPicture]
    plans: list[list[PicturePlan]]
    slots: Sequence[Sequence[torch.Tensor]]
    made: Future[Made]


class EngineFiles:
    """Decodes and converts files on one GPU, for all threads.

    More decoders get into each other's way. So one thread at a time has the engines, and takes with its own files those
    of all threads that wait: many files cost as many calls of CUDA as one.

    Args:
        device: CUDA device.
    """

    def __init__(self, device: torch.device) -> None:
        self._device, self._stream = device, own_stream(device, self)
        self._decoder: JpegDecoder | None = None
        self._lock = threading.Lock()
        self._waiting: deque[_Order] = deque()
        # Memory that other processes put contents of files into, each with the event after which the GPU has read them.
        self._memory: deque[tuple[MemoryBlock, torch.cuda.Event | None]] = deque()

    @contextmanager
    def memory(self) -> Iterator[torch.Tensor]:
        """Memory for the contents of files that are made in this block, uint8[N], which processes can share."""
        try:
            block, read = self._memory.popleft()
        except IndexError:
            block, read = new_block(_CONTENTS) if can_share() else own_block(_CONTENTS), None
        if read is not None:
            read.synchronize()
        yield torch.from_numpy(block.memory)
        # After an error nobody knows what still reads it, and it is dropped.
        with torch.cuda.device(self._device):
            self._memory.append((block, event_to_sleep_for(self._stream)))

    def make(self, files: Sequence[EngineFile], slots: Sequence[Sequence[torch.Tensor]], memory: torch.Tensor) -> Made:
        """Decode files and convert their pictures.

        Args:
            files: the files.
            slots: memory for the views of each file, of the size and strides that they were planned with. Nothing else
                may be under way there.
            memory: the memory that ``EngineFile.content`` is about.

        Raises:
            DecodeError: a kernel cannot be launched.
        """
        start = memory.data_ptr()
        pictures = [
            coded_picture(file.content, file.layout)
            if isinstance(file.content, bytes)
            else CodedPicture(start + file.content, file.size, file.layout, memory)
            for file in files
        ]
        made: Future[Made] = Future()
        self._waiting.append(_Order(pictures, [file.plans for file in files], slots, made))
        with self._lock, torch.cuda.device(self._device):
            if not made.done():
                self._make_waiting()
        return made.result()

    def _make_waiting(self) -> None:
        orders = [self._waiting.popleft() for _ in range(len(self._waiting))]
        try:
            each = [one for order in orders for one in zip(order.pictures, order.plans, order.slots, strict=True)]
            errors = [error for some in _bounded(each) for error in self._make_some(some)]
            ready = self._stream.record_event()
        except BaseException as error:
            for order in orders:
                order.made.set_exception(error)
            return
        rest = iter(errors)
        for order in orders:
            order.made.set_result(Made(list(islice(rest, len(order.pictures))), ready))

    def _make_some(self, files: Sequence[_Wanted]) -> list[DecodeError | None]:
        self._decoder = self._decoder or JpegDecoder(self._stream.device.index)
        surfaces = self._decoder.surfaces([picture for picture, _, _ in files], self._stream)
        pictures = [
            (plan, surface.pointer, there.data_ptr())
            for (_, plans, slots), surface in zip(files, surfaces, strict=True)
            if not isinstance(surface, DecodeError)
            for plan, there in zip(plans, slots, strict=True)
        ]
        if pictures:
            convert_each(pictures, files[0][2][0].dtype, self._stream)
        for memory in {there.untyped_storage().data_ptr(): there for _, _, slots in files for there in slots}.values():
            memory.record_stream(self._stream)
        return [surface if isinstance(surface, DecodeError) else None for surface in surfaces]


_Wanted: TypeAlias = tuple[CodedPicture, list[PicturePlan], Sequence[torch.Tensor]]


def _bounded(files: Sequence[_Wanted]) -> Iterator[list[_Wanted]]:
    """The files in lists whose pictures take a bounded amount of the GPU's memory, and whose slots are of one type."""
    some: list[_Wanted] = []
    pixels = 0
    for file in files:
        (_, _, layout, _), _, slots = file
        size = layout.width * layout.height
        if some and (pixels + size > _MOST_PIXELS or slots[0].dtype != some[0][2][0].dtype):
            yield some
            some, pixels = [], 0
        some.append(file)
        pixels += size
    if some:
        yield some


@cache
def engine_files_of(device: torch.device) -> EngineFiles:
    """The one for a CUDA device."""
    return EngineFiles(device)
