"""Columns of a table in little memory: numbers as arrays, text as one buffer, anything else as objects."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from operator import eq
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from videoloader.dataset.unchanging import Unchanging, row_number
from videoloader.errors import SourceError
from videoloader.errors.attribute_names import tells_of_attributes
from videoloader.sampling.integers import positions_in_slice

Rows = npt.NDArray[np.int64]
_PACKED_AT_ONCE = 1 << 14
_SHOWN = 6


class _Absent:
    """The type of ``ABSENT``, the value of a column in rows that lack it."""

    def __reduce__(self) -> str:
        return "ABSENT"


ABSENT = _Absent()


@tells_of_attributes("data.paths")
class PackedStrings(Unchanging[str]):
    """Strings in one buffer of UTF-8: each takes 8 bytes besides its text, where a ``str`` takes 57.

    Args:
        texts: strings, including file names that are not UTF-8 (as ``os.fsdecode`` returns them).
    """

    __slots__ = ("_bounds", "_text")
    _holds = str, "write str(path) of a Path"

    def __init__(self, texts: Iterable[str]) -> None:
        text, bounds = bytearray(), [np.zeros(1, np.int64)]
        rest = iter(texts)
        while pieces := [text.encode("utf-8", "surrogatepass") for text in islice(rest, _PACKED_AT_ONCE)]:
            lengths = np.fromiter(map(len, pieces), np.int64, len(pieces))
            bounds.append(len(text) + np.cumsum(lengths))
            text += b"".join(pieces)
        self._text: bytes | memoryview = bytes(text)
        self._bounds = np.concatenate(bounds)

    @classmethod
    def of_utf8(cls, text: bytes | memoryview, bounds: Rows) -> PackedStrings:
        """The strings of a UTF-8 buffer, each from one bound to the next, without gaps."""
        strings = cls.__new__(cls)
        strings._text, strings._bounds = text, bounds - bounds[0] if bounds[0] else bounds
        return strings

    def utf8(self) -> tuple[bytes | memoryview, Rows]:
        """The arguments of ``of_utf8``; the first bound is 0."""
        return self._text, self._bounds

    def __reduce__(self) -> tuple[Any, ...]:
        # The text may be a file mapped into memory.
        return self.of_utf8, (bytes(self._text), self._bounds)

    @property
    def sizes(self) -> Rows:
        """int64[N]: the length of each string in UTF-8 bytes."""
        return np.diff(self._bounds)

    def __len__(self) -> int:
        return len(self._bounds) - 1

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str):
            return NotImplemented
        return len(self) == len(other) and all(map(eq, self, other))

    def __repr__(self) -> str:
        shown = ", ".join(map(repr, self[:_SHOWN]))
        return f"[{shown}{f', … {len(self)} in all' if len(self) > _SHOWN else ''}]"

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        text = self._text
        try:
            if isinstance(index, slice):
                rows = positions_in_slice(index, len(self))
                begin, end = self._bounds[rows].tolist(), self._bounds[rows + 1].tolist()
                return [str(text[a:b], "utf-8", "surrogatepass") for a, b in zip(begin, end, strict=True)]
            row = row_number(index, len(self))
            return str(text[self._bounds.item(row) : self._bounds.item(row + 1)], "utf-8", "surrogatepass")
        except UnicodeDecodeError as error:
            raise _damaged(error) from None

    def __iter__(self) -> Iterator[str]:
        for start in range(0, len(self), _PACKED_AT_ONCE):
            yield from self[start : start + _PACKED_AT_ONCE]

    def common_start(self) -> bytes:
        """The common prefix of all strings, in UTF-8; it may end within a character."""
        text = np.frombuffer(self._text, np.uint8)
        start = text[: min(self._bounds[1], self.sizes.min())]
        for first in range(0, len(self), _PACKED_AT_ONCE):
            begin = self._bounds[:-1][first : first + _PACKED_AT_ONCE]
            same = (text[begin[:, None] + np.arange(len(start))] == start).all(0)
            start = start[: len(start) if same.all() else int(same.argmin())]
        return start.tobytes()

    def ended_with_zeros(self, rows: Rows, skipped: int) -> bytes:
        """The strings of some rows in UTF-8, each without its first bytes and followed by a zero byte.

        Args:
            rows: row numbers in rising order, at least one.
            skipped: number of bytes to skip; no string is shorter.
        """
        if rows[-1] - rows[0] + 1 != len(rows):
            return self.take(rows).ended_with_zeros(np.arange(len(rows)), skipped)
        bounds = self._bounds[rows[0] : rows[-1] + 2]
        text = np.frombuffer(self._text, np.uint8)[bounds[0] : bounds[-1]]
        kept = np.ones(len(text), np.bool_)
        kept[(bounds[:-1, None] - bounds[0] + np.arange(skipped)).ravel()] = False
        ends = np.cumsum(np.diff(bounds) + 1 - skipped)
        ended, filled = np.zeros(ends[-1], np.uint8), np.ones(ends[-1], np.bool_)
        filled[ends - 1] = False
        ended[filled] = text[kept]
        return ended.tobytes()

    def take(self, rows: Rows) -> PackedStrings:
        """The strings of these rows, in the order of ``rows``."""
        text, begin, end = self._text, self._bounds[rows].tolist(), self._bounds[rows + 1].tolist()
        taken = b"".join([text[a:b] for a, b in zip(begin, end, strict=True)])
        return self.of_utf8(taken, np.append(0, np.cumsum(self.sizes[rows])))

    def end_with(self, endings: Sequence[str]) -> npt.NDArray[np.bool_]:
        """bool[N]: whether each string ends with one of the ASCII endings, ignoring case."""
        text, stops = np.frombuffer(bytes(self._text).lower(), np.uint8), self._bounds[1:]
        ends = np.zeros(len(self), np.bool_)
        for ending in endings:
            found = self.sizes >= len(ending)
            for place, code in enumerate(reversed(ending.encode()), 1):
                found[found] = text[stops[found] - place] == code
            ends |= found
        return ends

    def hold(self, character: str) -> npt.NDArray[np.bool_]:
        """bool[N]: whether each string contains an ASCII character."""
        places = np.flatnonzero(np.frombuffer(self._text, np.uint8) == ord(character))
        held = np.zeros(len(self), np.bool_)
        held[np.searchsorted(self._bounds, places, "right") - 1] = True
        return held

    @classmethod
    def join(cls, parts: Sequence[PackedStrings]) -> PackedStrings:
        """The concatenation of all parts."""
        sizes = np.concatenate([part.sizes for part in parts])
        return cls.of_utf8(b"".join(part._text for part in parts), np.append(0, np.cumsum(sizes)))


class JsonColumn(Sequence[Any]):
    """Values parsed when they are accessed: JSON, or Base64 after ``=``; empty text is ``ABSENT``."""

    def __init__(self, texts: PackedStrings) -> None:
        self.texts = texts

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, index: int | slice) -> Any:
        texts = self.texts[index]
        return _read_cell(texts) if isinstance(texts, str) else list(map(_read_cell, texts))

    def __iter__(self) -> Iterator[Any]:
        return map(_read_cell, self.texts)


def _read_cell(text: str) -> Any:
    if not text:
        return ABSENT
    try:
        return base64.b64decode(text) if text.startswith("=") else json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _damaged(error) from None


def _damaged(error: Exception) -> SourceError:
    """The error for text that only a saved data set can hold: it is read when it is asked for."""
    return SourceError(f"the saved data set is damaged ({error})")


Column = PackedStrings | JsonColumn | npt.NDArray[Any] | list[Any]


def pack(values: Sequence[Any]) -> Column:
    """A column of these values, from which each is read back unchanged."""
    kinds = set(map(type, values))
    if kinds == {str}:
        return PackedStrings(values)
    if kinds == {float}:
        return np.array(values, np.float64)
    if kinds == {int} and -(2**63) <= min(values) <= max(values) < 2**63:
        return np.array(values, np.int64)
    return list(values)


def plain(column: Column) -> Sequence[Any]:
    """The values as Python types."""
    values: Sequence[Any] = column.tolist() if isinstance(column, np.ndarray) else column
    return values


def take(column: Column, rows: Rows) -> Column:
    """The values of these rows, in the order of ``rows``."""
    if isinstance(column, np.ndarray):
        # One value for all rows, stored once.
        return np.broadcast_to(column[:1], len(rows)) if column.strides == (0,) else column[rows]
    if isinstance(column, JsonColumn):
        return JsonColumn(column.texts.take(rows))
    return column.take(rows) if isinstance(column, PackedStrings) else [column[row] for row in rows.tolist()]


def constant(value: int | float, rows: int) -> npt.NDArray[Any]:
    """A column of one number, stored once however many rows there are."""
    return np.broadcast_to(np.asarray(value), rows)


def join(parts: Sequence[Column]) -> Column:
    """The concatenation of all parts."""
    if len(parts) == 1:
        return parts[0]
    strings = [part for part in parts if isinstance(part, PackedStrings)]
    arrays = [part for part in parts if isinstance(part, np.ndarray)]
    if len(strings) == len(parts):
        return PackedStrings.join(strings)
    if len(arrays) == len(parts) and len({array.dtype for array in arrays}) == 1:
        same = all(array.strides == (0,) and array[:1].tobytes() == arrays[0][:1].tobytes() for array in arrays)
        return constant(arrays[0][0], sum(map(len, arrays))) if same else np.concatenate(arrays)
    return [value for part in parts for value in plain(part)]
