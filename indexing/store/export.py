"""Export the contents of a store in other formats."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any, BinaryIO, TextIO

import numpy as np

from videoloader.errors import SourceError, needs, system_reason
from videoloader.errors.argument_names import tells_of_arguments
from videoloader.errors.checks import check_type, path_text
from videoloader.indexing.index import VideoIndex
from videoloader.indexing.sources.regular_file import replacing
from videoloader.indexing.store.schema import COLUMNS

# Rows of a Parquet row group, which is held in memory.
_ROW_GROUP = 20_000


@tells_of_arguments
def torchcodec_frame_mappings(index: VideoIndex) -> str:
    """Return a video's frames as JSON for ``torchcodec.decoders.VideoDecoder(path, custom_frame_mappings=…)``.

    The format is that of ``ffprobe -show_frames -show_entries frame=pts,duration,key_frame -of json``: times in units
    of the stream's time base, in display order. The last frame is taken to last as long as the one before it.

    Examples:
        >>> decoder = VideoDecoder("a.mp4", custom_frame_mappings=torchcodec_frame_mappings(index))
    """
    check_type("index", index, isinstance(index, VideoIndex), "a VideoIndex, as Video(path).index")
    rate, base = index.stream.frame_rate, index.stream.time_base
    nominal = round(1 / (rate * base)) if rate else 1
    steps = np.diff(index.clock)
    durations = np.append(steps, steps[-1:] if len(steps) else [nominal])
    keys = index.packet_key[index.frame_packet].astype(int)
    rows = zip(index.frame_pts.tolist(), durations.tolist(), keys.tolist(), strict=True)
    return json.dumps({"frames": [{"pts": pts, "duration": step, "key_frame": key} for pts, step, key in rows]})


@contextmanager
def _writing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A file that replaces the one at the path when it is whole: of a part of a table, nobody could tell."""
    name = path_text("path", path)
    try:
        with replacing(name) as file:
            yield file
    except OSError as error:
        raise SourceError(f"the table cannot be written ({system_reason(error)})", name) from error


def write_csv(path: str | os.PathLike[str], rows: Iterable[tuple[Any, ...]]) -> None:
    """Write rows of ``COLUMNS`` as CSV; unknown values are empty."""
    with _writing(path) as file, _as_text(file, newline="") as text:
        usual, quoting = csv.writer(text), csv.writer(text, quoting=csv.QUOTE_ALL)
        usual.writerow(COLUMNS)
        for row in rows:
            # Spaces before a value are not part of it, unless it is quoted.
            has_spaces = any(isinstance(value, str) and value.startswith(" ") for value in row)
            (quoting if has_spaces else usual).writerow(row)


def write_json_lines(path: str | os.PathLike[str], rows: Iterable[tuple[Any, ...]]) -> None:
    """Write rows of ``COLUMNS`` as JSON lines; unknown values are null."""
    with _writing(path) as file, _as_text(file) as text:
        for row in rows:
            values = (as_utf8(value) if isinstance(value, str) else value for value in row)
            text.write(json.dumps(dict(zip(COLUMNS, values, strict=True)), ensure_ascii=False) + "\n")


def write_parquet(path: str | os.PathLike[str], rows: Iterator[tuple[Any, ...]]) -> None:
    """Write rows of ``COLUMNS`` as Parquet, in bounded memory.

    Raises:
        ConfigurationError: pyarrow is not installed.
    """
    with needs("Parquet needs pyarrow: pip install 'videoloader[parquet]'"):
        import pyarrow
        from pyarrow import parquet
    types = {"TEXT": pyarrow.string(), "INTEGER": pyarrow.int64(), "REAL": pyarrow.float64()}
    schema = pyarrow.schema([(name, types[kind]) for name, kind in COLUMNS.items()])
    with _writing(path) as file, parquet.ParquetWriter(file, schema) as writer:
        while group := list(islice(rows, _ROW_GROUP)):
            arrays = [
                pyarrow.array(map(as_utf8, column) if kind == "TEXT" else column, types[kind])
                for column, kind in zip(zip(*group, strict=True), COLUMNS.values(), strict=True)
            ]
            writer.write_table(pyarrow.Table.from_arrays(arrays, schema=schema))


@contextmanager
def _as_text(file: BinaryIO, newline: str | None = None) -> Iterator[TextIO]:
    text = io.TextIOWrapper(file, encoding="utf-8", errors="backslashreplace", newline=newline)
    try:
        yield text
    finally:
        text.detach()  # flushes it, and leaves the file open


def as_utf8(text: str | None) -> str | None:
    """Escape bytes that are not UTF-8, which file names may contain."""
    return None if text is None else text.encode("utf-8", "backslashreplace").decode()
