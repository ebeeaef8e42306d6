"""Suggest names that are close to one that does not exist."""

from __future__ import annotations

import posixpath
from bisect import bisect
from collections.abc import Iterable


def near_names(name: str, names: Iterable[str]) -> str:
    """Format a hint, ``"; there are 'a', 'b'"``: the same file name in other folders, and the neighbours in order."""
    known = sorted(set(names))
    last = posixpath.basename(name)
    same = [each for each in known if posixpath.basename(each) == last][:2]
    at = bisect(known, name)
    near = dict.fromkeys([*same, *known[max(at - 1, 0) : at + 1]])
    return f"; there are {', '.join(map(repr, near))}" if near else ""
