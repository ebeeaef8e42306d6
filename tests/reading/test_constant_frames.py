"""Frames of constant padding: their colour, and that they cost nothing."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch

import videoloader as vl
from videoloader.convert.spec import ColorSpec, OutputSpec, fill_pixel
from videoloader.errors import ConfigurationError
from videoloader.indexing import StreamInfo

Sample = Callable[[str], Path]
ORANGE = (255, 127.5, 10)


def stream(bits: int = 8) -> StreamInfo:
    return StreamInfo("mjpeg", (b"",), Fraction(1, 25), 64, 48, bit_depth=bits)


def first_batch(path: Path, **settings: object) -> vl.Batch:
    loader = vl.VideoLoader(
        vl.VideoDataset.from_paths([path]),
        vl.FrameList([0, 59, 60, -61], pad="constant"),
        batch_size=1,
        device="cpu",
        num_workers=1,
        **settings,
    )
    return next(iter(loader))


@pytest.mark.parametrize("layout", ["TCHW", "CTHW"])
def test_constant_frames_of_a_batch_have_the_fill_value(sample: Sample, layout: str) -> None:
    batch = first_batch(sample("h264_mp4"), fill_value=ORANGE, layout=layout)
    frames = batch.frames[0] if layout == "TCHW" else batch.frames[0].transpose(0, 1)
    assert batch.mask[0].tolist() == [True, True, False, False]
    orange = torch.tensor([255, 128, 10], dtype=torch.uint8)[:, None, None]
    assert (frames[2:] == orange).all()
    plain = vl.Video(sample("h264_mp4"), device="cpu").read([0, 59]).frames
    assert torch.equal(frames[:2], plain)


def test_they_are_normalised_like_any_other_pixel(sample: Sample) -> None:
    normalize = vl.Normalize((0.5, 0.4, 0.3), (0.25, 0.5, 1.0))
    frames = first_batch(sample("h264_mp4"), fill_value=ORANGE, dtype="float32", transforms=[normalize]).frames[0]
    expected = (torch.tensor(ORANGE) / 255 - torch.tensor(normalize.mean)) / torch.tensor(normalize.std)
    assert torch.allclose(frames[2:], expected[:, None, None].expand(2, 3, 128, 160), atol=1e-6)


def test_one_number_is_that_of_all_channels(sample: Sample) -> None:
    assert (first_batch(sample("h264_mp4"), fill_value=7).frames[0, 2:] == 7).all()
    assert (first_batch(sample("h264_mp4")).frames[0, 2:] == 0).all()


def test_frames_of_a_single_video_too(sample: Sample) -> None:
    video = vl.Video(sample("h264_mp4"), device="cpu", fill_value=(1, 2, 3))
    clip = video.read(vl.FrameList([-61, 5], pad="constant"))
    assert clip.frames[0, :, 0, 0].tolist() == [1, 2, 3]
    assert torch.equal(clip.frames[1], video[5])


def test_they_cost_no_decoding(sample: Sample) -> None:
    data = vl.VideoDataset.from_paths([sample("h264_mp4")])
    mode = vl.FrameList([60, 100], pad="constant")
    loader = vl.VideoLoader(data, mode, batch_size=1, device="cpu", num_workers=1, fill_value=9)
    (batch,) = loader
    assert (batch.frames == 9).all()
    assert np.isnan(batch.timestamps).all()
    assert (loader.stats().frames, loader.stats().packets) == (0, 0)


@pytest.mark.parametrize("bad", [-1, 256, float("nan"), (1, 2), (1, 2, 3, 4), "red", None, (0, 0, None)])
def test_what_is_no_colour_is_an_error(sample: Sample, bad: object) -> None:
    with pytest.raises(ConfigurationError, match="fill_value must be one or three numbers"):
        vl.Video(sample("h264_mp4"), device="cpu", fill_value=bad)  # type: ignore[arg-type]


@pytest.mark.parametrize("full_range", [False, True])
@pytest.mark.parametrize("bits", [8, 10])
def test_as_coded_samples_it_is_the_code_of_that_colour(bits: int, full_range: bool) -> None:
    output = OutputSpec(torch.float32, color="ycbcr", fill_value=(255, 255, 255))
    codes = np.array(fill_pixel(stream(bits), ColorSpec("bt709", full_range), output)) * (2**bits - 1)
    white = 2**bits - 1 if full_range else 235 * 2 ** (bits - 8)
    assert codes == pytest.approx([white, 2 ** (bits - 1), 2 ** (bits - 1)])
    black = OutputSpec(torch.uint8, color="ycbcr")
    assert fill_pixel(stream(), ColorSpec("bt601", full_range), black) == (0 if full_range else 16, 128, 128)


@pytest.mark.parametrize(("color", "place"), [((0, 0, 255), 1), ((255, 0, 0), 2)])
@pytest.mark.parametrize(("dtype", "last"), [(torch.uint8, 255), (torch.float32, 1)])
def test_chroma_beyond_the_last_code_is_the_last_code(
    color: tuple[int, int, int], place: int, dtype: torch.dtype, last: int
) -> None:
    output = OutputSpec(dtype, color="ycbcr", fill_value=color)
    assert fill_pixel(stream(), ColorSpec("bt601", full_range=True), output)[place] == last
