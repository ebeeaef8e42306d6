"""Per-pixel noise, computed as a hash of drawn keys and the pixel's position.

So nothing is random in a backend: the CPU and CUDA make the same noise, and a replay reproduces it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from videoloader.convert.rounding import round_to
from videoloader.transforms.backends.parts import for_all_frames
from videoloader.transforms.curves import Range, check_pixel_range, check_range, draw_range_by_frame
from videoloader.transforms.operations import BatchFunction, ClipInfo, Params, PixelTransform, checked

# Uniform numbers are integers below this, which float32 holds exactly.
_UNIT = 1 << 24


@dataclass(frozen=True)
class GaussianNoise(PixelTransform):
    """Add normally distributed noise to each channel of each pixel.

    Args:
        mean, std: number, (low, high) or curve, default 0 and (0.0, 25.0). The mean and the standard deviation of the
            noise, in pixel values of 0 … 255. torchvision's ``GaussianNoise(sigma=0.1)`` is
            ``GaussianNoise(std=25.5)``.
        per_frame: bool, default True. Whether each frame has its own noise, as from a camera, or all frames have the
            same.

    Raises:
        ConfigurationError: the standard deviation is below 0, or a number is not finite.

    Examples:
        >>> transforms = [GaussianNoise(std=(0, 25))]
    """

    mean: Range = field(default=0.0, metadata=checked(check_pixel_range))
    std: Range = field(default=(0.0, 25.0), metadata=checked(check_pixel_range, 0))
    per_frame: bool = field(default=True, kw_only=True)

    def draw(self, rng: np.random.Generator, clip: ClipInfo) -> list[BatchFunction]:
        """Return the mean, standard deviation and keys for each frame."""
        mean, std = (draw_range_by_frame(value, rng, clip.length) for value in (self.mean, self.std))
        keys = draw_keys(rng, clip.length, per_frame=self.per_frame)
        params: Params = {"mean": mean, "std": std, "keys": keys}
        return [BatchFunction(add_gaussian_noise, params, by_frame=tuple(params))]


def add_gaussian_noise(frames: torch.Tensor, params: Params) -> torch.Tensor:
    """Apply ``GaussianNoise``.

    Args:
        frames: uint8[N, T, 3, H, W].
        params: ``mean``, ``std`` float64[N, T]; ``keys`` uint32[N, T, 3, 2].
    """
    mean, std = _per_frame(frames, params["mean"], np.float32), _per_frame(frames, params["std"], np.float32)
    keys = params["keys"].reshape(-1, 3, 2)

    def add(part: torch.Tensor, which: slice) -> torch.Tensor:
        noise = normal(keys[which], part.shape[2], part.shape[3], part.device)
        return round_to(noise.mul_(std[which]).add_(mean[which]).add_(part), torch.uint8)

    return for_all_frames(frames, add)


@dataclass(frozen=True)
class SaltAndPepper(PixelTransform):
    """Turn random pixels white ("salt") or black ("pepper").

    Args:
        amount: number, (low, high) or curve, default 0.05. The probability that a pixel changes, 0 … 1.
        salt: number, (low, high) or curve, default 0.5. The share of white among the changed pixels, 0 … 1.
        per_frame: bool, default True. Whether each frame has its own noise, or all frames have the same.
        per_channel: bool, default False. Whether each channel changes independently, which makes coloured dots.

    Raises:
        ConfigurationError: an amount or a share is outside [0, 1].

    Examples:
        >>> transforms = [SaltAndPepper((0, 0.1))]
    """

    amount: Range = field(default=0.05, metadata=checked(check_range, 0, 1))
    salt: Range = field(default=0.5, metadata=checked(check_range, 0, 1))
    per_frame: bool = field(default=True, kw_only=True)
    per_channel: bool = field(default=False, kw_only=True)

    def draw(self, rng: np.random.Generator, clip: ClipInfo) -> list[BatchFunction]:
        """Return the probabilities and keys for each frame."""
        amount, salt = (draw_range_by_frame(value, rng, clip.length) for value in (self.amount, self.salt))
        keys = draw_keys(rng, clip.length, per_frame=self.per_frame)
        if not self.per_channel:
            keys = np.broadcast_to(keys[:, :1], keys.shape)
        params: Params = {"white": amount * salt, "black": amount * (1 - salt), "keys": keys}
        return [BatchFunction(sprinkle, params, by_frame=tuple(params))]


def sprinkle(frames: torch.Tensor, params: Params) -> torch.Tensor:
    """Apply ``SaltAndPepper``.

    Args:
        frames: uint8[N, T, 3, H, W].
        params: probabilities ``white`` and ``black``, float64[N, T]; ``keys`` uint32[N, T, 3, 2].
    """
    white = _per_frame(frames, np.round(params["white"] * _UNIT), np.int32)
    turned = _per_frame(frames, np.round((params["white"] + params["black"]) * _UNIT), np.int32)
    keys = params["keys"].reshape(-1, 3, 2)

    def turn(part: torch.Tensor, which: slice) -> torch.Tensor:
        drawn = uniform(keys[which], part[0, 0].numel(), part.device).view(part.shape)
        return part.masked_fill_(drawn < turned[which], 0).masked_fill_(drawn < white[which], 255)

    return for_all_frames(frames, turn)


def draw_keys(rng: np.random.Generator, length: int, *, per_frame: bool) -> npt.NDArray[np.uint32]:
    """uint32[length, 3, 2]: keys for the noise of each frame and channel, or the same for all frames."""
    keys = rng.integers(1 << 32, size=(length if per_frame else 1, 3, 2), dtype=np.uint32)
    return np.broadcast_to(keys, (length, 3, 2))


def uniform(keys: npt.NDArray[np.uint32], count: int, device: torch.device) -> torch.Tensor:
    """Uniform integers in [0, 2**24): for each pixel a hash of its number and its plane's keys.

    The hash is the 32-bit integer mixing of C. Wellons ("Prospecting for Hash Functions", 2018: constants 7feb352d and
    846ca68b, shifts 16, 15, 16) with one key added to the number and the other mixed in half way.

    Args:
        keys: uint32[n, 3, 2].
        count: pixels of a plane.
        device: device of the result.

    Returns:
        int32[n, 3, count].
    """
    first, second = torch.from_numpy(keys.view(np.int32).copy()).to(device, non_blocking=True).unbind(-1)
    x = torch.arange(count, dtype=torch.int32, device=device) + first[..., None]
    # int32 wraps around, and shifts in copies of its sign, which are masked out.
    x ^= (x >> 16) & 0xFFFF
    x *= 0x7FEB352D
    x ^= (x >> 15) & 0x1FFFF
    x ^= second[..., None]
    x *= 0x846CA68B - (1 << 32)
    x ^= (x >> 16) & 0xFFFF
    return (x >> 8) & (_UNIT - 1)


def normal(keys: npt.NDArray[np.uint32], height: int, width: int, device: torch.device) -> torch.Tensor:
    """Numbers of mean 0 and deviation 1 (Box and Muller, "A note on the generation of random normal deviates", 1958).

    Every two uniform numbers make two normal ones, for a pixel in a plane's first half and one in its second half.

    Args:
        keys: uint32[n, 3, 2].
        height, width: size of a plane.
        device: device of the result.

    Returns:
        float32[n, 3, height, width].
    """
    half = (height * width + 1) // 2
    pairs = uniform(keys, 2 * half, device).to(torch.float32).mul_(1 / _UNIT)
    # Add one step to avoid the logarithm of 0.
    radius = pairs[..., :half].add(1 / _UNIT).log_().mul_(-2).sqrt_()
    angle = pairs[..., half:] * (2 * math.pi)
    torch.mul(angle.cos(), radius, out=pairs[..., :half])
    torch.mul(angle.sin_(), radius, out=pairs[..., half:])
    return pairs[..., : height * width].reshape(*pairs.shape[:2], height, width)


def _per_frame(frames: torch.Tensor, values: npt.NDArray[Any], dtype: npt.DTypeLike) -> torch.Tensor:
    """Numbers [N, T] on the frames' device, in a shape that broadcasts with [N · T, 3, H, W]."""
    return torch.from_numpy(values.astype(dtype).reshape(-1, 1, 1, 1)).to(frames.device, non_blocking=True)
