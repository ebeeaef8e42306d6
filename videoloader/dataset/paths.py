"""Rows of a data set that is a list of paths."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from videoloader.dataset.columns import PackedStrings
from videoloader.dataset.labels import number_labels
from videoloader.dataset.table import EntryTable, array_of, make_table
from videoloader.errors import ConfigurationError


def entries_of_paths(
    paths: Iterable[str | os.PathLike[str]], labels: Iterable[int | str] | None, class_names: Sequence[str] | None
) -> tuple[EntryTable, Sequence[str]]:
    """An entry for each path, and the class names; arguments and errors as of ``VideoDataset.from_paths``."""
    if isinstance(paths, str | os.PathLike):
        raise ConfigurationError(f"paths must be a list of paths, got {paths!r}")
    packed = PackedStrings(os.fspath(path) for path in paths)
    fields, known = dict[str, npt.NDArray[np.int64]](), class_names or ()
    if labels is not None:
        given = list(labels)
        if len(given) != len(packed):
            raise ConfigurationError(f"labels must be one for each of {len(packed)} paths, got {len(given)}")
        numbers, known = number_labels(given, class_names, packed.__getitem__)
        fields["label"] = array_of("label", numbers)
    return make_table(packed, fields, {}, lambda row: f"paths[{row}]"), known
