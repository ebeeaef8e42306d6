"""The addresses of a picture's samples, checked by reading them."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import numpy.typing as npt
import pytest
from convert import reference
from convert.planar_frames import FORMATS, frame_of, random_picture

from videoloader.convert import upload
from videoloader.convert.surface import SurfaceLayout, nvdec_layout, pixel_format, planes_layout


def planes_at(layout: SurfaceLayout, memory: npt.NDArray[np.uint8]) -> list[npt.NDArray[np.uint16]]:
    """The codes that a layout finds in memory."""
    samples = memory[: len(memory) // layout.sample_bytes * layout.sample_bytes].view(f"u{layout.sample_bytes}")

    def look_up(first: int, height: int, width: int, pitch: int, step: int) -> npt.NDArray[np.uint16]:
        at = first + pitch * np.arange(height)[:, None] + step * np.arange(width)
        return (samples[at] >> layout.code_shift).astype(np.uint16)

    chroma = (*layout.chroma_size, layout.chroma_pitch, layout.chroma_step)
    luma = look_up(0, layout.height, layout.width, layout.pitch, 1)
    return [luma] if layout.model == "gray" else [luma, look_up(layout.cb, *chroma), look_up(layout.cr, *chroma)]


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(("height", "width"), [(48, 64), (37, 51), (2, 1), (1, 1)])
@pytest.mark.parametrize("held_bytes", [0, 1 << 20])
def test_frames_of_libav_are_found_again(
    name: str, height: int, width: int, held_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upload, "_HELD_BYTES", held_bytes)
    planes, pixels = random_picture(name, height, width, 0)
    frame = frame_of(planes, pixels, name)
    pitches = tuple(plane.line_size for plane in frame.planes[: pixels.planes])
    for copy, rows in ((upload._copy_plane, pitches), (upload._copy_rows, None)):
        layout, ranges = planes_layout(pixels, width, height, rows)
        assert layout.nbytes == ranges[-1].stop
        memory = np.full(layout.nbytes, 99, np.uint8)
        staging = SimpleNamespace(array=memory, view=memory.data, pointer=memory.ctypes.data)
        for plane, part in zip(frame.planes, ranges, strict=False):
            copy(plane, part, staging)
        for found, expected in zip(planes_at(layout, memory), planes, strict=True):
            assert np.array_equal(found, expected)


@pytest.mark.parametrize(
    "name", ["pal8", "rgb48be", "yuyv422", "yuv420p10be", "ya16be", "gbrpf32le", "grayf32le", "cuda"]
)
def test_other_formats_are_not_taken(name: str) -> None:
    assert pixel_format(name) is None


@pytest.mark.parametrize(("height", "width"), [(48, 64), (37, 51), (1, 1)])
def test_surfaces_of_nvdec(height: int, width: int) -> None:
    planes = reference.random_planes(np.random.default_rng(0), height, width, bit_depth=10, factors=(2, 2))
    pitch = -(-width // 2) * 2
    memory = np.zeros((height + len(planes[1]), pitch), np.uint16)
    memory[:height, :width] = planes[0] << 6
    memory[height:, 0::2], memory[height:, 1::2] = planes[1] << 6, planes[2] << 6
    layout = nvdec_layout(width, height, 2 * pitch, "p016", 10)
    for found, expected in zip(planes_at(layout, memory.view(np.uint8).ravel()), planes, strict=True):
        assert np.array_equal(found, expected)
