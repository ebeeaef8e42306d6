"""The CUDA kernel's argument, which can be checked without a GPU. The rest is in tests/gpu."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.converting import convert_surface

from videoloader.convert import cuda, plan
from videoloader.convert.filters import FILTERS
from videoloader.convert.spec import ColorSpec, Conversion, Geometry, OutputSpec
from videoloader.convert.surface import CudaSurface, SurfaceLayout, nvdec_layout, pixel_format, planes_layout
from videoloader.errors import ConfigurationError, UnsupportedError

COLOR, GEOMETRY = ColorSpec("bt709", False), Geometry((0, 0, 48, 64), (8, 8))


def test_no_gpu_package_is_imported() -> None:
    assert "cupy" not in sys.modules


def fields_of(code: str, struct: str) -> list[str]:
    body = code[code.index(f"struct {struct} {{") :].split("};")[0]
    return [
        re.sub(r"\[\d+\]", "", name.strip())
        for names in re.findall(r"^    (?:long long|int|float|Axis) ([^;]+);", body, re.MULTILINE)
        for name in names.split(",")
    ]


def test_constants_and_fields_are_the_kernels() -> None:
    folder = Path(cuda.__file__).parent
    code = (folder / "pixels.h").read_text() + (folder / "convert.cu").read_text()
    constants = {name: int(value) for name, value in re.findall(r"constexpr int (\w+) = (\d+);", code)}
    assert constants == {
        "THREADS": cuda._THREADS,
        "ROWS": cuda._ROWS,
        "MAX_TILE": cuda._MAX_TILE,
        "MAX_PICTURES": cuda._MAX_PICTURES,
    }
    assert 2 * cuda._THREADS == cuda._CHUNK
    assert fields_of(code, "Plan") == list(plan.PLAN.names or ())
    assert fields_of(code, "Axis") == list(plan.AXIS.names or ())
    *filters, count = re.findall(r"\w+", code[code.index("enum Filter {") + 13 :].split("}")[0])
    assert count == "FILTER_COUNT"
    assert {name for each in FILTERS.values() for name in each.kernels} == set(filters)


@pytest.mark.parametrize("turns", range(4))
@pytest.mark.parametrize("flip", [False, True])
def test_rotation_and_flip_are_strides(turns: int, flip: bool) -> None:
    picture = np.arange(15).reshape(3, 5)
    shown = np.rot90(picture, -turns)[:, ::-1] if flip else np.rot90(picture, -turns)
    slot = np.full(100, -1)
    start, down, right = plan._oriented((3, 5), turns, flip, (0, 2 * shown.shape[1], 2))
    for y, x in np.ndindex(3, 5):
        slot[start + y * down + x * right] = picture[y, x]
    assert (slot[: 2 * shown.size : 2].reshape(shown.shape) == shown).all()


NV12 = nvdec_layout(64, 48, 64, "nv12", 8)


@pytest.mark.parametrize(
    ("layout", "name"),
    [
        (NV12._replace(pitch=62), "pitch"),
        (NV12._replace(width=63, pitch=63, chroma_pitch=63), "pitch"),
        (NV12._replace(pitch=2**30), "2³¹"),
        (NV12._replace(bit_depth=10), "bit_depth"),
        (NV12._replace(sample_bytes=2), "bit_depth"),
        (NV12._replace(sample_bytes=2, bit_depth=10, code_shift=7), "code_shift"),
        (NV12._replace(height=40), "crop"),
    ],
)
def test_bad_layouts(layout: SurfaceLayout, name: str) -> None:
    with pytest.raises(ConfigurationError, match=name):
        cuda._launch(layout, Conversion(COLOR, 0, False, GEOMETRY, OutputSpec()), (64, 8, 1), 0)


def test_bad_pitch_of_nvdec() -> None:
    with pytest.raises(ConfigurationError, match="pitch"):
        nvdec_layout(64, 48, 129, "p016", 10)


def test_bad_slot_and_matrix() -> None:
    identity = Conversion(ColorSpec("identity", True), 0, False, GEOMETRY, OutputSpec())
    with pytest.raises(ConfigurationError, match="identity"):
        cuda._launch(NV12, identity, (64, 8, 1), 0)
    with pytest.raises(ConfigurationError, match="slot"):
        convert_surface(CudaSurface(0, NV12), COLOR, 0, False, GEOMETRY, OutputSpec(), torch.empty(3, 8, 8), 0)


@pytest.mark.parametrize("pixels", ["gbrp", "gbrap12le", "yuv444p"])
def test_rgb_pictures_have_no_ycbcr(pixels: str) -> None:
    planes = pixel_format(pixels)
    assert planes
    conversion = Conversion(ColorSpec("identity", True), 0, False, GEOMETRY, OutputSpec(color="ycbcr"))
    with pytest.raises(UnsupportedError, match="Y'CbCr"):
        plan.conversion_plan(planes_layout(planes, 64, 48)[0], conversion, (64, 8, 1))
