"""Converts frames to other colour spaces, still as three channels of 0 … 255."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
import torch

from videoloader.errors.checks import check_choice
from videoloader.transforms.backends.parts import for_all_frames
from videoloader.transforms.operations import BatchFunction, ClipInfo, ColorMatrix, Params, PixelTransform, checked

Space: TypeAlias = Literal["rgb", "bgr", "gray", "ycbcr_601", "ycbcr_709", "hsv"]
Matrix = npt.NDArray[np.float64]

# The weights of red and blue in luma.
_LUMA = {"ycbcr_601": (0.299, 0.114), "ycbcr_709": (0.2126, 0.0722)}


@dataclass(frozen=True)
class ConvertColor(PixelTransform):
    """Convert frames from one colour space to another.

    - ``rgb``: R, G, B, the output of decoding.
    - ``bgr``: B, G, R, as in OpenCV and models trained with it.
    - ``gray``: luma of ITU-R BT.601, 0.299 R + 0.587 G + 0.114 B, in all channels. As a source it is read as RGB.
    - ``ycbcr_601``: Y', Cb, Cr of ITU-R BT.601 in the full range 0 … 255, with chroma centred at 128, as in JPEG.
    - ``ycbcr_709``: the same with the factors of ITU-R BT.709.
    - ``hsv``: hue in 256 steps for a full turn, saturation and value 0 … 255 (hexcone model, Smith 1978). Grays have
      hue 0. OpenCV calls it ``HSV_FULL``.

    Later colour transforms and ``Normalize`` treat the channels as R, G and B.

    Args:
        source, target: str. Two of these names.

    Raises:
        ConfigurationError: there is no such space.

    Examples:
        A model that was trained on OpenCV's frames:

            >>> transforms = [ConvertColor("rgb", "bgr")]
    """

    source: Space = field(metadata=checked(check_choice, get_args(Space)))
    target: Space = field(metadata=checked(check_choice, get_args(Space)))

    def draw(self, rng: np.random.Generator, clip: ClipInfo) -> list[ColorMatrix | BatchFunction]:
        """Return at most one matrix, and a function for HSV."""
        if self.source == self.target:
            return []
        operations: list[ColorMatrix | BatchFunction] = []
        matrix = _from_rgb(self.target) @ np.linalg.inv(_from_rgb(self.source if self.source != "gray" else "rgb"))
        if self.source == "hsv":
            operations.append(BatchFunction(hsv_to_rgb))
        if not np.array_equal(matrix, np.eye(4)):
            operations.append(ColorMatrix(matrix[None, :3].astype(np.float32)))
        if self.target == "hsv":
            operations.append(BatchFunction(rgb_to_hsv))
        return operations


def _from_rgb(space: Space) -> Matrix:
    """float64[4, 4]: the matrix from (R, G, B, 1) to the space's channels; for HSV, to the RGB that it is made from."""
    matrix = np.eye(4)
    if space == "bgr":
        matrix[:3, :3] = np.eye(3)[::-1]
    elif space == "gray":
        matrix[:3, :3] = 0.299, 0.587, 0.114
    elif space in _LUMA:
        red, blue = _LUMA[space]
        luma = np.array([red, 1 - red - blue, blue])
        matrix[0, :3] = luma
        matrix[1, :3] = (np.array([0, 0, 1]) - luma) / (2 * (1 - blue))
        matrix[2, :3] = (np.array([1, 0, 0]) - luma) / (2 * (1 - red))
        matrix[1:3, 3] = 128
    return matrix


def rgb_to_hsv(frames: torch.Tensor, params: Params) -> torch.Tensor:
    """uint8[N, T, 3, H, W] of R, G, B as hue, saturation and value; see ``ConvertColor``."""

    def convert(part: torch.Tensor, which: slice) -> torch.Tensor:
        red, green, blue = part.to(torch.int32).unbind(1)
        value = torch.maximum(torch.maximum(red, green), blue)
        spread = value - torch.minimum(torch.minimum(red, green), blue)
        # The hue in sixths of a turn, times spread. Where several channels are the largest, all give the same hue.
        sixths = torch.where(
            value == red, green - blue, torch.where(value == green, blue - red + 2 * spread, red - green + 4 * spread)
        )
        hue = _divide(256 * sixths, 6 * spread) % 256
        return torch.stack([hue, _divide(255 * spread, value), value], 1).to(torch.uint8)

    return for_all_frames(frames, convert)


def hsv_to_rgb(frames: torch.Tensor, params: Params) -> torch.Tensor:
    """uint8[N, T, 3, H, W] of hue, saturation and value as R, G, B; see ``ConvertColor``."""

    def convert(part: torch.Tensor, which: slice) -> torch.Tensor:
        hue, saturation, value = part.to(torch.int32).unbind(1)
        channels = []
        for third in (5, 3, 1):
            # The distance of the hue from where the channel is largest, 0 … 1 sixths of a turn, times 256.
            place = (third * 256 + 6 * hue) % (6 * 256)
            away = torch.minimum(place, 4 * 256 - place).clamp_(0, 256)
            channels.append(_divide(value * (255 * 256 - saturation * away), torch.full_like(value, 255 * 256)))
        return torch.stack(channels, 1).to(torch.uint8)

    return for_all_frames(frames, convert)


def _divide(numbers: torch.Tensor, by: torch.Tensor) -> torch.Tensor:
    """Quotients of whole numbers, rounded to the nearest, halves up; 0 where the divisor is 0."""
    return torch.where(by == 0, 0, (2 * numbers + by) // (2 * by).clamp(min=1))
