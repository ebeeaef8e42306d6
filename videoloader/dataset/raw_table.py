"""What every kind of table file is read into, before it is known which column means what."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import IO, NamedTuple

from videoloader.dataset.columns import Column
from videoloader.errors import ConfigurationError

ROWS_AT_ONCE = 1 << 14
# Characters; a longer line is none of a table.
_LONGEST_LINE = 16 << 20


class RawTable(NamedTuple):
    """A table as it stands in a file.

    Attributes:
        source: path of the file.
        columns: each column by its name, in the file's order; all of one length, which is not 0.
        where: says where a row stands in the file.
    """

    source: str
    columns: Mapping[str, Column]
    where: Callable[[int], str]


def lines(file: IO[str], source: str) -> Iterator[str]:
    """The lines of a text file, none of them longer than a table's may be.

    Raises:
        ConfigurationError: there is a longer one.
    """
    number = 0
    while line := file.readline(_LONGEST_LINE):
        number += 1
        if len(line) == _LONGEST_LINE:
            raise ConfigurationError(f"line {number} is longer than {_LONGEST_LINE} characters: no table", source)
        yield line
