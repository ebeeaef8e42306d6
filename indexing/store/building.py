"""Build index stores in parallel and incrementally; an interrupted build keeps the work done so far."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any, get_args

from videoloader.errors import ArgumentError, IndexingError
from videoloader.errors.argument_names import tells_of_arguments
from videoloader.errors.checks import check_choice, check_flag, check_positive, path_text
from videoloader.errors.of_handlers import raise_of_handler
from videoloader.indexing.build import INDEXER_VERSION
from videoloader.indexing.limits import current_limits
from videoloader.indexing.store.connection import Connection, writing
from videoloader.indexing.store.fingerprints import FingerprintKind
from videoloader.indexing.store.frame_table import PackedIndex, stored_index
from videoloader.indexing.store.keys import SourceKeys, from_sql, path_here, to_sql
from videoloader.indexing.store.opening import close_writer, connect_writer, told_as_unwritable
from videoloader.indexing.store.processes import check_not_forked, index_in_processes
from videoloader.indexing.store.schema import COLUMNS, JOIN_INDEXES, Row, mark_change, record_key, recorded_roots
from videoloader.indexing.store.tasks import Answer, Task
from videoloader.live_line import live_line
from videoloader.runtime.cores import available_cores

# Number of videos that a worker is given at a time.
_CHUNK = 32
# What a crash may lose: rows are committed once there are this many, or once the first has waited this many seconds.
_ROWS_AT_ONCE, _SECONDS_AT_ONCE = 1000, 0.5

Progress = Callable[[int, int], object]


@dataclass(frozen=True)
class BuildReport:
    """The result of a build.

    Attributes:
        indexed: int. The number of videos that this build indexed.
        unchanged: int. The number of videos that the store had already, readable or not.
        unreadable: list of (path, error). The given videos that cannot be indexed, including ones known before.
        vanished: list of str. The paths of videos in the store that were not given and do not exist any more.
        pruned: bool. Whether these were removed from the store.
        seconds: float. The time that the build took.
    """

    indexed: int
    unchanged: int
    unreadable: list[tuple[str, str]]
    vanished: list[str]
    pruned: bool
    seconds: float


@tells_of_arguments
def build_store(
    paths: Iterable[str | os.PathLike[str]],
    store: str | os.PathLike[str],
    *,
    root: str | os.PathLike[str] | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
    retry: bool = False,
    prune: bool = False,
    fingerprint: FingerprintKind | None = None,
) -> BuildReport:
    """Index videos into a new store, or bring a store up to date.

    Videos that are in the store and have not changed (see ``fingerprint``) are not read again, unless this version of
    the library indexes them better. A build may be interrupted or killed at any moment; the next one continues from
    there. Several processes of one machine may build the same store at once, even with the same videos; readers see
    rows as they are committed. The store is a single file again when the last build ends, unless someone is reading it
    at that moment.

    Args:
        paths: iterable of str or path. The videos.
        store: str or path. The path of the store. During the build it must be on a local file system (SQLite's
            write-ahead log needs shared memory); afterwards it may be anywhere.
        root: str or path, default the folder of the store, or the recorded one. The folder that paths are relative to.
            It is recorded in a new store; for an existing store, it says where the recorded folder is now.
        workers: int, default one for each core. The number of processes.
        progress: function, default a live line in the terminal or notebook. It is called from time to time with (videos
            done, videos given).
        retry: bool, default False. Whether to index videos again that could not be indexed, or whose rows in the store
            are damaged, and that have not changed. All stored indexes are read for that.
        prune: bool, default False. Whether to remove the rows of vanished videos from the store. Archives are not
            opened for this, so rows of members stay as long as their archive is there.
        fingerprint: str, default as the store was built before, ``"mtime"`` for a new one. How this build and readers
            recognise that a video is the one that was indexed. ``"mtime"`` compares size and time of modification.
            ``"size"`` compares only the size, so that copies of a data set need no build of their own; another video of
            the same size is not noticed. ``"content"`` compares a hash of all bytes if the time differs: the build
            reads all bytes, and readers read files with other times completely, until the store is built again and has
            the new times.

    Raises:
        SourceError: the store cannot be written.
        IndexingError: the file at this path is no index store.
        ConfigurationError: ``store`` is a URL, ``workers`` is not positive, ``retry`` or ``prune`` is neither True nor
            False, there is no such ``fingerprint``, or the environment variable ``VIDEOLOADER_LIMITS`` is wrong.

    Examples:
        >>> from pathlib import Path
        >>> report = build_store(Path("kinetics").rglob("*.mp4"), "kinetics/index.db")
        >>> report.indexed, report.unreadable
        (240000, [('kinetics/broken.mp4', 'has no moov box: not an mp4 file, or cut off before its tables')])
    """
    count = available_cores() if workers is None else workers
    check_positive(workers=count)
    check_flag("retry", retry)
    check_flag("prune", prune)
    with (
        live_line("indexing", progress) as tell,
        StoreBuild(paths, store, root=root, progress=tell, retry=retry, fingerprint=fingerprint) as build,
    ):
        for answers in index_in_processes(build.chunks(), count):
            build.add(answers)
        return build.finish(prune=prune)


class StoreBuild:
    """One build, whoever answers its tasks: ``chunks`` gives out tasks, and ``add`` takes the answers.

    Leaving the context for any reason keeps what was added. ``build_store`` explains the arguments.
    """

    def __init__(
        self,
        paths: Iterable[str | os.PathLike[str]],
        store: str | os.PathLike[str],
        *,
        root: str | os.PathLike[str] | None = None,
        progress: Progress = lambda done, total: None,
        retry: bool = False,
        fingerprint: FingerprintKind | None = None,
    ) -> None:
        if fingerprint is not None:
            check_choice("fingerprint", fingerprint, get_args(FingerprintKind))
        current_limits()  # each process would find what is wrong with them for each video
        self._started, self._process = time.monotonic(), os.getpid()
        self._store = path_here(os.fspath(store))
        given = None if root is None else path_here(path_text("build_store's root", root))
        if isinstance(paths, str | bytes | os.PathLike):
            raise ArgumentError(f"paths must be a list of paths, got {paths!r}")
        self._connection = connect_writer(self._store, given)
        with ExitStack() as on_error:
            on_error.callback(close_writer, self._connection, self._process)
            with told_as_unwritable(self._store):
                settings = dict(self._connection.execute("SELECT name, value FROM settings"))
                recorded = settings.get("fingerprint", "mtime")
                self._kind = fingerprint or (recorded if recorded in get_args(FingerprintKind) else "mtime")
                if self._kind != recorded:
                    self._connection.execute("INSERT OR REPLACE INTO settings VALUES ('fingerprint', ?)", (self._kind,))
                roots = recorded_roots(settings, self._store) if given is None else (given,)
                self._keys = SourceKeys.located(roots, self._connection.execute, self._store)
                rename_moved(self._connection, self._keys)
            try:
                self._paths = {self._keys.key_of(path): path for path in (os.fspath(each) for each in paths)}
            except TypeError as error:
                raise ArgumentError(
                    f"paths must be a list of paths ({error}); a data set has build_store(store)"
                ) from error
            check_not_forked(self._process, "build")
            on_error.pop_all()
        self._progress, self._retry = progress, retry
        self._done = self._indexed = self._unchanged = 0
        self._rows: list[Row] = []
        self._renewed: list[tuple[str, str | bytes, str | None]] = []  # (fingerprint, key, fingerprint before)
        self._committed = time.monotonic()

    def __enter__(self) -> StoreBuild:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            if os.getpid() == self._process:
                self._commit()
        finally:
            close_writer(self._connection, self._process)

    def chunks(self) -> Iterator[list[Task]]:
        """Yield all tasks, in lists of the size to give to one worker."""
        items = iter(self._paths.items())
        check_not_forked(self._process, "build")
        while some := list(islice(items, _CHUNK)):
            keys = [to_sql(key) for key, _ in some]
            with told_as_unwritable(self._store):
                stored, joined = ("records.record, blob, frames", JOIN_INDEXES) if self._retry else ("0, 0, 0", "")
                rows = self._connection.execute(
                    f"SELECT source, fingerprint, error_type, {stored} FROM videos {joined} "
                    f"WHERE indexer = ? AND source IN ({','.join('?' * len(keys))})",
                    (INDEXER_VERSION, *keys),
                )
                known = {
                    from_sql(source, self._store): fingerprint
                    for source, fingerprint, error, *stored_as in rows
                    if isinstance(fingerprint, str) and not (self._retry and (error or _is_damaged(*stored_as)))
                }
            # The path of a key may differ from the user's: ``a.mp4/`` leads to no file, but has the key of ``a.mp4``.
            paths = self._keys.paths_of(key for key, _ in some)
            yield [Task(key, path, known.get(key), self._kind) for (key, _), path in zip(some, paths, strict=True)]

    def add(self, answers: Iterable[Answer]) -> None:
        """Take in answers, which are committed soon.

        Raises:
            SourceError: they cannot be written.
        """
        for key, row, renewed, known in answers:
            self._done += 1
            if row is None:
                self._unchanged += 1
                if renewed is not None:
                    self._renewed.append((renewed, to_sql(key), known))
            else:
                self._indexed += row.packed is not None
                place = row.place and row.place._replace(archive=self._keys.key_of(row.place.archive))
                self._rows.append(row._replace(place=place))
        if (
            len(self._rows) + len(self._renewed) >= _ROWS_AT_ONCE
            or time.monotonic() - self._committed > _SECONDS_AT_ONCE
        ):
            self._commit()
        self._progress(self._done, len(self._paths))

    def finish(self, *, prune: bool) -> BuildReport:
        """Return the report, once all answers have come in; ``build_store`` explains ``prune``."""
        self._commit()
        with told_as_unwritable(self._store):
            unreadable = [
                (self._paths[key], message)
                for source, message in self._connection.execute(
                    "SELECT source, error FROM videos WHERE error_type IS NOT NULL ORDER BY id"
                )
                if (key := from_sql(source, self._store)) in self._paths
            ]
            known = (
                from_sql(source, self._store) for (source,) in self._connection.execute("SELECT source FROM videos")
            )
            vanished = [key for key in known if key not in self._paths and self._keys.is_gone(key)]
            if prune and vanished:
                _delete_rows(self._connection, vanished)
            if self._connection.execute(_HAS_UNUSED_RECORDS).fetchone()[0]:
                with writing(self._connection):
                    mark_change(self._connection)
                    delete_unused_records(self._connection)
        return BuildReport(
            indexed=self._indexed,
            unchanged=self._unchanged,
            unreadable=unreadable,
            vanished=[self._keys.path_of(key) for key in vanished],
            pruned=prune,
            seconds=time.monotonic() - self._started,
        )

    def _commit(self) -> None:
        check_not_forked(self._process, "build")
        self._committed = time.monotonic()
        if not self._rows and not self._renewed:
            return
        with told_as_unwritable(self._store):
            _write_rows(self._connection, self._rows, self._renewed)
        self._rows, self._renewed = [], []


# A store of which files are indexed again and again must not grow.
_HAS_UNUSED_RECORDS = "SELECT (SELECT count(*) FROM records) > (SELECT count(*) FROM videos)"
_UPSERT = (
    f"INSERT INTO videos ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))}) "
    f"ON CONFLICT (source) DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in COLUMNS)}"
)


def _is_damaged(record: object, blob: object, frames: object) -> bool:
    try:
        stored_index(record, blob, frames, "")
    except IndexingError as error:
        raise_of_handler(error)
        return True
    return False


def _write_rows(
    connection: Connection, rows: Sequence[Row], renewed: Iterable[tuple[str, str | bytes, str | None]]
) -> None:
    """Write all rows in one transaction, each replacing the store's row for the same video.

    Args:
        renewed: (fingerprint, key, fingerprint before) of rows that only get another fingerprint. Another build may
            have written the row since.
    """
    with writing(connection):
        mark_change(connection)
        connection.executemany("UPDATE videos SET fingerprint = ? WHERE source = ? AND fingerprint = ?", renewed)
        for row in rows:
            key = to_sql(row.key)
            place = (None, None, None) if row.place is None else (to_sql(row.place.archive), *row.place[1:])
            told = (row.fingerprint, row.error_type, row.error, INDEXER_VERSION, *place, *row.facts)
            write_row(connection, (key, *told), row.packed)


def rename_moved(connection: Connection, keys: SourceKeys) -> None:
    """Give rows their keys whose files were outside of the root when they were indexed, and are below it now.

    That is so after a store has moved back to where it was before. Where a video has its row, the other one is removed.
    """
    rows: list[tuple[Any, Any]] = []
    for low in keys.prefixes:
        high = low[:-1] + chr(ord(low[-1]) + 1)
        for bounds in ((low, high), (os.fsencode(low), os.fsencode(high))):
            with suppress(UnicodeEncodeError):  # the root's name is not UTF-8, so all keys are bytes
                rows += connection.execute(
                    "SELECT source, archive FROM videos WHERE source >= ? AND source < ?", bounds
                )
    if not rows:
        return
    with writing(connection):
        mark_change(connection)
        for row in rows:
            texts = [from_sql(each) if isinstance(each, str | bytes) else None for each in row]
            now = [None if each is None else to_sql(keys.key_of_absolute(each)) for each in texts]
            connection.execute("UPDATE OR IGNORE videos SET source = ?, archive = ? WHERE source = ?", (*now, row[0]))
            _delete_row(connection, row[0])


def _delete_rows(connection: Connection, keys: Iterable[str]) -> None:
    with writing(connection):
        mark_change(connection)
        for key in map(to_sql, keys):
            _delete_row(connection, key)
        delete_unused_records(connection)


def delete_unused_records(connection: Connection) -> None:
    """Delete what only rows had that have been removed or replaced. It reads all frame tables."""
    connection.execute("DELETE FROM records WHERE key NOT IN (SELECT record FROM frame_tables)")


def _delete_row(connection: Connection, key: str | bytes) -> None:
    _delete_frame_table(connection, key)
    connection.execute("DELETE FROM videos WHERE source = ?", (key,))


def write_row(connection: Connection, columns: Sequence[Any], packed: PackedIndex | None) -> None:
    """Write a video's columns, the first of which is its source, and its index; without one, remove the stored one."""
    connection.execute(_UPSERT, columns)
    if packed is None:
        return _delete_frame_table(connection, columns[0])
    record = record_key(packed.record)
    connection.execute("INSERT OR IGNORE INTO records VALUES (?, ?)", (record, packed.record))
    table = "INSERT OR REPLACE INTO frame_tables SELECT id, ?, ? FROM videos WHERE source = ?"
    connection.execute(table, (record, packed.blob, columns[0]))


def _delete_frame_table(connection: Connection, key: str | bytes) -> None:
    """Remove the packed index of a video, if there is one."""
    connection.execute("DELETE FROM frame_tables WHERE video IN (SELECT id FROM videos WHERE source = ?)", (key,))
