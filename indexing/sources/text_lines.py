"""Read files of text line by line, in bounded memory."""

from __future__ import annotations

import codecs
import csv
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from videoloader.errors import ConfigurationError, SourceError, system_reason
from videoloader.indexing.limits import current_limits
from videoloader.indexing.sources.regular_file import reading
from videoloader.runtime.forks import free_after_fork

# Characters. A file with a longer line is none of those that are read here.
_LONGEST_LINE = 16 << 20
# csv has one limit for all threads.
_one_at_a_time = free_after_fork(threading.RLock())


@contextmanager
def csv_within_limits() -> Iterator[None]:
    """Let csv read values of at most ``cell_characters`` of ``Limits``, in one thread at a time."""
    with _one_at_a_time:
        usual = csv.field_size_limit()
        try:
            csv.field_size_limit(current_limits().cell_characters)
            yield
        finally:
            csv.field_size_limit(usual)


def lines(source: str, what: str = "table") -> Iterator[str]:
    """The lines of a UTF-8 file, each with its line break.

    Raises:
        SourceError: the file cannot be read; the message calls it ``what``.
        ConfigurationError: the file is not text, or a line is too long for one.
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
                        f"line {number} is longer than {_LONGEST_LINE} characters, so this is not a {what}", source
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
