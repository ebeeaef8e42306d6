"""Decode many JPEG files at once on a GPU's JPEG engines, from plans made in other processes.

The plan of a file holds everything about it that needs Python. Other processes make the plans; the process that owns
the GPU hands a whole list of files to the engines, and all of their pictures to one kernel. Lists travel as arrays: an
object for each picture would cost that process more time than the decoding.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from queue import SimpleQueue
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from videoloader.convert.cuda import PICTURE_PLAN, convert_each, picture_plan
from videoloader.convert.spec import Conversion, Geometry, OutputSpec, color_spec
from videoloader.decoding.jpeg_engine import CODED, JpegDecoder, coded_file, engine_layout
from videoloader.errors import DecodeError
from videoloader.indexing import ByteSource, VideoIndex
from videoloader.indexing.images.index import is_jpeg
from videoloader.indexing.images.jpeg import is_cut_off
from videoloader.padding import CONSTANT_FRAME
from videoloader.runtime.device import event_to_sleep_for, own_stream
from videoloader.runtime.shared_memory import MemoryBlock, can_share, new_block, own_block

# Pictures are decoded up to this many bytes at a time, then converted. A single larger picture is allowed.
_MOST_BYTES = 192 << 20
# Decoders on one GPU.
_DECODERS = 3
# Bytes of files that one block of shared memory holds: 64 files of 64 KiB on average. What does not fit goes through
# the pipe.
_CONTENTS = 4 << 20


class EngineFile(NamedTuple):
    """A JPEG file to decode on the engines.

    Attributes:
        content: the bytes of the file.
        file: ``CODED`` of the file.
        plans: ``PICTURE_PLAN`` of its picture for each view wanted.
    """

    content: bytes
    file: npt.NDArray[np.void]
    plans: list[npt.NDArray[np.void]]


class EngineList(NamedTuple):
    """JPEG files to decode on the engines, as columns. It can be sent to another process.

    Attributes:
        places: int64[N], offset of each file's bytes in memory that both processes share; -1 for a file whose bytes are
            in ``contents``.
        contents: bytes of the files that are not in shared memory.
        files: ``CODED`` of each.
        plans: ``PICTURE_PLAN`` of each file's views, one after the other.
    """

    places: npt.NDArray[np.int64]
    contents: list[bytes]
    files: npt.NDArray[np.void]
    plans: npt.NDArray[np.void]

    def __reduce__(self) -> tuple[Any, ...]:
        """Leave out the types of the arrays, which take longer to pickle than what is in them."""
        places, contents, files, plans = self
        return _as_list, (places.tobytes(), contents, files.tobytes(), plans.tobytes())


def _as_list(places: bytes, contents: list[bytes], files: bytes, plans: bytes) -> EngineList:
    arrays = np.frombuffer(places, np.int64), contents, np.frombuffer(files, CODED), np.frombuffer(plans, PICTURE_PLAN)
    return EngineList(*arrays)


class DecodedList(NamedTuple):
    """The result of decoding some files.

    Attributes:
        errors: error of each file that the engines refuse, None for the others.
        ready: CUDA event after which all others are in their slots.
    """

    errors: list[DecodeError | None]
    ready: torch.cuda.Event


def engine_file(
    source: ByteSource,
    index: VideoIndex,
    frame_numbers: npt.NDArray[np.int64],
    geometries: Sequence[Geometry],
    strides: Sequence[tuple[int, ...]],
    output: OutputSpec,
) -> EngineFile | None:
    """Plan the decoding and the conversion of an image file.

    Args:
        source: the file.
        index: the index of the file.
        frame_numbers: numbers of the frames that each view shows.
        geometries: geometry of each view.
        strides: strides of each view's slots [T, 3, H, W], in elements.
        output: the pixel values wanted.

    Returns:
        The plan, or None if the file must be read in another way: it is cut off, the engines do not take its kind, or a
        view has a border, several frames, or constant padding.
    """
    stream = index.stream
    if (
        not is_jpeg(index)
        or len(frame_numbers) != 1
        or frame_numbers[0] == CONSTANT_FRAME
        or any(view.border is not None for view in geometries)
    ):
        return None
    (content,) = source.read_ranges([int(index.packet_offset[0])], [int(index.packet_size[0])])
    layout = None if is_cut_off(content) else engine_layout(content, stream)
    if layout is None:
        return None
    shown = color_spec(stream), stream.rotation, stream.mirrored
    plans = [
        picture_plan(layout, Conversion(*shown, geometry, output), (of_channel, of_row, of_column))
        for geometry, (_, of_channel, of_row, of_column) in zip(geometries, strides, strict=True)
    ]
    return EngineFile(content, coded_file(len(content), layout), plans)


def pack_files(files: Sequence[EngineFile], memory: torch.Tensor) -> EngineList:
    """Arrange files as columns, and put their contents into memory, uint8[N], as far as they fit."""
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
    return _as_list(places.tobytes(), contents, coded, plans)


class ViewMemory(NamedTuple):
    """Memory that views of files are written to.

    Attributes:
        addresses: int64[N], device address of each view's first element.
        dtype: type of the elements.
        memory: tensors that own this memory.
    """

    addresses: npt.NDArray[np.int64]
    dtype: torch.dtype
    memory: Sequence[torch.Tensor]


class JpegListDecoder:
    """Decodes and converts files on one GPU, for all threads.

    One decoder would keep a core busy before it keeps the engines busy; many slow each other down.

    Args:
        device: CUDA device.
    """

    def __init__(self, device: torch.device) -> None:
        self._device, self._stream = device, own_stream(device, self)
        # Decoders that no thread is using; None stands for one that has not been made yet.
        self._decoders: SimpleQueue[JpegDecoder | None] = SimpleQueue()
        for _ in range(_DECODERS):
            self._decoders.put(None)
        # Memory that other processes put file contents into, each block with the event after which the GPU has read it.
        self._memory: deque[tuple[MemoryBlock, torch.cuda.Event | None]] = deque()

    @contextmanager
    def memory(self) -> Iterator[torch.Tensor]:
        """Lend memory, uint8[N], for the contents of the files made in this block; shareable between processes."""
        try:
            block, read = self._memory.popleft()
        except IndexError:
            block, read = new_block(_CONTENTS) if can_share() else own_block(_CONTENTS), None
        if read is not None:
            read.synchronize()
        yield torch.from_numpy(block.memory)
        # After an error it is unknown what still reads this memory, so it is dropped.
        with torch.cuda.device(self._device):
            self._memory.append((block, event_to_sleep_for(self._stream)))

    def make(self, files: EngineList, slots: ViewMemory, memory: torch.Tensor) -> DecodedList:
        """Decode files and convert their pictures.

        Args:
            files: the files.
            slots: memory for the views of each file, with the size and strides of their plans. Nothing else may use it
                at the same time.
            memory: the memory that ``EngineList.places`` refers to.

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
                del planes  # so that the next pictures may have its memory
            for tensor in {each.untyped_storage().data_ptr(): each for each in slots.memory}.values():
                tensor.record_stream(self._stream)
            return DecodedList(errors, self._stream.record_event())


def _bounded(sizes: npt.NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Split files into parts (start, stop) whose pictures take a bounded amount of GPU memory.

    Args:
        sizes: bytes of each picture. A single picture may exceed the bound.
    """
    parts = (np.cumsum(sizes) - sizes) // _MOST_BYTES
    bounds = [0, *(np.flatnonzero(np.diff(parts)) + 1).tolist(), len(sizes)]
    yield from pairwise(bounds)


@cache
def list_decoder_of(device: torch.device) -> JpegListDecoder:
    """Return the object that all threads share for a CUDA device."""
    return JpegListDecoder(device)
