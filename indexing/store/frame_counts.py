"""Read frame counts and other numbers of a million videos at once from a store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from itertools import compress, islice, repeat
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from videoloader.errors import (
    DecodeError,
    IndexingError,
    SourceError,
    StaleIndexError,
    UnsupportedError,
    VideoLoaderError,
)
from videoloader.indexing.build import INDEXER_VERSION
from videoloader.indexing.sources.opening import CHAINS, begins_as_url
from videoloader.indexing.store.columns import LONGEST, Integers
from videoloader.indexing.store.frame_facts import NO_RULE, RULE_SIZE
from videoloader.indexing.store.keys import SourceKeys, from_sql, to_sql
from videoloader.runtime.threads import executor_of

# Number of rows for one statement that asks by name, and for one that passes over all rows.
_NAMED_AT_ONCE, _PASSED_AT_ONCE = 500, 1 << 15
# If ids are this many times more numerous than rows, a pass over ids is not worthwhile.
_SPARSEST = 64
# The classes of stored errors.
_ERRORS = {kind.__name__: kind for kind in (SourceError, IndexingError, UnsupportedError, DecodeError)}
_COLUMNS = "source, indexer, frames, fingerprint, error_type, error"
_SOUND = (
    f"indexer IS {INDEXER_VERSION} AND error_type IS NULL AND typeof(frames) = 'integer' "
    f"AND frames BETWEEN 1 AND {LONGEST} AND typeof(source) = 'text' AND instr(source, char(0)) = 0 "
    "AND typeof(fingerprint) IN ('null', 'text')"
)
Number: TypeAlias = Literal["frames", "is_even", "first_key_frame", "frames_without_key", "time_rule"]


class _Number(NamedTuple):
    """A kind of number: SQL that is never NULL, and how many integers it gives, separated by spaces."""

    sql: str
    width: int = 1


# Unknown values are replaced by ones from which nothing can be concluded.
NUMBERS: dict[Number, _Number] = {
    "frames": _Number("CAST(frames AS INTEGER)"),
    "is_even": _Number("CAST(coalesce(is_even, 0) AS INTEGER)"),
    "first_key_frame": _Number("CAST(coalesce(first_key_frame, -1) AS INTEGER)"),
    "frames_without_key": _Number(f"CAST(coalesce(frames_without_key, {1 << 62}) AS INTEGER)"),
    "time_rule": _Number(f"coalesce(time_rule, '{NO_RULE}')", RULE_SIZE),
}

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
Select = Callable[..., Iterator[tuple[Any, ...]]]


class FoundNumbers(NamedTuple):
    """The contents of some rows of the store.

    Attributes:
        positions: positions of their videos among those asked for.
        numbers: int64[R, width] for each column asked for; zeros for videos that could not be indexed.
        fingerprints: fingerprint of each; None if it has none.
        errors: (position, error) of videos that could not be indexed, or whose rows cannot be used.
    """

    positions: list[int]
    numbers: dict[Number, Integers]
    fingerprints: Sequence[str | None]
    errors: list[tuple[int, VideoLoaderError]]


def unusable(source: str, indexer: object, fingerprint: object) -> VideoLoaderError | None:
    """Return the error for a row of another indexer version, or with a bad fingerprint; None for a usable row.

    Args:
        source: name of the video.
        indexer, fingerprint: values of its row.
    """
    if indexer != INDEXER_VERSION:
        now = f"which is version {INDEXER_VERSION} now: build the index store again"
        return StaleIndexError(f"was indexed by version {indexer!r} of the indexer, {now}", source)
    if not isinstance(fingerprint, str | None):
        return _damaged(f"the fingerprint {fingerprint!r:.80}", source)
    return None


def stored_error(source: str, frames: object, error_type: object, error: object) -> VideoLoaderError | None:
    """Return the error that a video had when it was indexed, or an error if its row is damaged; None if sound.

    Args:
        source: name of the video.
        frames, error_type, error: values of its row.
    """
    if error_type is None:
        sound = isinstance(frames, int) and 1 <= frames <= LONGEST
        return None if sound else _damaged(f"{frames!r:.80} frames", source)
    if not isinstance(error_type, str) or not isinstance(error, str):
        return _damaged("an error that is not text", source)
    return _ERRORS.get(error_type, IndexingError)(error, source)


def _damaged(what: str, source: str) -> VideoLoaderError:
    return IndexingError(f"its row in the index store is damaged: {what}", source)


class Positions:
    """The position of each video among those asked for.

    Args:
        position: position 0, 1, 2, … by absolute path, as ``SourceKeys.in_root`` returns it.
        keys: keys of the store.
    """

    def __init__(self, position: dict[str, int], keys: SourceKeys) -> None:
        self._position, self._keys = position, keys

    def keys(self) -> Iterator[str]:
        """Return the videos' keys in the store, in order."""
        return map(self._key, self._position)

    def _key(self, path: str) -> str:
        return path if begins_as_url(path) else self._keys.key_of_absolute(path)

    def find(self, keys: list[str]) -> npt.NDArray[np.int64]:
        """Return the positions of the videos with these keys; −1 for videos that were not asked for."""
        # A prefix before an absolute key gives a path that no video has, and so does a relative key without a prefix.
        prefix = self._keys.prefixes[0]
        positions = np.fromiter(map(self._position.get, map(prefix.__add__, keys), repeat(-1)), np.int64, len(keys))
        # But before a chain of fsspec, it gives the path of an archive's member, whose own key begins with "./".
        positions[[number for number, key in enumerate(keys) if "::" in key and key.startswith(CHAINS)]] = -1
        for number in np.flatnonzero(positions < 0).tolist():
            path = SourceKeys.path_below(prefix, keys[number])
            if path in self._position and self._key(path) == keys[number]:  # a path below the root has another key
                positions[number] = self._position[path]
        return positions


