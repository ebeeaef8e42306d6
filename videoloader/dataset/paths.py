"""Makes the rows of data sets from lists of paths."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from videoloader.dataset.columns import PackedStrings
from videoloader.dataset.labels import number_labels, numbers_in
from videoloader.dataset.table import EntryTable, array_of, make_table
from videoloader.errors.checks import check, path_text


def entries_of_paths(
    paths: Iterable[str | os.PathLike[str]],
    labels: Iterable[SupportsIndex | str | None] | None,
    class_names: Sequence[str] | None,
) -> tuple[EntryTable, Sequence[str]]:
    """An entry for each path, and the class names; ``VideoDataset.from_paths`` explains arguments and errors."""
    is_no_list = isinstance(paths, str | bytes | os.PathLike | Mapping | AbstractSet) or not isinstance(paths, Iterable)
    hint = ": a set has no order, sorted(paths) has one" if isinstance(paths, AbstractSet) else ""
    check("paths", paths, not is_no_list, "a list of paths", hint)
    packed = PackedStrings(path_text(f"paths[{row}]", path) for row, path in enumerate(paths))
    fields, known = dict[str, npt.NDArray[np.int64]](), class_names or ()
    if labels is not None:
        given = _plain_list(labels)
        check("labels", len(given), len(given) == len(packed), f"one for each of {len(packed)} paths")
        rows = [row for row, label in enumerate(given) if label is not None]
        some = [given[row] for row in rows]

        def where(i: int) -> str:
            return f"labels[{rows[i]}] of {packed[rows[i]]}"

        if all(isinstance(label, str) for label in some):
            some = list(numbers_in(some, class_names, where))
        numbers, known = number_labels(some, class_names, where)
        number = dict(zip(rows, numbers, strict=True))
        fields["label"] = array_of("label", map(number.get, range(len(packed))))
    return make_table(packed, fields, {}, lambda row: f"paths[{row}]"), known


def _plain_list(labels: object) -> list[Any]:
    """Labels in the order of the paths; an array or a tensor as Python numbers."""
    values: Any = labels.tolist() if hasattr(labels, "tolist") else labels
    is_list = isinstance(values, Iterable) and not isinstance(values, str | bytes | Mapping | AbstractSet)
    check("labels", labels, is_list, "a list of one label for each path")
    return list(values)
