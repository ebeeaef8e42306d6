"""The frame counts of many videos at once, for data sets of a million."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import compress, islice, repeat
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from videoloader.errors import IndexingError
from videoloader.indexing.store.keys import SourceKeys, from_sql, to_sql

# Rows asked for in one statement by name, and in one pass.
_NAMED_AT_ONCE, _PASSED_AT_ONCE = 500, 1 << 15
_COLUMNS = "source, frames, fingerprint, error_type, error"
_SOUND = "error_type IS NULL AND typeof(frames) = 'integer' AND frames > 0 AND typeof(source) = 'text'"

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
Select = Callable[..., Iterator[tuple[Any, ...]]]


class FoundCounts(NamedTuple):
    """What some rows of the store say.

    Attributes:
        positions: the numbers of their videos among those asked for.
        frames: how many each has.
        fingerprints: one for each, None where there is none.
        errors: (position, name of the error's class, message) of videos that could not be indexed.
    """

    positions: list[int]
    frames: npt.NDArray[np.int64]
    fingerprints: Sequence[str | None]
    errors: list[tuple[int, str, str]]


class Positions:
    """Where each video stands among those asked for.

    Args:
        position: absolute path, as ``SourceKeys.absolute`` gives it -> 0, 1, 2, …
        keys: of the store.
    """

    def __init__(self, position: dict[str, int], keys: SourceKeys) -> None:
        self._position, self._keys = position, keys

    def __len__(self) -> int:
        return len(self._position)

    def keys(self) -> Iterator[str]:
        """The keys that the videos have in the store, in order."""
        return map(self._keys.key_of, self._position)

    def find(self, keys: list[str]) -> npt.NDArray[np.int64]:
        """The positions of the videos with these keys; −1 of those that nobody asked for."""
        # A prefix before an absolute key makes a path that no video has, and so does a relative key without one.
        prefix, *others = self._keys.prefixes
        positions = np.fromiter(map(self._position.get, map(prefix.__add__, keys), repeat(-1)), np.int64, len(keys))
        for number in np.flatnonzero(positions < 0).tolist():
            candidates = (keys[number], *(other + keys[number] for other in others))
            # A path below an earlier root has another key.
            found = (path for path in candidates if path in self._position and self._keys.key_of(path) == keys[number])
            positions[number] = next((self._position[path] for path in found), -1)
        return positions


def counts_by_name(select: Select, positions: Positions) -> Iterator[FoundCounts]:
    """What the store says of these videos, asked for by name."""
    keys = map(to_sql, positions.keys())
    while some := list(islice(keys, _NAMED_AT_ONCE)):
        asked = ",".join("?" * len(some))
        yield _of_rows(select(f"SELECT {_COLUMNS} FROM videos WHERE source IN ({asked})", some), positions)


def counts_by_pass(select: Select, positions: Positions, *, fingerprints: bool) -> Iterator[FoundCounts]:
    """What the store says of these videos, from one pass over all its rows."""
    yield _of_rows(select(f"SELECT {_COLUMNS} FROM videos WHERE NOT ({_SOUND})"), positions)
    # One row for thousands of videos: a tuple for each would take longer than all the rest.
    columns = ["group_concat(source, char(0))", "group_concat(frames)"]
    columns += ["group_concat(coalesce(fingerprint, ''), char(0))"] if fingerprints else []
    statement = f"SELECT {', '.join(columns)} FROM videos WHERE id BETWEEN ? AND ? AND {_SOUND}"
    first, last = next(select("SELECT coalesce(min(id), 0), coalesce(max(id), -1) FROM videos"))
    ids = ((start, start + _PASSED_AT_ONCE - 1) for start in range(first, last + 1, _PASSED_AT_ONCE))
    for texts in _read_ahead(lambda some: next(select(statement, some)), ids):
        if texts[0] is None:
            continue
        found = positions.find(texts[0].split("\0"))
        asked = found >= 0
        stored = compress(texts[2].split("\0"), asked.tolist()) if fingerprints else ()
        yield FoundCounts(
            found[asked].tolist(),
            np.fromstring(texts[1], np.int64, sep=",")[asked],
            [fingerprint or None for fingerprint in stored],
            [],
        )


def _read_ahead(read: Callable[[_Item], _Result], items: Iterable[_Item]) -> Iterator[_Result]:
    """``map``, the next call under way in a thread while a result is used: SQLite lets go of Python's lock."""
    with ThreadPoolExecutor(1, "videoloader-store") as pool:
        reading: Future[_Result] | None = None
        for item in items:
            following = pool.submit(read, item)
            if reading is not None:
                yield reading.result()
            reading = following
        if reading is not None:
            yield reading.result()


def _of_rows(rows: Iterator[tuple[Any, ...]], positions: Positions) -> FoundCounts:
    counts: list[int] = []
    found = FoundCounts([], np.zeros(0, np.int64), fingerprints := [], errors := [])
    for key, frames, fingerprint, error_type, error in rows:
        (position,) = positions.find([from_sql(key)]).tolist()
        if position < 0:
            continue
        if error_type is None and (not isinstance(frames, int) or frames < 1):
            raise IndexingError(f"its row in the index store is damaged: {frames!r} frames", from_sql(key))
        if error_type is not None:
            errors.append((position, error_type, error))
        found.positions.append(position)
        counts.append(0 if error_type is not None else frames)
        fingerprints.append(fingerprint)
    return found._replace(frames=np.array(counts, np.int64))
