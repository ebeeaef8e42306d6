"""Replace frame numbers outside a range by those of a padding mode."""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from videoloader.errors import ConfigurationError
from videoloader.errors.argument_names import tells_of_arguments
from videoloader.errors.checks import check_choice, given, is_integer

CONSTANT_FRAME = -1
"""The frame number that stands for the fill value in mode ``constant``."""

# Modes that repeat frames of the range, by name and alias; those and the fill value; and all modes.
Repeating: TypeAlias = Literal["edge", "reflect_101", "reflect_1001", "wrap", "repeat", "reflect", "symmetric", "loop"]
Filling: TypeAlias = Literal["constant"] | Repeating
Mode: TypeAlias = Literal["none"] | Filling

MODES = ("none", "edge", "constant", "reflect_101", "reflect_1001", "wrap")

_LARGEST_STOP = 1 << 62  # a period is up to twice as long
_ALIASES = {"repeat": "edge", "reflect": "reflect_101", "symmetric": "reflect_1001", "loop": "wrap"}


@tells_of_arguments
def check_mode(mode: str) -> str:
    """Return the name in ``MODES`` of a padding mode given by name or alias.

    Raises:
        ConfigurationError: there is no such mode.

    Examples:
        >>> check_mode("symmetric")
        'reflect_1001'
    """
    name = _ALIASES.get(mode, mode) if isinstance(mode, str) else mode
    if not isinstance(name, str) or name not in MODES:
        check_choice("pad", mode, (*MODES, *_ALIASES))
    return name


def real_frames(numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Those of some frame numbers that are frames of the video, not ``CONSTANT_FRAME``."""
    real: npt.NDArray[np.int64] = numbers[numbers != CONSTANT_FRAME]
    return real


@tells_of_arguments
def pad(
    frame_numbers: npt.ArrayLike, first: int, stop: int, mode: str
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Replace the frame numbers before and after the range ``[first, stop)`` as the mode says.

    ```text
    mode (alias)              what stands outside the range            range abcd, 3 more
    none                      nothing: those numbers are dropped       abcd
    edge (repeat)             the nearest frame                        abcd|ddd
    constant                  CONSTANT_FRAME, a made-up picture        abcd|---
    reflect_101 (reflect)     the mirror image, edge frame not         abcd|cba
                              repeated; period 2(N-1)
    reflect_1001 (symmetric)  the mirror image, edge frame repeated;   abcd|dcb
                              period 2N
    wrap (loop)               the range again; period N                abcd|abc
    ```

    A reflection longer than the range bounces back and forth in it. The names 101 and 1001 come from OpenCV's border
    types; the results equal those of ``numpy.pad``.

    Args:
        frame_numbers: integers[T]. The frame numbers, in any order.
        first, stop: int. The range, ``0 <= first < stop <= 2**62``.
        mode: str. One of ``MODES`` or an alias.

    Returns:
        The frame numbers, int64[T] (fewer in mode ``none``), and the mask, bool of that shape: False where the number
        was replaced.

    Raises:
        ConfigurationError: the range is empty or negative, the mode is unknown, or the numbers do not fit int64.

    Examples:
        >>> numbers, mask = pad([3, 4, 5, 6], 0, 5, "reflect_101")
        >>> numbers.tolist(), mask.tolist()
        ([3, 4, 3, 2], [True, True, False, False])
    """
    mode = check_mode(mode)
    if not (is_integer(first) and is_integer(stop) and 0 <= first < stop <= _LARGEST_STOP):
        in_order = "the range must be integers, 0 <= first < stop <= 2**62"
        raise ConfigurationError(f"{in_order}, got first={given(first)}, stop={given(stop)}")
    wanted = "frame_numbers must be a 1-D array of integers"
    try:
        numbers = np.asarray(frame_numbers)
    except (RuntimeError, TypeError, ValueError) as error:  # of PyTorch, for a tensor that is no array
        raise ConfigurationError(f"{wanted} ({error})") from None
    integers = np.issubdtype(numbers.dtype, np.integer) and np.can_cast(numbers.dtype, np.int64)
    if numbers.ndim != 1 or (numbers.size and not integers):
        raise ConfigurationError(f"{wanted}, got {numbers.dtype} of shape {numbers.shape}")
    numbers = numbers.astype(np.int64)
    inside = (numbers >= first) & (numbers < stop)
    if mode == "none":
        return numbers[inside], inside[inside]
    if mode == "constant":
        return np.where(inside, numbers, CONSTANT_FRAME), inside
    if mode == "edge":
        return numbers.clip(first, stop - 1), inside
    size = stop - first
    if mode == "wrap":
        offset = _offset(numbers, first, size)
    elif mode == "reflect_101":
        period = max(2 * (size - 1), 1)  # a single frame reflects into itself
        offset = _offset(numbers, first, period)
        offset = np.minimum(offset, period - offset)
    else:
        assert mode == "reflect_1001", "no other mode is left"
        offset = _offset(numbers, first, 2 * size)
        offset = np.minimum(offset, 2 * size - 1 - offset)
    return first + offset, inside


def _offset(numbers: npt.NDArray[np.int64], first: int, period: int) -> npt.NDArray[np.int64]:
    """``(numbers - first) % period``. That difference may not fit int64."""
    offset: npt.NDArray[np.int64] = (numbers % period - first % period) % period
    return offset
