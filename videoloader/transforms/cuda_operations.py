"""The operations on clips in GPU memory: one kernel for a step of all clips."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from videoloader.convert.driver import cuda_driver, load_kernel
from videoloader.errors import DecodeError
from videoloader.transforms.operations import (
    ColorMatrix,
    Erase,
    HueShift,
    Operation,
    Sharpen,
    StatisticTable,
    Table,
    Warp,
)
from videoloader.transforms.work import ClipWork, Finish

_SOURCE, _OPTIONS = Path(__file__).with_name("operations.cu"), ("--std=c++17", "--fmad=false")
# As in operations.cu.
_THREADS, _CHUNK, _COUNTED_CHUNK, _TABLE = 256, 4096, 8192, 3 * 256
_COPY, _LOOK_UP, _STATISTIC, _COLOR_MATRIX, _HUE_SHIFT, _SHARPEN, _WARP, _ERASE = range(8)
_STATISTICS = {"contrast": 0, "auto_contrast": 1, "equalize": 2}
_INTERPOLATIONS = {"nearest": 0, "bilinear": 1, "bicubic": 2}
_CLIP = struct.Struct("=2Q3q13i3f")
_STEP = struct.Struct("=4Q3q6fi4x")
_OUTPUTS = {torch.uint8: "unsigned char", torch.float16: "Half", torch.bfloat16: "BFloat16", torch.float32: "float"}
# Of each statistic, how many numbers are counted.
_COUNTS = (1, 6, _TABLE)
# The kernel's operation, and where its array is.
_KINDS: dict[type, tuple[int, str]] = {
    Table: (_LOOK_UP, "values"),
    StatisticTable: (_STATISTIC, "factor"),
    ColorMatrix: (_COLOR_MATRIX, "matrix"),
    HueShift: (_HUE_SHIFT, "turns"),
    Sharpen: (_SHARPEN, "factor"),
    Warp: (_WARP, "matrix"),
    Erase: (_ERASE, "boxes"),
}


class _Arrays:
    """The arrays of all operations, one after the other, as they are sent to the GPU."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.size = 0

    def add(self, data: bytes) -> int:
        """Where it comes to lie, bytes."""
        start, padding = self.size, -len(data) % 8
        self.parts.append(data + bytes(padding) if padding else data)
        self.size += len(data) + padding
        return start


class _Results:
    """How much memory the tables take that follow from statistics, bytes, and their counts, numbers."""

    def __init__(self) -> None:
        self.tables = self.counts = 0


class _Step:
    """The launches of a step: the records of its clips, and the largest of them."""

    def __init__(self) -> None:
        self.counted: list[bytes] = []
        self._others: list[bytes] = []
        self.pixels = self.counted_pixels = self.table_rows = 0

    @property
    def records(self) -> list[bytes]:
        """As the kernels want them: those with a StatisticTable first."""
        return self.counted + self._others

    def add(
        self,
        operation: Operation | None,
        source: int,
        target: int,
        shape: tuple[int, int, int],
        last: bool,
        arrays: _Arrays,
        results: _Results,
    ) -> None:
        """One clip: its addresses, (T, H, W) of the source, and whether the target is of the output's type."""
        length, height, width = shape
        kind, variant, values, counts, factors, rows, count_rows, factor_rows = _COPY, 0, 0, 0, 0, 1, 1, 1
        boxes, samples, fill, size = 0, (1, 1), (0.0, 0.0, 0.0), (height, width)
        if operation is not None:
            kind, name = _KINDS[type(operation)]
            array = getattr(operation, name)
            rows, values = len(array), arrays.add(array.tobytes())
        if isinstance(operation, StatisticTable):
            variant, factors, factor_rows = _STATISTICS[operation.statistic], values, rows
            count_rows = length if operation.per_frame else 1
            rows, values, counts = max(factor_rows, count_rows), results.tables, results.counts
            results.tables += _TABLE * rows
            results.counts += _COUNTS[variant] * count_rows
            self.counted_pixels = max(self.counted_pixels, height * width)
            self.table_rows = max(self.table_rows, rows)
        elif isinstance(operation, Warp):
            variant, samples = _INTERPOLATIONS[operation.interpolation], operation.samples
            fill, size = operation.fill, operation.size
        elif isinstance(operation, Erase):
            boxes, fill = operation.boxes.shape[1], operation.fill
        self.pixels = max(self.pixels, size[0] * size[1])
        record = _CLIP.pack(
            source, target, values, counts, factors, kind, variant, height, width, *size, rows, count_rows, factor_rows,
            last, boxes, *samples, *fill,
        )  # fmt: skip
        (self.counted if kind == _STATISTIC else self._others).append(record)


