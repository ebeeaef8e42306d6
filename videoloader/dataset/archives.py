"""Reads the rows of data sets in archives (tar, zip, LMDB, TFRecord, RecordIO), whose names may be patterns."""

from __future__ import annotations

import glob
import os
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain
from typing import Any

from videoloader.checks import check, is_finite
from videoloader.dataset.archive_rows import ArchiveRow, rows_of_examples, rows_of_members, rows_of_records
from videoloader.dataset.entry import VideoEntry
from videoloader.dataset.folders import VIDEO_EXTENSIONS, file_endings
from videoloader.dataset.labels import parse_labels
from videoloader.errors import ConfigurationError, SourceError, needs, warn_user
from videoloader.indexing.sources.folder import natural_order
from videoloader.indexing.sources.opening import is_remote, open_archive_of_kind

_ARCHIVES_AT_ONCE = 16
_BRACES = re.compile(r"\{(?:(\d{1,9})\.\.(\d{1,9})|([^{},]*(?:,[^{},]*)+))\}")
_MOST_NAMES = 1 << 20
# In URLs a question mark begins the query, and brackets occur in addresses.
_LOCAL_PATTERN, _REMOTE_PATTERN = re.compile(r"[*?\[]"), re.compile(r"\*")


def archive_entries(
    archives: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    video: str | Collection[str] | None,
    label: str | None,
    class_names: Sequence[str] | None,
) -> tuple[list[VideoEntry], Sequence[str]]:
    """Entries for the videos of all archives in order, and the class names; see ``VideoDataset.from_archives``.

    Raises:
        SourceError, IndexingError, UnsupportedError: an archive cannot be read, or is damaged.
        ConfigurationError: there is no video, some videos have a label and others do not, an argument does not fit the
            archives, or a file is not the JSON or text that its name promises.
    """
    names, doubts = names_of_archives(archives), list[tuple[str, str]]()
    with ThreadPoolExecutor(_ARCHIVES_AT_ONCE, "videoloader-archives") as pool:
        rows = list(chain(*pool.map(partial(_rows_of, video=video, doubts=doubts), names)))
    for doubt, count in sorted(Counter(doubt for doubt, _ in set(doubts)).items()):
        first = min(name for each, name in doubts if each == doubt)
        warn_user(f"{count} of {len(names)} archives {doubt} (for example {first})")
    if not rows:
        raise ConfigurationError(f"no video in {len(names)} archives: no file ends with {', '.join(_endings(video))}")
    _read_as_text(rows)
    texts = [_label_of(row, label) for row in rows]
    if "" in texts and any(texts):
        wanted = "no .cls file beside it, or an empty one" if label is None else f"no {label!r} beside it"
        raise ConfigurationError(f"the label is missing: {wanted}", rows[texts.index("")].path)
    if label is not None and not any(texts):
        known = ", ".join(dict.fromkeys(chain(*(row.columns for row in rows)))) or "none"
        raise ConfigurationError(f"no video has a label {label!r}; columns: {known}")
    labels, known_names = parse_labels(texts, class_names, lambda i: rows[i].path)
    entries = [VideoEntry(row.path, number, columns=row.columns) for row, number in zip(rows, labels, strict=True)]
    return entries, known_names


def _endings(video: str | Collection[str] | None) -> tuple[str, ...]:
    if video == "":  # every member
        return ("",)
    return file_endings(VIDEO_EXTENSIONS if video is None else [video] if isinstance(video, str) else video)


def _rows_of(name: str, video: str | Collection[str] | None, doubts: list[tuple[str, str]]) -> list[ArchiveRow]:
    kind, archive = open_archive_of_kind(name)
    if kind == "TFRecord":
        check("video", video, video is None or isinstance(video, str), "the name of a feature", source=name)
        return rows_of_examples(name, archive, video)  # type: ignore[arg-type]  # checked above
    if kind == "RecordIO":
        if video is not None:
            raise ConfigurationError(f"records of RecordIO have no names: leave video={video!r} out", name)
        return rows_of_records(name, archive)
    return rows_of_members(name, kind, archive, _endings(video), doubts)


