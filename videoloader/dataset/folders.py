"""Reads the rows of data sets in folders: video files, or folders of image files, with one folder for each class."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from videoloader.dataset.columns import PackedStrings
from videoloader.dataset.left_out import tell_left_out
from videoloader.dataset.table import EntryTable, make_table
from videoloader.errors import ConfigurationError, SourceError, system_reason, warn_user
from videoloader.errors.checks import check
from videoloader.indexing.sources.folder import is_image_name
from videoloader.indexing.sources.natural_order import natural_order
from videoloader.indexing.sources.regular_file import is_folder_entry, status_at
from videoloader.live_line import counted_live, live_line

VIDEO_EXTENSIONS = (
    "3gp", "avi", "flv", "m2ts", "m4v", "mkv", "mov", "mp4", "mpeg", "mpg", "mts", "ogv", "ts", "webm", "wmv",
)  # fmt: skip

# The extensions of lists, notes, programs and annotations. They are ignored without a warning, since every video may
# have one.
_NO_VIDEOS = "csv db html ipynb json jsonl log md npy npz parquet py sh srt tsv txt vtt xml yaml yml"
_BESIDE_VIDEOS = frozenset(f".{ending}" for ending in _NO_VIDEOS.split())
_SPLITS = {"train", "training", "val", "valid", "validation", "test", "testing"}
Labelled = tuple[EntryTable, Sequence[str]]


def file_endings(extensions: Collection[str]) -> tuple[str, ...]:
    """Extensions with the dot, in lower case.

    Raises:
        ConfigurationError: they are not a list, or there are none.
    """
    is_list = isinstance(extensions, list | tuple) or all(isinstance(each, str) for each in extensions)
    is_list = is_list and len(extensions) > 0 and not isinstance(extensions, str)
    check("extensions", extensions, is_list, "a list of file name endings")
    return tuple(f".{extension.lower().removeprefix('.')}" for extension in extensions)


def entries_of_files(
    root: str, endings: tuple[str, ...], class_names: Sequence[str] | None
) -> tuple[EntryTable, Sequence[str], list[tuple[str, str]]]:
    """Entries for the files in a folder with one of these endings, the class names, and (path, reason) for other files.

    With the default ``VIDEO_EXTENSIONS``, a warning counts the other files, except those that usually accompany videos
    (``_BESIDE_VIDEOS``).

    Raises:
        SourceError: a folder cannot be read.
        ConfigurationError: there is no such file, or a folder is not in ``class_names``.
    """
    files, _ = list_folder(root)
    flat = [name for name in files if name.lower().endswith(endings)]
    others = [] if flat else [os.path.join(root, name) for name in files]
    found = _labelled(root, bool(flat), lambda folder: files_below(folder, endings, others), class_names)
    if not found:
        there = ", ".join(f"{name} ({count})" for name, count in Counter(map(_ending, others)).most_common(5))
        hint = f"; there are {there}: extensions=… says which are videos" if others else ""
        if any(map(is_image_name, others)):
            hint += "; with extensions=IMAGE_EXTENSIONS each image is a video of one frame"
            hint += "; from_frame_folders makes a video of each folder of images"
        raise ConfigurationError(f"no video in this folder: no file ends with {', '.join(endings)}{hint}", root)
    if flat and len(found[0]) > 2 * len(flat):
        none = "so the subfolders are not read as classes and give no labels: if they are classes, move it into one"
        others_are = f"while {len(found[0]) - len(flat)} other videos are in subfolders"
        warn_user(f"{root}: {flat[0]} is directly in this folder {others_are}, {none}")
    return *found, left_out_files(root, others, endings, len(found[0]), "extensions")


def left_out_files(
    source: str, others: Iterable[str], endings: tuple[str, ...], videos: int, argument: str
) -> list[tuple[str, str]]:
    """Return (path, reason) for the files that may be videos but do not end like one, and warn about their number.

    Args:
        source: name of the files' origin.
        others: paths of the files that are not taken for videos.
        endings: the endings that are. Those that the user chose exclude other files on purpose.
        videos: number of videos.
        argument: name of the argument for the endings.
    """
    if endings != file_endings(VIDEO_EXTENSIONS):
        return []
    unknown = natural_order(path for path in others if _ending(path) not in _BESIDE_VIDEOS)
    tell_left_out(source, map(_ending, unknown), videos + len(unknown), "files", f", {argument}=… takes them")
    return [(path, "its name does not end like a video's") for path in unknown]


def _ending(path: str) -> str:
    return os.path.splitext(path)[1].lower() or "without an ending"


def entries_of_frame_folders(root: str, class_names: Sequence[str] | None, times: str) -> Labelled:
    """Entries for the folders of image files in a folder, and the class names; ``times`` is appended to their paths.

    Raises:
        SourceError: a folder cannot be read.
        ConfigurationError: there is no such folder, or a folder is not in ``class_names``.
    """
    _, folders = list_folder(root)
    within = (root, *(os.path.join(root, name) for name in folders))
    flat = any(is_image_name(name) for path in within for name in list_folder(path)[0])
    found = _labelled(root, flat, lambda folder: (path + times for path in frame_folders_below(folder)), class_names)
    if not found:
        raise ConfigurationError("no folder in this one holds image files; from_folder reads videos", root)
    return found


def _labelled(
    root: str, flat: bool, find: Callable[[str], Iterable[str]], class_names: Sequence[str] | None
) -> Labelled | None:
    """Entries for the videos in a folder, one class for each folder in it unless ``flat``; None without videos."""
    if flat:
        if class_names:
            raise ConfigurationError("class_names are given, but videos lie outside class folders", root)
        return _table(PackedStrings(counted_live("listing", find(root))), {}), ()
    _, folders = list_folder(root)
    if class_names is None and len(folders) > 1 and {name.lower() for name in folders} <= _SPLITS:
        instead = f"read {os.path.join(root, folders[0])!r} and the others by themselves"
        warn_user(f"{root}: {', '.join(folders)} look like splits, and are taken for the names of classes: {instead}")
    names = folders if class_names is None else class_names
    number = {name: i for i, name in enumerate(names)}
    if unknown := [name for name in folders if name not in number]:
        raise ConfigurationError(f"folder {unknown[0]!r} is not in class_names", root)
    with live_line("listing") as tell:
        paths = []
        for name in folders:
            paths.append(PackedStrings(find(os.path.join(root, name))))
            tell(sum(map(len, paths)), 0)
    counts = np.array([len(some) for some in paths], np.int64)
    labels = np.repeat(np.array([number[name] for name in folders], np.int64), counts)
    return (_table(PackedStrings.join(paths), {"label": labels}), names) if len(labels) else None


def _table(paths: PackedStrings, fields: Mapping[str, npt.NDArray[np.int64]]) -> EntryTable:
    return make_table(paths, fields, {}, lambda row: f"row {row}")


def list_folder(folder: str) -> tuple[list[str], list[str]]:
    """The names of the files and of the folders in a folder, each in natural order, without hidden ones.

    Raises:
        SourceError: the folder cannot be read.
    """
    files, folders = _unsorted(folder)
    return natural_order(files), natural_order(folders)


def files_below(folder: str, endings: tuple[str, ...], others: list[str] | None = None) -> Iterator[str]:
    """The paths of the files below a folder with one of these endings (in lower case).

    The paths of all other files are added to ``others``.
    """
    for path, files in _walk(folder, endings):
        wanted = [name for name in files if name.lower().endswith(endings)]
        if others is not None and len(wanted) < len(files):
            others += (os.path.join(path, name) for name in files if not name.lower().endswith(endings))
        yield from map(os.path.join(path, "").__add__, natural_order(wanted))


def frame_folders_below(folder: str) -> Iterator[str]:
    """A folder and the folders below it, as far as they hold image files."""
    return (path for path, files in _walk(folder) if any(map(is_image_name, files)))


def _walk(folder: str, endings: tuple[str, ...] = ()) -> Iterator[tuple[str, list[str]]]:
    """A folder and those below it, in natural order, each with its files in any order. Links are followed.

    A link whose name has one of the endings is taken for a file without being resolved.
    """
    waiting, above = [(folder, 0)], list[os.stat_result]()
    while waiting:
        path, depth = waiting.pop()
        files, folders = _unsorted(path, endings)
        del above[depth:]
        here = status_at(path)
        if here is None:  # it has gone by now
            yield path, files
            continue
        if any(os.path.samestat(here, each) for each in above):  # a link to a folder that contains this one
            continue
        above.append(here)
        yield path, files
        waiting += ((os.path.join(path, name), depth + 1) for name in reversed(natural_order(folders)))


def _unsorted(folder: str, endings: tuple[str, ...] = ()) -> tuple[list[str], list[str]]:
    files, folders = list[str](), list[str]()
    try:
        with os.scandir(folder) as found:
            for item in found:
                name = item.name
                if name.startswith("."):
                    continue
                link = endings and item.is_symlink() and name.lower().endswith(endings)
                (folders if not link and is_folder_entry(item) else files).append(name)
    except (OSError, ValueError) as error:  # the second of names that no folder can have
        hint = ": from_paths takes glob.glob(…)" if "*" in folder else ""
        raise SourceError(f"the folder cannot be read ({system_reason(error)}){hint}", folder) from error
    return files, folders
