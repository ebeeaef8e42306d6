"""Checks the sources that rows of a table name, since a table from elsewhere could name any file or server."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import cache
from typing import Literal

from videoloader.errors import ConfigurationError, SourceError
from videoloader.errors.checks import check_choice
from videoloader.errors.of_handlers import raise_of_handler
from videoloader.indexing.sources.folder import links_in
from videoloader.indexing.sources.opening import LONGEST_PATH, local_places
from videoloader.indexing.sources.regular_file import is_link, real_path

Sources = Literal["any", "local", "inside root"]
_MOST_NAMED = 3


def check_sources(paths: Iterable[str], sources: Sources, root: str, where: Callable[[int], str]) -> None:
    """Raise ConfigurationError if a row names a source that is not allowed; the message names the first such row.

    Links are followed. For a member of an archive, the archive is checked; for a folder of images, everything linked
    from it and its list of times. The check holds only for the file system as it is now.

    Args:
        paths: paths of the rows.
        sources: ``"any"``, ``"local"``, or ``"inside root"``.
        root: folder that must hold all sources with ``"inside root"``.
        where: gives the place of a row in its table, for messages.
    """
    check_choice("sources", sources, ("any", "local", "inside root"))
    if sources == "any":
        return
    try:
        allowed = real_path(root) if sources == "inside root" else None
    except ValueError as error:  # a zero byte, or what is no character
        raise ConfigurationError(f"root must be a folder, got {root!r} ({error})") from None
    # Many videos share a folder.
    real, links = cache(real_path), cache(links_in)
    refused: list[str] = []
    count = row = 0
    for row, path in enumerate(paths, 1):
        if reason := _refusal(path, allowed, real, links):
            count += 1
            if count <= _MOST_NAMED:
                refused.append(f"{where(row - 1)}: {path!r:.200} {reason}")
    if count:
        more = f" and {count - _MOST_NAMED} more" if count > _MOST_NAMED else ""
        wanted = "lies on this machine" if allowed is None else f"lies in {allowed}"
        raise ConfigurationError(
            f"sources={sources!r} allows only what {wanted}, but {count} of {row} rows name something else: "
            f"{'; '.join(refused)}{more}; correct these rows, or give sources='any' where the table is trusted"
        )


def _refusal(path: str, root: str | None, real: Callable[[str], str], links: Callable[[str], Iterable[str]]) -> str:
    """The reason why a row may not name this path; empty where it may."""
    try:
        found = local_places(path)
        if found is None:
            return "is opened by fsspec"
        if root is None:
            return ""
        places = found.files if found.folder is None else [found.folder, *found.files]
        if any(len(place) > LONGEST_PATH for place in places):  # asking where it leads would take long
            return f"is longer than a path may be ({LONGEST_PATH} characters)"
        if any(_leads_through_proc(place, real) for place in places):
            return "leads through /proc, whose links may lead elsewhere at any time"
        outside = _outside(places, root, real)
        # A folder out of the root is not even listed.
        if not outside and found.folder is not None:
            outside = _outside(links(found.folder), root, real)
    except (SourceError, ValueError, OSError) as error:  # for example a zero byte, or a folder that may not be read
        raise_of_handler(error)
        return f"cannot be looked at ({error})"
    return f"leads to {outside!r}" if outside else ""


def _outside(places: Iterable[str], root: str, real: Callable[[str], str]) -> str | None:
    """The first place that is not in the root, after links are followed; None if all are in it."""
    return next((led for each in places if not _is_in(led := _real_place(each, real), root)), None)


def _is_in(place: str, root: str) -> bool:
    return place == root or place.startswith(os.path.join(root, ""))


def _leads_through_proc(path: str, real: Callable[[str], str]) -> bool:
    """Whether a path leads through what the kernel itself links, such as the current folder and open files."""
    folder = os.path.dirname(path)
    while (shorter := os.path.dirname(folder)) != folder:
        if os.path.join(real(folder), "").startswith("/proc/"):
            return True
        folder = shorter
    return False


def _real_place(path: str, real: Callable[[str], str]) -> str:
    folder, name = os.path.split(path)
    # A name may go up out of a file, where nothing is a link.
    if name in ("", ".", "..") or "/.." in folder or is_link(path):
        return real_path(path)
    return os.path.join(real(folder or "."), name)
