"""How commands print, warn and end."""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import typer
from rich.console import Console

from videoloader.errors import VideoLoaderError, printable

# What a command ends with, besides 0: something is wrong with the data; the command or a source cannot be used; Ctrl-C.
WRONG_DATA, CANNOT_RUN, INTERRUPTED = 1, 2, 130

# A program that was started without standard output has None there. What is printed goes nowhere then.
sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115
# Tables are for people: wide enough for a reason even where nobody looks.
out = Console(width=None if sys.stdout.isatty() or "COLUMNS" in os.environ else 160, emoji=False, highlight=False)
err = Console(stderr=True, emoji=False, highlight=False)


def print_json(value: object) -> None:
    """A value as JSON on stdout; names of files that are not UTF-8 as Python's JSON writes and reads them."""
    print(json.dumps(value, indent=1))


def print_line(line: str) -> None:
    """A line of plain text, never folded: for grep, and for paths to be copied."""
    out.print(plain(line), soft_wrap=True)


def told_once(path: str, reason: str) -> str:
    """A path and what is wrong there, where the reason may name the path already."""
    return reason if reason.startswith(f"{path}: ") else f"{path}: {reason}"


def plain(text: str) -> str:
    """Names of files may hold what a terminal must not be sent, and what Rich takes for markup."""
    shown = "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in printable(text))
    return shown.replace("[", "\\[")


@contextmanager
def errors_told(interrupted: str = "interrupted") -> Iterator[None]:
    """Errors as one line on stderr and exit code 2; Ctrl-C as 130; warnings without a place in the code.

    Args:
        interrupted: what is printed after Ctrl-C.
    """
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _tell_warning  # type: ignore[assignment]
            yield
    except VideoLoaderError as error:
        raise _told(str(error)) from None
    except BrokenPipeError:
        raise  # nobody reads on: Typer ends quietly
    except OSError as error:
        raise _told(f"{error.filename}: {error.strerror}" if error.filename else str(error)) from None
    except KeyboardInterrupt:
        err.print(interrupted)
        raise typer.Exit(INTERRUPTED) from None


def _told(message: str) -> typer.Exit:
    err.print(f"error: {printable(message)}", style="red", markup=False, soft_wrap=True)
    return typer.Exit(CANNOT_RUN)


def _tell_warning(message: Warning | str, *_place: object) -> None:
    err.print(f"warning: {message}", style="yellow", markup=False, soft_wrap=True)
