"""Transforms of tensors, and crops of boxes, on CUDA: what they give on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transforms.random_programs import photos

import videoloader as vl
from videoloader.transforms.planning.pipeline import arrange_transforms
from videoloader.transforms.replay import replay_flow, replay_masks, replay_points

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]

LENGTH, HEIGHT, WIDTH = 3, 90, 120
GEOMETRIES: list[list[Any]] = [
    [vl.Resize((31, 47))],
    [vl.RandomResizedCrop(40), vl.HorizontalFlip()],
    [vl.Resize((31, 47), interpolation="nearest"), vl.VerticalFlip()],
    [vl.Letterbox(64, mode="edge")],
    [vl.Resize(60), vl.Rotate((-30, 30)), vl.CenterCrop(40)],
    [vl.Rotate(vl.transforms.Linear(-20, 20)), vl.Perspective(0.3, p=1)],
]


@pytest.mark.parametrize("transforms", GEOMETRIES)
@pytest.mark.parametrize("tf32", [False, True])
def test_masks_flow_and_points_are_replayed_as_on_the_cpu(transforms: list[Any], tf32: bool) -> None:
    (drawn,) = arrange_transforms(transforms).draw((HEIGHT, WIDTH), LENGTH, np.random.default_rng(1))
    numbers = torch.arange(HEIGHT * WIDTH).view(HEIGHT, WIDTH).expand(LENGTH, -1, -1)
    flow = torch.randn(LENGTH, 2, HEIGHT, WIDTH, generator=torch.Generator().manual_seed(0)) * 50
    points = torch.rand(LENGTH, 9, 2, generator=torch.Generator().manual_seed(0)) * 90
    torch.backends.cuda.matmul.allow_tf32 = tf32
    try:
        masks = replay_masks(numbers.cuda(), *drawn[:2], fill=-1)
        moved = replay_flow(flow.cuda(), *drawn[:2])
        at, shown = replay_points(points.cuda(), *drawn[:2])
    finally:
        torch.backends.cuda.matmul.allow_tf32 = False
    assert torch.equal(masks.cpu(), replay_masks(numbers, *drawn[:2], fill=-1))
    torch.testing.assert_close(moved.cpu(), replay_flow(flow, *drawn[:2]), rtol=0, atol=2e-3)
    expected, expected_shown = replay_points(points, *drawn[:2])
    torch.testing.assert_close(at.cpu(), expected, rtol=0, atol=1e-3)
    assert torch.equal(shown.cpu(), expected_shown)


@pytest.mark.parametrize("transforms", GEOMETRIES)
@pytest.mark.parametrize("floats", [False, True])
def test_compose_gives_what_it_gives_on_the_cpu(transforms: list[Any], floats: bool) -> None:
    frames = photos(2, LENGTH, HEIGHT, WIDTH)
    given = frames.float() / 255 if floats else frames
    compose = vl.Compose(transforms)
    for clips in (given, given[0]):
        result, expected = compose(clips.cuda(), seed=3), compose(clips, seed=3)
        assert result.is_cuda
        assert result.dtype == expected.dtype
        # Resized values that lie on a half may be rounded either way.
        limit = 1 / 255 + 1e-6 if floats else 1
        assert (result.cpu().float() - expected.float()).abs().max() <= limit


def test_pixels_that_are_not_resized_have_the_bits_of_the_cpu() -> None:
    frames, compose = (
        photos(3, LENGTH, HEIGHT, WIDTH),
        vl.Compose([vl.RandomCrop(64), vl.RandAugment(), vl.Normalize()]),
    )
    assert torch.equal(compose(frames.cuda(), seed=1).cpu(), compose(frames, seed=1))


def test_without_a_seed_pytorch_draws_one() -> None:
    frames, compose = photos(3, LENGTH, HEIGHT, WIDTH).cuda(), vl.Compose([vl.RandomCrop(64), vl.RandAugment()])
    torch.manual_seed(5)
    first, second = compose(frames), compose(frames)
    assert not torch.equal(first, second)
    torch.manual_seed(5)
    assert torch.equal(compose(frames), first)


@pytest.mark.parametrize("square", [False, True])
def test_a_loader_crops_each_row_by_its_own_box(square: bool, sample: Callable[[str], Path]) -> None:
    boxes = [(0, 0, 160, 128), (9, 5, 41, 30), (120, 90, 170, 140), (31, 31, 63, 90)]
    data = vl.VideoDataset([vl.VideoEntry(sample("h264_mp4"), columns={"box": box}) for box in boxes])
    transforms = [vl.CropToBox(margin=0.1, square=square), vl.Resize((48, 64)), vl.RandomHorizontalFlip()]
    settings: dict[str, Any] = {"batch_size": 4, "transforms": transforms, "seed": 2}
    (on_gpu,) = vl.VideoLoader(data, [0, 7], device="cuda", **settings)
    (on_cpu,) = vl.VideoLoader(data, [0, 7], device="cpu", **settings)
    assert (on_gpu.frames.cpu().int() - on_cpu.frames.int()).abs().max() <= 2
    assert np.array_equal(on_gpu.source_matrix, on_cpu.source_matrix)
