"""RandomErasing, Cutout and GridMask: what is erased, where, and how often."""

from __future__ import annotations

import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from transforms.applying import apply, info, one_by_one, painted, together

from videoloader.errors import ConfigurationError
from videoloader.transforms.curves import Linear
from videoloader.transforms.erasing import Cutout, GridMask, RandomErasing
from videoloader.transforms.operations import ClipInfo, Erase, PixelTransform

RECORDED = np.load(Path(__file__).with_name("references") / "filters.npz")
sides = st.integers(1, 60)


def boxes_of(step: PixelTransform, clip: ClipInfo, seeds: range) -> np.ndarray[Any, Any]:
    """int32[draws, F, holes, 4] of those that erase anything."""
    drawn = [step.draw(np.random.default_rng(seed), clip) for seed in seeds]
    return np.array([each.boxes for operations in drawn for each in operations if isinstance(each, Erase)])


def test_a_box_is_filled_as_torchvision_fills_it() -> None:
    box = Erase(np.array([[[3, 5, 11, 20]]], np.int32), (10, 120, 255))
    erased = one_by_one([box], torch.from_numpy(RECORDED["frames"][None]))
    assert np.array_equal(erased[0].numpy(), RECORDED["erased"])


@given(sides, sides, st.floats(0, 1), st.floats(0, 1), st.floats(0.1, 10), st.floats(1, 5), st.integers(0, 2**32))
def test_random_boxes_lie_inside_the_frames(
    height: int, width: int, scale: float, more: float, ratio: float, times: float, seed: int
) -> None:
    step = RandomErasing(1.0, (scale * more, scale), (ratio, ratio * times))
    (erase,) = step.draw(np.random.default_rng(seed), ClipInfo(3, height, width))
    assert isinstance(erase, Erase)
    assert erase.boxes.shape == (1, 1, 4)
    top, left, rows, columns = erase.boxes[0, 0]
    assert 0 <= top <= top + rows <= height
    assert 0 <= left <= left + columns <= width


def test_random_boxes_have_the_area_and_ratio_asked_for() -> None:
    boxes = boxes_of(RandomErasing(1.0, (0.1, 0.2), (0.5, 2)), ClipInfo(4, 200, 200), range(500))[:, 0, 0]
    area, ratio = boxes[:, 2] * boxes[:, 3] / 40000, np.log(boxes[:, 2] / boxes[:, 3])
    assert area.min() > 0.098
    assert area.max() < 0.202
    assert abs(area.mean() - 0.15) < 0.005
    assert np.abs(ratio).max() < math.log(2) + 0.02
    assert abs(ratio.mean()) < 0.06
    assert abs(ratio.std() - 2 * math.log(2) / math.sqrt(12)) < 0.03
    free = 200 - boxes[:, 2]
    assert abs((boxes[:, 0] / free).mean() - 0.5) < 0.05


@pytest.mark.parametrize("p", [0.0, 0.25, 1.0])
@pytest.mark.parametrize("value", [0, "random"])
def test_clips_lose_a_box_with_that_probability(p: float, value: Any) -> None:
    step = RandomErasing(p, value=value)
    lost = sum(bool(step.draw(np.random.default_rng(seed), ClipInfo(2, 50, 50))) for seed in range(1000))
    assert abs(lost - 1000 * p) < 60


def test_a_box_that_never_fits_erases_nothing() -> None:
    frames = painted()
    assert torch.equal(apply(RandomErasing(1.0, (1, 1), (1, 1)), frames), frames)
    assert torch.equal(apply(RandomErasing(1.0, (1, 1), (1, 1), value="random"), frames), frames)


def test_random_values_are_even_and_fill_the_box_alone() -> None:
    frames = torch.full((1, 3, 3, 200, 200), 77, dtype=torch.uint8)
    step = RandomErasing(1.0, (0.3, 0.3), (1, 1), value="random")
    erased = apply(step, frames, seed=1)
    assert torch.equal(erased, erased[:, :1].expand_as(erased))  # a tube of the same noise
    rows, columns = (erased[0, 0, 0] != 77).nonzero().unbind(1)
    top, left = int(rows.min()), int(columns.min())
    height, width = int(rows.max()) - top + 1, int(columns.max()) - left + 1
    assert height == width == round(math.sqrt(0.3 * 40000))
    inside = erased[0, 0, :, top : top + height, left : left + width]
    counts = np.bincount(inside.ravel(), minlength=256)
    assert ((counts - counts.mean()) ** 2 / counts.mean()).sum() < 400
    assert not torch.equal(inside[0], inside[1])
    per_frame = apply(RandomErasing(1.0, (0.3, 0.3), (1, 1), value="random", per_frame=True), frames, seed=1)
    assert not torch.equal(per_frame[0, 0] == 77, per_frame[0, 1] == 77)


@pytest.mark.parametrize("step", [RandomErasing(1.0, per_frame=True), Cutout(9, holes=2, per_frame=True)])
def test_each_frame_may_lose_other_boxes(step: PixelTransform) -> None:
    (erase,) = step.draw(np.random.default_rng(0), ClipInfo(16, 100, 100))
    assert isinstance(erase, Erase)
    assert len(erase.boxes) == 16
    assert len(np.unique(erase.boxes.reshape(16, -1), axis=0)) == 16


