"""Applies the geometry of a conversion to tensors that are not part of the video: masks, flow, frames."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from videoloader.convert.border import extend_picture, fill_border
from videoloader.convert.resize import central_pixels, filter_weights, nearest_pixels
from videoloader.convert.rounding import round_to
from videoloader.convert.spec import Geometry, Interpolation
from videoloader.errors import ConfigurationError

_SIGNED = {torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}


def apply_geometry(
    frames: torch.Tensor,
    geometry: Geometry,
    interpolation: Interpolation | None = None,
    fill: Sequence[float] | None = None,
) -> torch.Tensor:
    """Crop, resize, flip and pad frames as a conversion does.

    Args:
        frames: any numeric dtype, [T, C, H, W], in the displayed size of the video.
        geometry: geometry of the conversion.
        interpolation: replacement for the geometry's interpolation. ``"nearest"`` takes the same pixels as the geometry
            if that is nearest, too; otherwise those that contain the centres of the output's pixels.
        fill: one value for each channel, or one for all, in place of the border's colour.

    Returns:
        [T, C, *geometry.output_size] of the same dtype: integers are rounded to the nearest, halves up, and clamped to
        the range of the dtype.

    Raises:
        ConfigurationError: the crop reaches outside the frames.
    """
    top, left, rows, columns = geometry.crop
    if top + rows > frames.shape[2] or left + columns > frames.shape[3]:
        raise ConfigurationError(
            f"the clip shows {geometry.crop} (top, left, height, width) of its video, which is not in "
            f"{frames.shape[2]}×{frames.shape[3]}: give what is in the video's size"
        )
    picture = frames[:, :, top : top + rows, left : left + columns]
    if geometry.size != (rows, columns):
        picture = _resized(picture, geometry, interpolation or geometry.interpolation)
    elif geometry.window is not None:
        top, left, rows, columns = geometry.window
        picture = picture[:, :, top : top + rows, left : left + columns]
    turned = [axis for axis, turn in ((2, geometry.flip_vertical), (3, geometry.flip)) if turn]
    picture = as_signed(picture).flip(turned).view(picture.dtype) if turned else picture
    border = geometry.border
    if border is None:
        return picture.clone() if picture.data_ptr() == frames.data_ptr() else picture.contiguous()
    result = frames.new_empty(*frames.shape[:2], *geometry.output_size)
    planes = result.flatten(0, 1)
    border.picture(planes).copy_(picture.flatten(0, 1))
    if border.mode == "constant":
        values = torch.as_tensor(border.fill if fill is None else fill, dtype=torch.float64, device=frames.device)
        fill_border(planes, border, values.to(frames.dtype).expand(frames.shape[1]).repeat(len(frames)))
    else:
        extend_picture(planes, border)
    return result


def as_signed(tensor: torch.Tensor) -> torch.Tensor:
    """The same memory as signed integers if it holds unsigned ones, most of which PyTorch cannot flip or gather."""
    return tensor.view(_SIGNED.get(tensor.dtype, tensor.dtype))


def _resized(picture: torch.Tensor, geometry: Geometry, interpolation: Interpolation) -> torch.Tensor:
    """The window of the resized picture."""
    sides = zip(picture.shape[2:], geometry.size, strict=True)
    top, left, height, width = geometry.window or (0, 0, *geometry.size)
    spans = slice(top, top + height), slice(left, left + width)
    if interpolation == "nearest":
        # A picture resized by "nearest" shows PyTorch's pixels, up to half an output pixel before the centre.
        pixels = nearest_pixels if geometry.interpolation == "nearest" else central_pixels
        rows, columns = (
            torch.from_numpy(pixels(*side)[span]).to(picture.device) for side, span in zip(sides, spans, strict=True)
        )
        return picture[:, :, rows[:, None], columns]
    # A GPU may multiply float32 with less precision (TF32), if PyTorch is so configured for training.
    dtype = torch.float64 if picture.is_cuda else torch.promote_types(picture.dtype, torch.float32)
    down, across = (
        torch.from_numpy(filter_weights(*side, interpolation, geometry.antialias)[span]).to(picture.device, dtype)
        for side, span in zip(sides, spans, strict=True)
    )
    with torch.autocast("cpu", enabled=False):  # a training loop may have it on; on a GPU it leaves float64 alone
        return round_to(down @ (picture.to(dtype) @ across.T), picture.dtype)
