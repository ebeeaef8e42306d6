"""Replays the transforms drawn for a clip on its masks, flow, points and boxes, or on another clip.

Inputs have the displayed size of the video, before conversion; outputs have the size of the clip's frames. Nothing is
drawn: the same geometry and operations always give the same result.

Points (x, y) are in pixels from the corner of the top left pixel, whose centre is (0.5, 0.5): pixel i of a row covers x
from i to i + 1. Points and boxes map as ``Batch.source_matrix`` says; frames and flow are interpolated there. Each
output pixel of a mask has the value of the input pixel that contains its centre, so each step that resamples is off by
at most half a pixel of its input. Frames resized by "nearest" show PyTorch's pixels, up to half a pixel of the output
and half a pixel of the input before the centre; their masks show the same pixels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeAlias

import numpy as np
import torch

from videoloader.convert.spec import Geometry, Interpolation
from videoloader.errors import ConfigurationError
from videoloader.errors.checks import check_choice, check_shape
from videoloader.transforms.backends.apply import apply_operations
from videoloader.transforms.geometry.coordinates import (
    check_in_pixels,
    geometry_matrix,
    inverse,
    map_points,
    picture_box,
)
from videoloader.transforms.geometry.tensor_geometry import apply_geometry
from videoloader.transforms.geometry.warp_matrices import Matrices
from videoloader.transforms.geometry.warping import warp_tensor
from videoloader.transforms.operations import BatchFunction, Operation, Warp

Picture: TypeAlias = Literal["frames", "mask", "flow"]
Coordinates: TypeAlias = Literal["points", "boxes"]
Kind: TypeAlias = Picture | Coordinates
Operations: TypeAlias = Sequence[Operation]
_Box: TypeAlias = tuple[int, int, int, int]


def replay_frames(frames: torch.Tensor, geometry: Geometry, operations: Operations) -> torch.Tensor:
    """Apply all transforms of a clip's frames to other frames, including colours.

    Args:
        frames: uint8[T, 3, H, W], as many frames as the clip has.
        geometry: geometry of the clip's conversion. Resizing agrees with conversion within 2/255.
        operations: operations as drawn for the clip.

    Returns:
        uint8[T, 3, H', W'].

    Raises:
        ConfigurationError: the frames have another size, number or dtype.
    """
    fits = frames.ndim == 4 and frames.shape[1] == 3 and frames.dtype == torch.uint8
    check_shape("frames", frames, fits, "torch.uint8 [T, 3, H, W]")
    return apply_operations(apply_geometry(frames, geometry)[None], [operations])[0]


def replay_masks(masks: torch.Tensor, geometry: Geometry, operations: Operations, fill: float = 0) -> torch.Tensor:
    """Move masks, or any per-pixel labels, as a clip's frames were moved. No new values arise.

    Args:
        masks: any numeric dtype or bool, [T, H, W] or [T, C, H, W].
        geometry: geometry of the clip's conversion.
        operations: operations as drawn for the clip; only those that move pixels matter.
        fill: value of pixels outside the video and in constant borders.

    Returns:
        [T, H', W'] or [T, C, H', W'] of the same type.

    Raises:
        ConfigurationError: the masks have another size or number.
    """
    check_shape("masks", masks, masks.ndim in (3, 4), "[T, H, W] or [T, C, H, W]")
    moved = apply_geometry(masks.unsqueeze(1) if masks.ndim == 3 else masks, geometry, "nearest", [fill])
    for operation in operations:
        if isinstance(operation, Warp):
            nearest = replace(_checked(operation, len(moved)), interpolation="nearest", samples=(1, 1))
            moved = warp_tensor(moved, nearest, [fill])
        elif isinstance(operation, BatchFunction) and operation.geometric is not None:
            params = {name: values[None] for name, values in operation.params.items()}
            moved = operation.geometric(moved[None], params)[0]
    return moved.squeeze(1) if masks.ndim == 3 else moved


def replay_flow(flow: torch.Tensor, geometry: Geometry, operations: Operations, step: int = 1) -> torch.Tensor:
    """Move optical flow as a clip's frames were moved, so that it is the flow of the moved frames.

    Its vectors are scaled, mirrored and rotated with the picture. Where warps differ from frame to frame, their motion
    is added: a vector ends where its end appears in the frame that it points to.

    Args:
        flow: float[T, 2, H, W]: (x, y) in pixels from each pixel to its position in another frame.
        geometry: geometry of the clip's conversion.
        operations: operations as drawn for the clip.
        step: distance from a frame to the one that its flow points to: 1 is the next, -1 the one before. Flow that
            points outside the clip counts as pointing to its first or last frame.

    Returns:
        float[T, 2, H', W'] of the same dtype; 0 where nothing of the video is visible.

    Raises:
        ConfigurationError: the flow has another size, number or dtype, or an operation moves pixels other than by a
            matrix.
    """
    fits = flow.ndim == 4 and flow.shape[1] == 2 and flow.is_floating_point()
    check_shape("flow", flow, fits, "floats [T, 2, H, W]")
    if geometry.border is not None:
        geometry = replace(geometry, border=replace(geometry.border, mode="constant"))
    interpolation: Interpolation = "nearest" if geometry.interpolation == "nearest" else "bilinear"
    scale = 1 / np.diagonal(geometry_matrix(geometry))[:2]
    moved = apply_geometry(flow, geometry, interpolation, [0.0]) * torch.from_numpy(scale).to(flow)[:, None, None]
    for warp in _warps(operations):
        moved = _warped_flow(moved, _checked(warp, len(moved)), step)
    return moved


def replay_points(
    points: torch.Tensor, geometry: Geometry, operations: Operations
) -> tuple[torch.Tensor, torch.Tensor]:
    """Map points of the video into a clip's frames.

    Args:
        points: [..., 2] of (x, y), pixels from the corner of the top left pixel, whose centre is at (0.5, 0.5). Where a
            warp differs from frame to frame: [T, ..., 2].
        geometry: geometry of the clip's conversion.
        operations: operations as drawn for the clip.

    Returns:
        [..., 2] in the same form, float32 or the wider dtype of the input; and bool[...], whether they are visible.

    Raises:
        ConfigurationError: the points have another shape, or an operation moves pixels other than by a matrix.
    """
    check_shape("points", points, points.shape[-1:] == (2,), "[..., 2]")
    check_in_pixels(points, "video")
    shown = torch.ones(points.shape[:-1], dtype=torch.bool, device=points.device)
    for matrix, (top, left, height, width) in _forward(geometry, operations):
        points = _mapped(points, matrix)
        x, y = points.unbind(-1)
        shown &= (x >= left) & (x <= left + width) & (y >= top) & (y <= top + height)
    return points, shown


def replay_boxes(boxes: torch.Tensor, geometry: Geometry, operations: Operations) -> tuple[torch.Tensor, torch.Tensor]:
    """Map boxes of the video into a clip's frames: the smallest boxes around their visible parts.

    Args:
        boxes: [..., 4] of (x1, y1, x2, y2); see ``replay_points``.
        geometry: geometry of the clip's conversion.
        operations: operations as drawn for the clip.

    Returns:
        [..., 4] in the same form, clipped to the picture; and bool[...], whether anything is left.

    Raises:
        ConfigurationError: the boxes have another shape, a box on the CPU ends before it starts, or an operation
            moves pixels other than by a matrix.
    """
    check_shape("boxes", boxes, boxes.shape[-1:] == (4,), "[..., 4]")
    check_in_pixels(boxes, "video")
    # Conversion keeps boxes upright. After warps, what is visible of one is a convex polygon.
    (matrix, (top, left, height, width)), *warps = _forward(geometry, operations)
    boxes = _mapped(boxes, matrix)
    first = boxes.new_tensor([left, top, left, top])
    boxes = torch.minimum(torch.maximum(boxes, first), first + first.new_tensor([width, height, width, height]))
    low, high = boxes[..., :2], boxes[..., 2:]
    shown = (high > low).all(-1)
    corners = torch.stack([boxes[..., [0, 2, 2, 0]], boxes[..., [1, 1, 3, 3]]], -1)
    for matrix, (top, left, height, width) in warps:
        corners = _mapped(corners, matrix)
        for axis, bound, sign in ((0, left, 1), (0, left + width, -1), (1, top, 1), (1, top + height, -1)):
            corners = _cut(corners, axis, bound, sign)
        low, high = corners.amin(-2), corners.amax(-2)
        shown &= (high > low).all(-1)
    return torch.cat([low, high], -1), shown


def _cut(corners: torch.Tensor, axis: int, bound: float, sign: int) -> torch.Tensor:
    """Return the parts of convex polygons on one side of a line (Sutherland and Hodgman, 1974).

    Args:
        corners: [..., V, 2], the corners of each polygon in order.
        axis, bound, sign: the side: ``sign`` times the coordinate is at least ``sign`` times ``bound``.

    Returns:
        [..., V + 1, 2]. Corners may come several times. If nothing is left, all lie on the line.
    """
    before = corners.roll(1, -2)
    height, height_before = (sign * (each[..., axis] - bound) for each in (corners, before))
    inside, crosses = height >= 0, (height >= 0) != (height_before >= 0)
    share = torch.where(crosses, height_before / (height_before - height), 0.0)
    crossing = before + share[..., None] * (corners - before)
    crossing[..., axis] = bound
    # Each side of the polygon gives its crossing and its end, where there are such. These come first, in order.
    found = torch.stack([crosses, inside], -1).flatten(-2)
    place = torch.sort(found.byte(), dim=-1, descending=True, stable=True).indices[..., : corners.shape[-2] + 1]
    last = (found.sum(-1, keepdim=True) - 1).clamp(min=0)
    place = place.gather(-1, torch.minimum(torch.arange(place.shape[-1], device=place.device), last))
    points = torch.stack([crossing, corners], -2).flatten(-3, -2)
    cut = points.gather(-2, place[..., None].expand(*place.shape, 2))
    # Only of polygons that lie outside does this move a corner.
    cut[..., axis] = cut[..., axis].clamp(**{"min" if sign > 0 else "max": bound})
    return cut


_REPLAYS: dict[str, Any] = {
    "frames": replay_frames,
    "mask": replay_masks,
    "flow": replay_flow,
    "points": replay_points,
    "boxes": replay_boxes,
}


def replay(tensor: torch.Tensor, geometry: Geometry, operations: Operations, kind: Kind) -> Any:
    """Replay on a tensor of some kind what was drawn for a clip.

    Args:
        tensor, geometry, operations: see ``replay_frames``, ``replay_masks``, ``replay_flow``, ``replay_points`` and
            ``replay_boxes``.
        kind: one of these kinds.

    Returns:
        The result of that function: a tensor; for points and boxes also which of them are visible.

    Raises:
        ConfigurationError: there is no such kind, or the tensor does not have its form.
    """
    check_choice("kind", kind, _REPLAYS)
    return _REPLAYS[kind](tensor, geometry, operations)


def _forward(geometry: Geometry, operations: Operations) -> Iterator[tuple[Matrices, _Box]]:
    """For each step, float64[F, 3, 3] from input to output, and the box of the picture in its output."""
    yield inverse(geometry_matrix(geometry))[None], picture_box(geometry)
    for warp in _warps(operations):
        yield inverse(warp.matrix), (0, 0, *warp.size)


def _warps(operations: Operations) -> Iterator[Warp]:
    for operation in operations:
        if isinstance(operation, BatchFunction) and operation.geometric is not None:
            raise ConfigurationError("a batch function moves pixels in an unknown way, so only masks can be replayed")
        if isinstance(operation, Warp):
            yield operation


def _checked(warp: Warp, frames: int) -> Warp:
    if len(warp.matrix) not in (1, frames):
        raise ConfigurationError(f"the clip has {len(warp.matrix)} frames, each warped in its own way; not {frames}")
    return warp


def _mapped(points: torch.Tensor, matrix: Matrices) -> torch.Tensor:
    if len(matrix) == 1:
        return map_points(points[None], matrix)[0]
    wanted = f"[{len(matrix)}, ..., {points.shape[-1]}], as frames are warped one by one"
    check_shape("points", points, points.ndim > 1, wanted)
    return map_points(points, matrix)


def _warped_flow(flow: torch.Tensor, warp: Warp, step: int) -> torch.Tensor:
    frames = len(flow)
    matrix = np.broadcast_to(warp.matrix, (frames, 3, 3))
    target = matrix[np.clip(np.arange(frames) + step, 0, frames - 1)]
    y, x = (torch.arange(side, dtype=torch.float64, device=flow.device) + 0.5 for side in warp.size)
    ends = torch.stack(torch.meshgrid(x, y, indexing="xy"), -1).expand(frames, -1, -1, -1)
    starts = map_points(ends, matrix)
    vectors = warp_tensor(flow, replace(warp, extend=True), [0.0]).permute(0, 2, 3, 1)
    moved = map_points(starts + vectors, inverse(target)) - ends
    inside = (starts >= 0) & (starts <= starts.new_tensor([flow.shape[3], flow.shape[2]])) & moved.isfinite()
    return torch.where(inside.all(-1, keepdim=True), moved, 0.0).permute(0, 3, 1, 2).to(flow.dtype)
