"""IndexStore: the indexes of a whole data set in one file, built once and read by any number of processes."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import numpy.typing as npt

from videoloader.argument_names import tells_of_arguments
from videoloader.attribute_names import tells_of_attributes
from videoloader.errors import (
    ArgumentError,
    ConfigurationError,
    DecodeError,
    IndexingError,
    NotIndexedError,
    SourceError,
    StaleIndexError,
    UnsupportedError,
    VideoLoaderError,
)
from videoloader.indexing.index import VideoIndex
from videoloader.indexing.sources import ByteSource, SourceState
from videoloader.indexing.store.export import write_csv, write_parquet
from videoloader.indexing.store.fingerprints import fingerprint_of
from videoloader.indexing.store.frame_counts import FoundCounts, Positions, counts_by_name, counts_by_pass
from videoloader.indexing.store.frame_table import PackedIndex, unpack_index
from videoloader.indexing.store.keys import SourceKeys, from_sql, to_sql
from videoloader.indexing.store.schema import (
    COLUMNS,
    check_no_folder,
    connect_reader,
    is_being_written,
    needs_rollback,
    recorded_roots,
)

# Threads that ask the file system: one of a network answers many at once.
_STAT_THREADS = 8
# The part of a store's videos from which on reading all of it is faster than asking for each.
_WORTH_A_PASS = 0.2
# What an error may have been when it was stored.
_ERRORS = {kind.__name__: kind for kind in (SourceError, IndexingError, UnsupportedError, DecodeError)}
# Connections made before a fork. Closing one in the child would be a second close of what the parent uses.
_inherited: list[sqlite3.Connection] = []


class _Opened:
    """A connection of one thread, closed with its last user.

    Args:
        connection: made in this process.
        state: of a file that was taken to be immutable; None where it was not.
    """

    def __init__(self, connection: sqlite3.Connection, state: tuple[int, int, int] | None) -> None:
        self.connection, self.state, self.process = connection, state, os.getpid()

    def __del__(self) -> None:
        # Connections are part of a reference cycle, and one that lingers keeps builders from tidying up.
        if self.process == os.getpid():
            self.connection.close()
        else:
            _inherited.append(self.connection)


@tells_of_attributes("store")
@tells_of_arguments
class IndexStore:
    """The indexes of many videos in one SQLite file, opened in no time whatever their number.

    Any number of processes and threads may read it, also while others build it; an object may be pickled and may be
    used after a fork. A video is known by its path relative to the store's root if it lies below it, else by its
    absolute path; so a data set can be moved or mounted elsewhere. The root is a folder recorded when the store was
    made: unless another one was given then, the store's own, and then it is also the one that the store lies in now.

    Args:
        path: of the file; made by ``build_store``.
        root: folder that paths in the store are relative to, where it is another one than when it was built. Default:
            None.
        verify: whether a look-up compares the size and time of modification of a local file with those that it was
            indexed with. One system call for each. Default: True.

    Raises:
        SourceError: the file cannot be opened.
        IndexingError: it is no index store, is damaged, or made by a later version of this library.

    Example:
        >>> store = IndexStore("kinetics.db")
        >>> video = Video("kinetics/a.mp4", index=store.get("kinetics/a.mp4"))
        >>> store.query("SELECT codec, count(*), sum(duration_s) FROM videos GROUP BY codec")
        [('h264', 8, 96.0)]
    """

    def __init__(
        self, path: str | os.PathLike[str], *, root: str | os.PathLike[str] | None = None, verify: bool = True
    ) -> None:
        self.path = os.path.abspath(os.fspath(path))
        check_no_folder(self.path)
        self.verify = verify
        self._given_root = None if root is None else os.path.abspath(os.fspath(root))
        self._local = threading.local()
        settings = dict(self._select("SELECT name, value FROM settings"))
        self.keys = SourceKeys((self._given_root,) if self._given_root else recorded_roots(settings, self.path))

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), self.path, root=self._given_root, verify=self.verify), ()

    def __repr__(self) -> str:
        return f"IndexStore({self.path!r})"

    def unverified(self) -> IndexStore:
        """The same store where look-ups do not compare files with it."""
        return IndexStore(self.path, root=self._given_root, verify=False)

    def __len__(self) -> int:
        """Number of videos, with the unreadable ones."""
        return int(next(self._select("SELECT count(*) FROM videos"))[0])

    if not TYPE_CHECKING:  # type checkers tell of it by themselves

        def __getitem__(self, source: object) -> NoReturn:
            raise ArgumentError("an index store is no list and no dict: write store.get(path), or store.query(sql)")

    def get(self, source: str | os.PathLike[str] | ByteSource) -> VideoIndex:
        """The index of a video.

        Raises:
            NotIndexedError: the store does not know it.
            StaleIndexError: it has changed since (where ``verify``).
            IndexingError: its row is damaged.
            VideoLoaderError: what was raised when it was indexed, if it could not be.
        """
        return self.look_up(source)[0]

    def look_up(self, source: str | os.PathLike[str] | ByteSource) -> tuple[VideoIndex, SourceState | None]:
        """The index of a video, and the state of the video when it was indexed; None where it has none.

        Raises:
            VideoLoaderError: as for ``get``.
        """
        name = os.fspath(source) if isinstance(source, str | os.PathLike) else source.name
        statement = (
            "SELECT fingerprint, error_type, error, frames, records.record, blob FROM videos "
            "LEFT JOIN frame_tables ON video = id LEFT JOIN records ON key = frame_tables.record WHERE source = ?"
        )
        row = next(self._select(statement, (to_sql(self.keys.key_of(name)),), name), None)
        if row is None:
            raise self._not_indexed(name)
        fingerprint, error_type, error, frames, record, blob = row
        if stale := self._difference(name, fingerprint):
            raise stale
        if error_type is not None:
            raise _stored_error(error_type, error, name)
        if not isinstance(record, bytes) or not isinstance(blob, bytes):
            raise IndexingError("its row in the index store is damaged: it has no index", name)
        index = unpack_index(PackedIndex(record, blob), name)
        if len(index) != frames:
            raise IndexingError(f"its row in the index store is damaged: {frames} frames of {len(index)}", name)
        return index, SourceState(fingerprint) if fingerprint is not None else None

    def frame_counts(self, sources: Sequence[str]) -> tuple[npt.NDArray[np.int64], dict[int, VideoLoaderError]]:
        """The number of frames of each video, without their indexes.

        Asked for a good part of its videos, the store is read through once, which takes about a second for a million.

        Returns:
            int64[V], and by position the error that ``get`` would raise, where there is one; the count there is 0.

        Raises:
            IndexingError: the file is damaged.
        """
        paths = self.keys.all_absolute(sources)
        position = dict(zip(paths, range(len(paths)), strict=True))
        if len(position) < len(paths):
            # The same video several times, as parts of it or spelled in several ways.
            of_row = np.array([position[path] for path in paths])
            first, number = np.unique(of_row, return_inverse=True)
            counts, errors = self.frame_counts([sources[row] for row in first.tolist()])
            return counts[number], {row: errors[each] for row, each in enumerate(number.tolist()) if each in errors}
        counts, known = np.zeros(len(paths), np.int64), np.zeros(len(paths), np.bool_)
        errors = {}
        for found in self._found_counts(Positions(position, self.keys)):
            counts[found.positions], known[found.positions] = found.frames, True
            errors |= {number: _stored_error(kind, message, sources[number]) for number, kind, message in found.errors}
            errors |= self._stale(sources, found)
        errors |= {number: self._not_indexed(sources[number]) for number in np.flatnonzero(~known).tolist()}
        counts[list(errors)] = 0
        return counts, errors

    def _found_counts(self, positions: Positions) -> Iterator[FoundCounts]:
        if len(positions) < _WORTH_A_PASS * len(self):
            return counts_by_name(self._select, positions)
        return counts_by_pass(self._select, positions, fingerprints=self.verify)

    def _stale(self, sources: Sequence[str], found: FoundCounts) -> dict[int, VideoLoaderError]:
        """The errors of videos that have changed, by position."""

        if not self.verify or not any(found.fingerprints):
            return {}
        with ThreadPoolExecutor(_STAT_THREADS, "videoloader-store") as pool:
            errors = pool.map(self._difference, (sources[position] for position in found.positions), found.fingerprints)
            return {
                position: error for position, error in zip(found.positions, errors, strict=True) if error is not None
            }

    def errors(self) -> Iterator[tuple[str, str]]:
        """(path, message) of each video that could not be indexed."""
        for source, message in self._select("SELECT source, error FROM videos WHERE error_type IS NOT NULL"):
            yield self.keys.path_of(from_sql(source)), message

    def query(self, sql: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Rows of any SELECT. The table ``videos`` has a row for each video, with these columns:

        ``source`` (its key: the path relative to the root, or absolute), ``fingerprint``, ``error_type``, ``error``
        (NULL for good ones), ``indexer`` (version of the library's indexing), ``container``, ``method``, ``codec``,
        ``width``, ``height``, ``rotation``, ``fps``, ``duration_s``, ``frames``, ``packets``, ``keyframes``,
        ``longest_gop``, ``is_vfr``, ``bit_depth``, ``chroma``, ``color_primaries``, ``color_transfer``,
        ``color_matrix``, ``color_range``, ``byte_ranges``, ``size_varies``, ``encrypted`` (as in ``StreamInfo`` and
        ``VideoIndex``; truth as 0 and 1).

        Raises:
            ConfigurationError: the statement makes no sense, or would change the store.

        Example:
            >>> store.query("SELECT count(*) FROM videos WHERE longest_gop > ?", (24,))
            [(8,)]
        """
        try:
            return self._execute(sql, parameters).fetchall()
        except sqlite3.Error as error:
            raise ConfigurationError(f"the query fails ({error}): {sql}", self.path) from None

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Write the table ``videos`` as CSV (RFC 4180, UTF-8) with a header; sources as paths."""
        write_csv(path, self._rows())

    def to_parquet(self, path: str | os.PathLike[str]) -> None:
        """Write the table ``videos`` as Parquet; sources as paths.

        Raises:
            ConfigurationError: pyarrow is not installed (``pip install 'videoloader[parquet]'``).
        """
        write_parquet(path, self._rows())

    def _rows(self) -> Iterator[tuple[Any, ...]]:
        for source, *facts in self._select(f"SELECT {', '.join(COLUMNS)} FROM videos ORDER BY id"):
            yield (self.keys.path_of(from_sql(source)), *facts)

    def _not_indexed(self, source: str) -> NotIndexedError:
        return NotIndexedError(
            f"is not in the index store {self.path} (as {self.keys.key_of(source)!r}): "
            "add it with VideoDataset.build_index or `videoloader index`",
            source,
        )

    def _difference(self, source: str, stored: str | None) -> StaleIndexError | None:
        """The error of a video that is another one than was indexed, where videos are compared."""
        if not self.verify or stored is None or "://" in source or (found := fingerprint_of(source)) == stored:
            return None
        change = "has changed since it was indexed" if found else "is not there any more"
        return StaleIndexError(f"{change}: build the index store {self.path} again", source)

    def _select(
        self, sql: str, parameters: Sequence[object] = (), source: str | None = None
    ) -> Iterator[tuple[Any, ...]]:
        """Rows of our own statements, in which an error of SQLite's means that the file is damaged."""
        try:
            yield from self._execute(sql, parameters)
        except sqlite3.Error as error:
            place = f"the index store {self.path}" if source else "the index store"
            raise IndexingError(f"{place} cannot be read ({error})", source or self.path) from None

    def _execute(self, sql: str, parameters: Sequence[object]) -> sqlite3.Cursor:
        try:
            return self._opened().connection.execute(sql, parameters)
        except sqlite3.Error as error:
            if not needs_rollback(error):
                raise
        del self._local.opened  # connecting undoes it
        return self._opened().connection.execute(sql, parameters)

    def _opened(self) -> _Opened:
        """This thread's own connection; another after a fork, and where a file taken to be immutable is written to.

        A store whose build has ended is read without locks. Where one is being built, or a build was killed, readers
        take part in SQLite's write-ahead log.
        """
        opened: _Opened | None = getattr(self._local, "opened", None)
        if opened and opened.process == os.getpid() and (opened.state is None or opened.state == self._quiet_state()):
            return opened
        state = self._quiet_state()
        self._local.opened = opened = _Opened(connect_reader(self.path, immutable=state is not None), state)
        return opened

    def _quiet_state(self) -> tuple[int, int, int] | None:
        """What changes when the file does; None while somebody writes."""
        try:
            status = os.stat(self.path)
        except OSError as error:
            raise SourceError(f"the index store cannot be opened ({error.strerror})", self.path) from None
        # Whoever begins to write makes the log first, and changes the file long after.
        return None if is_being_written(self.path) else (status.st_ino, status.st_size, status.st_mtime_ns)


def _stored_error(error_type: str, message: str, source: str) -> VideoLoaderError:
    kind: type[VideoLoaderError] = _ERRORS.get(error_type, IndexingError)
    return kind(message, source)
