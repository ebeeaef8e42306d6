"""Reads integers as users give them: Python ints, and lists, arrays and tensors of any library."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from videoloader.errors import ArgumentError, enough_memory
from videoloader.errors.of_handlers import raise_of_handler
from videoloader.errors.short_text import short_text


def one_integer(value: Any) -> int | None:
    """A value as an integer; None if it is not one, as True and False are not."""
    plain = _plain(value)
    try:
        return None if isinstance(plain, bool) else operator.index(plain)
    except (TypeError, RuntimeError):  # the second for a tensor without data
        return None


def several_integers(values: Any) -> npt.NDArray[Any] | None:
    """The integers of a list, tuple, range, 1-D array or 1-D tensor.

    Returns:
        An array of integers, of bools where ``values`` is a mask, or None where it is anything else.

    Examples:
        >>> several_integers([np.int8(1), torch.tensor(2)]), several_integers([True, False]), several_integers([0.5])
        (array([1, 2]), array([ True, False]), None)
    """
    if isinstance(values, np.ndarray):
        # The numbers behind a mask are none that anyone means.
        return values if values.ndim == 1 and values.dtype.kind in "biu" and not np.ma.is_masked(values) else None
    listed = _plain(values)
    if not isinstance(listed, Sequence) or isinstance(listed, str | bytes | bytearray):
        return None
    if isinstance(listed, range):
        with enough_memory(f"the numbers of {listed}", advice="ask for fewer"):
            # At once, so that one that is too long fails at once.
            return np.arange(listed.start, listed.stop, listed.step)
    items = [_plain(each) for each in listed]
    if items and all(isinstance(each, bool) for each in items):
        return np.array(items)
    numbers = [one_integer(each) for each in items]
    if None in numbers:
        return None
    try:
        return np.array(numbers, np.int64)
    except OverflowError:
        return np.array(numbers, object)


def positions_in(asked: Any, count: int, one: str, whole: str) -> tuple[npt.NDArray[np.int64], bool] | None:
    """The positions that ``sequence[asked]`` means in a sequence, as numpy reads them.

    Args:
        asked: an integer, a slice, several integers, or a mask of ``count`` bools. Negative integers count from the
            end.
        count: length of the sequence.
        one, whole: name of an element and of the sequence, for messages.

    Returns:
        int64[K], and whether ``asked`` was a single integer; None where ``asked`` is anything else.

    Raises:
        IndexError: there is no such position, or a mask has another length.

    Examples:
        >>> positions_in([0, -1], 60, "row", "the data set")
        (array([ 0, 59]), False)
    """
    if isinstance(asked, slice):
        return positions_in_slice(asked, count), False
    number = one_integer(asked)
    # A tuple would index several dimensions.
    numbers = None if isinstance(asked, tuple) else several_integers(asked if number is None else [number])
    if numbers is None:
        return None
    if numbers.dtype == np.bool_:
        if len(numbers) != count:
            raise IndexError(f"a mask must have one value for each of {whole}'s {count} {one}s, got {len(numbers)}")
        return np.flatnonzero(numbers), False
    outside = (numbers < -count) | (numbers >= count)
    if outside.any():
        raise IndexError(f"{one} {short_text(int(numbers[outside][0]))} is outside {whole}'s {count} {one}s")
    positions = numbers.astype(np.int64)
    return np.where(positions < 0, positions + count, positions), number is not None


def positions_in_slice(asked: slice, count: int) -> npt.NDArray[np.int64]:
    """int64[K]: the positions that a slice means in a sequence of this length.

    Raises:
        ArgumentError: its ends or step are not integers, or the step is 0.
    """
    try:
        return np.arange(*asked.indices(count), dtype=np.int64)
    except (TypeError, ValueError):
        told = f"the ends of a slice must be integers and its step not 0, got {short_text(asked)}"
        raise ArgumentError(f"{told}: video.between(start, stop) takes seconds") from None


def _plain(value: Any) -> Any:
    """An array or tensor, on any device, as Python numbers and lists; anything else, and sparse ones, unchanged."""
    is_array = hasattr(value, "tolist") and hasattr(value, "ndim") and not isinstance(value, type)
    try:
        return value.tolist() if is_array else value
    except RuntimeError as error:  # a sparse tensor, or one without data, on the device "meta"
        raise_of_handler(error)
        return value
