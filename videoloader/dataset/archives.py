"""Reads the rows of data sets in archives (tar, zip, LMDB, TFRecord, RecordIO)."""

from __future__ import annotations

import json
import os
import posixpath
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any

from videoloader.dataset.archive_patterns import names_of_archives
from videoloader.dataset.entry import VideoEntry
from videoloader.dataset.folders import VIDEO_EXTENSIONS, file_endings, left_out_files
from videoloader.dataset.labels import parse_labels
from videoloader.dataset.text_tables import each_name_once
from videoloader.errors import ConfigurationError, SourceError, warn_user
from videoloader.errors.checks import check, is_finite
from videoloader.indexing.limits import beyond, exceeds_table_bytes
from videoloader.indexing.sources.base import ByteSource
from videoloader.indexing.sources.directory_cache import SEVERAL
from videoloader.indexing.sources.lmdb_value import read_lmdb
from videoloader.indexing.sources.near_names import near_names
from videoloader.indexing.sources.opening import ArchiveKind, local_path, named_stream, open_archive_of_kind
from videoloader.indexing.sources.recordio import read_recordio
from videoloader.indexing.sources.state import check_unchanged
from videoloader.indexing.sources.tar import read_tar
from videoloader.indexing.sources.tfrecord import read_tfrecord
from videoloader.indexing.sources.zip_member import read_zip
from videoloader.runtime.threads import executor_of

_ARCHIVES_AT_ONCE = 16
# Larger files with a video's key do not become columns.
_LARGEST_COLUMN = 64 << 10
_NO_COLUMN = f"more than {_LARGEST_COLUMN >> 10} KiB, or is a sparse file, or a link that leads nowhere"
_LARGE_TEXTS = f"hold JSON or text that becomes no column: it has {_NO_COLUMN}"
_TAKES_KEY = "have a file beside a video whose extension is __key__. Its column holds the key, and not the file"
# JSON takes up to so many times its size in memory.
_JSON_GROWTH = 25
# Values of columns that videos with the same key share.
_MOST_SHARED = 10_000
_JSON, _TEXT = ("json", "jsn"), ("cls", "txt", "text", "transcript")


def archive_entries(
    archives: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    video: str | Collection[str] | None,
    label: str | None,
    class_names: Sequence[str] | None,
) -> tuple[list[VideoEntry], Sequence[str], list[tuple[str, str]]]:
    """Entries for the videos of all archives in order, the class names, and (path, reason) for members left out.

    See ``VideoDataset.from_archives``.

    Raises:
        SourceError, IndexingError, UnsupportedError: an archive cannot be read, or is damaged.
        ConfigurationError: there is no video, some videos have a label and others do not, an argument does not fit the
            archives, or a file is not the JSON or text that its name promises.
    """
    names, told = names_of_archives(archives), Told()
    with executor_of(_ARCHIVES_AT_ONCE, "videoloader-archives", lent=False, needed=False) as pool:
        rows = list(chain(*pool.map(partial(_rows_of, video=video, told=told), names)))
    for doubt, count in sorted(Counter(doubt for doubt, _ in told.doubts).items()):
        first = min(name for each, name in told.doubts if each == doubt)
        warn_user(f"{count} of {len(names)} archives {doubt} (for example {first})")
    if not rows:
        raise ConfigurationError(f"no video in {len(names)} archives: no file ends with {', '.join(_endings(video))}")
    _read_as_text(rows)
    named = {"cls"} if label is None else {label, label.rpartition(".")[0]}
    if too_large := [(row.path, beside) for row in rows for beside in named & {*row.too_large}]:
        path, beside = too_large[0]
        raise ConfigurationError(f"its .{beside} file has {_NO_COLUMN}", path)
    texts = [_label_of(row, label) for row in rows]
    if "" in texts and any(texts):
        wanted = f"no {label!r} beside it"
        if label is None:
            wanted = "no .cls file beside it, or an empty one; for a record, no label in its header"
        raise ConfigurationError(f"the label is missing: {wanted}", rows[texts.index("")].path)
    if label is not None and not any(texts):
        known = ", ".join(dict.fromkeys(chain(*(row.columns for row in rows)))) or "none"
        raise ConfigurationError(f"no video has a label {label!r}; columns: {known}")
    labels, known_names = parse_labels(texts, class_names, lambda i: rows[i].path)
    entries = [VideoEntry(row.path, number, columns=row.columns) for row, number in zip(rows, labels, strict=True)]
    source = names[0] if len(names) == 1 else f"{len(names)} archives"
    return entries, known_names, left_out_files(source, told.others, _endings(video), len(rows), "video")


