"""Reads the rows of one archive: its videos, with small files of the same key, features, or labels of the record."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from videoloader.errors import ConfigurationError, SourceError
from videoloader.indexing.sources.base import ByteSource
from videoloader.indexing.sources.lmdb_value import read_lmdb
from videoloader.indexing.sources.near_names import near_names
from videoloader.indexing.sources.opening import ArchiveKind, local_path
from videoloader.indexing.sources.recordio import read_recordio
from videoloader.indexing.sources.tar import read_tar
from videoloader.indexing.sources.tfrecord import read_tfrecord
from videoloader.indexing.sources.zip_member import read_zip

# Larger files with a video's key do not become columns.
_LARGEST_COLUMN = 64 << 10
_SEVERAL = "hold several files with the same name, and the last one counts"
_JSON, _TEXT = ("json", "jsn"), ("cls", "txt", "text", "transcript")


@dataclass
class ArchiveRow:
    """A video in an archive, and what the archive says about it.

    Attributes:
        path: path of the video, ``"archive::member"``.
        columns: everything else that the archive says about it.
        label: label as text; "" if it has none.
        features: names of the columns whose bytes may be text.
    """

    path: str
    columns: dict[str, Any]
    label: str = ""
    features: Collection[str] = field(default=())


def rows_of_members(
    name: str, kind: ArchiveKind, archive: ByteSource, endings: tuple[str, ...], doubts: list[tuple[str, str]]
) -> list[ArchiveRow]:
    """The members with one of the endings, in archive order, with small files of the same key as columns.

    The key of a file is its path up to the first dot of its name; the rest of the name says what it holds: JSON
    (parsed), text (``cls``, ``txt``, ``text``, ``transcript``), or else bytes. Hidden files, whose names begin with a
    dot, are left out, as in folders. Doubts about the archive are added to ``doubts``, with its name.

    Raises:
        ConfigurationError: a file is not the JSON or text that its name promises.
    """
    contents = _members(name, kind, archive, lambda member, size: _is_beside(member, size, endings), doubts)
    videos = {
        member: _split_name(member)[0]
        for member in contents
        if member.lower().endswith(endings) and not (kind != "LMDB" and posixpath.basename(member).startswith("."))
    }
    keys, of_key = set(videos.values()), dict[str, dict[str, Any]]()
    for member, content in contents.items():
        key, extension = _split_name(member)
        if content is not None and key in keys and extension != "__key__":
            of_key.setdefault(key, {})[extension] = _parse(extension, content, f"{name}::{member}")
    rows = [ArchiveRow(f"{name}::{member}", {"__key__": key, **of_key.get(key, {})}) for member, key in videos.items()]
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
    name: str, kind: ArchiveKind, archive: ByteSource, wanted: Callable[[str, int], bool], doubts: list[tuple[str, str]]
) -> Mapping[str, bytes | None]:
    """The names of all members in archive order, with the bytes of those that are wanted."""
    if kind == "zip":
        contents, has_several = read_zip(archive, wanted)
        doubts += [(_SEVERAL, name)] * has_several
        return contents
    if kind == "LMDB":  # an LMDB can be open under one name only
        return read_lmdb(local_path(name), wanted)
    directory, at = read_tar(archive, lambda member: wanted(member.name, member.size))
    if directory.doubt:
        doubts.append((directory.doubt, name))
    contents = {
        member.name: at.get(member.offset) if wanted(member.name, member.size) else None
        for member in directory.members()
    }
    doubts += [(_SEVERAL, name)] * (len(contents) < len(directory))
    return contents


def _is_beside(member: str, size: int, endings: tuple[str, ...]) -> bool:
    return size <= _LARGEST_COLUMN and not member.lower().endswith(endings)


def _split_name(name: str) -> tuple[str, str]:
    folder, file = posixpath.split(name)
    stem, _, extension = file.partition(".")
    return posixpath.join(folder, stem), extension.lower()


def _parse(extension: str, content: bytes, name: str) -> Any:
    try:
        if extension in _JSON:
            return json.loads(content)
        return content.decode().strip() if extension in _TEXT else content
    except (ValueError, RecursionError) as error:
        wanted = "JSON" if extension in _JSON else "UTF-8 text"
        raise ConfigurationError(f"is not valid {wanted}, despite its extension ({error})", name) from None
