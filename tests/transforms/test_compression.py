"""JpegCompression against Pillow's files of the same quality, and against T.81."""

from __future__ import annotations

import io
import math
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from transforms.applying import apply, info, painted, together

from videoloader.errors import ConfigurationError
from videoloader.transforms.compression import JpegCompression, quantisation
from videoloader.transforms.curves import Linear

SIZES = [(64, 80), (37, 51), (15, 33), (8, 9), (1, 1), (2, 17)]
CHROMAS = [("4:2:0", 2), ("4:4:4", 0)]


def through_pillow(frame: torch.Tensor, quality: int, subsampling: int) -> torch.Tensor:
    file = io.BytesIO()
    Image.fromarray(frame.permute(1, 2, 0).numpy()).save(file, "JPEG", quality=quality, subsampling=subsampling)
    return torch.from_numpy(np.array(Image.open(file).convert("RGB"))).permute(2, 0, 1)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("chroma", "subsampling"), CHROMAS)
@pytest.mark.parametrize("quality", [5, 30, 49, 50, 75, 95, 100])
def test_pixels_are_nearly_those_of_a_file(size: tuple[int, int], chroma: Any, subsampling: int, quality: int) -> None:
    frames = painted(clips=1, length=2, height=size[0], width=size[1])
    compressed = apply(JpegCompression(quality, chroma=chroma), frames)[0]
    files = torch.stack([through_pillow(frame, quality, subsampling) for frame in frames[0]])
    # libjpeg's transforms round in between: now and then a coefficient falls to the other side of a half.
    assert (compressed.int() - files.int()).abs().double().mean() < (1.0 if min(size) > 9 else 2.0)
    # Much nearer to the file than the picture itself is, except where hardly anything is lost.
    if quality <= 75 and min(size) > 8:
        assert (compressed.int() - files.int()).abs().sum() < 0.25 * (frames[0].int() - files.int()).abs().sum()


def test_lower_qualities_lose_more() -> None:
    frames = painted(height=64, width=64)
    lost = [
        (apply(JpegCompression(quality), frames).int() - frames.int()).abs().double().mean().item()
        for quality in (1, 10, 30, 60, 90, 100)
    ]
    assert lost == sorted(lost, reverse=True)
    assert lost[-1] > 0


def test_tables_are_those_of_the_standard_at_quality_50_and_ones_at_100() -> None:
    luminance, chrominance = quantisation(np.array([50, 100, 1, 25]))
    assert luminance[0, :8].tolist() == [16, 11, 10, 16, 24, 40, 51, 61]  # T.81, table K.1, first row
    assert chrominance[0, :8].tolist() == [17, 18, 24, 47, 99, 99, 99, 99]  # K.2
    assert (luminance[1] == 1).all()
    assert (luminance[2] == 255).all()
    assert luminance[3, :3].tolist() == [32, 22, 20]


@pytest.mark.parametrize("chroma", ["4:2:0", "4:4:4"])
def test_flat_gray_frames_stay_within_half_a_step(chroma: Any) -> None:
    frames = torch.full((1, 1, 3, 19, 21), 100, dtype=torch.uint8)
    for quality, step in ((100, 0), (50, 1), (10, 5)):
        assert (apply(JpegCompression(quality, chroma=chroma), frames).int() - 100).abs().max() <= step


def test_clips_with_different_qualities_run_together() -> None:
    frames = painted(clips=3)
    steps = [JpegCompression(10), JpegCompression((60, 100)), JpegCompression(Linear(5, 95))]
    operations = [step.draw(np.random.default_rng(1), info(frames))[0] for step in steps]
    at_once = together(operations, frames)
    for number, operation in enumerate(operations):
        assert torch.equal(at_once[number], together([operation], frames[number, None])[0])
    assert len(set(operations[2].params["quality"].tolist())) == 3


def test_qualities_are_whole_numbers_of_the_range() -> None:
    step = JpegCompression((30, 33))
    drawn = [
        int(step.draw(np.random.default_rng(seed), info(painted()))[0].params["quality"][0]) for seed in range(300)
    ]
    assert set(drawn) == {30, 31, 32, 33}


@pytest.mark.parametrize("chroma", ["4:2:0", "4:4:4"])
def test_a_static_clip_stays_static(chroma: Any) -> None:
    frames = painted(length=1).expand(-1, 4, -1, -1, -1).clone()
    step = JpegCompression((1, 100), chroma=chroma)
    again = pickle.loads(pickle.dumps(step))
    assert again == step
    compressed = apply(again, frames)
    assert torch.equal(compressed, compressed[:, :1].expand_as(compressed))
    assert torch.equal(compressed, apply(step, frames))


@pytest.mark.parametrize("quality", [0, 101, (0, 50), (50, 40), math.nan])
def test_bad_qualities_are_refused(quality: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"JpegCompression's quality must be in \[1, 100\], .*got .*"):
        JpegCompression(quality)


def test_bad_chroma_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="JpegCompression's chroma must be one of 4:2:0, 4:4:4, got '4:2:2'"):
        JpegCompression(50, chroma="4:2:2")  # type: ignore[arg-type]