def _endings(video: str | Collection[str] | None) -> tuple[str, ...]:
    if isinstance(video, str):
        return file_endings([video]) if video else ("",)  # every member
    return file_endings(VIDEO_EXTENSIONS if video is None else video)


def _rows_of(name: str, video: str | Collection[str] | None, told: Told) -> list[ArchiveRow]:
    kind, archive = open_archive_of_kind(name)
    if kind == "TFRecord":
        check("video", video, video is None or isinstance(video, str), "the name of a feature", source=name)
        rows = rows_of_examples(name, archive, video)  # type: ignore[arg-type]  # checked above
    elif kind == "RecordIO":
        if video is not None:
            raise ConfigurationError(f"records of RecordIO have no names: leave video={video!r} out", name)
        rows = rows_of_records(name, archive)
    else:
        rows = rows_of_members(name, kind, archive, _endings(video), told)
    check_unchanged(archive)  # or names and labels might be of two versions
    return rows


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


@dataclass
class Told:
    """Facts to tell about archives once all have been read.

    Attributes:
        doubts: doubts about archives, each with the archive's name.
        others: paths of files whose key no video has.
    """

    doubts: set[tuple[str, str]] = field(default_factory=set)
    others: list[str] = field(default_factory=list)


@dataclass
class ArchiveRow:
    """A video in an archive, and what the archive says about it.

    Attributes:
        path: path of the video, ``"archive::member"``.
        columns: everything else that the archive says about it.
        label: label as text; "" if it has none.
        features: names of the columns whose bytes may be text.
        too_large: extensions of the files beside it that are too large for columns.
    """

    path: str
    columns: dict[str, Any]
    label: str = ""
    features: Collection[str] = ()
    too_large: Collection[str] = ()


def rows_of_members(
    name: str, kind: ArchiveKind, archive: ByteSource, endings: tuple[str, ...], told: Told
) -> list[ArchiveRow]:
    """The members with one of the endings, in archive order, with small files of the same key as columns.

    The key of a file is its path up to the first dot of its name; the rest is its extension. What follows the last dot
    says what it holds: JSON (parsed), text (``cls``, ``txt``, ``text``, ``transcript``), or else bytes. Hidden files,
    whose names begin with a dot, are left out, as in folders.

    Raises:
        ConfigurationError: a file is not the JSON or text that its name promises, or a member cannot be named.
    """
    contents = _members(name, kind, archive, lambda member, size: _is_beside(member, size, endings), told)
    shown = [each for each in contents if kind == "LMDB" or not posixpath.basename(each).startswith(".")]
    videos = {member: _split_name(member)[0] for member in shown if member.lower().endswith(endings)}
    if wrong := next((each for each in videos if named_stream(f"{name}::{each}")), None):
        raise ConfigurationError(f"its member {wrong!r} has a name that means a stream of another one: rename it", name)
    keys, of_key, too_large = set(videos.values()), dict[str, dict[str, Any]](), defaultdict[str, list[str]](list)
    size = 0
    for member, content in contents.items():
        key, extension = _split_name(member)
        if content is None and member not in videos:
            too_large[key].append(extension)
            if key in keys and _format(extension) in (*_JSON, *_TEXT):
                told.doubts.add((_LARGE_TEXTS, name))
        elif extension == "__key__" and key in keys:
            told.doubts.add((_TAKES_KEY, name))
        elif content is not None and key in keys:
            columns = of_key.setdefault(key, {})
            if extension in columns:
                told.doubts.add((SEVERAL, name))
            size += len(content) * _JSON_GROWTH if _format(extension) in _JSON else 0
            if kind == "zip" and exceeds_table_bytes(size, lambda: archive.size):
                raise beyond("table_bytes", f"has JSON files of {size} bytes in memory, unpacked", name)
            columns[extension] = _parse(extension, content, f"{name}::{member}")
    for key, number in Counter(videos.values()).items():
        if number * len(of_key.get(key, ())) > _MOST_SHARED:
            shared = f"{number} videos and {len(of_key[key])} other files have the key {key!r}"
            why = "which ends at the first dot of a name: rename them, for a key for each video"
            raise ConfigurationError(f"{shared}, {why}", name)
    if kind != "LMDB":  # its keys need not end like files
        told.others += [f"{name}::{member}" for member in shown if _split_name(member)[0] not in keys]
    rows = [
        ArchiveRow(f"{name}::{member}", {"__key__": key, **of_key.get(key, {})}, too_large=too_large.get(key, ()))
        for member, key in videos.items()
    ]
    for row in rows:
        row.label = row.columns.pop("cls", "")
    return rows


