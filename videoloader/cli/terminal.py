"""Printing, warnings and exit codes of commands."""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import typer
from rich.console import Console

from videoloader.errors import VideoLoaderError, printable

# Exit codes besides 0: faulty data; a wrong command or unusable source; Ctrl-C.
WRONG_DATA, CANNOT_RUN, INTERRUPTED = 1, 2, 130

# A program that was started without standard output has None here. Its output then goes nowhere.
sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115
# Without a terminal, tables are wide enough to show reasons.
out = Console(width=None if sys.stdout.isatty() or "COLUMNS" in os.environ else 160, emoji=False, highlight=False)
err = Console(stderr=True, emoji=False, highlight=False)


def print_json(value: object) -> None:
    """Print a value as JSON on stdout; file names that are not UTF-8 are escaped as by Python's json module."""
    print(json.dumps(value, indent=1))


def print_line(line: str) -> None:
    """Print a line of plain text, never wrapped, for grep and for copying paths."""
    out.print(plain(line), soft_wrap=True)


def told_once(path: str, reason: str) -> str:
    """A path and a reason, without repeating the path if the reason names it."""
    return reason if reason.startswith(f"{path}: ") else f"{path}: {reason}"


def plain(text: str) -> str:
    """Replace unprintable characters in a text such as a file name, and escape what Rich would read as markup."""
    shown = "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in printable(text))
    return shown.replace("[", "\\[")


@contextmanager
def errors_told(interrupted: str = "interrupted") -> Iterator[None]:
    """Turn errors into one line on stderr and exit code 2, and Ctrl-C into 130; show warnings without a code location.

    Args:
        interrupted: text to print after Ctrl-C.
    """
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _tell_warning  # type: ignore[assignment]
            yield
            sys.stdout.flush()
    except VideoLoaderError as error:
        raise _told(str(error)) from None
    except BrokenPipeError:
        raise  # the reader of the pipe is gone: Typer exits quietly
    except OSError as error:
        _drop_what_cannot_be_written()
        # Reading files gives errors of the library, and what has no name is the output.
        raise _told(f"{error.filename or 'the output cannot be written'}: {error.strerror or error}") from None
    except KeyboardInterrupt:
        err.print(interrupted)
        raise typer.Exit(INTERRUPTED) from None


def _drop_what_cannot_be_written() -> None:
    """Drop the output that waits for a full disk: Python would try again as it ends, and complain."""
    try:
        sys.stdout.flush()
    except OSError:
        with suppress(OSError, ValueError):  # it is no file
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _told(message: str) -> typer.Exit:
    err.print(f"error: {printable(message)}", style="red", markup=False, soft_wrap=True)
    return typer.Exit(CANNOT_RUN)


def _tell_warning(message: Warning | str, *_place: object) -> None:
    err.print(f"warning: {message}", style="yellow", markup=False, soft_wrap=True)
