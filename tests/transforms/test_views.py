"""Several views of a clip: torchvision's five and ten crops, and three along the longer edge."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from planned_geometry import plan_geometry
from transforms.geometry_references import ARRAYS
from transforms.test_crops import shown

from videoloader.errors import ConfigurationError
from videoloader.transforms import (
    CenterCrop,
    FiveCrop,
    HorizontalFlip,
    Pad,
    RandomCrop,
    Resize,
    TenCrop,
    ThreeCrop,
)
from videoloader.transforms.choice import RandomApply
from videoloader.transforms.planning.fused_geometry import plan_geometries, split_conversion
from videoloader.transforms.tone import Invert
from videoloader.transforms.views import count_views
from videoloader.transforms.warps import Rotate

rng = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("step", "name"),
    [
        (FiveCrop((10, 12)), "five_crop"),
        (TenCrop((10, 12)), "ten_crop_0"),
        (TenCrop((10, 12), vertical_flip=True), "ten_crop_1"),
    ],
)
def test_crops_are_torchvisions(step: FiveCrop | TenCrop, name: str) -> None:
    numbers = torch.arange(23 * 31, dtype=torch.int16).reshape(1, 23, 31)
    views = [shown(geometry, numbers) for geometry in plan_geometries([step], (23, 31), rng)]
    assert np.array_equal(torch.stack(views), ARRAYS[name])
    assert count_views([step]) == len(views)


@pytest.mark.parametrize(
    ("shape", "boxes"),
    [
        ((20, 50), [(0, 0), (0, 15), (0, 30)]),
        ((50, 20), [(0, 0), (15, 0), (30, 0)]),
        ((26, 41), [(3, 0), (3, 10), (3, 21)]),
        ((20, 20), [(0, 0)] * 3),
    ],
)
def test_three_crops_lie_along_the_longer_edge(shape: tuple[int, int], boxes: list[tuple[int, int]]) -> None:
    views = plan_geometries([ThreeCrop(20)], shape, rng)
    assert [view.crop for view in views] == [(*box, 20, 20) for box in boxes]


def test_steps_before_views_are_drawn_once_and_steps_after_them_for_each() -> None:
    steps = [RandomCrop(50), ThreeCrop((50, 40)), RandomCrop(20)]
    before = plan_geometry(steps[:1], (100, 100), np.random.default_rng(3))
    crops = [view.crop for view in plan_geometries(steps, (100, 100), np.random.default_rng(3))]
    inner = [
        (top - before.crop[0], left - before.crop[1] - first)
        for (top, left, *_), first in zip(crops, (0, 5, 10), strict=True)
    ]
    assert all(0 <= top <= 30 and 0 <= left <= 20 for top, left in inner)
    assert len(set(inner)) == 3


def test_views_multiply() -> None:
    steps = [ThreeCrop(40), FiveCrop(20), HorizontalFlip()]
    assert count_views(steps) == len(plan_geometries(steps, (50, 60), rng)) == 15
    assert count_views([Resize(9), Invert()]) == 1


def test_a_crop_that_does_not_fit_is_refused() -> None:
    for step in (ThreeCrop(30), FiveCrop(30), TenCrop(30)):
        with pytest.raises(ConfigurationError, match="does not fit"):
            plan_geometries([step], (29, 60), rng)
        with pytest.raises(ConfigurationError, match=f"{type(step).__name__}'s size must be a positive integer"):
            type(step)(0)


def test_conversion_takes_all_axis_aligned_steps_up_to_the_first_border() -> None:
    flip, apply = HorizontalFlip(), RandomApply(CenterCrop(50))
    for steps, first in (
        ([Resize(64), ThreeCrop(60), apply, Invert(), flip], 3),
        ([Resize(64), Pad(70), flip, RandomApply(flip), CenterCrop(9)], 4),
        ([RandomCrop(70, pad_if_needed=True), flip, Resize(5)], 2),
        ([RandomCrop(70), flip, Resize(5)], 3),
        ([Rotate(3), flip], 0),
        ([RandomApply([flip, Rotate(3)]), flip], 0),
        ([], 0),
    ):
        assert split_conversion(steps) == (steps[:first], steps[first:])


def test_views_of_changed_pixels_are_refused() -> None:
    for before in (Invert(), Rotate(3)):
        with pytest.raises(ConfigurationError, match=f"FiveCrop comes after {type(before).__name__}"):
            split_conversion([before, Resize(9), FiveCrop(3)])
    with pytest.raises(ConfigurationError, match="FiveCrop comes after Pad: "):
        split_conversion([Pad(90), FiveCrop(3)])


def test_choices_of_axis_aligned_steps_are_planned() -> None:
    steps = [RandomApply([Resize(20), HorizontalFlip()])]
    planned = [plan_geometry(steps, (40, 60), rng) for _ in range(200)]
    assert {(geometry.output_size, geometry.flip) for geometry in planned} == {((40, 60), False), ((20, 30), True)}
    with pytest.raises(ConfigurationError, match="RandomApply is not a crop, resize, flip or border"):
        plan_geometry([RandomApply(Rotate(3))], (40, 60), rng)
