"""Adds notes to errors from users' code that say in which transform, for which clip and for which file they occurred.

The errors keep their type and traceback, which shows the notes below the message (PEP 678). Errors of the library name
the file and the row of the data set in their message instead.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Sequence

from videoloader.errors import VideoLoaderError, printable

_short = reprlib.Repr()
_short.maxother = _short.maxstring = 300
# The most clips that a note names.
_MOST_NAMED = 4


class note:
    """A block whose errors get a note. Its text is made only when an error occurs.

    Errors of the library that name a source get no note, since their message already says it. An error gets only one
    note of each kind, from the innermost block, which knows most.

    Args:
        template: text of the note, for ``str.format``. The text before its first field is its kind.
        facts: values of its fields: text unchanged, anything else as a short ``repr``.
        source: the video that the block is about, which is put into errors of the library that name none; None for no
            video.
        row: its row in the data set, which is put before their message; -1 where the video is in no data set.

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
        if not any(str(each).startswith(start) for each in notes):
            facts = [fact if isinstance(fact, str) else _short.repr(fact) for fact in self._facts]
            notes.append(printable(self._template.format(*facts)))


class _RowsNote(str):
    """A note that numbers the rows an error is about. A surrounding ``note_rows`` that can name them replaces it."""

    rows: Sequence[int]


class note_rows:
    """A block whose errors concern rows of a batch.

    Args:
        rows: the rows; a block of this kind inside this one picks out which of them.
        name: describes a row; without it that is left to a block around this one.
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
    """The error's own list of notes; a list that nobody sees if it takes none, since the error itself comes first.

    Python shows notes from 3.11 on, other tools in any version.
    """
    try:
        if not hasattr(error, "__notes__"):
            error.__notes__ = []
        notes = error.__notes__
    except Exception:
        return []
    return notes if isinstance(notes, list) else []
