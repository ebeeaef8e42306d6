"""Rotate, Affine and Perspective: torchvision's pixels for the same parameters, and what is drawn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transforms.geometry_references import ARRAYS, GIVEN

from videoloader.errors import ConfigurationError
from videoloader.transforms.curves import Linear, RandomWalk
from videoloader.transforms.geometry.coordinates import apply_matrix
from videoloader.transforms.geometry.warping import warp_tensor
from videoloader.transforms.operations import ClipInfo, Warp
from videoloader.transforms.warps import Affine, Perspective, Rotate, perspective_matrix

PICTURE = torch.from_numpy(ARRAYS["picture"])
HEIGHT, WIDTH = PICTURE.shape[1:]
CLIP = ClipInfo(5, HEIGHT, WIDTH)
FILLS = [(0.0, 0.0, 0.0), (200.0, 90.0, 10.0)]


def warped(matrix: npt.NDArray[np.float64], interpolation: Any, fill: tuple[float, float, float]) -> torch.Tensor:
    return warp_tensor(PICTURE[None], Warp(matrix, (HEIGHT, WIDTH), interpolation, fill))[0]


def matrices(kind: str) -> list[npt.NDArray[np.float64]]:
    rng = np.random.default_rng(0)
    if kind == "rotate":
        return [Rotate(degrees).resampling(rng, CLIP).matrix for degrees in GIVEN[kind]]
    if kind == "perspective":
        corners = np.array([(0, 0), (WIDTH - 1, 0), (WIDTH - 1, HEIGHT - 1), (0, HEIGHT - 1)], np.float64)
        return [perspective_matrix(corners, np.array(ends, np.float64))[None] for ends in GIVEN[kind]]
    return [affine(case).resampling(rng, CLIP).matrix[:1] for case in GIVEN[kind]]


def affine(case: dict[str, Any]) -> Affine:
    # A curve, even one that has but one value, is not rounded and not turned either way.
    right, down = (shift / side for shift, side in zip(case["translate"], (WIDTH, HEIGHT), strict=True))
    translate = Linear(right, right), Linear(down, down)
    shear, shear_y = case["shear"]
    return Affine(
        case["angle"], translate=translate, scale=case["scale"], shear=shear, shear_y=shear_y, center=case.get("center")
    )


@pytest.mark.parametrize("kind", ["rotate", "affine", "perspective"])
@pytest.mark.parametrize("interpolation", ["bilinear", "nearest"])
@pytest.mark.parametrize("number", [0, 1])
def test_pixels_are_torchvisions(kind: str, interpolation: str, number: int) -> None:
    expected = torch.from_numpy(ARRAYS[f"{kind}_{interpolation}_{number}"])
    for matrix, reference in zip(matrices(kind), expected, strict=True):
        error = (warped(matrix, interpolation, FILLS[number]).int() - reference.int()).abs().amax(0)
        counted = torch.ones_like(error, dtype=torch.bool)
        if interpolation == "nearest":
            counted = away_from_ties(matrix)
        elif number == 1:
            # At the picture's border torchvision weighs the picture twice when it is given a colour to fill with.
            warp = Warp(matrix, (HEIGHT, WIDTH), "bilinear", FILLS[0])
            seen = warp_tensor(torch.ones(1, 1, HEIGHT, WIDTH), warp, fill=[0])
            counted = ((seen < 1e-6) | (seen > 1 - 1e-6))[0, 0]
        assert counted.float().mean() > 0.75
        assert error[counted].max() <= (0 if interpolation == "nearest" else 1)


def away_from_ties(matrix: npt.NDArray[np.float64]) -> torch.Tensor:
    """bool[H, W]: whether an output pixel's point is not on the border of two pixels."""
    y, x = np.mgrid[:HEIGHT, :WIDTH] + 0.5
    points = apply_matrix(matrix, np.stack([x, y], -1)[None])[0]
    return torch.from_numpy((np.abs(points - np.rint(points)) > 1e-3).all(-1))


def test_frames_turn_counter_clockwise_and_affine_maps_clockwise_as_in_torchvision() -> None:
    square, clip = PICTURE[None, :, :, :HEIGHT], ClipInfo(1, HEIGHT, HEIGHT)
    rng = np.random.default_rng(0)
    for transform, turns in ((Rotate(90), 1), (Affine(90), -1), (Rotate(180), 2)):
        (warp,) = transform.draw(rng, clip)
        assert torch.equal(warp_tensor(square, warp), square.rot90(turns, (2, 3)))


