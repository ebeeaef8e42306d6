"""The common form of all table files, before their columns are interpreted."""

from __future__ import annotations

import codecs
import os
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from videoloader.dataset.columns import Column
from videoloader.errors import ConfigurationError, SourceError, system_reason
from videoloader.indexing.limits import current_limits
from videoloader.indexing.sources.regular_file import reading

ROWS_AT_ONCE = 1 << 14
# Characters. A file with a longer line is not a table.
_LONGEST_LINE = 16 << 20
# A table may take so many times the size of its file in memory, whatever the limits.
_USUAL_GROWTH = 64


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
    limits = current_limits()
    if columns > limits.table_columns:
        raise ConfigurationError(beyond_table("table_columns", "rows", "columns"), source)
    if size > limits.table_bytes and size > _USUAL_GROWTH * os.path.getsize(source):
        raise ConfigurationError(beyond_table("table_bytes", "values", "bytes in memory"), source)


def lines(source: str, what: str = "table") -> Iterator[str]:
    """The lines of a UTF-8 file, each with its line break.

    Raises:
        SourceError: the file cannot be read; the message calls it ``what``.
        ConfigurationError: the file is not text, or a line is too long for a table.
    """
    number = 0
    if "\0" in source:
        raise SourceError(f"the {what} cannot be read (embedded null byte)", source)
    try:
        with reading(source, encoding="utf-8-sig", newline="") as file:
            while line := file.readline(_LONGEST_LINE):
                number += 1
                if len(line) == _LONGEST_LINE:
                    raise ConfigurationError(
                        f"line {number} is longer than {_LONGEST_LINE} characters, so this is not a table", source
                    )
                if "\0" in line:
                    raise _no_text(source, what)
                yield line
    except (OSError, UnicodeEncodeError) as error:
        raise SourceError(f"the {what} cannot be read ({system_reason(error)})", source) from error
    except UnicodeDecodeError as error:
        if b"\0" in error.object and not error.object.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise _no_text(source, what) from None
        byte = error.object[error.start]
        raise ConfigurationError(
            f"byte 0x{byte:02x} somewhere after line {number} is not UTF-8: save the {what} as UTF-8", source
        ) from None


def _no_text(source: str, what: str) -> ConfigurationError:
    takes = "; save a workbook as CSV; VideoDataset.from_paths takes videos" if what == "table" else ""
    return ConfigurationError(f"is not text, so it cannot be a {what}{takes}", source)
