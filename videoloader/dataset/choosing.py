"""Chooses rows of a data set by number, by mask, or by a share of its videos."""

from __future__ import annotations

import numpy as np

from videoloader.dataset.table import EntryTable
from videoloader.errors import ArgumentError, ConfigurationError, RowRangeError
from videoloader.errors.checks import check, check_flag, check_uint64, is_finite, shortened
from videoloader.indexing.store.keys import SourceKeys
from videoloader.permutation import Integers, permute
from videoloader.sampling.integers import positions_in


def chosen_rows(index: object, count: int) -> tuple[Integers, bool]:
    """The rows that ``data[index]`` means, and whether it is a single row; see ``positions_in``.

    Raises:
        RowRangeError: there is no such row, or a mask has another length.
        ArgumentError: ``index`` is not a number, slice, list of numbers or mask.
    """
    try:
        found = positions_in(index, count, "row", "the data set")
    except IndexError as error:
        raise RowRangeError(str(error)) from None
    if found is None:
        wanted = "data[3], data[10:20], data[[0, 3]] or a mask of bools"
        column = "data.table.column(name) is a column"
        raise ArgumentError(f"rows are chosen by numbers, as {wanted}, got {shortened(index)}; {column}")
    return found


def split_rows(table: EntryTable, share: float, seed: int, stratified: bool) -> tuple[Integers, Integers]:
    """The row numbers of two parts, in rising order; ``VideoDataset.split`` explains arguments and errors."""
    check("share", share, is_finite(share) and 0 < share < 1, "a number between 0 and 1", ": 0.8 means 80 %")
    check_uint64(seed=seed)
    check_flag("stratified", stratified)
    number, paths = dict[str, int](), SourceKeys.all_absolute(table.path)
    video_of_row = np.array([number.setdefault(path, len(number)) for path in paths], np.int64)
    count = len(number)
    order = np.argsort(permute(np.arange(count), count, seed, 0))
    if stratified:
        _, first_row = np.unique(video_of_row, return_index=True)
        order = order[np.argsort(table.label[first_row][order], kind="stable")]
    # The videos of a class are adjacent, and every stretch of the order contributes its share, to within one video.
    taken = np.diff(np.floor(np.arange(count + 1) * share + 0.5)) > 0
    if count == 1:
        raise ConfigurationError("all rows are of one video, which cannot be in both parts", table.path[0])
    if taken.all() or not taken.any():
        taken[-1 if taken.all() else 0] ^= True
    in_first = np.empty(count, np.bool_)
    in_first[order] = taken
    return np.flatnonzero(in_first[video_of_row]), np.flatnonzero(~in_first[video_of_row])
