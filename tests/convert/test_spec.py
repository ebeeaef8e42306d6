"""The settings of a conversion: a stream's colours, geometry, output, and black in the output's numbers."""

from __future__ import annotations

import io
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import reference
import torch
from sample_videos import Recipe, write_video

import videoloader as vl
from videoloader.convert.spec import (
    ColorSpec,
    Geometry,
    OutputSpec,
    color_spec,
    fill_color,
    fill_pixel,
    full_geometry,
    hdr_transfer,
    source_view,
)
from videoloader.errors import ConfigurationError, UnsupportedError
from videoloader.indexing import build_index
from videoloader.indexing.stream_info import StreamInfo

STREAM = StreamInfo("ffv1", (b"",), Fraction(1, 25), 64, 48, bit_depth=8, chroma="420")


@pytest.mark.parametrize(("code", "curve"), [(16, "pq"), (18, "hlg"), (1, None), (2, None), (14, None), (99, None)])
def test_hdr_is_told_by_the_transfer_curve(code: int, curve: str | None) -> None:
    assert hdr_transfer(replace(STREAM, color_transfer=code)) == curve


@pytest.mark.parametrize(
    ("output", "full_range", "depth", "expected"),
    [
        (OutputSpec(), False, 8, (0, 0, 0)),
        (OutputSpec(torch.float32), False, 8, (0, 0, 0)),
        (OutputSpec(torch.float32, (0.5, 0.25, 1.0), (0.5, 0.5, 2.0)), False, 8, (-1, -0.5, -0.5)),
        (OutputSpec(color="ycbcr"), False, 8, (16, 128, 128)),
        (OutputSpec(color="ycbcr"), True, 8, (0, 128, 128)),
        (OutputSpec(torch.float32, color="ycbcr"), False, 10, (64 / 1023, 512 / 1023, 512 / 1023)),
        (OutputSpec(torch.float16, (0.5,) * 3, (2.0,) * 3, "ycbcr"), True, 8, (-0.25, *[(128 / 255 - 0.5) / 2] * 2)),
    ],
)
def test_black(output: OutputSpec, full_range: bool, depth: int, expected: tuple[float, float, float]) -> None:
    assert fill_pixel(replace(STREAM, bit_depth=depth), ColorSpec("bt709", full_range), output) == pytest.approx(
        expected
    )


@pytest.mark.parametrize("rotation", [0, 90, 180, 270])
@pytest.mark.parametrize("mirrored", [False, True])
def test_which_way_rows_and_columns_run(rotation: int, mirrored: bool) -> None:
    """The first row, turned as a player turns it, is shown at the end that ``backward`` tells."""
    picture = np.arange(12).reshape(3, 4)
    shown: Any = np.rot90(picture, -rotation // 90)
    shown = shown[:, ::-1] if mirrored else shown
    top_left = np.argwhere(shown == 0)[0]
    view = source_view(Geometry((0, 0, *shown.shape), shown.shape), rotation, mirrored, 3, 4)
    sideways = rotation in (90, 270)
    rows, columns = (top_left[1], top_left[0]) if sideways else top_left
    assert view.backward == (rows > 0, columns > 0)


@pytest.mark.parametrize(("encoder", "container"), [("libx264", "mp4"), ("libx265", "mp4"), ("libsvtav1", "mp4")])
def test_the_codecs_header_counts_before_the_container(encoder: str, container: str) -> None:
    memory = io.BytesIO()
    options = {"x265-params": "log-level=none"} if encoder == "libx265" else {}
    with av.open(memory, "w", format=container) as output:
        video = output.add_stream(encoder, rate=25, options=options)
        video.width, video.height, video.pix_fmt = 64, 64, "yuv420p"
        video.codec_context.color_trc = 16
        for number in range(12):  # x265 makes up the decoding time of a frame that is alone
            frame = av.VideoFrame.from_ndarray(np.full((96, 64), 128, np.uint8), format="yuv420p")
            frame.pts, frame.color_trc = number, 16
            output.mux(video.encode(frame))
        output.mux(video.encode())
    stream = build_index(memory.getvalue()).stream
    assert hdr_transfer(stream) == "pq"
    assert hdr_transfer(replace(stream, color_transfer=1)) == "pq"


def stream(**facts: Any) -> StreamInfo:
    return StreamInfo(**{**vars(STREAM), "codec": "vp9", **facts})


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({}, ColorSpec("bt601", False)),
        ({"color_matrix": 1, "color_range": "full"}, ColorSpec("bt709", True)),
        ({"color_matrix": 9, "color_range": "limited"}, ColorSpec("bt2020", False)),
        ({"color_matrix": 4}, ColorSpec("fcc", False)),
        ({"color_matrix": 5}, ColorSpec("bt601", False)),
        ({"color_matrix": 6}, ColorSpec("bt601", False)),
        ({"color_matrix": 7}, ColorSpec("smpte240m", False)),
        ({"color_matrix": 0, "chroma": "444"}, ColorSpec("identity", True)),
        ({"color_matrix": 0}, ColorSpec("bt601", False)),
        ({"pixel_format": "yuvj420p", "codec": "mjpeg"}, ColorSpec("bt601", True, "center")),
        ({"pixel_format": "gray"}, ColorSpec("bt601", True)),
        ({"pixel_format": "ya8"}, ColorSpec("bt601", True)),
        ({"pixel_format": "ya16le"}, ColorSpec("bt601", True)),
        ({"codec": "mpeg1video"}, ColorSpec("bt601", False, "center")),
    ],
)
def test_color_spec_of_a_stream(facts: dict[str, Any], expected: ColorSpec) -> None:
    assert color_spec(stream(**facts)) == expected