@given(sides, sides, sides, sides, st.integers(1, 4), st.integers(0, 2**32))
def test_cutouts_are_cut_off_at_the_border(
    height: int, width: int, rows: int, columns: int, holes: int, seed: int
) -> None:
    assume(rows < 2 * height or columns < 2 * width)
    (erase,) = Cutout((rows, columns), holes).draw(np.random.default_rng(seed), ClipInfo(3, height, width))
    assert erase.boxes.shape == (1, holes, 4)
    for top, left, inside_rows, inside_columns in erase.boxes[0]:
        for first, size, wanted, whole in ((top, inside_rows, rows, height), (left, inside_columns, columns, width)):
            assert first >= 0
            assert 1 <= size <= wanted
            assert first + size <= whole
            if 0 < first < whole - size:
                assert size == wanted


def test_the_middle_of_a_cutout_may_be_any_pixel() -> None:
    boxes = boxes_of(Cutout(1), ClipInfo(1, 5, 3), range(3000))[:, 0, 0]
    counts = np.bincount(boxes[:, 0] * 3 + boxes[:, 1], minlength=15)
    assert ((counts - 200) ** 2 / 200).sum() < 50  # 14 degrees of freedom


@given(st.floats(2, 90), st.floats(0, 1), st.floats(-720, 720), st.integers(0, 2**32))
def test_a_grid_mask_is_its_definition(cell: float, ratio: float, angle: float, seed: int) -> None:
    frames = torch.full((1, 1, 3, 23, 31), 200, dtype=torch.uint8)
    step = GridMask(cell, ratio, angle, fill=(1, 2, 3))
    (operation,) = step.draw(np.random.default_rng(seed), info(frames))
    width, lost, *shift, cosine, sine = operation.params["grid"][0]
    masked = together([operation], frames)[0, 0]
    assert (width, lost) == (cell, (1 - ratio) * cell)
    for y in range(23):
        for x in range(31):
            across, down = x - 15, y - 11
            turned = across * cosine - down * sine + shift[0], across * sine + down * cosine + shift[1]
            if all(place % cell < lost for place in turned):
                assert masked[:, y, x].tolist() == [1, 2, 3]
            else:
                assert masked[:, y, x].tolist() == [200, 200, 200]


def test_a_grid_mask_loses_the_papers_share() -> None:
    frames = torch.full((40, 1, 3, 60, 60), 200, dtype=torch.uint8)
    lost = (apply(GridMask(d=(6, 15), ratio=0.4, angle=(0, 90)), frames) == 0).double().mean()
    assert abs(lost - 0.36) < 0.02


@pytest.mark.parametrize(
    "step", [RandomErasing(1.0), RandomErasing(1.0, value="random"), Cutout(5, holes=3), GridMask((5, 9), (0.3, 0.7))]
)
def test_a_static_clip_stays_static(step: PixelTransform) -> None:
    frames = painted(length=1).expand(-1, 4, -1, -1, -1).clone()
    again = pickle.loads(pickle.dumps(step))
    assert again == step
    erased = apply(again, frames)
    assert torch.equal(erased, erased[:, :1].expand_as(erased))
    assert not torch.equal(erased, frames)


def test_a_grid_mask_follows_a_curve() -> None:
    erased = apply(GridMask(10, 0.5, Linear(0, 90)), torch.full((1, 3, 3, 40, 40), 9, dtype=torch.uint8))
    assert not torch.equal(erased[:, 0], erased[:, 1])


def test_grids_with_different_colours_run_together() -> None:
    frames = painted(clips=2)
    operations = [
        GridMask(6, fill=fill).draw(np.random.default_rng(0), info(frames))[0] for fill in (0, (9, 90.5, 255))
    ]
    at_once = together(operations, frames)
    for number, operation in enumerate(operations):
        assert torch.equal(at_once[number], together([operation], frames[number, None])[0])
    assert at_once[1, 0, :, (at_once[1, 0] != frames[1, 0]).any(0)].unique(dim=1).T.tolist() == [[9, 91, 255]]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RandomErasing(2), r"RandomErasing's p must be a number in \[0, 1\], got 2"),
        (lambda: RandomErasing(scale=(0.3, 0.2)), r"RandomErasing's scale must be .*, got \(0.3, 0.2\)"),
        (lambda: RandomErasing(scale=(0.3, 1.2)), r"RandomErasing's scale must be .*, got \(0.3, 1.2\)"),
        (lambda: RandomErasing(ratio=(0, 1)), r"RandomErasing's ratio must be .*, got \(0, 1\)"),
        (
            lambda: RandomErasing(value=256),
            r"RandomErasing's value must be one or three numbers in \[0, 255\], got 256",
        ),
        (lambda: RandomErasing(value=(1, 2)), r"RandomErasing's value must be .*, got \(1, 2\)"),
        (lambda: RandomErasing(value="noise"), "RandomErasing's value must be .*, got 'noise'"),
        (lambda: Cutout(0), "Cutout's size must be a positive integer or .*, got 0"),
        (lambda: Cutout((3, 0)), r"Cutout's size must be a positive integer or .*, got \(3, 0\)"),
        (lambda: Cutout(0.5), r"Cutout's size must be a positive integer or \(height, width\), got 0.5"),  # type: ignore[arg-type]
        (lambda: Cutout(3, holes=0), "Cutout's holes must be a positive integer, got 0"),
        (lambda: Cutout(3, fill=-1), "Cutout's fill must be .*, got -1"),
        (lambda: GridMask(1), "GridMask's d must be at least 2, .*got 1"),
        (lambda: GridMask(ratio=1.5), r"GridMask's ratio must be in \[0, 1\], .*got 1.5"),
        (lambda: GridMask(angle=math.nan), "GridMask's angle must be a finite number, .*got nan"),
        (lambda: GridMask(fill=300), "GridMask's fill must be .*, got 300"),
    ],
)
def test_bad_parameters_are_refused(make: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        make()
