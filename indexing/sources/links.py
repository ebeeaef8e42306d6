"""Follow soft links between the files of an archive, to where they lead once it is unpacked."""

from __future__ import annotations

import posixpath
from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping

# As in Linux.
_LONGEST_CHAIN, _LONGEST_PATH = 40, 4096
# The most parts of paths that are followed for one link.
_MOST_PARTS = 256


def follow_links(
    links: Iterable[tuple[str, str]],
    targets: Mapping[str, str],
    files: Collection[str],
    folders: Iterable[str],
) -> list[str | None]:
    """Return the names of the files to which links lead; None for those that lead to none, or out of the archive.

    Args:
        links: (name, target) of each link.
        targets: targets of all links by name once all is unpacked. Links to folders are followed, too.
        files: names of all other files.
        folders: names of folders, of which some may be empty.
    """
    # The folders of all names would take memory by the square of their lengths.
    names = sorted([*files, *targets, *(f"{folder}/" for folder in folders)])
    return [_followed(posixpath.dirname(name), target, targets, files, names) for name, target in links]


def _followed(
    folder: str, target: str, targets: Mapping[str, str], files: Collection[str], names: list[str]
) -> str | None:
    chain, rest = 1, _parts(target)
    for _ in range(_MOST_PARTS):
        if not rest:
            break
        part = rest.pop()
        if part == ".":
            continue
        if part == "..":
            if not _is_folder(folder, names):
                return None
            folder = posixpath.dirname(folder)
            continue
        name = posixpath.join(folder, part)
        if name in files:
            return None if rest else name
        if name in targets:
            chain, rest = chain + 1, rest + _parts(targets[name])
        else:
            folder = name
        if part == "/" or chain > _LONGEST_CHAIN or len(name) > _LONGEST_PATH:
            return None
    return None


def _is_folder(folder: str, names: list[str]) -> bool:
    """Whether some of these sorted names begin with that of a folder below the archive's own."""
    begin = f"{folder}/"
    at = bisect_left(names, begin)
    return folder != "" and at < len(names) and names[at].startswith(begin)


def _parts(target: str) -> list[str]:
    """Return the parts of a path, the last one first. A part that is no name begins those that lead nowhere."""
    if len(target) >= _LONGEST_PATH:
        return ["/"]
    root = ["/"] if target.startswith("/") else []
    in_folder = ["."] if target.endswith(("/", "/.")) else []  # what has this behind it is no file
    return in_folder + [part for part in target.split("/") if part not in ("", ".")][::-1] + root
