"""Conversions of single pictures, for tests that convert one at a time."""

from __future__ import annotations

import av
import torch

from videoloader.convert.cpu import convert_frames
from videoloader.convert.cuda import convert_surfaces
from videoloader.convert.spec import ColorSpec, Conversion, Geometry, OutputSpec
from videoloader.convert.surface import CudaSurface


def convert_frame(
    frame: av.VideoFrame,
    color: ColorSpec,
    rotation: int,
    mirrored: bool,
    geometry: Geometry,
    output: OutputSpec,
    slot: torch.Tensor,
) -> None:
    """Write a decoded frame into a slot [3, H, W]; see ``convert_frames``."""
    convert_frames([frame], Conversion(color, rotation, mirrored, geometry, output), slot[None], [0])


def convert_surface(
    surface: CudaSurface,
    color: ColorSpec,
    rotation: int,
    mirrored: bool,
    geometry: Geometry,
    output: OutputSpec,
    slot: torch.Tensor,
    stream: int,
) -> None:
    """Write a surface into a slot [3, H, W]; see ``convert_surfaces``."""
    convert_surfaces([surface], Conversion(color, rotation, mirrored, geometry, output), slot[None], [0], stream)