def numbers_by_name(
    select: Select, positions: Positions, names: Sequence[str], wanted: Sequence[Number]
) -> Iterator[FoundNumbers]:
    """Yield the store's numbers of these videos, looked up by name; ``names`` are used in errors."""
    keys = map(to_sql, positions.keys())
    while some := list(islice(keys, _NAMED_AT_ONCE)):
        asked = ",".join("?" * len(some))
        statement = f"SELECT {_COLUMNS}, {_text_of(wanted)} FROM videos WHERE source IN ({asked})"
        yield _of_rows(select(statement, some), positions, names, wanted)


def numbers_by_pass(
    select: Select, positions: Positions, names: Sequence[str], wanted: Sequence[Number], *, fingerprints: bool
) -> Iterator[FoundNumbers]:
    """Yield the store's numbers of these videos in one pass over all its rows; ``names`` are used in errors.

    Raises:
        IndexingError: names or numbers in the store are damaged.
    """
    first, last, rows = next(select("SELECT coalesce(min(id), 0), coalesce(max(id), -1), count(*) FROM videos"))
    if last - first > _SPARSEST * rows:
        yield from numbers_by_name(select, positions, names, wanted)
        return
    odd = f"SELECT {_COLUMNS}, {_text_of(wanted)} FROM videos WHERE NOT ({_SOUND})"
    yield _of_rows(select(odd), positions, names, wanted)
    # One row for thousands of videos, since a tuple for each would take longer than everything else.
    columns = ["group_concat(source, char(0))", f"group_concat({_text_of(wanted)}, ' ')"]
    columns += ["group_concat(coalesce(fingerprint, ''), char(0))"] if fingerprints else []
    statement = f"SELECT {', '.join(columns)} FROM videos WHERE id BETWEEN ? AND ? AND {_SOUND}"
    ids = ((start, start + _PASSED_AT_ONCE - 1) for start in range(first, last + 1, _PASSED_AT_ONCE))
    for texts in _read_ahead(lambda some: next(select(statement, some)), ids):
        if texts[0] is None:
            continue
        found = positions.find(texts[0].split("\0"))
        numbers = _numbers_in(texts[1], wanted, len(found))
        stored = texts[2].split("\0") if fingerprints else [""] * len(found)
        if len(found) != len(stored):
            raise IndexingError("the index store is damaged: names or fingerprints with a zero byte in them")
        asked = found >= 0
        prints = [fingerprint or None for fingerprint in compress(stored, asked.tolist())]
        kept = {name: column[asked] for name, column in numbers.items()}
        yield FoundNumbers(found[asked].tolist(), kept, prints, [])


def _text_of(wanted: Sequence[Number]) -> str:
    """Return SQL for a row's numbers as one text, which is read faster than one column for each."""
    return " || ' ' || ".join(NUMBERS[name].sql for name in wanted)


def _numbers_in(text: str, wanted: Sequence[Number], rows: int) -> dict[Number, Integers]:
    """Parse the numbers of some rows.

    Raises:
        IndexingError: there are more or fewer numbers.
    """
    ends = np.cumsum([NUMBERS[name].width for name in wanted])
    numbers = np.fromstring(text, np.int64, sep=" ") if rows else np.zeros(0, np.int64)
    if len(numbers) != rows * ends[-1]:
        raise IndexingError("rows of the index store are damaged: numbers of frames, or of their times, are not valid")
    return dict(zip(wanted, np.split(numbers.reshape(rows, ends[-1]), ends[:-1], axis=1), strict=True))


def _read_ahead(read: Callable[[_Item], _Result], items: Iterable[_Item]) -> Iterator[_Result]:
    """Map with the next call under way in a thread while a result is used, since SQLite releases the GIL."""
    with executor_of(1, "videoloader-store", lent=False, needed=False) as pool:
        reading: Future[_Result] | None = None
        for item in items:
            following = pool.submit(read, item)
            if reading is not None:
                yield reading.result()
            reading = following
        if reading is not None:
            yield reading.result()


def _of_rows(
    rows: Iterator[tuple[Any, ...]], positions: Positions, names: Sequence[str], wanted: Sequence[Number]
) -> FoundNumbers:
    texts: list[str] = []
    found = FoundNumbers([], {}, fingerprints := [], errors := [])
    none = " ".join("0" * sum(NUMBERS[name].width for name in wanted))
    for key, indexer, frames, fingerprint, error_type, error, text in rows:
        (position,) = positions.find([from_sql(key)]).tolist()
        if position < 0:
            continue
        name = names[position]
        wrong = unusable(name, indexer, fingerprint)
        if refused := wrong or stored_error(name, frames, error_type, error):
            errors.append((position, refused))
        found.positions.append(position)
        texts.append(none if refused else str(text))
        fingerprints.append(None if wrong else fingerprint)
    return found._replace(numbers=_numbers_in(" ".join(texts), wanted, len(texts)))
