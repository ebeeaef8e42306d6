"""Reads the columns of a data set's row that frame modes use."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeAlias, TypeVar

import numpy as np

from videoloader import padding
from videoloader.errors import ConfigurationError
from videoloader.errors.attribute_names import no_such_column
from videoloader.errors.checks import check, shortened
from videoloader.errors.short_text import repr_of
from videoloader.indexing.exact_numbers import exact
from videoloader.padding import Mode
from videoloader.sampling.exact_time import Time, as_times
from videoloader.sampling.integers import several_integers
from videoloader.sampling.sampled_video import SampledVideo

_T = TypeVar("_T")


@dataclass(frozen=True)
class PadColumn:
    """A padding mode for each video, from a column of the data set.

    Args:
        column: str. The column's name. Each row holds one of ``videoloader.padding.MODES`` or an alias: ``repeat`` is
            ``edge``, ``reflect`` is ``reflect_101``, ``symmetric`` is ``reflect_1001``, and ``loop`` is ``wrap``.

    Examples:
        ``RandomWindow(16, stride=4, pad=PadColumn("padding"))`` with the table:

            path,padding
            loop.mp4,wrap
            talk.mp4,edge
    """

    column: str

    def __post_init__(self) -> None:
        check("column", self.column, isinstance(self.column, str) and self.column, "the name of a column")


Pad: TypeAlias = Mode | PadColumn


def pad_of(pad: str | PadColumn, video: SampledVideo) -> str:
    """The padding mode for a video, one of ``padding.MODES``.

    Raises:
        ConfigurationError: its row lacks the column, or holds another word there.
    """
    if not isinstance(pad, PadColumn):
        return padding.check_mode(pad)
    try:
        return padding.check_mode(column_of(video, pad.column))
    except ConfigurationError as error:
        if error.source is not None:
            raise
        raise ConfigurationError(f"column {pad.column!r}: {error.message}", video.index.source) from None


def column_of(video: SampledVideo, column: str) -> Any:
    """The value of a column in the video's row.

    Raises:
        ConfigurationError: there is no such column.
    """
    if column not in video.columns:
        raise no_such_column(column, video.columns, source=video.index.source)
    return video.columns[column]


def integer_tuple(name: str, values: Any) -> tuple[int, ...]:
    """One or more integers as a tuple of Python ints, so that equal modes compare equal and hash alike.

    Raises:
        ConfigurationError: the value is anything else.
    """
    numbers = several_integers(values)
    if numbers is None or not len(numbers) or not np.can_cast(numbers.dtype, np.int64) or numbers.dtype == np.bool_:
        raise ConfigurationError(f"{name} must be a list of one or more integers, got {shortened(values)}")
    return tuple(numbers.tolist())


def integers_of(video: SampledVideo, column: str, *, least: int = 1) -> tuple[int, ...]:
    """The integers that a video's row lists in a column: a list, or text such as ``[0, 4, 8]`` or ``0 4 8``.

    Args:
        video: the video with that column.
        column: the column's name.
        least: least number of integers, 0 or 1.

    Raises:
        ConfigurationError: there is no such column, or something else in it.
    """

    def read(name: str, cells: Any) -> tuple[int, ...]:
        return integer_tuple(name, cells) if least or len(cells) else ()

    return _listed(video, column, "integers", int, read)


def times_of(video: SampledVideo, column: str) -> tuple[Time, ...]:
    """The times that a video's row lists in a column: numbers in seconds, or text such as ``0.5 1.25``.

    Raises:
        ConfigurationError: there is no such column, or something else in it.
    """
    # Decimals written as text are exact; ``as_times`` says what a float means.
    return _listed(video, column, "seconds", lambda text: exact("seconds", Decimal(text)), as_times)


def _listed(
    video: SampledVideo, column: str, what: str, cell: Callable[[str], Any], read: Callable[[str, Any], _T]
) -> _T:
    """The values that a video's row lists in a column, as ``read(name, values)``; text is split into cells before."""
    value = column_of(video, column)
    try:
        return read(f"column {column!r}", list(map(cell, cells_of(value))) if isinstance(value, str) else value)
    except (ConfigurationError, ArithmeticError, TypeError, ValueError):
        told = f"column {column!r} must be a list of {what}, got {repr_of(value)}"
        raise ConfigurationError(told, video.index.source) from None


def cells_of(text: str) -> list[str]:
    """The numbers listed in a text such as ``[0, 4, 8]`` or ``0 4 8``, still as text.

    Raises:
        ValueError: there is an underscore in it: Python takes 1_0 for 10.
    """
    if "_" in text:
        raise ValueError
    return [cell for cell in re.split(r"[\s,;]+", text.strip().strip("[]()")) if cell]
