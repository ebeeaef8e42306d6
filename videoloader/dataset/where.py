"""Chooses rows by facts in the indexes of their videos."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from videoloader.dataset.columns import PackedStrings
from videoloader.dataset.left_out import none_left, tell_left_out
from videoloader.dataset.ranges import entry_ranges
from videoloader.dataset.stores import DISPLAYED_HEIGHT, Store, facts_of_rows, opened_store
from videoloader.dataset.table import EntryTable, make_table
from videoloader.errors import ConfigurationError, FrameRangeError
from videoloader.errors.checks import check, check_positive_or_none
from videoloader.indexing import IndexStore
from videoloader.indexing.store.cache import IndexCache
from videoloader.indexing.store.schema import COLUMNS, explained

# Relative: half of the distance between 29.97 and 30.
_SAME_RATE = 0.0005
_SPANS = ("frames", "fps", "height")


class Conditions(NamedTuple):
    """Conditions in SQL, and the values for their question marks.

    Attributes:
        each: the conditions, the user's own first.
        parameters: the values.
    """

    each: list[str]
    parameters: list[object]

    @property
    def sql(self) -> str:
        """All conditions in one. The line breaks end a comment with which a condition may end."""
        return " AND ".join(f"({condition}\n)" for condition in self.each)


def rows_where(
    table: EntryTable, store: Store | None, conditions: Conditions, min_frames: int | None
) -> tuple[npt.NDArray[np.int64], list[tuple[str, str]]]:
    """The numbers of the rows that meet all conditions, and (path, reason) for those unreadable or too short.

    A warning counts the latter.

    Args:
        table, store, min_frames: as in ``VideoDataset.where``.
        conditions: result of ``conditions_in_sql``.
    """
    check_positive_or_none(min_frames=min_frames)
    kept, left_out, kinds = [], [], []
    with opened_store(table.path, store) as opened:
        _check_sql(opened, conditions)
        facts = facts_of_rows(opened, table.path, ["error", "frames", f"({conditions.sql})"], conditions.parameters)
        for row, (error, frames, fulfilled) in enumerate(facts):
            error = "its row in the index store is damaged" if error is None and frames is None else error
            if error is not None:
                left_out.append((table.path[row], error))
                kinds.append("cannot be read")
            elif fulfilled:
                kept.append((row, frames))
        rows, frame_counts = np.array(kept, np.int64).reshape(-1, 2).T
        if min_frames is not None:
            indexes = IndexCache(opened.unverified())
            first, stop, errors = entry_ranges(table.take(rows), frame_counts, indexes, {})
            for error in errors.values():
                if not isinstance(error, FrameRangeError):
                    raise error
            short = stop - first < min_frames
            for place in np.flatnonzero(short).tolist():
                few = f"{stop[place] - first[place]} frames, fewer than min_frames={min_frames}"
                left_out.append((table.path[rows[place]], errors[place].message if place in errors else few))
                kinds.append(
                    "beyond the video" if place in errors else f"with fewer than min_frames={min_frames} frames"
                )
            rows = rows[~short]
        if not len(rows):
            raise none_left(len(table), _values_of_videos(opened, table.path))
    tell_left_out("where", kinds, len(table))
    return rows, left_out


def entries_of_store(store: Store, where: str) -> tuple[EntryTable, tuple[str, ...], list[tuple[str, str]]]:
    """Entries for the videos of a store, no class names, and what was left out; see ``VideoDataset.from_store``."""
    conditions = conditions_in_sql(where, None, None, None)
    with opened_store((), store) as opened:
        _check_sql(opened, conditions)
        keys, moved = opened.keys_of_readable(conditions.sql, conditions.parameters), list[tuple[str, str]]()

        def named() -> Iterator[str]:
            for key in keys:
                if opened.keys.key_of_absolute(key) == key:
                    yield key
                else:  # the same video may have a row under the other key
                    moved.append((key, "was outside of the store's root when it was indexed: build the store again"))

        paths, left_out = PackedStrings(opened.keys.paths_of(named())), list(opened.errors())
        if not len(paths):
            raise none_left(len(opened))
    kinds = ["cannot be indexed"] * len(left_out) + ["from before the store was moved"] * len(moved)
    left_out += moved
    tell_left_out(opened.path, kinds, len(paths) + len(left_out), "videos")
    return make_table(paths, {}, {}, lambda row: opened.path), (), left_out


def conditions_in_sql(
    condition: str, min_height: int | None, codec: str | Collection[str] | None, fps: float | tuple[float, float] | None
) -> Conditions:
    """The conditions of ``VideoDataset.where``.

    Raises:
        ConfigurationError: an argument has an invalid value.
    """
    check_positive_or_none(min_height=min_height)
    wanted = "SQL over facts of videos, as 'duration_s < 60'; filter takes a function of rows"
    check("condition", condition, isinstance(condition, str), wanted)
    conditions, parameters = [condition.strip() or "1"], list[object]()
    if min_height is not None:
        conditions.append(f"{DISPLAYED_HEIGHT} >= ?")
        parameters.append(min_height)
    if codec is not None:
        codecs = codec if isinstance(codec, Collection) and not isinstance(codec, str) else [codec]
        check("codec", codec, all(isinstance(name, str) for name in codecs), "a name, as 'h264', or a list of names")
        conditions.append(f"codec IN ({','.join('?' * len(codecs))})")
        parameters += [name.lower() for name in codecs]
    if fps is not None:
        low, high = fps if isinstance(fps, list | tuple) and len(fps) == 2 else (fps, fps)
        are_rates = all(isinstance(rate, int | float) and not isinstance(rate, bool) for rate in (low, high))
        check("fps", fps, are_rates, "a number or a pair (lowest, highest)")
        check("fps", fps, low <= high, "(lowest, highest)", f": write {(high, low)}")
        if isinstance(fps, int | float):
            low, high = fps * (1 - _SAME_RATE), fps * (1 + _SAME_RATE)
        conditions.append("fps BETWEEN ? AND ?")
        parameters += [float(low), float(high)]
    return Conditions(conditions, parameters)


def _values_of_videos(store: IndexStore, paths: Sequence[str]) -> str:
    """The values that the videos have, for a message that makes a mistake in the conditions visible."""
    facts = facts_of_rows(store, paths, ["codec", "frames", "fps", DISPLAYED_HEIGHT], ())
    readable = [row for row in facts if row[0] is not None]
    if not readable:
        return "; no video can be read"
    codecs, *numbers = zip(*readable, strict=True)
    spans = [f"{name} {min(values):g} to {max(values):g}" for name, values in zip(_SPANS, numbers, strict=True)]
    return f"; the videos have codec {', '.join(sorted(set(codecs)))}; {', '.join(spans)}"


def _check_sql(store: IndexStore, conditions: Conditions) -> None:
    """Let SQLite parse the conditions before the rows are read, so that its error is about the conditions alone.

    The user's own is also parsed without brackets, since ``a) OR (b`` is no condition, but is SQL within brackets.
    """
    own = conditions.each[0]
    try:
        store.query(f"SELECT {own}\nFROM videos LIMIT 0")
        # Functions of several rows, such as ``count(*) OVER ()``, are no conditions.
        store.query(f"SELECT 1 FROM videos WHERE {conditions.sql} LIMIT 0", conditions.parameters)
    except ConfigurationError as error:
        wrong = f"condition {own!r} is not SQL over the facts of videos ({explained(error.__context__)})"
        facts = ", ".join(("id", *COLUMNS))
        raise ConfigurationError(f"{wrong}; these are {facts}; filter takes a function of rows' own columns") from None
