"""Makes the operations of colour transforms.

Functions take float64[F], one value for the clip or one for each frame. Formulas are those of Pillow's ``ImageEnhance``
and ``ImageOps``: with a factor of 1 nothing changes, with 0 only what is blended in is left.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from videoloader.convert.rounding import to_uint8
from videoloader.transforms.operations import ColorMatrix, HueShift, Sharpen, StatisticTable, Table

Values: TypeAlias = npt.NDArray[np.float64]

# The weights of red, green and blue in gray: ITU-R BT.601 in 65536ths, as in Pillow.
GRAY = np.array([19595, 38470, 7471]) / 65536

_LEVELS = np.arange(256.0)


def brightness(factor: Values) -> Table:
    """``factor · in``."""
    return _table(factor[:, None] * _LEVELS)


def contrast(factor: Values, *, per_frame: bool) -> StatisticTable:
    """``mean + factor · (in − mean)``, the mean gray of the clip or of each frame."""
    return StatisticTable("contrast", factor.astype(np.float32), per_frame)


def saturation(factor: Values) -> ColorMatrix:
    """``gray + factor · (in − gray)``."""
    matrix = np.zeros((len(factor), 3, 4))
    matrix[:, :, :3] = factor[:, None, None] * np.eye(3) + (1 - factor)[:, None, None] * GRAY
    # Pillow and torchvision truncate results to whole numbers, and torchvision also truncates the gray. Low factors,
    # which show most of the gray, are truncated here, too, or they would differ from torchvision by more than 1.
    matrix[:, :, 3] = np.minimum(factor - 0.5, 0)[:, None]
    return ColorMatrix(matrix.astype(np.float32))


def grayscale() -> ColorMatrix:
    """The gray in all three channels."""
    matrix = np.zeros((1, 3, 4), np.float32)
    matrix[:, :, :3] = GRAY
    return ColorMatrix(matrix)


def hue(turns: Values) -> HueShift:
    """The hue rotated; 1 is a full turn."""
    return HueShift(turns.astype(np.float32))


def sharpness(factor: Values) -> Sharpen:
    """``smooth + factor · (in − smooth)``."""
    return Sharpen(factor.astype(np.float32))


def gamma(exponent: Values, gain: Values) -> Table:
    """``255 · gain · (in / 255) ** exponent``."""
    return _table(255 * gain[:, None] * (_LEVELS / 255) ** exponent[:, None])


def invert() -> Table:
    """``255 − in``."""
    return _table(255 - _LEVELS[None])


def posterize(bits: npt.NDArray[np.int64]) -> Table:
    """The upper ``bits`` bits of each value."""
    masks = 256 - (1 << (8 - bits))
    return _table((np.arange(256) & masks[:, None]).astype(np.float64))


def solarize(threshold: Values) -> Table:
    """``255 − in`` where ``in`` is at least ``threshold``."""
    return _table(np.where(threshold[:, None] <= _LEVELS, 255 - _LEVELS, _LEVELS))


def solarize_add(addend: Values, threshold: Values) -> Table:
    """``in + addend`` where ``in`` is less than ``threshold``."""
    return _table(np.where(threshold[:, None] > _LEVELS, _LEVELS + addend[:, None], _LEVELS))


def auto_contrast(*, per_frame: bool) -> StatisticTable:
    """Each channel's least value becomes 0, its largest 255."""
    return StatisticTable("auto_contrast", np.ones(1, np.float32), per_frame)


def equalize(*, per_frame: bool) -> StatisticTable:
    """Each channel's histogram made flat."""
    return StatisticTable("equalize", np.ones(1, np.float32), per_frame)


def _table(values: Values) -> Table:
    """The same table, float64[F, 256], for all channels."""
    return Table(np.repeat(to_uint8(values.clip(0, 255))[:, None], 3, axis=1))
