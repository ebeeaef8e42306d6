"""GaussianBlur and Laplacian."""

from __future__ import annotations

import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from example_count import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from transforms.applying import apply, info, painted, together

from videoloader.errors import ConfigurationError
from videoloader.transforms.backends import parts
from videoloader.transforms.curves import Linear
from videoloader.transforms.filters import GaussianBlur, Laplacian
from videoloader.transforms.operations import PixelTransform

RECORDED = np.load(Path(__file__).with_name("references") / "filters.npz")


def correlated(frames: torch.Tensor, kernel: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """float64 of frames [N, T, 3, H, W], pixel by pixel."""
    down, across = (size // 2 for size in kernel.shape)
    margins = [(0, 0)] * 3 + [(down, down), (across, across)]
    padded = np.pad(frames.numpy().astype(np.float64), margins, "reflect")
    views = np.lib.stride_tricks.sliding_window_view(padded, kernel.shape, axis=(3, 4))
    return np.einsum("nchwijk,jk->nchwi", views.transpose(0, 1, 3, 4, 2, 5, 6), kernel).transpose(0, 1, 4, 2, 3)


@pytest.mark.parametrize("number", range(len(RECORDED["blurs"])))
def test_blur_is_torchvisions(number: int) -> None:
    rows, columns, sigma = RECORDED["blurs"][number]
    blurred = apply(GaussianBlur((int(rows), int(columns)), float(sigma)), torch.from_numpy(RECORDED["frames"][None]))
    difference = np.abs(blurred[0].numpy().astype(int) - RECORDED["blurred"][number])
    assert difference.max() <= 1
    assert (difference > 0).mean() < 0.001


def test_clips_with_different_kernels_run_together() -> None:
    frames = painted(clips=4)
    steps = [GaussianBlur(3, 0.5), GaussianBlur((9, 1), 2.0), GaussianBlur(23, 4.0), GaussianBlur(5, Linear(0.3, 3))]
    operations = [step.draw(np.random.default_rng(1), info(frames))[0] for step in steps]
    at_once = together(operations, frames)
    for number, operation in enumerate(operations):
        assert torch.equal(at_once[number], together([operation], frames[number, None])[0])


def test_frames_smaller_than_the_kernel_are_mirrored_to_and_fro() -> None:
    frames = painted(height=2, width=3)
    kernel = np.exp(-(np.arange(-4, 5) ** 2) / 8)
    expected = np.pad(frames.numpy().astype(float), [(0, 0)] * 3 + [(4, 4), (4, 4)], "reflect")
    expected = np.apply_along_axis(lambda line: np.convolve(line, kernel / kernel.sum(), "valid"), 3, expected)
    expected = np.apply_along_axis(lambda line: np.convolve(line, kernel / kernel.sum(), "valid"), 4, expected)
    assert np.abs(apply(GaussianBlur(9, 2.0), frames).numpy() - expected).max() <= 0.5001


def test_parts_of_a_batch_give_what_the_whole_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    frames = painted(clips=3)
    transform = GaussianBlur(5, Linear(0.5, 2))
    operations = [transform.draw(np.random.default_rng(seed), info(frames))[0] for seed in range(3)]
    whole = together(operations, frames)
    monkeypatch.setattr(parts, "_PART", 2 * frames[0, 0].numel())
    assert torch.equal(together(operations, frames), whole)


@pytest.mark.parametrize(
    ("window", "kernel"),
    [
        (1, [[0, 1, 0], [1, -4, 1], [0, 1, 0]]),
        (3, np.array([[2, 0, 2], [0, -8, 0], [2, 0, 2]]) / 4),
    ],
)
@pytest.mark.parametrize("scale", [1.0, -0.37, 3.0])
def test_laplacian_is_opencvs(window: int, kernel: Any, scale: float) -> None:
    frames = painted()
    expected = np.floor(np.abs(correlated(frames, np.array(kernel, float)) * scale) + 0.5).clip(0, 255)
    difference = np.abs(apply(Laplacian(window, scale), frames).numpy() - expected)
    assert difference.max() <= 1
    assert (difference > 0).mean() < 0.001


@pytest.mark.parametrize("window", range(1, 24, 2))
def test_a_parabola_has_the_same_second_derivative_in_any_window(window: int) -> None:
    x = torch.arange(-15, 16)
    frames = (x**2).expand(1, 2, 3, 64, 31).to(torch.uint8)  # second derivative: 2
    edges = apply(Laplacian(window, 50.0), frames)
    inside = edges[..., 12:-12]
    assert (inside.int() - 100).abs().max() <= 1


def test_laplacians_with_different_windows_run_together() -> None:
    frames = painted(clips=3)
    operations = [Laplacian(window).draw(np.random.default_rng(0), info(frames))[0] for window in (1, 3, 7)]
    at_once = together(operations, frames)
    for number, operation in enumerate(operations):
        assert torch.equal(at_once[number], together([operation], frames[number, None])[0])


@settings(max_examples=examples(25))
@given(st.integers(0, 11).map(lambda half: 2 * half + 1), st.floats(0.01, 50))
def test_flat_frames_stay_flat(size: int, sigma: float) -> None:
    frames = torch.full((1, 1, 3, 5, 6), 173, dtype=torch.uint8)
    assert torch.equal(apply(GaussianBlur(size, sigma), frames), frames)
    assert not apply(Laplacian(size), frames).any()


@pytest.mark.parametrize("transform", [GaussianBlur(5), Laplacian(3, (0.5, 2))])
def test_a_static_clip_stays_static(transform: PixelTransform) -> None:
    frames = painted(length=1).expand(-1, 4, -1, -1, -1)
    filtered = apply(pickle.loads(pickle.dumps(transform)), frames)
    assert torch.equal(filtered, filtered[:, :1].expand_as(filtered))


@pytest.mark.parametrize("size", [0, 2, -3, 257, 3.0, (3,), (3, 4), (3, 3, 3)])
def test_bad_kernel_sizes_are_refused(size: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"GaussianBlur's kernel_size must be .* odd numbers in \[1, 255\]"):
        GaussianBlur(size)


@pytest.mark.parametrize("sigma", [0, -1, (0, 1), (2, 1), math.nan, math.inf])
def test_bad_sigmas_are_refused(sigma: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"GaussianBlur's sigma must be at least 0.01"):
        GaussianBlur(3, sigma)


def test_bad_laplacians_are_refused() -> None:
    for size in (0, 2, 25):
        with pytest.raises(ConfigurationError, match=rf"Laplacian's window_size must be an odd number .*, got {size}"):
            Laplacian(size)
    with pytest.raises(ConfigurationError, match=r"Laplacian's scale must be a finite number, .*got nan"):
        Laplacian(scale=math.nan)