@given(st.integers(0, 2**32))
def test_what_is_drawn_lies_in_its_range(seed: int) -> None:
    rng = np.random.default_rng(seed)
    transform = Affine((-20, 10), translate=(0.25, 0.1), scale=(0.5, 2))
    linear = np.linalg.inv(transform.resampling(rng, CLIP).matrix[0])
    scale = np.sqrt(np.linalg.det(linear[:2, :2]))
    assert 0.5 <= scale <= 2
    assert -20 <= np.degrees(np.arctan2(linear[1, 0], linear[0, 0])) <= 10
    moved = linear @ (WIDTH / 2, HEIGHT / 2, 1) - (WIDTH / 2, HEIGHT / 2, 1)
    assert np.allclose(moved, np.rint(moved), atol=1e-9)
    assert abs(moved[0]) <= 0.25 * WIDTH + 0.5
    assert abs(moved[1]) <= 0.1 * HEIGHT + 0.5


@given(st.floats(0, 0.9), st.integers(0, 2**32))
def test_perspective_moves_each_corner_inwards(distortion: float, seed: int) -> None:
    step = Perspective(distortion, p=1).resampling(np.random.default_rng(seed), CLIP)
    assert step is not None
    corners = np.array([(0, 0), (WIDTH, 0), (WIDTH, HEIGHT), (0, HEIGHT)], np.float64)
    inwards = np.abs(apply_matrix(np.linalg.inv(step.matrix), corners[None])[0] - corners)
    assert (inwards <= np.array([WIDTH, HEIGHT]) / 2 * distortion + 1e-6).all()


def test_perspective_comes_as_often_as_asked() -> None:
    rng = np.random.default_rng(0)
    drawn = [bool(Perspective(0.5, p=0.3).draw(rng, CLIP)) for _ in range(1000)]
    assert np.mean(drawn) == pytest.approx(0.3, abs=0.05)


@pytest.mark.parametrize("transform", [Rotate((-30, 30)), Affine((-30, 30), shear=(-9, 9)), Perspective(0.5, p=1)])
def test_a_static_clip_stays_static(transform: Any) -> None:
    (warp,) = transform.draw(np.random.default_rng(1), CLIP)
    frames = warp_tensor(PICTURE.expand(CLIP.length, -1, -1, -1), warp)
    assert frames.shape == (CLIP.length, *PICTURE.shape)
    assert (frames == frames[:1]).all()
    assert not torch.equal(frames[0], PICTURE)


@pytest.mark.parametrize(
    "transform",
    [Rotate(RandomWalk(-5, 5, step=2)), Affine(scale=Linear(0.5, 2)), Perspective(Linear(0.1, 0.9), p=1)],
)
def test_a_curve_gives_each_frame_its_own_warp(transform: Any) -> None:
    (warp,) = transform.draw(np.random.default_rng(1), CLIP)
    assert len(warp.matrix) == CLIP.length
    frames = warp_tensor(PICTURE.expand(CLIP.length, -1, -1, -1), warp)
    for number, frame in enumerate(frames):
        alone = Warp(warp.matrix[number : number + 1], warp.size, warp.interpolation, warp.fill)
        assert torch.equal(frame, warp_tensor(PICTURE[None], alone)[0])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Rotate(float("nan")), "Rotate's degrees"),
        (lambda: Rotate((10, -10)), "Rotate's degrees"),
        (lambda: Rotate(3, center=(1, 2, 3)), "Rotate's center"),
        (lambda: Rotate(3, interpolation="lanczos"), "bilinear, bicubic, nearest"),
        (lambda: Rotate(3, fill=300), r"\[0, 255\]"),
        (lambda: Affine(translate=0.5), "Affine's translate"),
        (lambda: Affine(translate=(0.5, 1.5)), r"Affine's translate .* in \[0, 1\]"),
        (lambda: Affine(translate=(Linear(-2, 0), 0)), r"Affine's translate .* in \[-1, 1\]"),
        (lambda: Affine(scale=0), "Affine's scale"),
        (lambda: Affine(shear=90), r"Affine's shear .* in \[-89, 89\]"),
        (lambda: Affine(shear_y=(-90, 0)), "Affine's shear_y"),
        (lambda: Perspective(1.5), r"Perspective's distortion_scale .* in \[0, 1\]"),
        (lambda: Perspective(0.5, p=2), r"Perspective's p must be a number in \[0, 1\], got 2"),
    ],
)
def test_bad_parameters_are_refused_when_the_transform_is_made(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        make()
