"""Decoded pictures to RGB in a batch slot, in one pass: colours, crop, resize, flip, number type, layout."""

from videoloader.convert.border import Border, extend_picture, fill_border
from videoloader.convert.cpu import convert_frame
from videoloader.convert.cuda import convert_surface, convert_surfaces
from videoloader.convert.spec import (
    Color,
    ColorSpec,
    Geometry,
    Interpolation,
    Layout,
    OutputSpec,
    color_spec,
    fill_color,
    fill_pixel,
    full_geometry,
    hdr_transfer,
)
from videoloader.convert.surface import CudaSurface, nvdec_layout
from videoloader.convert.upload import copy_surface, upload_frame

__all__ = [
    "Border",
    "Color",
    "ColorSpec",
    "CudaSurface",
    "Geometry",
    "Interpolation",
    "Layout",
    "OutputSpec",
    "color_spec",
    "convert_frame",
    "convert_surface",
    "convert_surfaces",
    "copy_surface",
    "extend_picture",
    "fill_border",
    "fill_color",
    "fill_pixel",
    "full_geometry",
    "hdr_transfer",
    "nvdec_layout",
    "upload_frame",
]
