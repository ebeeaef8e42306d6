"""Filters: weighted sums over each pixel's neighbours in each channel, with borders mirrored (``reflect_101``)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from videoloader import padding
from videoloader.convert.rounding import round_to
from videoloader.errors.checks import both_ends, check
from videoloader.transforms.backends.parts import for_all_frames
from videoloader.transforms.curves import Range, check_range, draw_range_by_frame
from videoloader.transforms.operations import BatchFunction, ClipInfo, Params, PixelTransform, checked

_WIDEST = 255
_WIDEST_LAPLACIAN = 23


def _check_odd(name: str, value: Any, high: int, may_be_two: bool = False) -> None:
    sizes = value if may_be_two and isinstance(value, tuple) and len(value) == 2 else (value,)
    are_odd = all(isinstance(size, Integral) and 1 <= int(size) <= high and int(size) % 2 for size in sizes)
    check(name, value, are_odd, f"{'one or two odd numbers' if may_be_two else 'an odd number'} in [1, {high}]")


@dataclass(frozen=True)
class GaussianBlur(PixelTransform):
    """Blur with a Gaussian, as torchvision does: weights ``exp(−x² / 2σ²)`` that add up to 1, in rows and columns.

    Args:
        kernel_size: int or (int, int). The number of pixels to average, odd, 1 … 255: an int for both directions, or
            one for rows and one for columns.
        sigma: number, (low, high) or curve, default (0.1, 2.0). The standard deviation σ in pixels, at least 0.01.

    Raises:
        ConfigurationError: the kernel size or sigma is out of its range.

    Examples:
        SimCLR's blur for 224×224, with probability 0.5:

            >>> transforms = [RandomApply([GaussianBlur(23, sigma=(0.1, 2.0))], p=0.5)]
    """

    kernel_size: int | tuple[int, int] = field(metadata=checked(_check_odd, _WIDEST, True))
    sigma: Range = field(default=(0.1, 2.0), metadata=checked(check_range, 0.01))

    def draw(self, rng: np.random.Generator, clip: ClipInfo) -> list[BatchFunction]:
        """Return one blur, with one sigma for the clip or one for each frame."""
        sigma = draw_range_by_frame(self.sigma, rng, clip.length)
        params = {"kernel_size": np.array(both_ends(self.kernel_size)), "sigma": sigma}
        return [BatchFunction(blur, params, by_frame=("sigma",))]


def blur(frames: torch.Tensor, params: Params) -> torch.Tensor:
    """Apply ``GaussianBlur``.

    Args:
        frames: uint8[N, T, 3, H, W].
        params: ``kernel_size`` int[N, 2], for rows and for columns; ``sigma`` float64[N, T].
    """
    sigma = params["sigma"].reshape(-1, 1)
    kernels = []
    for sizes in params["kernel_size"].T:
        # Clips with smaller kernels run with the others: their missing taps have a weight of zero.
        reach = int(sizes.max()) // 2
        taps = np.arange(-reach, reach + 1)
        inside = np.abs(taps) <= np.repeat(sizes // 2, frames.shape[1])[:, None]
        weights = np.where(inside, np.exp(-(taps**2) / (2 * sigma**2)), 0)
        kernels.append(weights / weights.sum(axis=1, keepdims=True))
    down, across = kernels

    def blurred(part: torch.Tensor, which: slice) -> torch.Tensor:
        return round_to(_separable(part.float(), down[which], across[which]), torch.uint8)

    return for_all_frames(frames, blurred)


@dataclass(frozen=True)
class Laplacian(PixelTransform):
    """Show edges: the strength of the second derivative, ``|scale · (∂²/∂x² + ∂²/∂y²)|``, clamped to 255.

    Derivatives are (1, −2, 1) between neighbours. Wider windows smooth them with binomial weights in both directions,
    like OpenCV's ``Laplacian`` and DALI's ``laplacian`` with normalised kernels: with any window, a second derivative
    of 1 gives 1.

    Args:
        window_size: int, default 1. The width of the filter, odd, 1 … 23; 1 is the filter 0 1 0 / 1 −4 1 / 0 1 0.
        scale: number, (low, high) or curve, default 1. The factor of the result.

    Raises:
        ConfigurationError: the window size is out of its range, or the scale is not finite.
    """

    window_size: int = field(default=1, metadata=checked(_check_odd, _WIDEST_LAPLACIAN))
    scale: Range = field(default=1.0, metadata=checked(check_range))

    def draw(self, rng: np.random.Generator, clip: ClipInfo) -> list[BatchFunction]:
        """Return one filter, with one scale for the clip or one for each frame."""
        scale = draw_range_by_frame(self.scale, rng, clip.length)
        params = {"window_size": np.array(self.window_size), "scale": scale}
        return [BatchFunction(show_edges, params, by_frame=("scale",))]


def show_edges(frames: torch.Tensor, params: Params) -> torch.Tensor:
    """Apply ``Laplacian``.

    Args:
        frames: uint8[N, T, 3, H, W].
        params: ``window_size`` int[N]; ``scale`` float64[N, T].
    """
    windows = params["window_size"]
    width = max(int(windows.max()), 3)
    each = [_laplacian_rows(int(window), width) for window in windows]
    second, smooth = (np.repeat(np.stack(rows), frames.shape[1], axis=0) for rows in zip(*each, strict=True))
    scale = params["scale"].reshape(-1)

    def edges(part: torch.Tensor, which: slice) -> torch.Tensor:
        values = part.float()
        total = _separable(values, second[which], smooth[which])
        total += _separable(values, smooth[which], second[which])
        factors = torch.from_numpy(scale[which].astype(np.float32)).to(part.device, non_blocking=True)
        return round_to(total.mul_(factors.view(-1, 1, 1, 1)).abs_(), torch.uint8)

    return for_all_frames(frames, edges)


def _laplacian_rows(window: int, width: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Weights of the second derivative and of the smoothing across it, centred in ``width`` taps."""
    if window == 1:
        second, smooth = np.array([1.0, -2.0, 1.0]), np.array([1.0])
    else:
        second, smooth = np.convolve([1, -2, 1], _binomial(window - 2)), _binomial(window)
    margins = [(width - len(row)) // 2 for row in (second, smooth)]
    return np.pad(second, margins[0]), np.pad(smooth, margins[1])


def _binomial(width: int) -> npt.NDArray[np.float64]:
    return np.array([math.comb(width - 1, tap) / 2 ** (width - 1) for tap in range(width)])


def _separable(frames: torch.Tensor, down: npt.NDArray[np.float64], across: npt.NDArray[np.float64]) -> torch.Tensor:
    """Weighted sums along columns, then along rows.

    Args:
        frames: float32[n, 3, H, W].
        down, across: [n, taps], an odd number of weights for each frame.

    Returns:
        float32[n, 3, H, W].
    """
    for axis, weights in ((2, down), (3, across)):
        size, reach = frames.shape[axis], weights.shape[1] // 2
        if not weights[:, np.arange(2 * reach + 1) != reach].any():
            middle = torch.from_numpy(weights[:, reach].astype(np.float32)).to(frames.device, non_blocking=True)
            frames = frames * middle.view(-1, 1, 1, 1)
            continue
        mirrored, _ = padding.pad(np.arange(-reach, size + reach), 0, size, "reflect_101")
        frames = frames.index_select(axis, torch.from_numpy(mirrored).to(frames.device, non_blocking=True))
        kernels = torch.from_numpy(weights.astype(np.float32)).to(frames.device, non_blocking=True)
        shape = (-1, 1, 2 * reach + 1, 1) if axis == 2 else (-1, 1, 1, 2 * reach + 1)
        kernels = kernels[:, None].expand(-1, 3, -1).reshape(shape)
        # All planes are channels of one picture, each in its own group. PyTorch has a kernel for that, which computes
        # in float32 whatever the TF32 settings.
        filtered = torch.nn.functional.conv2d(frames.flatten(0, 1)[None], kernels, groups=len(kernels))
        frames = filtered.view(-1, 3, *filtered.shape[2:])
    return frames
