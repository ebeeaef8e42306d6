"""Makes data sets from the rows of published lists, and finds their videos."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from videoloader.dataset import VIDEO_EXTENSIONS, VideoDataset
from videoloader.dataset.columns import PackedStrings, pack
from videoloader.dataset.folders import file_endings, files_below
from videoloader.dataset.labels import number_labels
from videoloader.dataset.missing import Missing, leave_out
from videoloader.dataset.table import array_of, make_table
from videoloader.errors import ConfigurationError

AnyPath: TypeAlias = str | os.PathLike[str]


def dataset_of_list(
    source: str,
    videos: Sequence[tuple[str, bool]],
    where: Callable[[int], str],
    classes: Sequence[str] | None,
    class_names: Sequence[str] | None,
    missing: Missing,
    *,
    ends: Mapping[str, Sequence[float | None]] = {},
    columns: Mapping[str, Sequence[Any]] = {},
) -> VideoDataset:
    """Make a data set from the rows of a list.

    Args:
        source: path of the list.
        videos: the result of ``VideoFolder.find`` for each row.
        where: gives the place of a row in the list, for messages.
        classes: class names of all rows; None for a list without labels.
        class_names: as in ``VideoDataset.from_paths``.
        missing: ``"raise"`` or ``"skip"``, for missing videos.
        ends: ends by their names in ``VideoEntry``; None where a row has none.
        columns: all other columns.

    Raises:
        SourceError: a video is missing with ``missing="raise"``, or all are missing.
        ConfigurationError: there are no rows, or a class has no name.
    """
    if not videos:
        raise ConfigurationError("the list has no videos", source)
    paths, there = zip(*videos, strict=True)
    fields = {end: array_of(end, values) for end, values in ends.items()}
    known: Sequence[str] = class_names or ()
    if classes is not None:
        if "" in classes:
            raise ConfigurationError(f"{where(classes.index(''))}: the label is missing", source)
        labels, known = number_labels(classes, class_names, lambda row: f"{source}: {where(row)}")
        fields["label"] = array_of("label", labels)
    packed = {name: pack(values) for name, values in columns.items()}
    table = make_table(PackedStrings(paths), fields, packed, lambda row: f"{source}: {where(row)}")
    found, left_out = leave_out(table, np.array(there, np.bool_), missing, source)
    return VideoDataset(found, known, left_out)


@dataclass(frozen=True)
class VideoFolder:
    """The videos below a folder, by name without the extension.

    Attributes:
        folder: the root.
        paths: paths of the videos of each name.
    """

    folder: str
    paths: Mapping[str, Sequence[str]]

    def find(self, *names: str, class_name: str = "", otherwise: str) -> tuple[str, bool]:
        """The path of a video, and whether it exists.

        Args:
            names: file names to look for, without extension; the first one that exists is used.
            class_name: name of a class, whose folder decides among several videos of the same name. Case and the
                difference between spaces and underscores are ignored.
            otherwise: path below the folder to return if there is no such video.
        """
        wanted = _plain(class_name)
        for name in names:
            if paths := self.paths.get(name):
                own = min(paths, key=lambda path: (_plain(os.path.basename(os.path.dirname(path))) != wanted, path))
                return own, True
        return os.path.join(self.folder, otherwise), False


def videos_in(folder: AnyPath) -> VideoFolder:
    """All videos below a folder. Hidden ones are skipped, and links to folders are followed.

    Raises:
        SourceError: a folder cannot be read.
    """
    root, paths = os.fspath(folder), dict[str, list[str]]()
    for path in files_below(root, file_endings(VIDEO_EXTENSIONS)):
        paths.setdefault(os.path.splitext(os.path.basename(path))[0], []).append(path)
    return VideoFolder(root, paths)


def _plain(name: str) -> str:
    return re.sub(r"[\s_]+", " ", name).strip().lower()