def carry_out(works: Sequence[ClipWork], finish: Finish) -> None:
    """Do the works, all clips at once, on the current stream of their device.

    What the GPU must know goes up in one transfer, from memory that PyTorch does not use again before it is done. In
    between a clip lies in scratch memory, two pieces for each: an operation reads one and writes the other.
    """
    if not works:
        return
    steps = [_Step() for _ in range(max(max(len(work.operations), 1) for work in works))]
    arrays, results = _Arrays(), _Results()
    pieces = [_piece(work) for work in works]
    scratch = torch.empty(sum(size * count for size, count in pieces), dtype=torch.uint8, device=works[0].source.device)
    free = scratch.data_ptr()
    for work, (piece, count) in zip(works, pieces, strict=True):
        length, _, height, width = work.source.shape
        source, end = work.source.data_ptr(), max(len(work.operations), 1) - 1
        for at, operation in enumerate(work.operations or (None,)):
            target = work.target.data_ptr() if at == end else free + piece * (at % 2)
            steps[at].add(operation, source, target, (length, height, width), at == end and work.last, arrays, results)
            source = target
            if isinstance(operation, Warp):
                height, width = operation.size
        free += piece * count
    _launch(steps, arrays, results, finish, works)


def _piece(work: ClipWork) -> tuple[int, int]:
    """Bytes of a piece of scratch memory for a clip, and how many pieces it needs."""
    _, _, height, width = work.source.shape
    largest, between = 0, work.operations[:-1]
    for operation in between:
        if isinstance(operation, Warp):
            height, width = operation.size
        largest = max(largest, height * width)
    return -(-3 * len(work.source) * largest // 16) * 16, min(len(between), 2)


def _launch(
    steps: Sequence[_Step], arrays: _Arrays, results: _Results, finish: Finish, works: Sequence[ClipWork]
) -> None:
    """Send what the steps need, and start them. All memory is in the order of the stream."""
    device, length = works[0].source.device, len(works[0].source)
    output = next((finish.frames(work.target) for work in works if work.last), None)
    frame, channel, _, pixel = (0, 0, 0, 0) if output is None else output.stride()
    with torch.cuda.device(device):
        stream = torch.cuda.current_stream(device).cuda_stream
        sent = _send(b"".join([*arrays.parts, *(record for step in steps for record in step.records)]), device)
        tables = torch.empty(results.tables, dtype=torch.uint8, device=device)
        counts = torch.zeros(results.counts, dtype=torch.int64, device=device)
        records = sent.data_ptr() + arrays.size
        scale, shift = finish.output.scale_shift()
        operate = f"operate<{_OUTPUTS[finish.output.dtype]}>"
        for step in steps:
            data = _STEP.pack(
                records, sent.data_ptr(), tables.data_ptr(), counts.data_ptr(), frame, channel, pixel, *scale, *shift,
                length,
            )  # fmt: skip
            clips = len(step.records)
            if step.counted:
                grid = (-(-step.counted_pixels // _COUNTED_CHUNK), length, len(step.counted))
                _start("statistics", grid, data, device, stream)
                _start("tables", (step.table_rows, 3, len(step.counted)), data, device, stream)
            _start(operate, (-(-step.pixels // _CHUNK), length, clips), data, device, stream)
            records += clips * _CLIP.size


def _send(data: bytes, device: torch.device) -> torch.Tensor:
    """uint8 on the GPU."""
    pinned = torch.empty(len(data), dtype=torch.uint8, pin_memory=True)
    pinned.numpy()[:] = np.frombuffer(data, np.uint8)
    return pinned.to(device, non_blocking=True)


def _start(name: str, grid: tuple[int, int, int], argument: bytes, device: torch.device, stream: int) -> None:
    """Launch a kernel of the file, whose only argument is a ``Step``."""
    function = load_kernel(_SOURCE, name, _OPTIONS, device.index)
    memory = ctypes.create_string_buffer(argument, len(argument))
    arguments = (ctypes.c_void_p * 1)(ctypes.addressof(memory))
    error = cuda_driver().cuLaunchKernel(function, *grid, _THREADS, 1, 1, 0, stream, arguments, None)
    if error:
        raise DecodeError(f"a kernel of transforms cannot be launched: CUDA error {error}")
