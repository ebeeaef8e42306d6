"""Convert decoded pictures to RGB in batch slots, with crop, resize, flip, number type and layout, in one pass."""

from videoloader.convert.border import Border, extend_picture, fill_border
from videoloader.convert.cpu import convert_frame, convert_frames
from videoloader.convert.cuda import PICTURE_PLAN, convert_each, convert_surface, convert_surfaces, picture_plan
from videoloader.convert.native import native_code
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
from videoloader.convert.surface import CudaSurface, SurfaceLayout, nvdec_layout
from videoloader.convert.swscale import FilterGraphs, by_graphs
from videoloader.convert.upload import copy_surface, upload_frame

__all__ = [
    "PICTURE_PLAN",
    "Border",
    "Color",
    "ColorSpec",
    "CudaSurface",
    "FilterGraphs",
    "Geometry",
    "Interpolation",
    "Layout",
    "OutputSpec",
    "SurfaceLayout",
    "by_graphs",
    "color_spec",
    "convert_each",
    "convert_frame",
    "convert_frames",
    "convert_surface",
    "convert_surfaces",
    "copy_surface",
    "extend_picture",
    "fill_border",
    "fill_color",
    "fill_pixel",
    "full_geometry",
    "hdr_transfer",
    "native_code",
    "nvdec_layout",
    "picture_plan",
    "upload_frame",
]
