"""JPEG files that a GPU's engines decode many at once: what is settled before, where no GPU is needed, and the rest.

A file's plan holds all that Python has to say about it. Other processes make it, and the process that has the GPU
hands a whole list of files to the engines, and all of their pictures to one kernel. Lists travel as arrays: objects for
each picture would cost that process more than their decoding.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from queue import SimpleQueue
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from videoloader.convert import PICTURE_PLAN, OutputSpec, color_spec, convert_each, picture_plan
from videoloader.decoding import CODED, JpegDecoder, coded_file, engine_layout
from videoloader.device import event_to_sleep_for, own_stream
from videoloader.errors import DecodeError
from videoloader.indexing import ByteSource, VideoIndex
from videoloader.indexing.images import is_cut_off
from videoloader.padding import CONSTANT_FRAME
from videoloader.reading.decode_job import ClipSlots
from videoloader.shared_memory import MemoryBlock, can_share, new_block, own_block

# Bytes of pictures that are decoded before the first is converted, but for the last.
_MOST_BYTES = 192 << 20
# Decoders of a GPU.
_DECODERS = 2
# Bytes of files that one piece of shared memory holds: of 64 files on average 64 KiB each. More go through the pipe.
_CONTENTS = 4 << 20


class EngineFile(NamedTuple):
    """A JPEG file for the engines.

    Attributes:
        content: the bytes of the file.
        file: ``CODED`` of the file.
        plans: ``PICTURE_PLAN`` of its picture for each of the views that are wanted.
    """

    content: bytes
    file: npt.NDArray[np.void]
    plans: list[npt.NDArray[np.void]]


class EngineList(NamedTuple):
    """JPEG files for the engines, by columns. It can be sent to another process.

    Attributes:
        places: int64[N], the place of each file's bytes in memory that both processes share; -1 for those that follow.
        contents: the bytes of the other files.
        files: ``CODED`` of each.
        plans: ``PICTURE_PLAN`` of each file's views, one after the other.
    """

    places: npt.NDArray[np.int64]
    contents: list[bytes]
    files: npt.NDArray[np.void]
    plans: npt.NDArray[np.void]


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
    return EngineFile(content, coded_file(len(content), layout), plans)


def _is_plain(view: ClipSlots) -> bool:
    return len(view.frame_numbers) == 1 and view.frame_numbers[0] != CONSTANT_FRAME and view.geometry.border is None


def list_files(files: Sequence[EngineFile], memory: torch.Tensor) -> EngineList:
    """The files by columns, with their contents in some memory, uint8[N], as far as they fit."""
    there, used = memory.numpy(), 0
    places, contents = np.full(len(files), -1, np.int64), []
    for number, (content, _, _) in enumerate(files):
        if used + len(content) <= len(there):
            there[used : used + len(content)] = np.frombuffer(content, np.uint8)
            places[number] = used
            used += len(content)
        else:
            contents.append(content)
    coded = b"".join([each.file.tobytes() for each in files])
    plans = b"".join([plan.tobytes() for each in files for plan in each.plans])
    return EngineList(places, contents, np.frombuffer(coded, CODED), np.frombuffer(plans, PICTURE_PLAN))


class Slots(NamedTuple):
    """The memory that views of files are written to.

    Attributes:
        addresses: int64[N], the device address of each view's first element.
        dtype: type of the elements.
        memory: tensors that this memory belongs to.
    """

    addresses: npt.NDArray[np.int64]
    dtype: torch.dtype
    memory: Sequence[torch.Tensor]


class EngineFiles:
    """Decodes and converts files on one GPU, for all threads.

    One decoder keeps a core busy before it does the engines. Many get into each other's way.

    Args:
        device: CUDA device.
    """

    def __init__(self, device: torch.device) -> None:
        self._device, self._stream = device, own_stream(device, self)
        # Those that no thread uses; None is one that is not made yet.
        self._decoders: SimpleQueue[JpegDecoder | None] = SimpleQueue()
        for _ in range(_DECODERS):
            self._decoders.put(None)
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

    def make(self, files: EngineList, slots: Slots, memory: torch.Tensor) -> Made:
        """Decode files and convert their pictures.

        Args:
            files: the files.
            slots: memory for the views of each file, of the size and strides that they were planned with. Nothing else
                may be under way there.
            memory: the memory that ``EngineList.places`` is about.

        Raises:
            DecodeError: a kernel cannot be launched.
        """
        addresses = files.places + memory.data_ptr()
        addresses[files.places < 0] = [np.frombuffer(each, np.uint8).ctypes.data for each in files.contents]
        views, owner = len(files.plans) // max(len(files.files), 1), (files.contents, memory)
        errors: list[DecodeError | None] = []
        with torch.cuda.device(self._device):
            for first, stop in _bounded(files.files["nbytes"]):
                part = slice(first, stop)
                decoder = self._decoders.get()
                try:
                    decoder = decoder or JpegDecoder(self._stream.device.index)
                    planes, starts, refused = decoder.decode(addresses[part], files.files[part], owner, self._stream)
                finally:
                    self._decoders.put(decoder)
                shown = slice(first * views, stop * views)
                plans, there = files.plans[shown], slots.addresses[shown]
                starts = np.repeat(starts, views)
                if any(refused):
                    fine = np.repeat([error is None for error in refused], views)
                    plans, starts, there = plans[fine], starts[fine], there[fine]
                convert_each(plans, starts, there, slots.dtype, self._stream)
                errors += refused
                del planes  # the next ones may have its memory
            for tensor in {each.untyped_storage().data_ptr(): each for each in slots.memory}.values():
                tensor.record_stream(self._stream)
            return Made(errors, self._stream.record_event())


def _bounded(sizes: npt.NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """The first and the stop of parts of some files whose pictures take a bounded amount of the GPU's memory.

    Args:
        sizes: bytes of each picture. One alone may take more.
    """
    parts = (np.cumsum(sizes) - sizes) // _MOST_BYTES
    bounds = [0, *(np.flatnonzero(np.diff(parts)) + 1).tolist(), len(sizes)]
    yield from pairwise(bounds)


@cache
def engine_files_of(device: torch.device) -> EngineFiles:
    """The one for a CUDA device."""
    return EngineFiles(device)
