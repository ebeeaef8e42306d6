"""Carries out operations on a batch of clips on any device."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias, get_args

import numpy as np
import torch

from videoloader.convert.spec import Interpolation, Layout, OutputSpec, as_planes, shape_in
from videoloader.errors import ConfigurationError
from videoloader.errors.checks import check, check_choice, check_shape
from videoloader.errors.notes import note, note_rows
from videoloader.transforms.backends import cpu as cpu_operations
from videoloader.transforms.backends import cuda as cuda_operations
from videoloader.transforms.backends.work import ClipWork
from videoloader.transforms.operations import (
    ARRAYS,
    IN_TRANSFORM,
    BatchFunction,
    Erase,
    Operation,
    Statistic,
    StatisticTable,
    Warp,
    not_an_operation,
)

Program: TypeAlias = Sequence[Operation]

_STATISTICS, _INTERPOLATIONS = get_args(Statistic), get_args(Interpolation)
# The most pixels of a frame: the kernels count them in 32 bits.
_MOST_PIXELS = 2**30


class _Waiting(NamedTuple):
    """A clip that has reached a ``BatchFunction``.

    Attributes:
        clip: number of the clip in the batch.
        source: uint8[N, T, 3, H, W], the current frames.
        row: row of the clip in ``source``.
        before: steps before the function.
        function: the function.
        after: steps after the function.
    """

    clip: int
    source: torch.Tensor
    row: int
    before: Program
    function: BatchFunction
    after: Program


def apply_operations(
    frames: torch.Tensor, programs: Sequence[Program], output: OutputSpec | None = None, layout: Layout = "TCHW"
) -> torch.Tensor:
    """Carry out each clip's operations. CPU and CUDA give the same results, bit for bit.

    On a GPU, step s does the s-th operation of all clips in one kernel (after two small ones if a ``StatisticTable`` is
    among them), on the current stream, without waiting for anything. A ``BatchFunction`` is deferred until no clip has
    anything else to do, and runs once for all clips that have reached the same function with frames of the same size.

    Args:
        frames: uint8[B, T, 3, H, W], contiguous; they are not changed.
        programs: operations of each clip, in order, of any length.
        output: dtype and normalisation of the result, by default uint8. Its colour settings are ignored.
        layout: layout of the result.

    Returns:
        [B, T, 3, H', W'] of ``output.dtype``, or with the layout's order of the last four dimensions: new memory, or
        ``frames`` if there is nothing to do.

    Raises:
        ConfigurationError: frames or an operation's arrays have another shape or dtype, or output sizes differ between
            clips.
    """
    _check_frames(frames, programs)
    clips, length, _, height, width = frames.shape
    sizes = {_checked_size(program, length, (height, width)) for program in programs}
    if len(sizes) > 1:
        wanted = "end them with a Resize or a crop"
        raise ConfigurationError(f"after their transforms, clips of one batch have sizes {sorted(sizes)}: {wanted}")
    output = output or OutputSpec()
    if not any(programs) and output.dtype == torch.uint8 and layout == "TCHW":
        return frames
    shape = shape_in(layout, length, *(sizes.pop() if sizes else (height, width)))
    result = torch.empty((clips, *shape), dtype=output.dtype, device=frames.device)
    if not frames.numel():
        return result
    target = as_planes(result, layout)
    carry_out = cuda_operations.carry_out if frames.is_cuda else cpu_operations.carry_out
    left = [(clip, frames, clip, program) for clip, program in enumerate(programs)]
    while left:
        works: list[ClipWork] = []
        groups: defaultdict[Any, list[_Waiting]] = defaultdict(list)
        for clip, source, row, program in left:
            size = source.shape[-2], source.shape[-1]
            for at, operation in enumerate(program):
                if type(operation) is BatchFunction:
                    waiting = _Waiting(clip, source, row, program[:at], operation, program[at + 1 :])
                    groups[id(operation.function), size].append(waiting)
                    break
                size = operation.size if type(operation) is Warp else size
            else:
                works.append(ClipWork(source, row, program, target, clip, True))
        gathered = {key: _gather(members, key[1], works) for key, members in groups.items()}
        carry_out(works, output)
        left = []
        for key, members in groups.items():
            with note_rows([each.clip for each in members]), note(IN_TRANSFORM, members[0].function.function):
                batch = _call([each.function for each in members], gathered[key])
            left += [(each.clip, batch, row, each.after) for row, each in enumerate(members)]
    return result


def _gather(members: Sequence[_Waiting], size: tuple[int, int], works: list[ClipWork]) -> torch.Tensor:
    """Allocate memory for the clips that a function gets together, and add the works that fill it."""
    source = members[0].source
    batch = torch.empty((len(members), source.shape[1], 3, *size), dtype=torch.uint8, device=source.device)
    works += [ClipWork(each.source, each.row, each.before, batch, row, False) for row, each in enumerate(members)]
    return batch


def _call(operations: Sequence[BatchFunction], frames: torch.Tensor) -> torch.Tensor:
    """Call the common function of these operations on their clips."""
    function, shape = operations[0].function, frames.shape
    params = {name: np.stack([each.params[name] for each in operations]) for name in operations[0].params}
    result = function(frames, params)
    is_dense = result.layout is torch.strided
    if not is_dense or result.shape != shape or result.dtype != torch.uint8 or result.device != frames.device:
        kind = result.dtype if is_dense else f"{result.layout} of {result.dtype}"
        raise ConfigurationError(
            f"{getattr(function, '__name__', function)} gave {kind} {list(result.shape)} on {result.device} "
            f"for torch.uint8 {list(shape)} on {frames.device}"
        )
    return result.contiguous()


def _checked_size(program: Program, length: int, size: tuple[int, int]) -> tuple[int, int]:
    """Check a clip's operations, and return the (height, width) after them."""
    for operation in program:
        kind = type(operation)
        if kind not in ARRAYS:
            if kind is not BatchFunction:
                raise not_an_operation(operation)
            continue
        name, dtype, shape = ARRAYS[kind]
        array = getattr(operation, name)
        # There may be any number of boxes.
        rest = array.shape[2:] if kind is Erase else array.shape[1:]
        if array.dtype != dtype or array.ndim < 1 or len(array) not in (1, length) or rest != shape:
            boxes = ["N"] if kind is Erase else []
            wanted = ", ".join([f"1 or {length}", *boxes, *map(str, shape)])
            check_shape(f"{kind.__name__}.{name}", array, False, f"{dtype} [{wanted}]")
        if type(operation) is Warp:
            size = operation.size
            if min(*size, *operation.samples) < 1 or size[0] * size[1] > _MOST_PIXELS:
                raise ConfigurationError(f"Warp cannot make frames of {size} with samples {operation.samples}")
            check_choice("interpolation", operation.interpolation, _INTERPOLATIONS)
        elif type(operation) is StatisticTable:
            check_choice("statistic", operation.statistic, _STATISTICS)
    return size


def _check_frames(frames: torch.Tensor, programs: Sequence[Program]) -> None:
    fits = frames.dtype == torch.uint8 and frames.ndim == 5 and frames.shape[2] == 3 and min(frames.shape[3:]) > 0
    check_shape("frames", frames, fits, "torch.uint8 [B, T, 3, H, W]")
    if not frames.is_contiguous() or frames.shape[3] * frames.shape[4] > _MOST_PIXELS:
        raise ConfigurationError("frames must be contiguous, and of at most 2³⁰ pixels each")
    check("the lists of operations", len(programs), len(programs) == len(frames), f"{len(frames)}, one a clip")
