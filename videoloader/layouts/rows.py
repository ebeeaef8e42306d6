"""Rows of a published list, and where their videos are."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from videoloader.dataset import VIDEO_EXTENSIONS, VideoDataset
from videoloader.dataset.columns import PackedStrings, pack
from videoloader.dataset.folders import file_endings
from videoloader.dataset.labels import number_labels
from videoloader.dataset.missing import leave_out
from videoloader.dataset.table import array_of, make_table
from videoloader.errors import ConfigurationError, SourceError


@dataclass(frozen=True)
class Rows:
    """What a list says of its videos, row by row.

    Attributes:
        source: path of the list.
        paths: of the videos; where one is not there, where it should be.
        there: whether each is.
        where: says where a row stands in the list.
        classes: names, or None for all rows of a list without labels.
        ends: by ``VideoEntry``'s name of it; None where a row has none.
        columns: all others.
    """

    source: str
    paths: Sequence[str]
    there: Sequence[bool]
    where: Callable[[int], str]
    classes: Sequence[str] | None = None
    ends: Mapping[str, Sequence[float | None]] = field(default_factory=dict)
    columns: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    def dataset(self, class_names: Sequence[str] | None, missing: str) -> VideoDataset:
        """The data set of these rows.

        Raises:
            SourceError: a video is not there and ``missing="raise"``, or none is.
            ConfigurationError: there are no rows, or a class has no name.
        """
        if not self.paths:
            raise ConfigurationError("the list has no videos", self.source)
        fields = {end: array_of(end, values) for end, values in self.ends.items()}
        known: Sequence[str] = class_names or ()
        if self.classes is not None:
            if "" in self.classes:
                raise ConfigurationError(f"{self.where(self.classes.index(''))}: the label is missing", self.source)
            labels, known = number_labels(self.classes, class_names, lambda row: f"{self.source}: {self.where(row)}")
            fields["label"] = array_of("label", labels)
        columns = {name: pack(values) for name, values in self.columns.items()}
        table = make_table(PackedStrings(self.paths), fields, columns, lambda row: f"{self.source}: {self.where(row)}")
        found, left_out = leave_out(table, np.array(self.there, np.bool_), missing, self.source)
        return VideoDataset(found, known, left_out)


@dataclass(frozen=True)
class VideoFolder:
    """The videos in a folder and the folders in it, by their names without the ending.

    Attributes:
        folder: the root.
        paths: of the videos of each name.
    """

    folder: str
    paths: Mapping[str, Sequence[str]]

    def find(self, name: str, class_name: str = "") -> str | None:
        """The path of a video, whatever its ending; of several, the one in the folder of its class.

        Args:
            name: without the ending.
            class_name: spaces and underscores count as the same, as do capital and small letters.
        """
        paths = self.paths.get(name, ())
        if len(paths) < 2:
            return paths[0] if paths else None
        wanted = _plain(class_name)
        return min(paths, key=lambda path: (_plain(os.path.basename(os.path.dirname(path))) != wanted, path))


def videos_in(folder: str | os.PathLike[str]) -> VideoFolder:
    """All videos in a folder and the folders in it. Hidden ones are left out, links to folders followed once.

    Raises:
        SourceError: a folder cannot be read.
    """
    root, endings = os.fspath(folder), file_endings(VIDEO_EXTENSIONS)
    paths: dict[str, list[str]] = {}
    rest, seen = [root], {os.path.realpath(root)}
    while rest:
        here = rest.pop()
        try:
            with os.scandir(here) as found:
                for item in found:
                    if item.name.startswith("."):
                        continue
                    if item.name.lower().endswith(endings):
                        paths.setdefault(os.path.splitext(item.name)[0], []).append(item.path)
                    elif item.is_dir() and (real := os.path.realpath(item.path)) not in seen:
                        seen.add(real)
                        rest.append(item.path)
        except OSError as error:
            raise SourceError(f"the folder cannot be read ({error.strerror})", here) from error
    return VideoFolder(root, paths)


def _plain(name: str) -> str:
    return re.sub(r"[\s_]+", " ", name).strip().lower()
