"""Follow soft links between the files of an archive, to where they lead once it is unpacked."""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterable, Mapping, Set

# As in Linux.
_LONGEST_CHAIN, _LONGEST_PATH = 40, 4096


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
    all_folders = {"", *folders}
    for name in (*files, *targets):
        while (name := posixpath.dirname(name)) not in all_folders:
            all_folders.add(name)
    return [_followed(posixpath.dirname(name), target, targets, files, all_folders) for name, target in links]


def _followed(
    folder: str, target: str, targets: Mapping[str, str], files: Collection[str], folders: Set[str]
) -> str | None:
    chain, rest = 1, _parts(target)
    while rest:
        part = rest.pop()
        if part == "..":
            if not folder or folder not in folders:
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


def _parts(target: str) -> list[str]:
    """Return the parts of a path, the last one first. The root is a part that is no name."""
    root = ["/"] if target.startswith("/") else []
    return [part for part in target[:_LONGEST_PATH].split("/") if part not in ("", ".")][::-1] + root
