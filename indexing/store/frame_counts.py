"""The frame counts of many videos at once, for data sets of a million."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import compress, islice
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from videoloader.errors import IndexingError
from videoloader.indexing.store.keys import SourceKeys, from_sql, to_sql

# Rows asked for in one statement by name, and in one pass.
_NAMED_AT_ONCE, _PASSED_AT_ONCE = 500, 1 << 15
_COLUMNS = "source, frames, fingerprint, error_type, error"
_SOUND = "error_type IS NULL AND typeof(frames) = 'integer' AND frames > 0 AND typeof(source) = 'text'"

Select = Callable[..., Iterator[tuple[Any, ...]]]


class FoundCounts(NamedTuple):
    """What some rows of the store say.

    Attributes:
        places: positions of their videos among those asked for.
        frames: of each.
        fingerprints: of each, None where there is none.
        errors: (position, name of the error's class, message) of videos that could not be indexed.
    """

    places: list[int]
    frames: npt.NDArray[np.int64]
    fingerprints: Sequence[str | None]
    errors: list[tuple[int, str, str]]


class Places:
    """Where each video stands among those asked for.

    Args:
        place: by the absolute path, as ``SourceKeys.absolute`` gives it: 0, 1, 2, …
        keys: of the store.
    """

    def __init__(self, place: dict[str, int], keys: SourceKeys) -> None:
        self._place, self._keys = place, keys

    def __len__(self) -> int:
        return len(self._place)

    def keys(self) -> Iterator[str]:
        """The keys that the videos have in the store, in order."""
        return map(self._keys.key_of, self._place)

    def find(self, keys: list[str]) -> list[int | None]:
        """The positions of the videos with these keys; None of those that nobody asked for."""
        # A prefix before an absolute key makes a path that no video has, and so does a relative key without one.
        prefix, get = self._keys.prefixes[0], self._place.get
        places = [get(prefix + key) for key in keys]
        for number in [number for number, place in enumerate(places) if place is None]:
            candidates = (keys[number], *(prefix + keys[number] for prefix in self._keys.prefixes[1:]))
            # A path below an earlier root has another key.
            found = (path for path in candidates if path in self._place and self._keys.key_of(path) == keys[number])
            places[number] = next((self._place[path] for path in found), None)
        return places


def counts_by_name(select: Select, places: Places) -> Iterator[FoundCounts]:
    """What the store says of these videos, asked for by name."""
    keys = map(to_sql, places.keys())
    while some := list(islice(keys, _NAMED_AT_ONCE)):
        asked = ",".join("?" * len(some))
        yield _of_rows(select(f"SELECT {_COLUMNS} FROM videos WHERE source IN ({asked})", some), places)


def counts_by_pass(select: Select, places: Places, *, fingerprints: bool) -> Iterator[FoundCounts]:
    """What the store says of these videos, from one pass over all its rows."""
    yield _of_rows(select(f"SELECT {_COLUMNS} FROM videos WHERE NOT ({_SOUND})"), places)
    # One row for thousands of videos: a tuple for each would take longer than all the rest.
    columns = ["group_concat(source, char(0))", "group_concat(frames)"]
    columns += ["group_concat(coalesce(fingerprint, ''), char(0))"] if fingerprints else []
    statement = f"SELECT {', '.join(columns)} FROM videos WHERE id BETWEEN ? AND ? AND {_SOUND}"
    first, last = next(select("SELECT coalesce(min(id), 0), coalesce(max(id), -1) FROM videos"))
    for start in range(first, last + 1, _PASSED_AT_ONCE):
        texts = next(select(statement, (start, start + _PASSED_AT_ONCE - 1)))
        if texts[0] is None:
            continue
        found = places.find(texts[0].split("\0"))
        asked = [place is not None for place in found]
        stored = compress(texts[2].split("\0"), asked) if fingerprints else ()
        yield FoundCounts(
            [place for place in found if place is not None],
            np.fromstring(texts[1], np.int64, sep=",")[asked],
            [fingerprint or None for fingerprint in stored],
            [],
        )


def _of_rows(rows: Iterator[tuple[Any, ...]], places: Places) -> FoundCounts:
    counts: list[int] = []
    found = FoundCounts([], np.zeros(0, np.int64), fingerprints := [], errors := [])
    for key, frames, fingerprint, error_type, error in rows:
        (place,) = places.find([from_sql(key)])
        if place is None:
            continue
        if error_type is None and (not isinstance(frames, int) or frames < 1):
            raise IndexingError(f"its row in the index store is damaged: {frames!r} frames", from_sql(key))
        if error_type is not None:
            errors.append((place, error_type, error))
        found.places.append(place)
        counts.append(0 if error_type is not None else frames)
        fingerprints.append(fingerprint)
    return found._replace(frames=np.array(counts, np.int64))
