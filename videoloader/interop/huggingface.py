"""Reads videos from a column of a Hugging Face data set."""

from __future__ import annotations

import os
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from videoloader.dataset import VideoDataset
from videoloader.dataset.allowed_sources import Sources, check_sources
from videoloader.dataset.columns import Column, join, pack
from videoloader.dataset.known_columns import entries_of, find_columns
from videoloader.dataset.parquet import arrow_column
from videoloader.dataset.raw_table import ROWS_AT_ONCE, RawTable
from videoloader.errors import ConfigurationError, SourceError
from videoloader.errors.argument_names import tells_of_arguments
from videoloader.errors.checks import check_type
from videoloader.indexing.sources.regular_file import replacing

__all__ = ["from_huggingface"]

if TYPE_CHECKING:
    import datasets

# Few enough that the videos of so many rows fit into memory.
_ROWS_AT_ONCE = 64


@tells_of_arguments
def from_huggingface(
    rows: datasets.Dataset,
    *,
    video: str = "video",
    columns: Mapping[str, str] | None = None,
    folder: str | os.PathLike[str] | None = None,
    sources: Sources = "any",
    root: str | os.PathLike[str] = "",
) -> VideoDataset:
    """Make one entry for each row of a ``datasets.Dataset``; its other columns are kept.

    Nothing is decoded, and audio and images in other columns are kept as they are stored. Remove columns that are not
    needed with ``rows.remove_columns``.

    Args:
        rows: ``datasets.Dataset``. The data set.
        video: str, default ``"video"``. The name of the column with the videos: paths or URLs, bytes, or values of the
            ``Video`` feature, which hold either in ``{"path": …, "bytes": …}``.
        columns: mapping, default None. The columns that hold the label and the ends of a part of the video, as in
            ``VideoDataset.from_csv``. If no column has a name for labels, the only ``ClassLabel`` is the label. The
            names of a ``ClassLabel`` are the class names; its -1 means no label.
        folder: str or path, default None. The folder to which videos that rows hold as bytes are written, each once,
            under a name derived from its content; existing files are not written again. Other processes then open them
            by path.
        sources: str, default ``"any"``. The sources that the rows may name, ``"any"``, ``"local"`` or ``"inside
            root"``, as in ``VideoDataset.from_csv``. Videos written to ``folder`` are checked, too.
        root: str or path, default the working directory. The folder for ``"inside root"``.

    Raises:
        ConfigurationError: there are no rows or no such column, a row has no video, a value is invalid, or videos are
            bytes and there is no ``folder``.
        SourceError: a video cannot be written.

    Examples:
        >>> rows = datasets.load_dataset("videofolder", data_dir="clips", split="train")
        >>> loader = VideoLoader(from_huggingface(rows), RandomWindow(16), batch_size=8)
    """
    hint = ": take a split of several, as rows['train'], and load it without streaming=True"
    check_type("rows", rows, hasattr(rows, "builder_name") and hasattr(rows, "__len__"), "a datasets.Dataset", hint)
    names, source = list(rows.column_names), f"data set {rows.builder_name or ''}".strip()
    if video not in names:
        raise ConfigurationError(f"video is {video!r}, which is not a column of {names}", source)
    if not len(rows):
        raise ConfigurationError("the data set has no rows", source)
    paths: list[str] = []
    parts: dict[str, list[Column]] = {name: [] for name in names if name != video}
    given = {"path": video, **(columns or {})}
    classes = {name: rows.features[name].names for name in names if hasattr(rows.features[name], "names")}
    label = find_columns(names, given, source).get("label", next(iter(classes)) if len(classes) == 1 else None)
    given |= {"label": label} if label else {}
    as_stored = rows.with_format("arrow")
    are_paths = str(as_stored[:0].schema.field(video).type).endswith("string")
    for table in as_stored.iter(batch_size=ROWS_AT_ONCE if are_paths else _ROWS_AT_ONCE):
        for value in table.column(video):
            paths.append(_path(value.as_py(), f"{source}: row {len(paths)}", folder))
        for name, part in parts.items():
            values = table.column(name).to_pylist() if name in classes else []
            if name == label and name in classes:
                part.append(pack([-1 if value is None else value for value in values]))
            elif name in classes:  # -1 means that the class is not known
                part.append(pack([None if value == -1 else value for value in values]))
            else:
                part.append(arrow_column(name, table.column(name).combine_chunks(), source))
    read = {video: pack(paths), **{name: join(part) for name, part in parts.items()}}
    raw = RawTable(source, read, lambda row: f"row {row}")
    table, known = entries_of(raw, given, "", classes.get(label or ""))
    check_sources(table.path, sources, os.fspath(root), lambda row: f"row {row}")
    return VideoDataset(table, known)


def _path(value: Any, where: str, folder: str | os.PathLike[str] | None) -> str:
    """The path of a video; bytes are written to a file first."""
    content = value.get("bytes") if isinstance(value, dict) else value if isinstance(value, bytes) else None
    path = value.get("path") if isinstance(value, dict) else value if isinstance(value, str) else None
    if content is None:
        if not path:
            raise ConfigurationError(f"{where}: there is neither a path nor the bytes of a video, but {value!r}")
        return str(path)
    if folder is None:
        raise ConfigurationError(
            f"{where}: the video is stored as {len(content)} bytes: give folder=…, where it may be written"
        )
    name = blake2b(content, digest_size=16).hexdigest() + PurePath(path or "").suffix
    return _written(Path(folder).absolute() / name, content)


def _written(path: Path, content: bytes) -> str:
    """Write a file atomically, unless it exists."""
    try:
        if not path.is_file():
            path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(str(path)) as file:
                file.write(content)
    except OSError as error:
        raise SourceError(f"the video cannot be written ({error})", str(path)) from error
    return str(path)
