"""Frames with given sample values in every pixel format that the CUDA kernel or native code takes."""

from __future__ import annotations

from collections.abc import Sequence

import av
import numpy as np
import numpy.typing as npt
from convert import reference

from videoloader.convert.surface import PixelFormat, pixel_format

DEEP = (9, 10, 12, 14, 16)
CANDIDATES = [
    *(f"yuv{kind}{chroma}p{depth}" for kind in ("", "j", "a") for chroma in ("420", "422", "440", "444", "411", "410")
      for depth in ("", *(f"{bits}le" for bits in DEEP))),
    *(f"{name}{depth}" for name in ("gray", "gbrp", "gbrap") for depth in ("", *(f"{bits}le" for bits in DEEP))),
    "nv12", "nv21", "nv16", "nv24", "nv42", "nv20le",
    *(f"p{chroma}{depth}le" for chroma in "024" for depth in (10, 12, 16)),
]  # fmt: skip
FORMATS = [name for name in CANDIDATES if name in av.video.format.names]
# These only native code takes.
PACKED = [
    "rgb24", "bgr24", "rgba", "bgra", "argb", "abgr", "rgb0", "bgr0", "0rgb", "0bgr", "ya8",
    "rgb48le", "bgr48le", "rgba64le", "bgra64le", "ya16le",
]  # fmt: skip


def frame_of(planes: Sequence[npt.NDArray[np.uint16]], pixels: PixelFormat, name: str) -> av.VideoFrame:
    """A frame of any of these formats; alpha and what lies beyond the rows' ends are random."""
    height, width = planes[0].shape
    frame = av.VideoFrame(width, height, name)
    stored = [plane << pixels.code_shift for plane in planes]
    if pixels.planes == 2:
        interleaved = np.empty((stored[1].shape[0], 2 * stored[1].shape[1]), np.uint16)
        interleaved[:, int(pixels.swapped) :: 2], interleaved[:, 1 - int(pixels.swapped) :: 2] = stored[1:]
        stored[1:] = [interleaved]
    if pixels.packed:
        places = [pixels.packed.index(each) for each in ("y" if pixels.model == "gray" else "gbr")]
        pixel = np.random.default_rng(0).integers(0, 256, (height, width, len(pixels.packed)), np.uint16)
        for place, component in zip(places, stored, strict=True):
            pixel[:, :, place] = component
        stored = [pixel.reshape(height, -1)]
    for i, target in enumerate(frame.planes):
        dtype = np.dtype("u2" if pixels.bit_depth > 8 else "u1")
        rows = np.frombuffer(memoryview(target), dtype).reshape(target.height, -1)
        rows[...] = np.random.default_rng(i).integers(0, 256, rows.shape)
        if i < len(stored):
            rows[:, : stored[i].shape[1]] = stored[i]
    return frame


def random_picture(name: str, height: int, width: int, seed: int) -> tuple[list[npt.NDArray[np.uint16]], PixelFormat]:
    pixels = pixel_format(name)
    assert pixels
    factors = (1 << pixels.subsampling[0], 1 << pixels.subsampling[1])
    rng = np.random.default_rng(seed)
    planes = reference.random_planes(rng, height, width, bit_depth=pixels.bit_depth, factors=factors)
    return planes[: 1 if pixels.model == "gray" else 3], pixels
