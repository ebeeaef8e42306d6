"""Notes on errors that come out of a user's own code: in which transform, for which clip, of which file.

The errors stay what they are, with their own traceback, which shows the notes below the message (PEP 678). Errors of
the library name the file in their own line instead, and the row of the data set.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Sequence

from videoloader.errors import VideoLoaderError, printable

_short = reprlib.Repr()
_short.maxother = _short.maxstring = 300
# At most so many clips are named.
_MOST_NAMED = 4


class note:
    """A block in which errors get a note. The text is only made when an error passes.

    Errors of the library that name a source get none: it is told in their own line. No error gets two notes of one
    kind: the innermost says most.

    Args:
        template: text of the note, for ``str.format``. The text before its first field is its kind.
        facts: its fields: text as it is, of all else a short ``repr``.
        source: the video that the block is about, which errors of the library name where they name none; None for
            no video.
        row: the row of the data set, which they name before their message; -1 where the video is of none.

    Examples:
        >>> with note("in the transform {}", Resize(64)):
        ...     half = 64 // 2
    """

    __slots__ = ("_facts", "_row", "_source", "_template")

    def __init__(self, template: str, *facts: object, source: str | None = None, row: int = -1) -> None:
        self._template, self._facts, self._source, self._row = template, facts, source, row

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, VideoLoaderError) and self._source and not error.source:
            place = f"row {self._row} of the data set: " if self._row >= 0 else ""
            error.message, error.source = place + error.message, self._source
            error.args = (f"{error.source}: {error.message}",)
        if not isinstance(error, Exception) or (isinstance(error, VideoLoaderError) and error.source):
            return
        notes, start = _notes_of(error), self._template.partition("{")[0]
        if not any(each.startswith(start) for each in notes):
            facts = [fact if isinstance(fact, str) else _short.repr(fact) for fact in self._facts]
            notes.append(printable(self._template.format(*facts)))


class _RowsNote(str):
    """A note on which rows of a call an error is about. A surrounding block that can name the rows replaces it."""

    rows: Sequence[int]


class note_rows:
    """A block in which errors are about rows of a batch.

    Args:
        rows: the rows; a block of this kind within this one tells which of these.
        name: says what a row is; without it that is left to a block around this one.
    """

    __slots__ = ("_name", "_rows")

    def __init__(self, rows: Sequence[int], name: Callable[[int], object] | None = None) -> None:
        self._rows, self._name = rows, name

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if not isinstance(error, Exception):
            return
        notes, rows = _notes_of(error), self._rows
        for inner in [each for each in notes if isinstance(each, _RowsNote)]:
            notes.remove(inner)
            rows = [rows[row] for row in inner.rows]
        named = [f"row {row}" if self._name is None else str(self._name(row)) for row in rows[:_MOST_NAMED]]
        more = f" and {len(rows) - _MOST_NAMED} more" if len(rows) > _MOST_NAMED else ""
        told = printable(f"for {'; '.join(named)}{more}")
        if self._name is None:
            told = _RowsNote(told)
            told.rows = rows
        notes.append(told)


def _notes_of(error: BaseException) -> list[str]:
    """The notes of an error, to be changed. Python knows of them from 3.11 on, other tools with any version."""
    if not hasattr(error, "__notes__"):
        error.__notes__ = []
    return error.__notes__
