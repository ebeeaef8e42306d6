"""Convert libav's frames on the CPU, with native code, or with libswscale (to RGB) and PyTorch (resize)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby

import av
import av.error
import numpy as np
import torch

from videoloader.convert.filters import FILTERS
from videoloader.convert.native import convert_host_surfaces, host_surface
from videoloader.convert.plan import check_slots
from videoloader.convert.resize import needed_part, resize, take_nearest
from videoloader.convert.rounding import to_uint8
from videoloader.convert.spec import Conversion, Interpolation, OutputSpec, Samples, source_view
from videoloader.convert.swscale import format_facts, part_of_frame
from videoloader.errors import UnsupportedError


def convert_frames(
    frames: Sequence[av.VideoFrame],
    conversion: Conversion,
    slots: torch.Tensor,
    positions: Sequence[int],
) -> None:
    """Write decoded frames into slots of a batch, in one call of native code if there is any.

    Native code has float precision throughout. Without it, and for the formats that it does not take, a bilinear resize
    works on 8 bits unless it enlarges a picture of more than 8 bits, so results are within 2/255 of the exact ones.

    Args:
        frames: frames of one video, of any pixel format of libav that lies in memory.
        conversion: the way in which they become pixels.
        slots: [N, 3, H, W] on the CPU with ``output.dtype``, any strides; H, W must be ``geometry.picture_size``.
        positions: index of each frame's slot.

    Raises:
        ConfigurationError: the slots do not fit, the crop reaches outside the frames, or the matrix is identity and the
            frames are Y'CbCr.
        UnsupportedError: a frame is on a GPU, libswscale does not know its format, or Y'CbCr is wanted from an RGB
            frame.
    """
    check_slots(slots, conversion, "cpu")
    surfaces = [(host_surface(frame), frame, at) for frame, at in zip(frames, positions, strict=True)]
    for layout, some in groupby(surfaces, lambda each: each[0] and each[0].layout):
        if layout is None:
            for _, frame, at in some:
                _convert_by_libswscale(frame, conversion, slots[at])
        else:
            alike, _, places = zip(*some, strict=True)
            convert_host_surfaces(alike, conversion, slots, places)


def _convert_by_libswscale(frame: av.VideoFrame, conversion: Conversion, slot: torch.Tensor) -> None:
    color, rotation, mirrored, geometry, output = conversion
    view = source_view(geometry, rotation, mirrored, frame.height, frame.width)
    crop, size, window = needed_part(view.crop, view.size, view.window, geometry.interpolation)
    deep = max(format_facts(frame.format.name).bits, default=8) > 8
    floats = _needs_floats(crop[2:], size, geometry.interpolation, output.dtype, deep)
    try:
        image = part_of_frame(frame, color, crop, output.color, floats, packed=crop[2:] != size)
    except av.error.FFmpegError as error:
        raise UnsupportedError(f"libswscale does not convert {frame.format.name}: {error.strerror}") from error
    if geometry.interpolation == "nearest":
        # Nearest counts from the first pixel shown, so the picture must be turned first.
        image = take_nearest(
            _turned(image, rotation // 90, mirrored), geometry.size, geometry.window or (0, 0, *geometry.size)
        )
        image = image[:, :: -1 if geometry.flip_vertical else 1, :: -1 if geometry.flip else 1]
    else:
        image = resize(image, size, geometry.interpolation, geometry.antialias)
        top, left, height, width = window
        image = _turned(image[:, top : top + height, left : left + width], view.turns, view.flip)
    _write(image, output, slot)


def _needs_floats(
    source: tuple[int, int], target: tuple[int, int], interpolation: Interpolation, dtype: torch.dtype, deep: bool
) -> bool:
    """Whether 8 bits in between are not enough, or would save no time."""
    if source == target or interpolation == "nearest":
        return dtype.is_floating_point and target[0] * target[1] >= source[0] * source[1]
    # Where many pixels make one, rounding errors cancel out; and with 8-bit samples, one more rounding is not visible.
    return FILTERS[interpolation].overshoots or (
        deep and any(to > from_ for to, from_ in zip(target, source, strict=True))
    )


def _turned(image: Samples, turns: int, flip: bool) -> Samples:
    """Return a view turned clockwise and then flipped left to right."""
    image = np.rot90(image, -turns, (1, 2)) if turns else image
    return image[:, :, ::-1] if flip else image


def _write(image: Samples, output: OutputSpec, slot: torch.Tensor) -> None:
    """Write values of [1 | 3 | 4, H, W] as numbers of the output."""
    planes = [image[i if len(image) > 1 else 0] for i in range(3)]
    if image.dtype == np.float32:
        scale, shift = output.scale_shift()
        for i, plane in enumerate(planes):
            values = plane * scale[i] + shift[i]
            slot[i].copy_(torch.from_numpy(to_uint8(values * 255) if output.dtype == torch.uint8 else values))
        return
    # Write the bits as integers, since numpy lacks bfloat16 and is slow at converting floats to float16.
    target = slot.view(_bits_type(output.dtype)).numpy()
    if output.dtype == torch.uint8:
        for i, plane in enumerate(planes):
            target[i] = plane
        return
    table = _table(output)
    for i, plane in enumerate(planes):
        np.take(table[i], plane, out=target[i], mode="clip")


@lru_cache(16)
def _table(output: OutputSpec) -> Samples:
    """Return the bits of the output for each 8-bit value, [3, 256]."""
    scale, shift = (torch.from_numpy(values).double()[:, None] for values in output.scale_shift())
    table = (torch.arange(256, dtype=torch.float64, device="cpu") / 255 * scale + shift).to(output.dtype)
    bits: Samples = table.view(_bits_type(output.dtype)).numpy()
    return bits


def _bits_type(dtype: torch.dtype) -> torch.dtype:
    return {1: torch.uint8, 2: torch.int16, 4: torch.int32}[dtype.itemsize]
