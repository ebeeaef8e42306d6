"""Carries out operations on clips in GPU memory, with one kernel launch for each step of all clips."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from videoloader import convert
from videoloader.convert.driver import cuda_driver, load_kernel
from videoloader.convert.spec import OUTPUT_TYPES, OutputSpec
from videoloader.errors import DecodeError
from videoloader.transforms.backends.work import ClipWork
from videoloader.transforms.geometry.resampling import Size
from videoloader.transforms.operations import ARRAYS, Erase, Operation, StatisticTable, Warp

_PARTS = ("step.cu", "operations.cu", "operate.cu", "statistics.cu")
_SOURCES = (Path(convert.__path__[0], "numbers.h"), *(Path(__file__).with_name(part) for part in _PARTS))
_OPTIONS = ("--std=c++17", "--fmad=false")
# As in step.cu.
_THREADS, _CHUNK, _COUNTED_CHUNK, _TABLE = 256, 4096, 8192, 3 * 256
_STATISTICS = {"contrast": 0, "auto_contrast": 1, "equalize": 2}
_INTERPOLATION_NUMBERS = {"nearest": 0, "bilinear": 1, "bicubic": 2}
_CLIP = struct.Struct("=2Q3q14i3f4x")
_STEP = struct.Struct("=4Q3q6fi4x")
_NOTHING, _ONE_SAMPLE, _NO_FILL = (None,), (1, 1), (0.0, 0.0, 0.0)
# The number of counters of each statistic.
_COUNTS = (1, 6, _TABLE)
# The kernel's numbers of operations; 0 copies.
_KINDS = {operation: kind for kind, operation in enumerate(ARRAYS, 1)}


class _Batch(NamedTuple):
    """A batch of clips in GPU memory: its address, bytes per row, and (height, width) of frames."""

    address: int
    row: int
    size: Size


class _Step:
    """The launches of a step: records of its clips, those with a StatisticTable apart, and the largest extents."""

    def __init__(self) -> None:
        self.counted: list[bytes] = []
        self.others: list[bytes] = []
        self.pixels = self.counted_pixels = self.table_rows = 0


class _Plan:
    """The data for the GPU, and the memory that it needs for statistics.

    Attributes:
        arrays: arrays of all operations, in order.
        size: number of bytes in the arrays.
        tables: bytes of tables computed from statistics.
        counts: number of counters for these tables.
    """

    def __init__(self, steps: int) -> None:
        self.steps = [_Step() for _ in range(steps)]
        self.arrays: list[bytes] = []
        self.size = self.tables = self.counts = 0

    def add(
        self, at: int, operation: Operation | None, source: int, target: int, length: int, size: Size, last: bool
    ) -> Size:
        """Add one clip's operation to a step.

        Args:
            at: the step.
            operation: None copies.
            source, target: addresses of the clip.
            length, size: size of the source: T and (height, width).
            last: whether the target has the output's dtype.

        Returns:
            (height, width) of the target.
        """
        step, out_size = self.steps[at], size
        kind, variant, values, counts, factors, rows, count_rows, factor_rows = 0, 0, 0, 0, 0, 1, 1, 1
        boxes, samples, extend, fill = 0, _ONE_SAMPLE, False, _NO_FILL
        if operation is not None:
            kind = _KINDS[type(operation)]
            array = getattr(operation, ARRAYS[type(operation)][0])
            data = array.tobytes()
            rows, values, padding = len(array), self.size, -len(data) % 8
            self.arrays.append(data + bytes(padding) if padding else data)
            self.size += len(data) + padding
        records = step.others
        if type(operation) is StatisticTable:
            variant, factors, factor_rows = _STATISTICS[operation.statistic], values, rows
            count_rows = length if operation.per_frame else 1
            rows, values, counts = max(factor_rows, count_rows), self.tables, self.counts
            self.tables += _TABLE * rows
            self.counts += _COUNTS[variant] * count_rows
            step.counted_pixels = max(step.counted_pixels, size[0] * size[1])
            step.table_rows = max(step.table_rows, rows)
            records = step.counted
        elif type(operation) is Warp:
            variant, samples = _INTERPOLATION_NUMBERS[operation.interpolation], operation.samples
            extend, fill, out_size = operation.extend, operation.fill, operation.size
        elif type(operation) is Erase:
            boxes, fill = operation.boxes.shape[1], operation.fill
        if out_size[0] * out_size[1] > step.pixels:
            step.pixels = out_size[0] * out_size[1]
        records.append(
            _CLIP.pack(
                source, target, values, counts, factors, kind, variant, *size, *out_size, rows, count_rows,
                factor_rows, last, boxes, *samples, extend, *fill,
            )
        )  # fmt: skip
        return out_size


def carry_out(works: Sequence[ClipWork], output: OutputSpec) -> None:
    """Carry out the works for all clips at once, on the current stream of their device.

    Parameters are uploaded in one transfer, from memory that PyTorch does not reuse before it is done. Between
    operations a clip is in scratch memory, in two pieces: an operation reads one and writes the other.
    """
    if not works:
        return
    length = works[0].source.shape[1]
    different = {id(batch): batch for work in works for batch in (work.source, work.target)}
    batches = {key: _batch(batch) for key, batch in different.items()}
    pieces = [_piece(work.operations, length, batches[id(work.source)].size) for work in works]
    scratch = torch.empty(sum(size * count for size, count in pieces), dtype=torch.uint8, device=works[0].source.device)
    free = scratch.data_ptr()
    plan = _Plan(max(1, *(len(work.operations) for work in works)))
    for work, (piece, count) in zip(works, pieces, strict=True):
        address, row, size = batches[id(work.source)]
        source, end = address + row * work.source_row, len(work.operations) - 1
        address, row, _ = batches[id(work.target)]
        for at, operation in enumerate(work.operations or _NOTHING):
            last = at >= end
            target = address + row * work.target_row if last else free + piece * (at % 2)
            size = plan.add(at, operation, source, target, length, size, last and work.last)
            source = target
        free += piece * count
    _launch(plan, output, works, length)


def _batch(batch: torch.Tensor) -> _Batch:
    return _Batch(batch.data_ptr(), batch.stride(0) * batch.element_size(), (batch.shape[-2], batch.shape[-1]))


def _piece(operations: Sequence[Operation], length: int, size: Size) -> tuple[int, int]:
    """The bytes of a piece of scratch memory for a clip, and the number of pieces that it needs."""
    largest, between = 0, operations[:-1]
    for operation in between:
        if type(operation) is Warp:
            size = operation.size
        largest = max(largest, size[0] * size[1])
    return -(-3 * length * largest // 16) * 16, min(len(between), 2)


def _launch(plan: _Plan, output: OutputSpec, works: Sequence[ClipWork], length: int) -> None:
    """Upload the parameters of the steps, and launch them. All memory is used in stream order."""
    device = works[0].source.device
    _, frame, channel, _, pixel = next((work.target.stride() for work in works if work.last), (0, 0, 0, 0, 0))
    operate = f"operate<{OUTPUT_TYPES[output.dtype]}>"
    with torch.cuda.device(device):
        stream = torch.cuda.current_stream(device).cuda_stream
        records = [record for step in plan.steps for record in (*step.counted, *step.others)]
        sent = _send(b"".join([*plan.arrays, *records]), device)
        tables = torch.empty(plan.tables, dtype=torch.uint8, device=device)
        counts = torch.zeros(plan.counts, dtype=torch.int64, device=device)
        values = sent.data_ptr()
        clips = values + plan.size
        shared = tables.data_ptr(), counts.data_ptr(), frame, channel, pixel, *_scale_shift(output), length
        for step in plan.steps:
            data = _STEP.pack(clips, values, *shared)
            counted, every = len(step.counted), len(step.counted) + len(step.others)
            if counted:
                grid = (-(-step.counted_pixels // _COUNTED_CHUNK), length, counted)
                _start("statistics", grid, data, device, stream)
                _start("tables", (step.table_rows, 3, counted), data, device, stream)
            _start(operate, (-(-step.pixels // _CHUNK), length, every), data, device, stream)
            clips += every * _CLIP.size


@lru_cache(16)
def _scale_shift(output: OutputSpec) -> list[float]:
    return np.concatenate(output.scale_shift()).tolist()  # type: ignore[no-any-return]


def _send(data: bytes, device: torch.device) -> torch.Tensor:
    """uint8 on the GPU."""
    pinned = torch.empty(len(data), dtype=torch.uint8, device="cpu", pin_memory=True)
    pinned.numpy()[:] = np.frombuffer(data, np.uint8)
    return pinned.to(device, non_blocking=True)


def _start(name: str, grid: tuple[int, int, int], argument: bytes, device: torch.device, stream: int) -> None:
    """Launch a kernel of step.cu, whose only argument is a ``Step``."""
    function = load_kernel(_SOURCES, name, _OPTIONS, device.index)
    memory = ctypes.create_string_buffer(argument, len(argument))
    arguments = (ctypes.c_void_p * 1)(ctypes.addressof(memory))
    error = cuda_driver().cuLaunchKernel(function, *grid, _THREADS, 1, 1, 0, stream, arguments, None)
    if error:
        raise DecodeError(f"a kernel of transforms cannot be launched: CUDA error {error}")