def test_color_spec_of_a_frame_wins() -> None:
    frame = av.VideoFrame(16, 16, "yuv420p")
    container = stream(color_matrix=9, color_range="full")
    assert color_spec(container, frame) == ColorSpec("bt2020", True)
    frame.colorspace, frame.color_range = 1, 1
    assert color_spec(container, frame) == ColorSpec("bt709", False)
    assert color_spec(container, av.VideoFrame(16, 16, "yuvj420p")) == ColorSpec("bt2020", True)
    assert color_spec(container, av.VideoFrame(16, 16, "gbrp")) == ColorSpec("identity", True)
    assert color_spec(stream(color_matrix=0, chroma="444"), frame) == ColorSpec("bt709", False)


CHROMA_SITES = ["left", "center", "topleft", "top", "bottomleft", "bottom"]


@pytest.mark.parametrize("encoder", ["libx264", "libx265"])
@pytest.mark.parametrize("pix_fmt", ["yuv420p", "yuv420p10le", "yuv444p"])
@pytest.mark.parametrize("site", CHROMA_SITES)
def test_chroma_lies_where_the_header_of_420_says(tmp_path: Path, encoder: str, pix_fmt: str, site: str) -> None:
    told = f"chromaloc={CHROMA_SITES.index(site)}:crf=5:pools=1"
    options = {"x264-params": told} if encoder == "libx264" else {"x265-params": f"{told}:log-level=none"}
    rng = np.random.default_rng(0)
    noise = rng.integers(0, 256, (2, 96, 96, 3), np.uint8)
    recipe = Recipe("mkv", encoder, options, pix_fmt=pix_fmt, size=(96, 96), frames=2)
    path = write_video(tmp_path / "a.mkv", recipe, lambda number, *_: noise[number])
    stated = site if pix_fmt != "yuv444p" else "left"
    assert color_spec(build_index(path).stream).chroma_site == stated
    with av.open(str(path)) as container:
        frame = next(container.decode(video=0))
    depth, deep = (10, True) if "10" in pix_fmt else (8, False)
    planes = [
        np.frombuffer(plane, np.uint16 if deep else np.uint8).reshape(plane.height, -1)[:, : plane.width]
        for plane in frame.planes
    ]
    factors = (1, 1) if pix_fmt == "yuv444p" else (2, 2)
    expected = reference.rgb(planes, matrix="bt601", full_range=False, site=stated, bit_depth=depth, factors=factors)
    shown = vl.Video(path, device="cpu")[0].numpy() / 255
    assert np.abs(shown - expected).max() < 2.5 / 255


def test_unsupported_matrix() -> None:
    with pytest.raises(UnsupportedError, match="14"):
        color_spec(stream(color_matrix=14))


def test_full_geometry() -> None:
    assert full_geometry(stream(rotation=90)) == Geometry((0, 0, 64, 48), (64, 48))


def test_bad_specs() -> None:
    with pytest.raises(ConfigurationError, match="crop"):
        Geometry((0, 0, 0, 4), (8, 8))
    with pytest.raises(ConfigurationError, match="size"):
        Geometry((0, 0, 4, 4), (0, 8))
    with pytest.raises(ConfigurationError, match="window"):
        Geometry((0, 0, 4, 4), (8, 8), window=(0, 1, 8, 8))
    with pytest.raises(ConfigurationError, match="mean"):
        OutputSpec(torch.uint8, mean=(0, 0, 0))
    with pytest.raises(ConfigurationError, match="std"):
        OutputSpec(torch.float32, std=(1, 0, 1))
    with pytest.raises(ConfigurationError, match="dtype"):
        OutputSpec(torch.float64)
    with pytest.raises(ConfigurationError, match="matrix"):
        ColorSpec("bt708", False)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="chroma_site"):
        ColorSpec("bt709", False, "middle")  # type: ignore[arg-type]


def test_a_fill_that_is_kept_is_taken_again() -> None:
    kept = fill_color(1)
    assert kept == fill_color(kept) == (1.0, 1.0, 1.0)
    assert fill_color((0.5, 2, 0)) == (0.5, 2.0, 0.0)
