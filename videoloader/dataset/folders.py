"""Rows of a data set that lies in folders: files, or folders of image files, below a folder for each class."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt

from videoloader.dataset.columns import PackedStrings
from videoloader.dataset.table import EntryTable, make_table
from videoloader.errors import ConfigurationError, SourceError
from videoloader.indexing.sources.folder import is_image_name, natural_order

VIDEO_EXTENSIONS = (
    "3gp", "avi", "flv", "m2ts", "m4v", "mkv", "mov", "mp4", "mpeg", "mpg", "mts", "ogv", "ts", "webm", "wmv",
)  # fmt: skip

Labelled = tuple[EntryTable, Sequence[str]]


def file_endings(extensions: Collection[str]) -> tuple[str, ...]:
    """Extensions with the dot, in small letters.

    Raises:
        ConfigurationError: they are no list, or there are none.
    """
    if isinstance(extensions, str) or not extensions:
        raise ConfigurationError(f"extensions must be a list of file name endings, got {extensions!r}")
    return tuple(f".{extension.lower().removeprefix('.')}" for extension in extensions)


def entries_of_files(root: str, endings: tuple[str, ...], class_names: Sequence[str] | None) -> Labelled:
    """Entries for the files with one of these endings in a folder, and the class names.

    Raises:
        SourceError: a folder cannot be read.
        ConfigurationError: there is no such file, or the folders are not those of ``class_names``.
    """
    files, _ = list_folder(root)
    flat = any(name.lower().endswith(endings) for name in files)
    found = _labelled(root, flat, lambda folder: files_below(folder, endings), class_names)
    if not found:
        raise ConfigurationError(f"no video in this folder: no file ends with {', '.join(endings)}", root)
    return found


def entries_of_frame_folders(root: str, class_names: Sequence[str] | None) -> Labelled:
    """Entries for the folders in a folder that hold image files, and the class names.

    Raises:
        SourceError: a folder cannot be read.
        ConfigurationError: there is no such folder, or the folders are not those of ``class_names``.
    """
    _, folders = list_folder(root)
    within = (root, *(os.path.join(root, name) for name in folders))
    flat = any(is_image_name(name) for path in within for name in list_folder(path)[0])
    found = _labelled(root, flat, frame_folders_below, class_names)
    if not found:
        raise ConfigurationError("no folder in this one holds image files", root)
    return found


def _labelled(
    root: str, flat: bool, find: Callable[[str], Iterable[str]], class_names: Sequence[str] | None
) -> Labelled | None:
    """Entries for what is found in a folder, one class for each folder in it unless flat; None where nothing is."""
    if flat:
        if class_names:
            raise ConfigurationError("class_names are given, but videos lie outside class folders", root)
        return _table(find(root), {}), ()
    _, folders = list_folder(root)
    names = folders if class_names is None else class_names
    number = {name: i for i, name in enumerate(names)}
    if unknown := [name for name in folders if name not in number]:
        raise ConfigurationError(f"folder {unknown[0]!r} is none of the class_names", root)
    paths = [PackedStrings(find(os.path.join(root, name))) for name in folders]
    counts = np.array([len(some) for some in paths], np.int64)
    labels = np.repeat(np.array([number[name] for name in folders], np.int64), counts)
    return (_table(chain.from_iterable(paths), {"label": labels}), names) if len(labels) else None


def _table(paths: Iterable[str], fields: Mapping[str, npt.NDArray[np.int64]]) -> EntryTable:
    return make_table(PackedStrings(paths), fields, {}, lambda row: f"row {row}")


def list_folder(folder: str) -> tuple[list[str], list[str]]:
    """Names of the files and of the folders in a folder, hidden ones left out, each in natural order.

    Raises:
        SourceError: the folder cannot be read.
    """
    files, folders = _unsorted(folder)
    return natural_order(files), natural_order(folders)


def files_below(folder: str, endings: tuple[str, ...]) -> Iterator[str]:
    """Paths of the files with one of these endings (small letters) in a folder and the folders in it."""
    for path, files in _walk(folder):
        wanted = natural_order(name for name in files if name.lower().endswith(endings))
        yield from (os.path.join(path, name) for name in wanted)


def frame_folders_below(folder: str) -> Iterator[str]:
    """A folder itself, if it holds image files, and those of the folders in it that do."""
    return (path for path, files in _walk(folder) if any(map(is_image_name, files)))


def _walk(folder: str, above: tuple[str, ...] = ()) -> Iterator[tuple[str, list[str]]]:
    """A folder and the folders in it, in natural order, each with its files in any order. Links are followed."""
    here = os.path.realpath(folder)
    if here in above:  # a link to a folder that this one lies in
        return
    files, folders = _unsorted(folder)
    yield folder, files
    for name in natural_order(folders):
        yield from _walk(os.path.join(folder, name), (*above, here))


def _unsorted(folder: str) -> tuple[list[str], list[str]]:
    try:
        with os.scandir(folder) as found:
            is_folder = {item.name: item.is_dir() for item in found if not item.name.startswith(".")}
    except OSError as error:
        raise SourceError(f"the folder cannot be read ({error.strerror})", folder) from error
    return [name for name in is_folder if not is_folder[name]], [name for name in is_folder if is_folder[name]]
