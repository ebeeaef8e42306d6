"""Resize, crops and flips: the planned geometry, and the resulting pixels."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from planned_geometry import plan_geometry
from torch.nn.functional import pad

import videoloader as vl
from videoloader.transforms import HorizontalFlip, RandomVerticalFlip, Transform, VerticalFlip

sizes = st.tuples(st.integers(8, 400), st.integers(8, 400))


def frame_through(path: Path, transforms: list[Transform]) -> torch.Tensor:
    loader = vl.VideoLoader(
        vl.VideoDataset.from_paths([path]), vl.FrameList([7]), batch_size=1, device="cpu", transforms=transforms
    )
    return next(iter(loader)).frames[0, 0]


def resized(frame: torch.Tensor, size: tuple[int, int]) -> torch.Tensor:
    return torch.nn.functional.interpolate(frame[None], size, mode="bilinear", antialias=True)[0]


def test_pixels_are_those_of_the_steps_one_by_one(sample: Callable[[str], Path]) -> None:
    path = sample("h264_mp4")
    frame = vl.Video(path, device="cpu")[7]  # 128 rows of 160
    steps: list[tuple[list[Transform], torch.Tensor]] = [
        ([vl.Resize((40, 64))], resized(frame, (40, 64))),
        ([vl.Resize(64)], resized(frame, (64, 80))),
        ([vl.Crop((100, 50), top=7, left=9)], frame[:, 7:107, 9:59]),
        ([vl.Resize(64), HorizontalFlip(), vl.Crop(40, left=3)], resized(frame, (64, 80)).flip(2)[:, :40, 3:43]),
        ([vl.CenterCrop((100, 50))], frame[:, 14:114, 55:105]),
        ([vl.Resize(64), vl.CenterCrop(56)], resized(frame, (64, 80))[:, 4:60, 12:68]),
        ([vl.CenterCrop(96), vl.Resize(48)], resized(frame[:, 16:112, 32:128], (48, 48))),
        ([vl.RandomHorizontalFlip(1)], frame.flip(2)),
        ([vl.RandomHorizontalFlip(1), vl.CenterCrop((128, 51))], frame.flip(2)[:, :, 54:105]),
        (
            [vl.Resize(64), vl.RandomHorizontalFlip(1), vl.CenterCrop(51)],
            resized(frame, (64, 80)).flip(2)[:, 6:57, 14:65],
        ),
        ([vl.RandomHorizontalFlip(1), vl.RandomHorizontalFlip(1)], frame),
        ([VerticalFlip()], frame.flip(1)),
        ([VerticalFlip(), vl.CenterCrop((51, 160))], frame.flip(1)[:, 38:89]),
        (
            [vl.Resize(64), HorizontalFlip(), RandomVerticalFlip(1), vl.CenterCrop(51)],
            resized(frame, (64, 80)).flip(1, 2)[:, 6:57, 14:65],
        ),
        ([VerticalFlip(), vl.Pad((200, 160), fill=9)], pad(frame.flip(1), (0, 0, 0, 72), value=9)),
        ([vl.Pad((200, 160), fill=9), VerticalFlip()], pad(frame.flip(1), (0, 0, 72, 0), value=9)),
        ([vl.Resize(None, max_size=80)], resized(frame, (64, 80))),
    ]
    for transforms, expected in steps:
        got = frame_through(path, transforms)
        assert got.shape == expected.shape, transforms
        assert (got.int() - expected.int()).abs().max() <= 1, transforms


@given(sizes, st.integers(1, 300), st.integers(0, 2**32))
def test_a_random_resized_crop_lies_in_the_frame(size: tuple[int, int], output: int, seed: int) -> None:
    transform = vl.RandomResizedCrop(output, scale=(0.2, 0.8), ratio=(0.5, 2))
    geometry = plan_geometry([transform], size, np.random.default_rng(seed))
    top, left, height, width = geometry.crop
    assert top >= 0
    assert left >= 0
    assert top + height <= size[0]
    assert left + width <= size[1]
    assert geometry.output_size == (output, output)


def test_a_random_resized_crop_has_the_areas_and_ratios_asked_for() -> None:
    transform = vl.RandomResizedCrop(10, scale=(0.25, 0.5), ratio=(0.8, 1.25))
    rng = np.random.default_rng(0)
    boxes = np.array([plan_geometry([transform], (400, 400), rng).crop[2:] for _ in range(500)])
    area, ratio = boxes.prod(1) / 400**2, boxes[:, 1] / boxes[:, 0]
    assert area.min() == pytest.approx(0.25, abs=0.01)
    assert area.max() == pytest.approx(0.5, abs=0.01)
    assert area.mean() == pytest.approx(0.375, abs=0.01)
    assert ratio.min() == pytest.approx(0.8, abs=0.02)
    assert ratio.max() == pytest.approx(1.25, abs=0.02)
    assert np.log(ratio).mean() == pytest.approx(0, abs=0.02)


def test_a_ratio_that_never_fits_gives_the_largest_central_box() -> None:
    transform = vl.RandomResizedCrop(10, scale=(1, 1), ratio=(1, 1))
    assert plan_geometry([transform], (100, 300), np.random.default_rng(0)).crop == (0, 100, 100, 100)


def test_flips_come_as_often_as_asked() -> None:
    rng = np.random.default_rng(0)
    steps = [vl.RandomHorizontalFlip(0.3), RandomVerticalFlip(0.8)]
    planned = [plan_geometry(steps, (4, 4), rng) for _ in range(2000)]
    assert np.mean([geometry.flip for geometry in planned]) == pytest.approx(0.3, abs=0.04)
    assert np.mean([geometry.flip_vertical for geometry in planned]) == pytest.approx(0.8, abs=0.04)


@pytest.mark.parametrize(
    "make",
    [
        lambda: vl.Resize(0),
        lambda: vl.CenterCrop((5, -1)),
        lambda: vl.RandomResizedCrop(8, scale=(0.5, 0.2)),
        lambda: vl.RandomResizedCrop(8, ratio=(0, 1)),
        lambda: vl.RandomHorizontalFlip(1.5),
        lambda: RandomVerticalFlip(-0.1),
        lambda: vl.Normalize((0, 0), (1, 1)),
        lambda: vl.Normalize((0, 0, 0), (1, 0, 1)),
    ],
)
def test_bad_parameters_are_refused_when_the_transform_is_made(make: Callable[[], Transform]) -> None:
    with pytest.raises(vl.ConfigurationError):
        make()


def test_a_crop_larger_than_the_frames_is_refused() -> None:
    with pytest.raises(vl.ConfigurationError, match="does not fit"):
        plan_geometry([vl.CenterCrop(300)], (200, 400), np.random.default_rng(0))
    with pytest.raises(
        vl.ConfigurationError, match="a crop of 100×100 at row 150, column 0 does not fit into frames of 2"
    ):
        plan_geometry([vl.Crop(100, top=150)], (200, 400), np.random.default_rng(0))


@pytest.mark.parametrize("kind", [vl.Resize, vl.RandomResizedCrop])
def test_interpolation_and_antialias_are_the_last_resizes(kind: type[vl.Resize | vl.RandomResizedCrop]) -> None:
    rng = np.random.default_rng(0)
    plain = plan_geometry([kind(20)], (90, 120), rng)
    assert (plain.interpolation, plain.antialias) == ("bilinear", True)
    steps = [vl.Resize(64), vl.CenterCrop(60), kind(20, interpolation="bicubic", antialias=False), vl.CenterCrop(9)]
    geometry = plan_geometry(steps, (90, 120), rng)
    assert (geometry.interpolation, geometry.antialias, geometry.output_size) == ("bicubic", False, (9, 9))
    with pytest.raises(vl.ConfigurationError, match="bilinear, bicubic, nearest"):
        kind(20, interpolation="lanczos")  # type: ignore[arg-type]
