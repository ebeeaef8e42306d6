"""Names in the order in which people count."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from decimal import Decimal

import numpy as np
import numpy.typing as npt

_NUMBER = re.compile(r"(\d+)")


def natural_order(names: Iterable[str]) -> list[str]:
    """Sort names as people count: numbers in them count as numbers, and case does not matter.

    Examples:
        >>> natural_order(["im10", "im2", "IM1"])
        ['IM1', 'im2', 'im10']
    """
    return in_natural_order(names)[0]


def in_natural_order(names: Iterable[str]) -> tuple[list[str], npt.NDArray[np.int64] | None]:
    """Return names in natural order, and the K numbers in each, int64[K, N], if they differ in nothing else."""
    # Sorted first, so that the order of "im1" and "im01" does not depend on the folder's.
    ordered = sorted(names)
    numbers = _numbers_alone(ordered)
    if numbers is None:
        return sorted(ordered, key=number_parts), None
    order = np.lexsort(numbers[::-1])
    return [ordered[place] for place in order.tolist()], numbers[:, order]


def _numbers_alone(names: Sequence[str]) -> npt.NDArray[np.int64] | None:
    """Return the K numbers in N names, int64[K, N], if the names differ in nothing else; otherwise None.

    This takes three calls for all names: taking a million of them apart one by one would take ten seconds.
    """
    text = "\n".join(names).casefold()
    between = _NUMBER.sub("0", text).split("\n")
    if len(between) != len(names) or between.count(between[0]) != len(names):
        return None
    try:
        numbers = np.array(list(map(int, _NUMBER.findall(text))), np.int64)
    except (OverflowError, ValueError):  # Python does not convert thousands of digits to an int
        return None
    return numbers.reshape(len(names), -1).T if numbers.size else None


def number_parts(name: str) -> list[str | Decimal]:
    """Split a name into text in lower case, at even positions, and numbers, at odd positions.

    Examples:
        >>> number_parts("Im07.png")
        ['im', Decimal('7'), '.png']
    """
    # Python does not convert thousands of digits to an int, and a name in a table may have that many.
    return [Decimal(part) if i % 2 else part for i, part in enumerate(_NUMBER.split(name.casefold()))]
