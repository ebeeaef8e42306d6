"""Computes how often each row comes when classes are balanced, rows weighted or data sets mixed.

Rows are repeated a whole number of times, fixed once by a seed. So the data set stays a plain table, and the loader's
keyed permutation, exact resume and sharding work unchanged.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

import numpy as np

from videoloader.dataset.readers import DatasetReaders
from videoloader.dataset.table import NONE, EntryTable
from videoloader.errors import ConfigurationError
from videoloader.errors.checks import check, check_integer, check_positive
from videoloader.indexing.exact_numbers import exact, float_of, number_of_text
from videoloader.permutation import Integers, permute

# A data set of as many rows takes 20 GB.
_MOST_ROWS = 1 << 28


def repeat_to(rows: int, size: int, seed: int, stream: int = 0) -> Integers:
    """int64[size]: row numbers in order, each ``size // rows`` times, and a random choice of them once more.

    Args:
        rows: number of rows, at least 1.
        size: number of rows in the result.
        seed, stream: seed of the choice, each in ``[0, 2**64)``.
    """
    times = np.full(rows, size // rows, np.int64)
    times[permute(np.arange(size % rows), rows, seed, stream)] += 1
    return np.repeat(np.arange(rows), times)


def balance(table: EntryTable, rows_per_class: int | None, seed: int) -> Integers:
    """Row numbers in rising order, equally many for each class; see ``VideoDataset.balanced``."""
    if (table.label == NONE).any():
        row = int(np.argmax(table.label == NONE))
        raise ConfigurationError("has no label, so classes cannot be balanced", table.path[row])
    labels, number, counts = np.unique(table.label, return_inverse=True, return_counts=True)
    size = int(counts.max()) if rows_per_class is None else rows_per_class
    check_positive(rows_per_class=size)
    check_integer("rows_per_class times the number of classes", size * len(labels), 1, _MOST_ROWS)
    of_class = np.split(np.argsort(number, kind="stable"), np.cumsum(counts)[:-1])
    # Each class has its own stream, so that its choice does not depend on the other classes.
    streams = labels.tolist()
    chosen = [rows[repeat_to(len(rows), size, seed, own)] for rows, own in zip(of_class, streams, strict=True)]
    return np.sort(np.concatenate(chosen))


def repeat_by_weight(table: EntryTable, weights: str | Sequence[float], rows: int, seed: int) -> Integers:
    """Row numbers in rising order, repeated in proportion to weights; see ``VideoDataset.weighted``."""
    check_integer("rows", rows, 1, _MOST_ROWS)
    given = table.column(weights) if isinstance(weights, str) else weights
    check("weights", given, not isinstance(given, Mapping | Set), "a list of one number for each row")
    check("weights", len(given), len(given) == len(table), f"one for each of {len(table)} rows")
    values = np.array([_weight(value, table, row) for row, value in enumerate(given)])
    with np.errstate(over="ignore"):
        bounds = np.cumsum(values)
    total = bounds[-1]
    check("the sum of the weights", float(total), 0 < total < math.inf, "positive and finite")
    bounds = bounds / total * rows  # rows / total may be infinite
    # There is one random offset for all rows: a row comes once for each whole number plus the offset in its interval.
    offset = int(permute(np.zeros(1, np.int64), 1 << 48, seed, rows)[0]) / (1 << 48)
    bounds[-1] = rows
    return np.repeat(np.arange(len(table)), np.diff(np.floor(bounds + offset), prepend=0).astype(np.int64))


def apportion(ratios: Sequence[float], lengths: Sequence[int], rows: int | None) -> list[int]:
    """The number of rows for each data set: shares by ratio, rounded by the largest-remainder (Hamilton) method.

    Args:
        ratios: shares of the data sets, read as the decimals that they print as.
        lengths: number of rows that each has.
        rows: total number of rows; None for the fewest with which no data set loses a row.

    Raises:
        ConfigurationError: a ratio is not positive, or a data set gets no row.
    """
    try:
        shares = [exact("ratios", number_of_text(text)) for text in map(str, ratios)]
    except (ArithmeticError, ValueError):
        shares = []
    check("ratios", list(ratios), shares and min(shares) > 0, "positive numbers")
    whole = sum(shares)
    if rows is None:
        rows = max(math.ceil(length * whole / share) for length, share in zip(lengths, shares, strict=True))
        if rows > _MOST_ROWS:
            raise ConfigurationError(f"no row is lost by these ratios only with {rows} rows: give a number of rows=")
    check_integer("rows", rows, 1, _MOST_ROWS)
    due = [rows * share / whole for share in shares]
    sizes = [math.floor(size) for size in due]
    by_remainder = sorted(range(len(sizes)), key=lambda i: (sizes[i] - due[i], i))
    for i in by_remainder[: rows - sum(sizes)]:
        sizes[i] += 1
    if not min(sizes):
        least = f"the data set with ratio {ratios[sizes.index(0)]} of {float(whole)} would get none"
        raise ConfigurationError(f"rows={rows} is too small: {least}")
    return sizes


def with_ratios(datasets: object, ratios: object) -> tuple[list[Any], list[float]]:
    """The data sets to mix, and the ratio of each."""
    if isinstance(datasets, Mapping) and ratios is None:
        ratios, datasets = list(datasets.values()), list(datasets)
    parts = list(datasets) if isinstance(datasets, list | tuple) else []
    shares = list(ratios) if isinstance(ratios, Iterable) else []
    if not parts or len(parts) != len(shares) or not all(isinstance(part, DatasetReaders) for part in parts):
        wanted = "a list of data sets and a ratio for each, as mix([a, b], ratios=[0.7, 0.3])"
        raise ConfigurationError(f"mix takes {wanted}, got {datasets!r} and {ratios!r}")
    return parts, shares


def _weight(value: object, table: EntryTable, row: int) -> float:
    try:
        # Text from a CSV file is checked by trying.
        weight = float_of(value)
    except (ArithmeticError, TypeError, ValueError):
        weight = math.nan
    if not 0 <= weight < math.inf:
        raise ConfigurationError(f"row {row}: a weight must be a number of at least 0, got {value!r}", table.path[row])
    return weight