def rows_of_examples(name: str, file: ByteSource, video: str | None) -> list[ArchiveRow]:
    """The records of a TFRecord file, with the small features of each ``tf.train.Example`` as columns.

    Args:
        name: name of the file.
        file: its records.
        video: feature that holds the video; None where each record itself is a video.

    Raises:
        ConfigurationError: the records have features, and ``video`` names none.
        SourceError: a record has no such feature.
    """
    rows = []
    for number, features in enumerate(read_tfrecord(file, _LARGEST_COLUMN)):
        names = [] if features is None else features.names
        if video is None:
            if number == 0 and names:
                raise ConfigurationError(f"the records have features: say which is the video, as video={names[0]!r}; "
                                         f"there are {', '.join(names)}", name)  # fmt: skip
            rows.append(ArchiveRow(f"{name}::{number}", {}))
            continue
        if features is None or video not in names:
            raise SourceError(f"the record has no feature {video!r}{near_names(video, names)}", f"{name}::{number}")
        columns = {key: value for key, value in features.values.items() if key != video}
        rows.append(ArchiveRow(f"{name}::{number}/{video}", columns, features=tuple(columns)))
    return rows


def rows_of_records(name: str, file: ByteSource) -> list[ArchiveRow]:
    """The records of a RecordIO file, with the id and the label of their headers.

    A single label becomes the row's label if it is a whole number in all records, else the column ``label``; several
    labels become the column ``labels``.
    """
    records = read_recordio(file)
    headers = [header for _, header in records if header is not None]
    are_numbers = all(len(header.labels) == 1 and header.labels[0].is_integer() for header in headers)
    rows = []
    for key, header in records:
        row = ArchiveRow(f"{name}::{key}", {} if header is None else {"id": header.id})
        if header is not None and are_numbers:
            row.label = f"{header.labels[0]:.0f}"
        elif header is not None:
            single = len(header.labels) == 1
            row.columns["label" if single else "labels"] = header.labels[0] if single else header.labels
        rows.append(row)
    return rows


def _members(
    name: str, kind: ArchiveKind, archive: ByteSource, wanted: Callable[[str, int], bool], told: Told
) -> Mapping[str, bytes | None]:
    """The names of all members in archive order, with the bytes of those that are wanted."""
    if kind == "zip":
        contents, doubts = read_zip(archive, wanted)
        told.doubts.update((doubt, name) for doubt in doubts)
        return contents
    if kind == "LMDB":  # an LMDB can be open under one name only
        return read_lmdb(local_path(name), wanted)
    directory, at = read_tar(archive, lambda member: wanted(member.name, member.size))
    if directory.doubt:
        told.doubts.add((directory.doubt, name))
    contents = {
        member.name: at.get(member.offset) if wanted(member.name, member.size) else None
        for member in directory.members()
    }
    if len(contents) < len(directory):
        told.doubts.add((SEVERAL, name))
    return contents


def _is_beside(member: str, size: int, endings: tuple[str, ...]) -> bool:
    return size <= _LARGEST_COLUMN and not member.lower().endswith(endings)


def _split_name(name: str) -> tuple[str, str]:
    folder, file = posixpath.split(name)
    stem, _, extension = file.partition(".")
    return posixpath.join(folder, stem), extension.lower()


def _format(extension: str) -> str:
    """The part of an extension that says what its files hold: ``"json"`` for ``"left.json"``, as in WebDataset."""
    return extension.rpartition(".")[2]


def _parse(extension: str, content: bytes, name: str) -> Any:
    kind = _format(extension)
    try:
        if kind in _JSON:
            return json.loads(content, object_pairs_hook=each_name_once)
        return content.decode("utf-8-sig").strip() if kind in _TEXT else content
    except (ValueError, RecursionError) as error:
        wanted = "JSON" if kind in _JSON else "UTF-8 text"
        raise ConfigurationError(f"is not valid {wanted}, despite its extension ({error})", name) from None
