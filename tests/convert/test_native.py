"""Native CPU code against the float64 reference: exact for every format, however it is called."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from convert import reference
from convert.planar_frames import FORMATS, PACKED, frame_of, random_picture
from example_count import examples
from helpers.converting import convert_frame
from hypothesis import given, settings
from hypothesis import strategies as st

from videoloader.convert import native
from videoloader.convert.cpu import convert_frames
from videoloader.convert.native import native_code
from videoloader.convert.spec import ColorSpec, Conversion, Geometry, OutputSpec
from videoloader.convert.surface import PixelFormat
from videoloader.errors import ConfigurationError

pytestmark = pytest.mark.skipif(native_code() is None, reason="native code was not compiled")

FILTERS: list[tuple[Any, bool]] = [
    ("bilinear", True), ("bilinear", False), ("bicubic", True), ("bicubic", False), ("nearest", True),
]  # fmt: skip
# In codes of 8 bits: half of one for rounding, and what floats are off.
EXACT = 0.51


def expected(
    planes: list[npt.NDArray[np.uint16]], pixels: PixelFormat, color: ColorSpec, model: str = "rgb"
) -> npt.NDArray[np.float64]:
    factors = (1 << pixels.subsampling[0], 1 << pixels.subsampling[1])
    facts: dict[str, Any] = {"bit_depth": pixels.bit_depth}
    if pixels.model == "rgb":
        return reference.rgb(planes, matrix="identity", full_range=True, **facts)
    if pixels.model == "gray":
        neutral = np.full_like(planes[0], 1 << (pixels.bit_depth - 1))
        planes = [planes[0], neutral, neutral]
    if model == "ycbcr":
        return reference.ycbcr(planes, site=color.chroma_site, factors=factors, **facts)
    return reference.rgb(
        planes, matrix=color.matrix, full_range=color.full_range, site=color.chroma_site, factors=factors, **facts
    )


@pytest.mark.parametrize("name", FORMATS + PACKED)
@pytest.mark.parametrize("full_range", [False, True])
@pytest.mark.parametrize("size", [(37, 75), (1, 1), (2, 130)])
def test_every_format_is_exact(name: str, full_range: bool, size: tuple[int, int]) -> None:
    planes, pixels = random_picture(name, *size, seed=1)
    frame, color = frame_of(planes, pixels, name), ColorSpec("bt709", full_range)
    assert native.host_surface(frame) is not None
    slot = torch.empty((3, *size), dtype=torch.uint8)
    convert_frame(frame, color, 0, False, Geometry((0, 0, *size), size), OutputSpec(), slot)
    assert np.abs(slot.numpy() - expected(planes, pixels, color) * 255).max() <= EXACT


@pytest.mark.parametrize("name", ["yuv420p", "yuv422p10le", "yuv411p", "yuv410p", "p010le"])
@pytest.mark.parametrize("matrix", ["bt709", "fcc", "bt601", "smpte240m", "bt2020"])
@pytest.mark.parametrize("full_range", [False, True])
@pytest.mark.parametrize("site", ["left", "center", "topleft", "top", "bottomleft", "bottom"])
def test_every_matrix_range_and_site_is_exact(name: str, matrix: Any, full_range: bool, site: Any) -> None:
    planes, pixels = random_picture(name, 33, 47, seed=2)
    color, slot = ColorSpec(matrix, full_range, site), torch.empty((3, 33, 47), dtype=torch.uint8)
    convert_frame(
        frame_of(planes, pixels, name), color, 0, False, Geometry((0, 0, 33, 47), (33, 47)), OutputSpec(), slot
    )
    assert np.abs(slot.numpy() - expected(planes, pixels, color) * 255).max() <= EXACT


@settings(max_examples=examples(300))
@given(st.data())
def test_any_geometry_is_exact(data: st.DataObject) -> None:
    draw = data.draw
    name = draw(st.sampled_from(FORMATS + PACKED))
    planes, pixels = random_picture(name, draw(st.integers(1, 60)), draw(st.integers(1, 60)), seed=3)
    rotation, mirrored = draw(st.sampled_from([0, 90, 180, 270])), draw(st.booleans())
    height, width = planes[0].shape if rotation in (0, 180) else planes[0].shape[::-1]
    crop, size = draw(boxes((height, width))), (draw(st.integers(1, 80)), draw(st.integers(1, 80)))
    window = draw(st.none() | boxes(size))
    interpolation, antialias = draw(st.sampled_from(FILTERS))
    how: dict[str, Any] = {
        "window": window, "flip": draw(st.booleans()), "flip_vertical": draw(st.booleans()),
        "interpolation": interpolation, "antialias": antialias,
    }  # fmt: skip
    model: Any = "rgb" if pixels.model == "rgb" else draw(st.sampled_from(["rgb", "ycbcr"]))
    color = ColorSpec("bt2020", draw(st.booleans()), draw(st.sampled_from(["left", "center", "bottom"])))
    geometry, dtype = Geometry(crop, size, **how), draw(st.sampled_from([torch.uint8, torch.float32]))
    slot = torch.empty((3, *geometry.picture_size), dtype=dtype)
    convert_frame(
        frame_of(planes, pixels, name), color, rotation, mirrored, geometry, OutputSpec(dtype, color=model), slot
    )
    image = expected(planes, pixels, color, model)
    picture = reference.picture(image, rotation=rotation, mirrored=mirrored, crop=crop, size=size, **how)
    off = np.abs(slot.double().numpy() * (1 if dtype == torch.uint8 else 255) - picture * 255).max()
    assert off <= (EXACT if dtype == torch.uint8 else 0.01)


@st.composite
def boxes(draw: st.DrawFn, size: tuple[int, int]) -> tuple[int, int, int, int]:
    """A (top, left, height, width) part of a picture."""
    top, left = draw(st.integers(0, size[0] - 1)), draw(st.integers(0, size[1] - 1))
    return top, left, draw(st.integers(1, size[0] - top)), draw(st.integers(1, size[1] - left))


@pytest.mark.parametrize(("interpolation", "antialias"), FILTERS)
@pytest.mark.parametrize("name", ["yuv420p", "yuv410p", "gbrp", "yuv444p16le", "bgra"])
def test_a_pixel_has_the_same_bits_in_any_window_slot_and_company(
    name: str, interpolation: Any, antialias: bool
) -> None:
    """Nothing depends on where a loop begins, how the output lies in memory, or what else is converted."""
    planes, pixels = random_picture(name, 61, 83, seed=4)
    frame, color, output = frame_of(planes, pixels, name), ColorSpec("bt709", False), OutputSpec(torch.float32)
    for size in [(61, 83), (40, 33), (90, 120)]:
        how: dict[str, Any] = {"interpolation": interpolation, "antialias": antialias}
        whole = torch.empty((3, *size))
        convert_frame(frame, color, 0, False, Geometry((0, 0, 61, 83), size, **how), output, whole)
        for window in [(3, 5, 30, 21), (0, 1, 1, 1), (39, 0, 1, 33)]:
            top, left, height, width = window
            geometry = Geometry((0, 0, 61, 83), size, window=window, flip=True, **how)
            batch = torch.full((5, height, width, 3), float("nan")).permute(0, 3, 1, 2)
            convert_frames([frame] * 3, Conversion(color, 0, False, geometry, output), batch, [4, 0, 2])
            part = whole[:, top : top + height, left : left + width].flip(2)
            assert (batch[[0, 2, 4]] == part).all()
            assert batch[[1, 3]].isnan().all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("std", [1.0, 1e-4, 3e4, 1e7])
def test_halves_are_rounded_as_pytorch_does(dtype: torch.dtype, std: float) -> None:
    planes, pixels = random_picture("gbrp16le", 64, 512, seed=6)
    frame, geometry = frame_of(planes, pixels, "gbrp16le"), Geometry((0, 0, 64, 512), (64, 512))
    exact, slot = torch.empty(3, 64, 512), torch.empty(3, 64, 512, dtype=dtype)
    for target in (exact, slot):
        output = OutputSpec(target.dtype, (0.5, 0.0, 0.9), (std, std, std))
        convert_frame(frame, ColorSpec("identity", True), 0, False, geometry, output, target)
    assert torch.equal(slot, exact.to(dtype))


def test_structures_and_numbers_are_those_of_the_code() -> None:
    folder = Path(native.__file__).parent
    code = (folder / "pixels.h").read_text() + (folder / "convert.cpp").read_text()

    def names_in(kind: str) -> list[str]:
        body = re.sub("//.*", "", code[code.index(f"{kind} {{") :].split("};")[0].split("{")[1])
        return [name for name in re.findall(r"\w+", body) if name not in ("const", "void", "int")]

    assert names_in("struct Kind") == [name for name, *_ in native._Kind._fields_]
    assert names_in("struct Picture") == [name for name, *_ in native._Picture._fields_]
    types = [str(dtype).removeprefix("torch.").upper() for dtype in native.OUTPUT_TYPES]
    assert names_in("enum Filter") == [*native.KERNELS, "FILTER_COUNT"]
    assert names_in("enum Output") == [*types, "OUTPUT_COUNT"]


@pytest.mark.parametrize("name", ["KERNELS", "OUTPUT_TYPES"])
def test_code_compiled_from_other_sources_is_not_used(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    assert native_code.__wrapped__() is not None
    monkeypatch.setattr(native, name, [*getattr(native, name), "one more"])
    assert native_code.__wrapped__() is None


def test_a_variable_turns_it_off() -> None:
    told = subprocess.run(
        [sys.executable, "-c", "from videoloader.convert.native import native_code; print(native_code())"],
        env={**os.environ, "VIDEOLOADER_NATIVE": "0"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert told.stdout.strip() == "None"


def test_code_that_the_system_cannot_load_is_an_error(monkeypatch):
    def fails(path):
        raise OSError("too many open files")

    monkeypatch.setattr(native.ctypes, "CDLL", fails)
    with pytest.raises(ConfigurationError, match=r"native code cannot be loaded \(too many open files\)"):
        native_code.__wrapped__()
