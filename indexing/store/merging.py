"""Merge stores that were built in parts into one."""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Literal

from videoloader.errors import ArgumentError, ConfigurationError
from videoloader.errors.argument_names import tells_of_arguments
from videoloader.errors.checks import check, path_text
from videoloader.indexing.sources.opening import begins_as_url
from videoloader.indexing.sources.regular_file import is_same_file
from videoloader.indexing.store.building import Progress, delete_unused_records, rename_moved, write_row
from videoloader.indexing.store.connection import writing
from videoloader.indexing.store.frame_table import PackedIndex
from videoloader.indexing.store.keys import SourceKeys, from_sql, path_here, to_sql
from videoloader.indexing.store.opening import close_writer, connect_writer, told_as_unwritable
from videoloader.indexing.store.processes import check_not_forked
from videoloader.indexing.store.schema import COLUMNS, JOIN_INDEXES, mark_change, recorded_roots
from videoloader.indexing.store.store import IndexStore
from videoloader.live_line import live_line

# Limits for one transaction, which is held in memory: rows, and bytes of indexes.
_ROWS_AT_ONCE, _BYTES_AT_ONCE = 1000, 8 << 20
# The time of change in a fingerprint: it follows the size for a file or archive, and the word for a folder.
_TIME = re.compile(r"(?:content:[^:]*:)?(?:\d+|folder)-(-?\d+)(?:-|$)")
_SOURCE, _FINGERPRINT, _ERROR_TYPE, _INDEXER, _ARCHIVE = (
    list(COLUMNS).index(name) for name in ("source", "fingerprint", "error_type", "indexer", "archive")
)

_Outcome = Literal["added", "replaced", "same", "older"]


@dataclass(frozen=True)
class MergeReport:
    """The result of a merge.

    Attributes:
        added: int. The number of videos that were new in the merged store.
        replaced: int. The number of videos for which a part had a newer state than the merged store.
        same: int. The number of parts' rows whose video had the same state in the merged store.
        older: int. The number of parts' rows whose video had a newer state in the merged store.
        seconds: float. The time that the merge took.
    """

    added: int
    replaced: int
    same: int
    older: int
    seconds: float


