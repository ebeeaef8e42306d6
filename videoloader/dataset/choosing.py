"""Some rows of a data set: by numbers, by a mask, or a share of its videos."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import numpy.typing as npt

from videoloader.dataset.table import EntryTable
from videoloader.errors import ConfigurationError, check_flag, check_uint64
from videoloader.permutation import permute

Rows = npt.NDArray[np.int64]


def row_number(index: object, count: int) -> int | None:
    """The row of ``count`` that one number means, negative ones from the end; None where it is not one number.

    Raises:
        IndexError: there is no such row.
        TypeError: it is True, False or a name.
    """
    if isinstance(index, bool | np.bool_ | str | bytes):
        raise _wrong_type(index)
    try:
        row = operator.index(index)  # type: ignore[arg-type]  # checked by trying
    except TypeError:
        return None
    if getattr(index, "shape", ()) != ():  # an array of one number is an array
        return None
    return int(_inside(np.array([row], np.int64), count)[0])


def row_numbers(index: object, count: int) -> Rows:
    """int64[K]: the rows of ``count`` that a slice, a list of numbers or a mask means, in its order.

    Args:
        index: a slice, integers or bool[N]: a list, an array or a tensor.
        count: how many rows there are.

    Raises:
        IndexError: there is no such row, or a mask has another length.
        TypeError: it is nothing of that.
    """
    if isinstance(index, slice):
        return np.arange(count)[index]
    plain = index.tolist() if hasattr(index, "tolist") and not isinstance(index, np.ndarray) else index
    if not isinstance(plain, list | range | np.ndarray):
        raise _wrong_type(index)
    try:
        values = np.asarray(plain) if len(plain) else np.zeros(0, np.int64)
    except ValueError:  # lists of several lengths
        raise _wrong_type(index) from None
    if values.ndim != 1 or values.dtype.kind not in "biu":
        raise _wrong_type(index)
    if values.dtype.kind != "b":
        return _inside(values.astype(np.int64), count)
    if len(values) != count:
        raise IndexError(f"a mask must have one value for each of {count} rows, got {len(values)}")
    return np.flatnonzero(values)


def split_rows(table: EntryTable, share: float, seed: int, stratified: bool) -> tuple[Rows, Rows]:
    """Row numbers of two parts, rising; arguments and errors as of ``VideoDataset.split``."""
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share < 1:
        raise ConfigurationError(f"share must be a number between 0 and 1, got {share!r}: 0.8 is four fifths")
    check_uint64(seed=seed)
    check_flag("stratified", stratified)
    number: dict[str, int] = {}
    video_of_row = np.array([number.setdefault(path, len(number)) for path in table.path], np.int64)
    count = len(number)
    order = np.argsort(permute(np.arange(count), count, seed, 0))
    if stratified:
        _, first_row = np.unique(video_of_row, return_index=True)
        order = order[np.argsort(table.label[first_row][order], kind="stable")]
    # Videos of a class stand together, and each stretch of the order gives its share, to one video.
    taken = np.diff(np.floor(np.arange(count + 1) * share + 0.5)) > 0
    if count == 1:
        raise ConfigurationError("all rows are of one video, which cannot be in both parts", table.path[0])
    if taken.all() or not taken.any():
        taken[-1 if taken.all() else 0] ^= True
    in_first = np.empty(count, np.bool_)
    in_first[order] = taken
    return np.flatnonzero(in_first[video_of_row]), np.flatnonzero(~in_first[video_of_row])


def _inside(rows: Rows, count: int) -> Rows:
    outside = (rows < -count) | (rows >= count)
    if outside.any():
        raise IndexError(f"row {rows[outside][0]} is outside of a data set of {count} rows")
    return np.where(rows < 0, rows + count, rows)


def _wrong_type(index: Any) -> TypeError:
    wanted = "data[3], data[10:20], data[[0, 3]] or a mask of bools"
    return TypeError(f"rows are chosen by numbers, as {wanted}, got {index!r}; data.table.column(name) is a column")
