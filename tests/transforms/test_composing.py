"""Consecutive geometric steps as one resampling give the same pixels as the steps one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from videoloader import transforms as tf
from videoloader.errors import ConfigurationError
from videoloader.transforms.choice import RandomApply, RandomChoice, RandomOrder, When
from videoloader.transforms.curves import Linear
from videoloader.transforms.geometry.warping import warp_tensor
from videoloader.transforms.operations import ClipInfo, Warp
from videoloader.transforms.planning.composing import GeometricGroup, group_geometric, output_size
from videoloader.transforms.tone import Invert
from videoloader.transforms.warps import Affine, Perspective, Rotate

HEIGHT, WIDTH, LENGTH = 60, 80, 3
NOISE = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (LENGTH, 3, HEIGHT, WIDTH), np.uint8))


def smooth(height: int = HEIGHT, width: int = WIDTH) -> torch.Tensor:
    """float32[T, 3, H, W] with no edges, not even at its border, where it is zero like what lies beyond."""
    y, x = np.mgrid[:height, :width].astype(np.float32)
    window = np.sin(np.pi * (x + 0.5) / width) * np.sin(np.pi * (y + 0.5) / height)
    waves = [np.cos(x / a + y / b) + 1.5 for a, b in ((19, 31), (-23, 17), (27, -29))]
    return torch.from_numpy(80 * np.stack(waves) * window**2).expand(LENGTH, -1, -1, -1)


def carry_out(warps: list[Warp], frames: torch.Tensor) -> torch.Tensor:
    for warp in warps:
        frames = warp_tensor(frames, warp)
    return frames


def grouped(transforms: list[Any], frames: torch.Tensor, seed: int = 0) -> tuple[torch.Tensor, list[Warp]]:
    group = GeometricGroup(tuple(transforms))
    height, width = frames.shape[2:]
    warps = group.draw(np.random.default_rng(seed), ClipInfo(LENGTH, height, width))
    result = carry_out(warps, frames)
    assert tuple(result.shape[2:]) == output_size([group], (height, width))
    return result, warps


def one_by_one(transforms: list[Any], frames: torch.Tensor, seed: int = 0) -> torch.Tensor:
    rng = np.random.default_rng(seed)
    for transform in transforms:
        clip = ClipInfo(LENGTH, *frames.shape[2:])
        frames = carry_out(GeometricGroup((transform,)).draw(rng, clip), frames)
    return frames


exact_steps = st.one_of(
    st.builds(tf.HorizontalFlip),
    st.builds(tf.VerticalFlip),
    st.builds(tf.RandomHorizontalFlip),
    st.builds(tf.RandomVerticalFlip),
    st.builds(tf.CenterCrop, st.tuples(st.integers(20, 30), st.integers(20, 30))),
    st.builds(tf.RandomCrop, st.tuples(st.integers(20, 30), st.integers(20, 30)), pad_if_needed=st.just(True)),
    st.builds(tf.RandomCrop, st.tuples(st.integers(20, 30), st.integers(20, 30)), padding=st.just(15)),
    st.builds(tf.PadToMultiple, st.integers(1, 50), fill=st.sampled_from([0, 77]), position=st.just("center")),
)


@given(st.lists(exact_steps, max_size=6), st.integers(0, 2**32))
def test_crops_flips_and_borders_are_exact(steps: list[Any], seed: int) -> None:
    try:
        expected = one_by_one(steps, NOISE, seed)
    except ConfigurationError:  # a crop that does not fit any more
        return
    result, warps = grouped(steps, NOISE, seed)
    assert torch.equal(result, expected)
    assert all(warp.interpolation == "nearest" for warp in warps)


def test_whole_pixels_are_those_of_tensors() -> None:
    result, warps = grouped([tf.HorizontalFlip(), tf.CenterCrop((40, 50)), tf.VerticalFlip()], NOISE)
    assert torch.equal(result, NOISE.flip(3)[:, :, 10:50, 15:65].flip(2))
    assert len(warps) == 1
    padded, _ = grouped([tf.CenterCrop(40), tf.Pad(50, fill=(1, 2, 3), position="center")], NOISE)
    assert torch.equal(padded[:, :, 5:45, 5:45], NOISE[:, :, 10:50, 20:60])
    assert torch.equal(padded[:, :, 0, 0], torch.tensor([1, 2, 3]).expand(LENGTH, 3))


@given(
    st.lists(
        st.sampled_from(
            [Rotate((-8, 8)), Affine((-5, 5), scale=(0.95, 1.05), shear=(-4, 4)), Perspective(0.1, p=1),
             tf.RandomHorizontalFlip(), tf.VerticalFlip(), Rotate(Linear(-8, 8))]
        ),
        max_size=3,
    ),
    st.sampled_from([[], [tf.CenterCrop((40, 50))], [tf.RandomCrop(45)], [tf.Resize((66, 90))]]),
    st.integers(0, 2**32),
)  # fmt: skip
def test_one_resampling_is_as_good_as_several(warps: list[Any], last: list[Any], seed: int) -> None:
    steps = [*warps, *last]
    result, drawn = grouped(steps, smooth(), seed)
    assert len(drawn) <= 1
    # Each step more blurs a little. What one turns out of sight is black in the steps one by one.
    assert (result - one_by_one(steps, smooth(), seed))[:, :, 8:-8, 8:-8].abs().max() < 3


@pytest.mark.parametrize(
    "transforms",
    [
        [Rotate(0)],
        [Rotate(33), Rotate(-33)],
        [tf.HorizontalFlip(), tf.HorizontalFlip()],
        [tf.Resize((30, 40)), tf.Resize((60, 80))],
        [Affine(scale=2), Affine(scale=0.5)],
        [tf.CenterCrop((HEIGHT, WIDTH)), RandomApply(Rotate(3), p=0)],
    ],
)
def test_what_changes_nothing_is_no_operation(transforms: list[Any]) -> None:
    assert grouped(transforms, NOISE)[1] == []


def test_what_is_cropped_stays_cropped() -> None:
    steps = [tf.CenterCrop(40), Rotate(45, fill=9)]
    result, warps = grouped(steps, NOISE)
    assert torch.equal(result, one_by_one(steps, NOISE))
    assert len(warps) == 2
    assert (result[:, :, 0, 0] == 9).all()
    # Turned, and then cropped within: one resampling.
    assert len(grouped([Rotate(45, fill=9), tf.CenterCrop(20), tf.HorizontalFlip(), tf.Resize(64)], NOISE)[1]) == 1


def test_two_colours_that_show_are_both_there() -> None:
    steps = [Rotate(10, fill=50), tf.Pad(100, fill=200, position="center")]
    result, warps = grouped(steps, NOISE)
    assert torch.equal(result, one_by_one(steps, NOISE))
    assert len(warps) == 2
    assert set(result[0, 0, :20].flatten().tolist()) == {200}
    # Of two colours that do not both show, the one that does counts.
    (enlarged,) = grouped([Affine(scale=2, fill=50), Rotate(5, fill=200)], NOISE)[1]
    assert enlarged.fill == (200, 200, 200)
    (turned,) = grouped([Rotate(5, fill=200), Affine(scale=2, fill=50)], NOISE)[1]
    assert turned.fill == (200, 200, 200)


def test_the_last_that_resamples_says_how() -> None:
    nearest, bicubic = Rotate(5, interpolation="nearest"), Rotate(5, interpolation="bicubic")
    assert [
        grouped(steps, NOISE)[1][0].interpolation
        for steps in ([nearest, bicubic], [bicubic, nearest], [bicubic, tf.HorizontalFlip()])
    ] == ["bicubic", "nearest", "bicubic"]


@pytest.mark.parametrize(
    ("transforms", "samples"),
    [
        ([tf.Resize((30, 40))], (2, 2)),
        ([tf.Resize((20, 75))], (3, 2)),
        ([tf.Resize((120, 160))], (1, 1)),
        ([tf.Resize((30, 40), antialias=False)], (1, 1)),
        ([tf.Resize((30, 40), interpolation="nearest")], (1, 1)),
        ([tf.Resize((1, 1))], (8, 8)),
        ([Rotate(90), tf.Resize((30, 80))], (2, 1)),
        ([Affine(scale=0.3)], (1, 1)),
        ([Affine(scale=0.3, antialias=True)], (4, 4)),
    ],
)
def test_smaller_pictures_take_more_samples(transforms: list[Any], samples: tuple[int, int]) -> None:
    assert grouped(transforms, NOISE)[1][0].samples == samples


def test_resizes_repeat_the_picture_at_its_border() -> None:
    for size in ((120, 200), (61, 81)):
        result, _ = grouped([tf.Resize(size, antialias=False)], NOISE)
        expected = torch.nn.functional.interpolate(NOISE.float(), size, mode="bilinear")
        assert (result - expected).abs().max() < 0.51


def test_choices_of_geometric_steps_join_in() -> None:
    choices = [
        RandomApply([tf.HorizontalFlip(), Rotate((-5, 5))]),
        RandomChoice([tf.CenterCrop(40), [Rotate((3, 9)), tf.Resize((40, 40))]]),
        RandomOrder([tf.VerticalFlip(), Affine(scale=(0.9, 1.1))]),
        When(lambda clip: clip.width == 40, tf.HorizontalFlip()),
    ]
    for seed in range(8):
        result, warps = grouped(choices, smooth(), seed)
        assert len(warps) == 1 or any(len(warp.matrix) for warp in warps)
        assert (result - one_by_one(choices, smooth(), seed))[:, :, 5:-5, 5:-5].abs().max() < 4


def test_groups_are_the_runs_of_geometric_transforms() -> None:
    mixed = RandomApply([Rotate(3), Invert()])
    steps = [tf.HorizontalFlip(), Rotate(3), Invert(), mixed, tf.CenterCrop(8), RandomApply(tf.VerticalFlip())]
    first, *others, last = group_geometric(steps)
    assert first == GeometricGroup((steps[0], steps[1]))
    assert others == [steps[2], mixed]
    assert last == GeometricGroup((steps[4], steps[5]))
    assert group_geometric([]) == []


def test_a_mixed_choice_resamples_its_runs_once() -> None:
    steps = RandomApply([Rotate(3), tf.HorizontalFlip(), Invert(), tf.VerticalFlip(), Rotate(2)], p=1)
    drawn = steps.draw(np.random.default_rng(0), ClipInfo(LENGTH, HEIGHT, WIDTH))
    assert [type(each).__name__ for each in drawn] == ["Warp", "Table", "Warp"]


@pytest.mark.parametrize(
    "choice",
    [
        RandomApply(tf.CenterCrop(20)),
        RandomChoice([tf.CenterCrop(20), tf.CenterCrop(30)]),
        RandomOrder([tf.Resize((50, 70)), tf.CenterCrop((40, 50)), tf.Resize((60, 80))]),
        When(lambda clip: True, tf.CenterCrop(20)),
        RandomApply([Invert(), tf.CenterCrop(20)]),
    ],
)
def test_sizes_that_depend_on_chance_are_refused(choice: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"{type(choice).__name__} of .*CenterCrop.* gives frames of"):
        output_size([choice], (HEIGHT, WIDTH))


def test_an_order_of_many_is_planned_at_once() -> None:
    """It has more than a billion orders."""
    order = RandomOrder([tf.HorizontalFlip(), Rotate(3), tf.Resize((40, 40)), *[tf.VerticalFlip()] * 10])
    assert output_size(group_geometric([order]), (HEIGHT, WIDTH)) == (40, 40)


def test_the_size_is_known_beforehand() -> None:
    steps = [Invert(), Rotate(3), tf.Resize(30), RandomApply(tf.HorizontalFlip()), tf.PadToMultiple(32)]
    assert output_size(steps, (HEIGHT, WIDTH)) == (32, 64)
    assert output_size(group_geometric(steps), (HEIGHT, WIDTH)) == (32, 64)
    with pytest.raises(ConfigurationError, match="does not fit"):
        output_size([Rotate(3), tf.CenterCrop(100)], (HEIGHT, WIDTH))


def test_what_is_no_matrix_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="Pad must have mode='constant'"):
        GeometricGroup((RandomApply(tf.Pad(90, mode="edge")),))
