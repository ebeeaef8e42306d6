"""What of the CUDA conversion can be checked without a GPU: the kernel's argument. The rest is in tests/gpu."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from videoloader.convert import ColorSpec, Geometry, OutputSpec, cuda
from videoloader.errors import ConfigurationError

COLOR, GEOMETRY = ColorSpec("bt709", False), Geometry((0, 0, 48, 64), (8, 8))


def test_no_gpu_package_is_imported() -> None:
    assert "cupy" not in sys.modules


def test_constants_and_fields_are_the_kernels() -> None:
    code = Path(cuda.__file__).with_name("convert.cu").read_text()
    constants = {name: int(value) for name, value in re.findall(r"constexpr int (\w+) = (\d+);", code)}
    assert constants == {"THREADS": cuda._THREADS, "ROWS": cuda._ROWS, "MAX_TILE": cuda._MAX_TILE}
    assert 2 * cuda._THREADS == cuda._CHUNK
    body = code[code.index("struct Plan {") : code.index("};")]
    fields = [
        re.sub(r"\[\d+\]", "", name.strip())
        for names in re.findall(r"^    (?:long long|int|float) ([^;]+);", body, re.MULTILINE)
        for name in names.split(",")
    ]
    assert fields == list(cuda._PLAN.names or ())


@pytest.mark.parametrize("turns", range(4))
@pytest.mark.parametrize("flip", [False, True])
def test_rotation_and_flip_are_strides(turns: int, flip: bool) -> None:
    picture = np.arange(15).reshape(3, 5)
    shown = np.rot90(picture, -turns)[:, ::-1] if flip else np.rot90(picture, -turns)
    slot = np.full(100, -1)
    start, down, right = cuda._oriented((3, 5), turns, flip, (0, 2 * shown.shape[1], 2))
    for y, x in np.ndindex(3, 5):
        slot[start + y * down + x * right] = picture[y, x]
    assert (slot[: 2 * shown.size : 2].reshape(shown.shape) == shown).all()


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ((64, 48, 62, "nv12", 8), "pitch"),
        ((63, 48, 63, "nv12", 8), "pitch"),
        ((64, 48, 129, "p016", 10), "pitch"),
        ((64, 48, 64, "nv12", 10), "bit_depth"),
        ((64, 48, 128, "p016", 8), "bit_depth"),
        ((64, 40, 64, "nv12", 8), "crop"),
        ((64, 48, 64, "i420", 8), "layout"),
    ],
)
def test_bad_surfaces(source: tuple[int, int, int, str, int], name: str) -> None:
    with pytest.raises(ConfigurationError, match=name):
        cuda._launch(source, COLOR, 0, False, GEOMETRY, OutputSpec(), (64, 8, 1), 0)


def test_bad_slot_and_matrix() -> None:
    with pytest.raises(ConfigurationError, match="identity"):
        cuda._launch(
            (64, 48, 64, "nv12", 8), ColorSpec("identity", True), 0, False, GEOMETRY, OutputSpec(), (64, 8, 1), 0
        )
    surface = cuda.CudaSurface(0, 64, 48, 64, "nv12", 8)
    with pytest.raises(ConfigurationError, match="slot"):
        cuda.convert_surface(surface, COLOR, 0, False, GEOMETRY, OutputSpec(), torch.empty(3, 8, 8), 0)
