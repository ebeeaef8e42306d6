"""Custom operations: the function's input, random draws, and what is refused."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import torch
from chi_square import fits
from own_augmentations import cutout, swap, warmth
from plain_operations import carry_out

from videoloader.errors import ConfigurationError
from videoloader.transforms.augmentation import augmentation
from videoloader.transforms.automatic import AutoAugment, RandAugment, TrivialAugmentWide
from videoloader.transforms.operations import BatchFunction, ClipInfo, PixelTransform

CLIP = ClipInfo(3, 40, 60)


def drawn(transform: PixelTransform, seed: int = 0) -> BatchFunction:
    (operation,) = transform.draw(np.random.default_rng(seed), CLIP)
    assert isinstance(operation, BatchFunction)
    return operation


def test_cutout_makes_the_same_hole_in_all_frames_of_a_clip_and_another_in_each_clip() -> None:
    frames = torch.zeros(3, 4, 3, 40, 60, dtype=torch.uint8)
    operations = [drawn(cutout.at(0.3), seed) for seed in range(3)]
    params = {name: np.stack([each.params[name] for each in operations]) for name in ("param", "random")}
    assert params["param"].tolist() == [0.3] * 3
    assert params["random"].shape == (3, 2)
    after = operations[0].function(frames, params)
    assert ((after == 0) | (after == 128)).all()
    holes = after[:, 0, 0] == 128
    assert (after == after[:, :1, :1]).all()
    assert (holes.sum((1, 2)) > 0).all()
    assert (holes.sum((1, 2)) <= 12 * 12).all()
    assert len({hole.numpy().tobytes() for hole in holes}) == 3


def test_clips_that_run_together_share_the_function() -> None:
    assert drawn(cutout.at(0.3), 0).function is drawn(cutout.at(0.1), 1).function


def test_magnitudes_become_parameters_with_both_signs() -> None:
    rng = np.random.default_rng(0)
    first = [warmth.at(0.2).draw(rng, CLIP)[0].params["param"].tolist() for _ in range(1000)]  # type: ignore[union-attr]
    assert fits([first.count([1.2, 1, 0.8]), first.count([0.8, 1, 1.2])], [1, 1])


def test_an_operation_without_magnitudes_gets_no_parameters() -> None:
    frames = np.arange(3 * 4 * 5, dtype=np.uint8).reshape(1, 3, 4, 5)
    assert (carry_out([drawn(swap.at())], frames) == frames[:, ::-1]).all()


def test_policies_draw_it_like_any_other() -> None:
    rng = np.random.default_rng(0)
    choices = ["rotate", cutout, "invert"]
    kinds = [type(RandAugment(1, 15, operations=choices).draw(rng, CLIP)[0]) for _ in range(1500)]
    assert fits([kinds.count(BatchFunction), len(kinds) - kinds.count(BatchFunction)], [1, 2])
    assert drawn(RandAugment(1, 15, operations=[cutout])).params["param"] == 0.25
    assert drawn(RandAugment(1, 30, operations=[cutout])).params["param"] == 0.5
    bins = [drawn(TrivialAugmentWide(bins=6, operations=[cutout]), seed).params["param"] for seed in range(100)]
    assert {round(float(value), 6) for value in bins} == {0, 0.1, 0.2, 0.3, 0.4, 0.5}
    reds = {drawn(RandAugment(1, 30, operations=[warmth]), seed).params["param"][0] for seed in range(20)}
    assert reds == {1.4, 0.6}
    assert drawn(AutoAugment([[(cutout, 1, 5)]])).params["param"] == 0.25


def test_what_is_made_with_the_decorator_can_be_pickled() -> None:
    assert pickle.loads(pickle.dumps(cutout)) is cutout
    transform = RandAugment(operations=["invert", cutout])
    assert pickle.loads(pickle.dumps(transform)) == transform
    operation = drawn(cutout.at(0.2))
    copy = pickle.loads(pickle.dumps(operation))
    assert copy.function is cutout
    assert copy.params["random"].tolist() == operation.params["random"].tolist()


def test_masks_get_the_geometric_function() -> None:
    def mirror(frames: torch.Tensor, params: Any) -> torch.Tensor:
        return frames.flip(-1)

    mirrored = augmentation(geometric=mirror)(mirror)
    assert drawn(mirrored.at()).geometric is mirror
    assert drawn(swap.at()).geometric is None


def test_a_function_that_changes_shape_or_type_is_told_of() -> None:
    @augmentation()
    def lighten(frames: torch.Tensor, params: Any) -> torch.Tensor:
        return frames / 2

    with pytest.raises(ConfigurationError, match=r"lighten makes torch.float32\[1, 3, 3, 4, 5\] of frames torch.uint8"):
        lighten(torch.zeros(1, 3, 3, 4, 5, dtype=torch.uint8), {})


@pytest.mark.parametrize("param", [[1, [2]], "much", None, torch.zeros(2, requires_grad=True)])
def test_parameters_that_are_no_numbers_are_refused(param: Any) -> None:
    bad = augmentation(magnitudes=(0, 0.5), to_param=lambda magnitude: param)(lambda frames, params: frames)
    with pytest.raises(ConfigurationError, match=r"to_param of .* must give a number or an array of numbers, got "):
        bad.operation(0.3, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: augmentation(magnitudes=(0, float("inf"))), "magnitudes"),
        (lambda: augmentation(magnitudes=(1,)), "magnitudes"),  # type: ignore[arg-type]
        (lambda: augmentation(magnitudes="ab"), "magnitudes"),  # type: ignore[arg-type]
        (lambda: augmentation(signed=True), "without magnitudes"),
        (lambda: augmentation(to_param=lambda magnitude: magnitude), "without magnitudes"),
        (lambda: augmentation(draws=-1), "draws must be an integer of at least 0, got -1"),
        (lambda: augmentation(draws=1.5), "draws"),  # type: ignore[arg-type]
        (lambda: cutout.at(0.6), r"cutout's magnitude must be in \[0, 0.5\], got 0.6"),
        (lambda: cutout.at(), r"cutout's magnitude must be .*, got None"),
        (lambda: warmth.at(-0.2), r"warmth's magnitude must be in \[0.1, 0.4\], got -0.2"),
        (lambda: swap.at(0.1), "swap.s magnitude must be None, as it has none, got 0.1"),
    ],
)
def test_bad_parameters_are_refused(make: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        make()
