"""Finds rows whose video file does not exist."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from videoloader.dataset.left_out import tell_left_out
from videoloader.dataset.table import EntryTable
from videoloader.errors import SourceError
from videoloader.errors.checks import check
from videoloader.indexing.sources.folder import is_frame_folder
from videoloader.indexing.sources.opening import is_url
from videoloader.indexing.sources.regular_file import is_missing
from videoloader.runtime.threads import executor_of

# Network file systems answer many requests at once.
_THREADS, _PATHS_AT_ONCE = 16, 1024
Missing = Literal["raise", "skip"]
LeftOut = list[tuple[str, str]]
Rows = tuple[EntryTable, LeftOut]


def without_missing(table: EntryTable, missing: Missing | Literal["unchecked"], source: str) -> Rows:
    """The rows whose local files exist, and (path, reason) for the others, which a warning counts.

    Args:
        table: the rows. Videos behind a URL or in an archive count as existing.
        missing: ``"unchecked"``, ``"raise"`` or ``"skip"``.
        source: name of the rows' origin, for messages.

    Raises:
        SourceError: files are missing with ``"raise"``, or all files are missing.
        ConfigurationError: ``missing`` has another value.
    """
    if missing == "unchecked":
        return table, []
    starts = range(0, len(table), _PATHS_AT_ONCE)
    with executor_of(_THREADS, "videoloader-missing", lent=False, needed=False) as pool:
        there = pool.map(lambda start: _are_there(table.path[start : start + _PATHS_AT_ONCE]), starts)
        return leave_out(table, np.array([one for some in there for one in some], np.bool_), missing, source)


def leave_out(table: EntryTable, there: npt.NDArray[np.bool_], missing: Missing, source: str) -> Rows:
    """Do the same as ``without_missing`` where it is known which videos exist.

    Args:
        there: bool[N].
    """
    check("missing", missing, missing in ("raise", "skip"), "'raise', 'skip' or, where offered, 'unchecked'")
    gone = np.flatnonzero(~there)
    if not len(gone):
        return table, []
    if missing == "raise" or len(gone) == len(table):
        first = table.path[int(gone[0])]
        hint = "" if len(gone) == len(table) else "; missing='skip' leaves them out"
        raise SourceError(f"this video and {len(gone) - 1} more of {len(table)} in {source} do not exist{hint}", first)
    tell_left_out(source, ["not there"] * len(gone), len(table))
    return table.take(np.flatnonzero(there)), [(table.path[row], "there is no such file") for row in gone.tolist()]


def _are_there(paths: Sequence[str]) -> list[bool]:
    return [is_url(path) or "::" in path or not is_missing(path) or is_frame_folder(path) for path in paths]