@tells_of_arguments
def merge_stores(
    stores: Iterable[str | os.PathLike[str]],
    output: str | os.PathLike[str],
    *,
    root: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> MergeReport:
    """Merge index stores that were built in parts into a new store or an existing one.

    No video is opened. If several stores have a video, the newest state of its file wins, that is, the one with the
    latest time of change. For the same state, an index wins over an error, and an index of a later version over one of
    an earlier version. If that does not decide (fingerprints of ``"size"`` and of remote files have no time), the store
    given last wins.

    Rows are copied a thousand at a time, so memory does not grow with the stores. A merge may be interrupted or killed
    at any moment: what was copied by then is a valid store, and running the same merge again completes it.

    Args:
        stores: list of paths. The parts, which are not changed.
        output: str or path. The merged store, on a file system of this machine.
        root: str or path, default the parts' root if all have the same, else the folder of the store; or the recorded
            one. The folder that paths are relative to. It is recorded in a new store; for an existing store, it says
            where the recorded folder is now.
        progress: function, default a line in the terminal. It is called from time to time with (rows done, rows of all
            parts).

    Raises:
        SourceError: a part cannot be read, or the merged store cannot be written.
        IndexingError: a file is no index store, is damaged, or of another version.
        ConfigurationError: there are no parts, or the merged store is one of them.

    Examples:
        >>> merge_stores(["part-0.db", "part-1.db"], "merged.db")
        MergeReport(added=240000, replaced=0, same=12, older=0, seconds=0.01)
    """
    begin = time.monotonic()
    if isinstance(stores, str | bytes | os.PathLike):
        raise ArgumentError(f"stores must be a list of paths, got {stores!r}")
    parts = [IndexStore(path) for path in stores]
    path = path_here(path_text("merge_stores's output", output))
    check("stores", parts, parts, "at least one index store")
    if any(is_same_file(path, part.path) for part in parts):
        raise ConfigurationError("is a part and the merged store at once: leave it out of the parts", path)
    given = None if root is None else path_here(path_text("merge_stores's root", root))
    with live_line("merging", progress) as tell, _Merge(path, given, parts) as merge:
        total, done = sum(map(len, parts)), 0
        for part in parts:
            merge.begin_part(part)
            for rows in _batches(part.stored_rows()):
                merge.write(rows)
                done += len(rows)
                tell(done, total)
        merge.tidy_up()
    counts = merge.counts
    return MergeReport(counts["added"], counts["replaced"], counts["same"], counts["older"], time.monotonic() - begin)


def _batches(rows: Iterable[tuple[Any, ...]]) -> Iterator[list[tuple[Any, ...]]]:
    """Yield the rows of a part in lists, each for one transaction; the last may be empty."""
    batch: list[tuple[Any, ...]] = []
    size = 0
    for row in rows:
        batch.append(row)
        size += sum(len(each) for each in row[-2:] if isinstance(each, bytes))
        if len(batch) >= _ROWS_AT_ONCE or size >= _BYTES_AT_ONCE:
            yield batch
            batch, size = [], 0
    yield batch


def _state(key: str, fingerprint: object, error_type: object, indexer: object) -> tuple[int, bool, int]:
    """Return what decides between two rows of a video; the larger one wins.

    Returns:
        Time of change of the file in nanoseconds, -1 if the fingerprint has none; whether the row has an index; version
        of the library's indexing.
    """
    found = _TIME.match(fingerprint) if isinstance(fingerprint, str) and not begins_as_url(key) else None
    return int(found[1]) if found else -1, error_type is None, indexer if isinstance(indexer, int) else 0


class _Merge:
    """A merged store that is being written, as a context that closes it."""

    def __init__(self, path: str, root: str | None, parts: list[IndexStore]) -> None:
        roots = {part.keys.root for part in parts}
        common = roots.pop() if root is None and len(roots) == 1 else None
        recorded = common if common != os.path.dirname(path) else None
        kinds = {row for part in parts for row in part.query(_KIND) or [(None,)]}
        kind = kinds.pop()[0] if len(kinds) == 1 else None
        self._path, self._process = path, os.getpid()
        # Both are written together with the tables, so that a merge that was killed leaves a store with them, or none.
        self._connection = connect_writer(path, root or recorded, kind)
        with ExitStack() as on_error:
            on_error.callback(close_writer, self._connection, self._process)
            with told_as_unwritable(path):
                settings = dict(self._connection.execute("SELECT name, value FROM settings"))
                known = recorded_roots(settings, path) if root is None else (root,)
                self._keys = SourceKeys.located(known, self._connection.execute, path)
                rename_moved(self._connection, self._keys)
            on_error.pop_all()
        self.counts: Counter[_Outcome] = Counter()

    def __enter__(self) -> _Merge:
        return self

    def __exit__(self, *_: object) -> None:
        close_writer(self._connection, self._process)

    def begin_part(self, part: IndexStore) -> None:
        self._root, self._part = part.keys.root, part.path

    def write(self, rows: list[tuple[Any, ...]]) -> None:
        """Write rows of the part, all or none.

        Raises:
            SourceError: they cannot be written.
            ConfigurationError: the process was forked meanwhile, as in a callback.
        """
        check_not_forked(self._process, "merge")
        outcomes: Counter[_Outcome] = Counter()
        with told_as_unwritable(self._path), writing(self._connection):
            outcomes.update(map(self._write_row, rows))
            if outcomes["added"] or outcomes["replaced"]:
                mark_change(self._connection)
        self.counts += outcomes

    def tidy_up(self) -> None:
        """Remove records that nothing refers to any more."""
        check_not_forked(self._process, "merge")
        if self.counts["replaced"]:
            with told_as_unwritable(self._path), writing(self._connection):
                mark_change(self._connection)
                delete_unused_records(self._connection)

    def _write_row(self, row: tuple[Any, ...]) -> _Outcome:
        *columns, record, blob = row
        key = self._key(columns[_SOURCE])
        ours = to_sql(key)
        outcome: _Outcome = "added"
        known = self._connection.execute(_KNOWN, (ours,)).fetchone()
        if known is not None:
            theirs = (columns[_FINGERPRINT], columns[_ERROR_TYPE], columns[_INDEXER])
            if known == theirs and (_state(key, *known)[0] >= 0 or self._has(ours, row)):
                return "same"
            if _state(key, *theirs) < _state(key, *known):
                return "older"
            outcome = "replaced"
        columns[_SOURCE] = ours
        if columns[_ARCHIVE] is not None:
            columns[_ARCHIVE] = to_sql(self._key(columns[_ARCHIVE]))
        is_whole = isinstance(record, bytes) and isinstance(blob, bytes)
        write_row(self._connection, columns, PackedIndex(record, blob) if is_whole else None)
        return outcome

    def _has(self, source: str | bytes, row: tuple[Any, ...]) -> bool:
        """Whether the merged store has this row of a part, but for its names."""
        ours = self._connection.execute(_WHOLE_ROW, (source,)).fetchone()
        names = {_SOURCE, _ARCHIVE}
        return all(number in names or each == row[number] for number, each in enumerate(ours))

    def _key(self, stored: str | bytes) -> str:
        """Return the key in this store for a key of a part."""
        key = from_sql(stored, self._part)
        path = SourceKeys.path_below(self._root, key)
        return key if begins_as_url(key) else self._keys.key_of_absolute(path)


_KIND = "SELECT value FROM settings WHERE name = 'fingerprint'"
_WHOLE_ROW = f"SELECT {', '.join(COLUMNS)}, records.record, blob FROM videos {JOIN_INDEXES} WHERE source = ?"
_KNOWN = "SELECT fingerprint, error_type, indexer FROM videos WHERE source = ?"
