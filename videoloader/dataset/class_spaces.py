"""Labels of several data sets brought together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from videoloader.dataset.table import NONE, EntryTable
from videoloader.errors import ConfigurationError


def in_common_classes(parts: Sequence[tuple[EntryTable, Sequence[str]]]) -> tuple[list[EntryTable], tuple[str, ...]]:
    """The tables with labels that mean the same in all of them, and the names of these.

    Args:
        parts: rows and class names of each data set.

    Returns:
        Names of the first come first, then those that later ones add. Where no part has names, labels stay as they are.

    Raises:
        ConfigurationError: some labels have names and others do not.
    """
    tables = [table for table, _ in parts]
    names = tuple(dict.fromkeys(name for _, own in parts for name in own))
    if not names:
        return tables, ()
    number = {name: i for i, name in enumerate(names)}
    joined = []
    for table, own in parts:
        labelled = table.label != NONE
        if not own and labelled.any():
            row = int(np.argmax(labelled))
            raise ConfigurationError(
                f"label {table.label[row]} has no name, but those of another data set have: give class_names to both",
                table.path[row],
            )
        new = np.array([*(number[name] for name in own), NONE], np.int64)
        joined.append(table.with_labels(new[np.where(labelled, table.label, len(own))]))
    return joined, names
