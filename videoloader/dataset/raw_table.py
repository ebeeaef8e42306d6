"""The common form of all table files, before their columns are interpreted."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from videoloader.dataset.columns import Column
from videoloader.errors import ConfigurationError, SourceError
from videoloader.indexing.sources.regular_file import open_regular

ROWS_AT_ONCE = 1 << 14
# Characters. A file with a longer line is not a table.
_LONGEST_LINE = 16 << 20


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
        with open(source, encoding="utf-8-sig", newline="", opener=open_regular) as file:
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
        reason = error.strerror if isinstance(error, OSError) else error
        raise SourceError(f"the {what} cannot be read ({reason})", source) from error
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
