"""Rows of a data set that lies in tar shards, in the layout of WebDataset: ``key.mp4``, ``key.json``, ``key.cls``."""

from __future__ import annotations

import json
import os
import posixpath
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import Any, NamedTuple

from videoloader.dataset.entry import VideoEntry
from videoloader.dataset.labels import parse_labels
from videoloader.errors import ConfigurationError
from videoloader.indexing.sources.opening import open_archive
from videoloader.indexing.sources.tar import Member, tar_directory

# Longer files beside a video are no columns: they are read where they are needed.
_LARGEST_COLUMN = 64 << 10
_JSON, _TEXT = ("json", "jsn"), ("cls", "txt", "text", "transcript")
_SHARDS_AT_ONCE = 16


class ShardRow(NamedTuple):
    """A video in a shard: ``"shard::member"``, and what lies beside it under the same key, by extension."""

    path: str
    columns: dict[str, Any]


def shard_entries(
    shards: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    endings: tuple[str, ...],
    class_names: Sequence[str] | None,
) -> tuple[list[VideoEntry], Sequence[str]]:
    """Entries for the videos of all shards in their order, labelled by their ``.cls`` files, and the class names.

    Only headers are read, and the small files that belong to videos. The key of a file is its path up to the first dot
    of its name; the rest of the name says what it holds: JSON (parsed), text (``cls``, ``txt``, ``text``,
    ``transcript``), else bytes; files of more than 64 KiB are left out. ``columns["__key__"]`` is the key.

    Args:
        shards: paths or URLs of uncompressed tar archives.
        endings: endings of the names of videos, with the dot, in small letters.
        class_names: as in ``VideoDataset.from_paths``.

    Raises:
        SourceError, IndexingError: a shard cannot be read, or is damaged.
        ConfigurationError: there is no video, one has no label where others do, or a column is not the JSON or the
            text that its name says.
    """
    if isinstance(shards, set | frozenset):
        raise ConfigurationError(f"shards must be a list of paths, got {shards!r}: a set has no order")
    given = [shards] if isinstance(shards, str | os.PathLike) else list(shards)
    with ThreadPoolExecutor(_SHARDS_AT_ONCE, "videoloader-shards") as pool:
        rows = list(chain(*pool.map(lambda shard: _read_shard(os.fspath(shard), endings), given)))
    if not rows:
        raise ConfigurationError(f"no video in {len(given)} archives: no file ends with {', '.join(endings)}")
    texts = [row.columns.pop("cls", "") for row in rows]
    if "" in texts and any(texts):
        raise ConfigurationError("the label is missing: there is no .cls file beside it", rows[texts.index("")].path)
    labels, known = parse_labels(texts, class_names, lambda i: rows[i].path)
    entries = [VideoEntry(row.path, label, columns=row.columns) for row, label in zip(rows, labels, strict=True)]
    return entries, known


def _read_shard(shard: str, video_endings: tuple[str, ...]) -> list[ShardRow]:
    archive = open_archive(shard)
    videos: list[tuple[str, str]] = []
    beside: dict[str, list[Member]] = {}
    for member in tar_directory(archive).members():
        key, _ = _split_name(member.name)
        if member.name.lower().endswith(video_endings):
            videos.append((key, member.name))
        elif member.offset >= 0 and member.size <= _LARGEST_COLUMN:
            beside.setdefault(key, []).append(member)
    # A file that stands twice in an archive is the later one.
    columns = {member.name: (key, member) for key, _ in videos for member in beside.get(key, ())}
    members = [member for _, member in columns.values()]
    contents = archive.read_ranges([member.offset for member in members], [member.size for member in members])
    of_key: dict[str, dict[str, Any]] = {}
    for (key, member), content in zip(columns.values(), contents, strict=True):
        extension = _split_name(member.name)[1]
        of_key.setdefault(key, {})[extension] = _parse(extension, content, f"{shard}::{member.name}")
    return [
        ShardRow(f"{shard}::{name}", {"__key__": key, **of_key.get(key, {})}) for key, name in dict.fromkeys(videos)
    ]


def _split_name(name: str) -> tuple[str, str]:
    folder, file = posixpath.split(name)
    stem, _, extension = file.partition(".")
    return posixpath.join(folder, stem), extension.lower()


def _parse(extension: str, content: bytes, name: str) -> Any:
    try:
        if extension in _JSON:
            return json.loads(content)
        return content.decode().strip() if extension in _TEXT else content
    except ValueError as error:
        raise ConfigurationError(f"does not hold what its name says ({error})", name) from None
