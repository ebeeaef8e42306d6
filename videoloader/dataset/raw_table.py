"""The common form of all table files, before their columns are interpreted."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import NamedTuple

from videoloader.dataset.columns import Column
from videoloader.errors import ConfigurationError
from videoloader.indexing.limits import current_limits, exceeds_table_bytes

ROWS_AT_ONCE = 1 << 14


class RawTable(NamedTuple):
    """A table as read from a file.

    Attributes:
        source: path of the file.
        columns: the columns by name, in file order; all of the same length, at least 1.
        where: gives the place of a row in the file, for messages.
    """

    source: str
    columns: Mapping[str, Column]
    where: Callable[[int], str]


def beyond_table(limit: str, what: str, unit: str) -> str:
    """The message for a table that exceeds one of the limits of tables."""
    value = getattr(current_limits(), limit)
    return f"{what} of more than {value} {unit}, the limit {limit}: videoloader.set_limits({limit}=…)"


def check_table(source: str, columns: int, size: int = 0) -> None:
    """Raise ConfigurationError if a table has too many columns, or takes too much memory for the size of its file.

    Args:
        source: path of the file.
        columns: number of columns.
        size: bytes that the values take in memory.
    """
    if columns > current_limits().table_columns:
        raise ConfigurationError(beyond_table("table_columns", "rows", "columns"), source)
    if exceeds_table_bytes(size, lambda: os.path.getsize(source)):
        raise ConfigurationError(beyond_table("table_bytes", "values", "bytes in memory"), source)
