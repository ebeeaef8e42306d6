"""Resolves arguments of commands: files, folders, tables, lists and stores."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

import typer

from videoloader.dataset import VideoDataset
from videoloader.dataset.reading import TABLE_ENDINGS
from videoloader.errors import ConfigurationError, SourceError, VideoLoaderWarning
from videoloader.indexing.sources.opening import is_url
from videoloader.indexing.sources.regular_file import open_regular, reading

_LIST_ENDINGS = (".txt", ".lst")
_WHAT = "folders of videos, videos, tables (.csv, .tsv, .jsonl, .parquet), lists of paths (.txt) or index stores"

Sources = Annotated[list[str], typer.Argument(help=f"Any number of {_WHAT}.", show_default=False)]
Root = Annotated[
    Path | None,
    typer.Option(
        help="Folder that relative paths in tables and lists start from. Default: the folder of the table or list."
    ),
]
Workers = Annotated[
    int | None, typer.Option(min=1, help="Number of processes. Default: one per core.", show_default=False)
]
Index = Annotated[
    Path | None, typer.Option(help="Index store of the videos. Without one, the videos are indexed first.")
]
Source = Annotated[str, typer.Argument(help="A folder of videos, a table, a list, an index store, or a video.")]
Json = Annotated[bool, typer.Option("--json", help="Print only JSON to stdout.")]


def paths_of(sources: Iterable[str], root: Path | None = None) -> list[str]:
    """The videos that arguments name, each once.

    Args:
        sources: the arguments.
        root: folder that relative paths in tables and lists start from; None for that of the table or list.

    Raises:
        SourceError: an argument does not exist, or they name no video.
    """
    with warnings.catch_warnings():
        for about_classes in (".*look like splits", ".*the subfolders are not read as classes"):
            warnings.filterwarnings("ignore", about_classes, VideoLoaderWarning)  # only the paths are used
        paths = list(dict.fromkeys(path for source in sources for path in _paths(source, root)))
    if not paths:
        raise SourceError("names no video", ", ".join(sources))
    return paths


def check_output(output: Path | None, inputs: Iterable[str | Path]) -> None:
    """Raise ConfigurationError if writing a command's output would overwrite one of its inputs."""
    if output is not None and output.exists():
        same = os.path.abspath(output), os.path.realpath(output)
        if any(os.path.abspath(each) in same for each in inputs):
            raise ConfigurationError("is an input, which the output would overwrite: name another file", str(output))


def dataset_of(source: str, root: Path | None = None) -> VideoDataset:
    """The data set that an argument names, with the labels and parts of its rows.

    Raises:
        SourceError, ConfigurationError: it cannot be read, or is invalid.
    """
    return _data(source, root) or VideoDataset.from_paths(paths_of([source], root))


def is_store(source: str) -> bool:
    """Whether a file is an SQLite database."""
    try:
        with open(source, "rb", opener=open_regular) as opened:
            return opened.read(16) == b"SQLite format 3\0"
    except (OSError, ValueError):
        return False  # opening it as a video will raise the error


def _data(source: str, root: Path | None) -> VideoDataset | None:
    """The data set of a folder, a table or a store; None for anything else."""
    if os.path.isdir(source):
        return VideoDataset.from_folder(source)
    if source.lower().endswith(TABLE_ENDINGS):
        return VideoDataset.from_csv(source, root=root)
    return VideoDataset.from_store(source) if is_store(source) else None


def _paths(argument: str, root: Path | None) -> Iterable[str]:
    if (data := _data(argument, root)) is not None:
        return data.paths
    if argument.lower().endswith(_LIST_ENDINGS):
        return _listed_paths(Path(argument), root)
    if "://" not in argument and "::" not in argument and not os.path.exists(argument):
        raise SourceError("there is no such file or folder", argument)
    return [argument]


def _listed_paths(source: Path, root: Path | None) -> Iterator[str]:
    """The paths in a list with one path per line."""
    try:
        with reading(source, encoding="utf-8-sig", errors="surrogateescape", newline="\n") as file:
            lines = file.read().split("\n")
    except OSError as error:
        raise SourceError(f"the list cannot be read ({error.strerror})", str(source)) from None
    folder = source.parent if root is None else root
    for line in filter(None, map(str.strip, lines)):
        yield line if is_url(line) else str(folder / line)
