"""Which files, or folders of image files, lie in a folder."""

from __future__ import annotations

import os
from collections.abc import Iterator

from videoloader.errors import SourceError
from videoloader.indexing.sources.folder import is_image_name, natural_order


def list_folder(folder: str) -> tuple[list[str], list[str]]:
    """Names of the files and of the folders in a folder, hidden ones left out, each in natural order.

    Raises:
        SourceError: the folder cannot be read.
    """
    files, folders = _unsorted(folder)
    return natural_order(files), natural_order(folders)


def files_below(folder: str, endings: tuple[str, ...], above: tuple[str, ...] = ()) -> Iterator[str]:
    """Paths of the files with one of these endings (small letters) in a folder and the folders in it."""
    here = os.path.realpath(folder)
    if here in above:  # a link to a folder that this one lies in
        return
    files, folders = list_folder(folder)
    yield from (os.path.join(folder, name) for name in files if name.lower().endswith(endings))
    for name in folders:
        yield from files_below(os.path.join(folder, name), endings, (*above, here))


def frame_folders_below(folder: str, above: tuple[str, ...] = ()) -> Iterator[str]:
    """A folder itself, if it holds image files, and those of the folders in it that do."""
    here = os.path.realpath(folder)
    if here in above:
        return
    files, folders = _unsorted(folder)
    if any(is_image_name(name) for name in files):
        yield folder
    for name in natural_order(folders):
        yield from frame_folders_below(os.path.join(folder, name), (*above, here))


def _unsorted(folder: str) -> tuple[list[str], list[str]]:
    try:
        with os.scandir(folder) as found:
            is_folder = {item.name: item.is_dir() for item in found if not item.name.startswith(".")}
    except OSError as error:
        raise SourceError(f"the folder cannot be read ({error.strerror})", folder) from error
    return [name for name in is_folder if not is_folder[name]], [name for name in is_folder if is_folder[name]]
