"""``IndexStore``: the indexes of a whole data set in one file, read by any number of processes."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import numpy.typing as npt

from videoloader.errors import (
    ArgumentError,
    ConfigurationError,
    IndexingError,
    NotIndexedError,
    StaleIndexError,
    VideoLoaderError,
)
from videoloader.errors.argument_names import tells_of_arguments
from videoloader.errors.attribute_names import tells_of_attributes
from videoloader.errors.checks import check_choice, check_numbers, check_type, path_text
from videoloader.errors.of_handlers import errors_suppressed
from videoloader.indexing.index import VideoIndex
from videoloader.indexing.limits import check_picture
from videoloader.indexing.sources.base import ByteSource
from videoloader.indexing.sources.folder import is_frame_folder
from videoloader.indexing.sources.opening import is_remote, local_path, split_local
from videoloader.indexing.sources.regular_file import is_same_file
from videoloader.indexing.sources.reopening import reopen_source
from videoloader.indexing.sources.state import Place, SourceState, state_of
from videoloader.indexing.store.export import write_csv, write_json_lines, write_parquet
from videoloader.indexing.store.fingerprints import (
    Archive,
    fingerprint_of,
    has_fingerprint,
    is_by_time,
    is_same,
    size_alone,
)
from videoloader.indexing.store.frame_counts import (
    NUMBERS,
    FoundNumbers,
    Number,
    Positions,
    numbers_by_name,
    numbers_by_pass,
    stored_error,
    unusable,
)
from videoloader.indexing.store.frame_table import stored_index
from videoloader.indexing.store.keys import SourceKeys, from_sql, path_here, to_sql
from videoloader.indexing.store.opening import check_no_folder, fault_of_names
from videoloader.indexing.store.reader import StoreReader, rows_by_id
from videoloader.indexing.store.schema import COLUMNS, JOIN_INDEXES, check_values, explained, recorded_roots
from videoloader.runtime.threads import executor_of

# Threads that query the file system: a network file system answers many queries at once.
_STAT_THREADS = 8
# The share of a store's videos above which reading all rows is faster than asking for each.
_WORTH_A_PASS = 0.2
# All columns but the name of the video.
_FACTS = tuple(COLUMNS)[1:]
# Videos whose indexes are read at once, in passes over all. The index of a long video has megabytes.
_INDEXES_AT_ONCE = 32
# So many keys stay far below the limit for the result of a query.
_KEYS_AT_ONCE = 1 << 16


@tells_of_attributes("store")
@tells_of_arguments
class IndexStore:
    """The indexes of many videos in one SQLite file, which opens instantly however many there are.

    Any number of processes and threads may read it, also while others build it. The object can be pickled, and used
    after a fork. A video below the store's root is stored under its path relative to the root, any other under its
    absolute path, so that a data set can be moved or mounted elsewhere. The root is a folder recorded when the store
    was made. By default it is the folder of the store, and follows the store when that is moved.

    Args:
        path: str or path. The path of the file that ``build_store`` made.
        root: str or path, default None. The folder that paths in the store are relative to, if that folder has moved
            since the store was built.
        verify: bool, default True. Whether a look-up checks that a local file is the one that was indexed, by size and
            time of modification (one system call), or as the ``fingerprint`` of ``build_store`` says.

    Raises:
        SourceError: the file cannot be opened.
        IndexingError: the file is no index store, is damaged, or was made by another version of this library.

    Examples:
        >>> store = IndexStore("kinetics.db")
        >>> video = Video("kinetics/a.mp4", index=store.get("kinetics/a.mp4"))
        >>> store.query("SELECT codec, count(*), sum(duration_s) FROM videos GROUP BY codec")
        [('h264', 8, 96.0)]
    """

    def __init__(
        self, path: str | os.PathLike[str], *, root: str | os.PathLike[str] | None = None, verify: bool = True
    ) -> None:
        self.path = path_here(path_text("IndexStore's path", path))
        check_no_folder(self.path)
        self.verify = verify
        self._given_root = None if root is None else path_here(path_text("IndexStore's root", root))
        self._reader = StoreReader(self.path)
        settings = dict(self._reader.select("SELECT name, value FROM settings"))
        roots = (self._given_root,) if self._given_root else recorded_roots(settings, self.path)
        self.keys = SourceKeys.located(roots, self._reader.select, self.path)

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), self.path, root=self._given_root, verify=self.verify), ()

    def __repr__(self) -> str:
        return f"IndexStore({self.path!r})"

    def unverified(self) -> IndexStore:
        """Return the same store, but without checking files in look-ups."""
        return IndexStore(self.path, root=self._given_root, verify=False)

    @property
    def content(self) -> str:
        """A text that changes whenever a build changes the store's contents. Copies of the store have the same text."""
        return str(next(self._reader.select("SELECT value FROM settings WHERE name = 'content'"), ("",))[0])

    def __len__(self) -> int:
        """Return the number of videos, including unreadable ones."""
        return int(next(self._reader.select("SELECT count(*) FROM videos"))[0])

    if not TYPE_CHECKING:  # type checkers report a missing __getitem__ by themselves

        def __getitem__(self, source: object) -> NoReturn:
            raise ArgumentError(
                "an index store is neither a list nor a dict: write store.get(path), or store.query(sql)"
            )

    def get(self, source: str | os.PathLike[str] | ByteSource) -> VideoIndex:
        """Return the index of a video.

        Raises:
            NotIndexedError: the video is not in the store.
            StaleIndexError: the video has changed since (if ``verify``), or was indexed by another version of this
                library. Nothing is asked of a server: loaders compare a video behind a URL when they read it.
            IndexingError: the video's row is damaged.
            VideoLoaderError: the video could not be indexed; this is the error from that time.
        """
        name = os.fspath(source) if isinstance(source, str | os.PathLike) else source.name
        statement = (
            "SELECT indexer, fingerprint, error_type, error, frames, records.record, blob, "
            f"archive, byte_offset, byte_size FROM videos {JOIN_INDEXES} WHERE source = ?"
        )
        row = next(self._reader.select(statement, (to_sql(self.keys.key_of(name)),), name), None)
        if row is None:
            raise self._not_indexed(name)
        indexer, fingerprint, error_type, message, frames, record, blob, *place = row
        if error := (
            unusable(name, indexer, fingerprint)
            or self._difference(name, fingerprint)
            or stored_error(name, frames, error_type, message)
        ):
            raise error
        index = stored_index(record, blob, frames, name)
        check_picture(index.stream.width, index.stream.height, name)
        return replace(index, state=self._state(name, fingerprint, self.keys.place_of(name, *place)))

    def frame_counts(self, sources: Sequence[str]) -> tuple[npt.NDArray[np.int64], dict[int, VideoLoaderError]]:
        """Return the number of frames of each video, without reading its index; see ``numbers``.

        Returns:
            int64[V], and by position the error that ``get`` would raise for a video; the count there is 0.
        """
        numbers, errors = self.numbers(sources, ("frames",))
        return numbers["frames"], errors

    def numbers(
        self, sources: Sequence[str], names: Sequence[Number]
    ) -> tuple[dict[str, npt.NDArray[np.int64]], dict[int, VideoLoaderError]]:
        """Return columns of the table ``videos`` for each video, without reading its index.

        For a large share of its videos, the store is read once from start to end, which takes about a second for a
        million videos.

        Args:
            sources: sequence of str. The names of the videos.
            names: sequence of str. The names of the columns.

        Returns:
            For each name int64[V] (for ``time_rule`` int64[V, RULE_SIZE]), and by position the error that ``get`` would
            raise for a video; the numbers there are 0.

        Raises:
            ConfigurationError: there is no such column.
            IndexingError: the file is damaged.
        """
        for name in names:
            check_choice("a name of numbers", name, NUMBERS)
        paths = self.keys.in_root(sources)
        position = dict(zip(paths, range(len(paths)), strict=True))
        if len(position) < len(paths):
            # The same video occurs several times, as parts of it, or with different spellings.
            of_row = np.array([position[path] for path in paths])
            first, number = np.unique(of_row, return_inverse=True)
            numbers, errors = self.numbers([sources[row] for row in first.tolist()], names)
            of_rows = {row: errors[each] for row, each in enumerate(number.tolist()) if each in errors}
            return {name: column[number] for name, column in numbers.items()}, of_rows
        wanted = {name: np.zeros((len(paths), NUMBERS[name].width), np.int64) for name in names}
        known, errors, inode = np.zeros(len(paths), np.bool_), {}, self._reader.inode()
        positions = Positions(position, self.keys)
        if len(paths) < _WORTH_A_PASS * len(self):
            every = numbers_by_name(self._reader.select, positions, sources, names)
        else:
            every = numbers_by_pass(self._reader.select, positions, sources, names, fingerprints=self.verify)
        for found in every:
            for name, column in found.numbers.items():
                wanted[name][found.positions] = column
            known[found.positions] = True
            errors |= dict(found.errors)
            errors |= self._stale(sources, found)
        self._reader.check_not_replaced(inode)
        errors |= {number: self._not_indexed(sources[number]) for number in np.flatnonzero(~known).tolist()}
        for column in wanted.values():
            column[list(errors)] = 0
        return {name: column[:, 0] if column.shape[1] == 1 else column for name, column in wanted.items()}, errors

    def _stale(self, sources: Sequence[str], found: FoundNumbers) -> dict[int, VideoLoaderError]:
        """Return the errors for videos that have changed, by position."""

        if not self.verify or not any(found.fingerprints):
            return {}
        difference = partial(self._difference, archives={})
        with executor_of(_STAT_THREADS, "videoloader-store", lent=False, needed=False) as pool:
            errors = pool.map(difference, (sources[position] for position in found.positions), found.fingerprints)
            return {
                position: error for position, error in zip(found.positions, errors, strict=True) if error is not None
            }

    def errors(self) -> Iterator[tuple[str, str]]:
        """Yield (path, message) of each video that could not be indexed."""
        for source, message in rows_by_id(
            self._reader, self._reader.select, ("source", "error"), condition="error_type IS NOT NULL"
        ):
            yield self.keys.path_of(from_sql(source, self.path)), message

    def query(self, sql: str, parameters: Sequence[object] = (), *, timeout: float = 60) -> list[tuple[Any, ...]]:
        """Return the rows of any SELECT, which can read only this store.

        The table ``videos`` has a row for each video, with these columns: ``source`` (its key: the path relative to the
        root, or absolute), ``fingerprint``, ``error_type``, ``error`` (NULL if the video was indexed), ``indexer``
        (version of the library's indexing), ``container``, ``method``, ``codec``, ``width``, ``height``, ``rotation``,
        ``fps``, ``duration_s``, ``frames``, ``packets``, ``keyframes``, ``longest_gop``, ``is_vfr``, ``bit_depth``,
        ``chroma``, ``color_primaries``, ``color_transfer``, ``color_matrix``, ``color_range``, ``byte_ranges``,
        ``size_varies``, ``encrypted`` (as in ``StreamInfo`` and ``VideoIndex``: a ``bit_depth`` of 0 is unknown; truth
        values are 0 and 1), ``first_time_s``, ``last_time_s`` (of the first and the last frame), ``is_even`` (whether
        all frames come evenly, as in ``Triplets(even=True)``), ``first_key_frame`` (its number; the number of frames if
        there is none), ``frames_without_key`` (the most in a row), ``time_rule`` (the rule of the frames' times as
        numbers), and for members of archives ``archive`` (its key), ``byte_offset`` and ``byte_size``.

        Args:
            sql: str. One statement.
            parameters: sequence, default none. The values for its question marks.
            timeout: float, default 60. The seconds after which the statement is stopped.

        Returns:
            A list of tuples, at most 1 GiB; no value is longer than 64 KiB.

        Raises:
            ConfigurationError: the statement is invalid, would do more than read the store, takes longer than
                ``timeout``, or returns too much.

        Examples:
            >>> store.query("SELECT count(*) FROM videos WHERE longest_gop > ?", (24,))
            [(8,)]
        """
        check_numbers("timeout", timeout, None, "a positive number of seconds", lambda seconds: seconds > 0)
        try:
            return self._reader.with_connection(lambda opened: self._reader.guard.run(opened, sql, parameters, timeout))
        # In older Python a second statement is a Warning. The other errors come from values that SQLite cannot hold.
        except (sqlite3.Error, sqlite3.Warning, TypeError, UnicodeError, OverflowError) as error:
            columns = f"; the columns are {', '.join(COLUMNS)}" if "no such column" in str(error) else ""
            raise ConfigurationError(f"the query fails ({explained(error)}): {sql}{columns}", self.path) from None

    def to_csv(self, path: str | os.PathLike[str], *, where: str = "") -> None:
        """Write the table ``videos`` as CSV (RFC 4180, UTF-8) with a header, and sources as paths.

        In names that are not UTF-8, backslashes stand for the other bytes, so such a path does not lead to its file.

        Args:
            path: str or path. The file. One that exists is replaced when all rows have been written.
            where: str, default ``""``, all rows. A condition in SQL over the columns that ``query`` lists.

        Raises:
            ConfigurationError: the condition is not SQL, or the path is that of the store.
            SourceError: the file cannot be written.
        """
        write_csv(path, self._rows(path, where))

    def to_jsonl(self, path: str | os.PathLike[str], *, where: str = "") -> None:
        """Write the table ``videos`` as JSON lines, an object per row, sources as paths. Arguments as in ``to_csv``."""
        write_json_lines(path, self._rows(path, where))

    def to_parquet(self, path: str | os.PathLike[str], *, where: str = "") -> None:
        """Write the table ``videos`` as Parquet, with sources as paths. Arguments as in ``to_csv``.

        Raises:
            ConfigurationError: pyarrow is not installed (``pip install 'videoloader[parquet]'``).
        """
        write_parquet(path, self._rows(path, where))

    def stored_rows(self) -> Iterator[tuple[Any, ...]]:
        """Yield the stored columns of all videos, each with its record and packed index, or None.

        Raises:
            IndexingError: the file is damaged. (The check of the names takes 2 to 6 s for a million videos.)
        """
        if fault := fault_of_names(self._reader.select):  # a name may be damaged, and its row would be another video's
            raise IndexingError(f"names in the index store are damaged ({fault}): build it again", self.path)
        columns = (*COLUMNS, "records.record", "blob")
        return rows_by_id(self._reader, self._reader.select, columns, JOIN_INDEXES, at_once=_INDEXES_AT_ONCE)

    def keys_of_readable(self, condition: str, parameters: Sequence[object]) -> Iterator[str]:
        """Yield the keys of the readable videos that meet a condition in SQL, in the order of indexing."""
        check_type("parameters", parameters, isinstance(parameters, list | tuple), "a list with a value for each ?")

        def ask(page: str, last: tuple[int]) -> list[tuple[Any, ...]]:
            return self.query(page, (*last, *parameters))

        met = f"error_type IS NULL AND {condition}"
        for (source,) in rows_by_id(self._reader, ask, ("source",), condition=met, at_once=_KEYS_AT_ONCE):
            yield from_sql(source, self.path)

    def _rows(self, path: str | os.PathLike[str], where: str) -> Iterator[tuple[Any, ...]]:
        if is_same_file(path_text("path", path), self.path):
            raise ConfigurationError("is the store, which the table would replace: name another file", self.path)
        if where:
            self.query(f"SELECT 1 FROM videos WHERE {where}\nLIMIT 1")  # fail before the file is written
        ask = self.query if where else self._reader.select
        return map(self._row_as_exported, rows_by_id(self._reader, ask, COLUMNS, condition=f"{where or 1}\n"))

    def _row_as_exported(self, row: tuple[Any, ...]) -> tuple[Any, ...]:
        source, *facts = row
        archive = facts[_FACTS.index("archive")]
        if isinstance(archive, bytes):  # a name that is not UTF-8
            facts[_FACTS.index("archive")] = from_sql(archive, self.path)
        check_values(facts, _FACTS, self.path)
        return self.keys.path_of(from_sql(source, self.path)), *facts

    def _not_indexed(self, source: str) -> NotIndexedError:
        return NotIndexedError(
            f"is not in the index store {self.path} (as {self.keys.key_of(source)!r}): "
            "add it with VideoDataset.build_store or `videoloader index`",
            source,
        )

    def _difference(
        self, source: str, stored: str | None, archives: dict[str, Archive] | None = None
    ) -> StaleIndexError | None:
        """Return the error for a video that differs from the one indexed, if videos are compared; else None."""
        if not self.verify or stored is None or is_remote(source):
            return None
        if has_fingerprint(source, stored, archives):
            return None
        return self._changed(source, stored)

    def _changed(self, source: str, stored: str) -> StaleIndexError:
        found = fingerprint_of(source)
        change = "has changed since it was indexed" if found else "no longer exists"
        hint = ""
        if found and is_by_time(stored) and found.partition("-")[0] == stored.partition("-")[0]:
            hint = " (its size is the same: for data that is copied, with fingerprint='size' or 'content')"
        return StaleIndexError(f"{change}: build the index store {self.path} again{hint}", source)

    def _present(self, source: str, stored: str) -> str | None:
        """Return the fingerprint by time of a local video as it is now, which must be the one indexed; None if unknown.

        Raises:
            StaleIndexError: it is another one.
        """
        now = fingerprint_of(source)  # before it is compared: a later change shows when it is read
        # Whoever compares videos at another moment, as loaders do, did not see what lies there now.
        if now is not None and not is_same(source, stored):
            raise self._changed(source, stored)
        return now

    def _state(self, source: str, stored: str | None, place: Place | None) -> SourceState | None:
        """Return the state of a video when it was indexed; its current state if times do not count; None if unknown."""
        if stored is not None and not is_by_time(stored):
            stored = size_alone(source, stored) if is_remote(source) else self._present(source, stored)
        if stored is None:
            return None
        inode = changed = 0
        # A store knows no inodes, since copies have others. From now on the file must be the one that lies there.
        path = local_path(place.archive if place else source)
        with errors_suppressed(OSError, VideoLoaderError):
            if place is None and not os.path.isfile(path):
                if is_frame_folder(path) and (now := state_of(reopen_source(source))):
                    inode, changed = now.inode, now.changed
                path = split_local(source, os.path.exists)[0]
            if not inode and os.path.isfile(path):
                status = os.stat(path)
                inode, changed = status.st_ino, status.st_ctime_ns
        return SourceState(stored, inode, changed, place=place, compared=self.verify)
