"""Warps of tensors of any dtype and number of channels; for frames, the engine's pixels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from videoloader.convert.spec import Interpolation
from videoloader.transforms.backends.apply import apply_operations
from videoloader.transforms.geometry.warping import warp_tensor
from videoloader.transforms.operations import Warp

_SPREAD = np.array([[0.4, 0.4, 4], [0.4, 0.4, 4], [0.004, 0.004, 0]])
matrices = st.integers(0, 2**32).map(
    lambda seed: np.eye(3) + np.random.default_rng(seed).normal(0, 1, (3, 3)) * _SPREAD
)


@given(
    matrices,
    st.sampled_from(["nearest", "bilinear", "bicubic"]),
    st.booleans(),
    st.tuples(st.integers(1, 3), st.integers(1, 3)),
    st.sampled_from([torch.int16, torch.float32, torch.float64]),
)
def test_numbers_of_any_type_are_the_engines_pixels(
    matrix: Any, interpolation: Interpolation, extend: bool, samples: tuple[int, int], dtype: torch.dtype
) -> None:
    frames = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (2, 3, 11, 13), np.uint8))
    warp = Warp(matrix[None], (17, 9), interpolation, (200.0, 30.0, 99.0), samples, extend=extend)
    expected = apply_operations(frames[None], [[warp]])[0]
    warped = warp_tensor(frames.to(dtype), warp).double().clamp(0, 255)
    assert (warped - expected).abs().max() <= (0 if dtype == torch.int16 else 0.5 + 1e-3)


def test_frames_of_one_matrix_each() -> None:
    frames = torch.arange(2 * 5 * 6, dtype=torch.int64).reshape(2, 1, 5, 6)
    moved = np.stack([np.eye(3), [[1, 0, 2], [0, 1, -1], [0, 0, 1]]]).astype(np.float64)
    result = warp_tensor(frames, Warp(moved, (5, 6), "nearest", (0, 0, 0)), fill=[-7])
    assert torch.equal(result[0], frames[0])
    assert torch.equal(result[1, :, 1:, :4], frames[1, :, :4, 2:])
    assert (result[1, :, 0] == -7).all()
    assert (result[1, :, :, 4:] == -7).all()


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.float16, torch.float64, torch.bool])
def test_the_type_stays(dtype: torch.dtype) -> None:
    frames = torch.ones(1, 5, 4, 4, dtype=dtype)
    half = np.array([[[1, 0, 0.5], [0, 1, 0], [0, 0, 1]]])
    for interpolation in ("nearest", "bilinear", "bicubic"):
        result = warp_tensor(frames, Warp(half, (4, 3), interpolation, (0, 0, 0)), fill=[1])  # type: ignore[arg-type]
        assert result.dtype == dtype
        assert (result == 1).all()