def _read_as_text(rows: Sequence[ArchiveRow]) -> None:
    """Turn columns of features into text if they are UTF-8 in all rows."""
    names = dict.fromkeys(chain(*(row.features for row in rows)))
    for name in names:
        having = [row for row in rows if name in row.features]
        try:
            texts = [_decoded(row.columns.get(name)) for row in having]
        except (TypeError, UnicodeDecodeError):  # numbers, or bytes that are not text
            continue
        for row, text in zip(having, texts, strict=True):
            row.columns[name] = text


def _decoded(value: Any) -> Any:
    return list(map(bytes.decode, value)) if isinstance(value, list) else bytes.decode(value)


def _label_of(row: ArchiveRow, label: str | None) -> str:
    """The label as text; "" if there is none."""
    if label is None:
        return row.label
    value, (column, dot, field) = row.columns.get(label), label.rpartition(".")
    if value is not None:
        del row.columns[label]
    elif dot and isinstance(row.columns.get(column), dict):
        value = row.columns[column].get(field)
    if value is None:
        return ""
    holds = isinstance(value, str) or is_finite(value)
    check(f"the label {label!r}", value, holds, "a number or a name", source=row.path)
    return str(value).strip()


def names_of_archives(archives: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> list[str]:
    """The paths and URLs in the given order; matches of a pattern in natural order.

    Raises:
        ConfigurationError: nothing matches a pattern, or the names come in no fixed order.
        SourceError: a bucket cannot be listed.
    """
    is_set = isinstance(archives, set | frozenset)
    check("archives", archives, not is_set, "a list of paths", ": a set has no order")
    given = [archives] if isinstance(archives, str | os.PathLike) else list(archives)
    return [found for each in given for name in _with_braces(os.fspath(each)) for found in _matching(name)]


def _with_braces(name: str) -> list[str]:
    """Expand braces as shells do: ``{000..099}`` and ``{a,b}``."""
    if os.path.exists(name):
        return [name]
    names = [name]
    while braces := _BRACES.search(names[0]):
        first, last, listed = braces.groups()
        if listed is None:
            if int(last) - int(first) >= _MOST_NAMES:
                raise ConfigurationError(f"{name!r} expands to more than {_MOST_NAMES} archives")
            options = [f"{number:0{len(first)}}" for number in range(int(first), int(last) + 1)]
        else:
            options = listed.split(",")
        if len(names) * len(options) > _MOST_NAMES or not options:
            raise ConfigurationError(f"{name!r} expands to no archive, or to more than {_MOST_NAMES}")
        parts = [_BRACES.split(each, 1) for each in names]
        names = [f"{part[0]}{option}{part[-1]}" for part in parts for option in options]
    return names


def _matching(name: str) -> list[str]:
    """The files that match a pattern, or the name itself if it is not a pattern."""
    if not is_remote(name):
        if os.path.exists(name) or not _LOCAL_PATTERN.search(name):
            return [name]
        found = natural_order(glob.glob(name, recursive=True))
    else:
        # Web servers cannot list their files.
        if name.lower().startswith(("http://", "https://")) or not _REMOTE_PATTERN.search(name):
            return [name]
        with needs("reading URLs needs fsspec: pip install 'videoloader[remote]'", name):
            from fsspec.core import url_to_fs
        try:
            filesystem, path = url_to_fs(name)
            found = natural_order(filesystem.unstrip_protocol(each) for each in filesystem.glob(path))
        except Exception as error:  # each file system raises errors of its own
            raise SourceError(f"cannot be listed ({type(error).__name__}: {error})", name) from error
    if not found:
        raise ConfigurationError("no archive fits the pattern", name)
    return found
