"""Shows the progress of long jobs in a line of the terminal or notebook, and logs when they are done.

Without a terminal or notebook nothing is written. ``VIDEOLOADER_PROGRESS=0`` in the environment turns the lines off. Of
several processes only rank 0 writes them.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Any, TypeAlias, TypeVar

from videoloader.errors import printable
from videoloader.runtime.launchers import is_first

LOG = logging.getLogger("videoloader")
LOG.addHandler(logging.NullHandler())

Tell: TypeAlias = Callable[[int, int], object]
_T = TypeVar("_T")
# Short jobs have no line, and a line changes no faster than eyes can read.
_SECONDS_BEFORE, _SECONDS_BETWEEN = 0.5, 0.1
_WIDTH = 20


@contextmanager
def live_line(what: str, given: Tell | None = None) -> Iterator[Tell]:
    """A function to call with (done, total) as a job goes on; total is 0 where it is not known.

    Args:
        what: name of the job for the line and the log, such as ``"indexing"``.
        given: the user's own function, called instead of showing a line; default None.
    """
    began = time.monotonic()
    last = (0, 0)
    with shown_line(after=_SECONDS_BEFORE) if given is None else nullcontext(lambda text: None) as show:

        def tell(done: int, total: int) -> object:
            nonlocal last
            last = done, total
            show(lambda: told(what, done, total, time.monotonic() - began))
            return given and given(done, total)

        yield tell
    LOG.info("%s: %d done in %.1f s", what, last[0], time.monotonic() - began)


def counted_live(what: str, items: Iterable[_T], total: int = 0) -> Iterator[_T]:
    """Yield the items while a line counts them; see ``live_line``."""
    with live_line(what) as tell:
        for done, each in enumerate(items, 1):
            tell(done, total)
            yield each


@contextmanager
def shown_line(after: float = 0.0, *, stays: bool = False) -> Iterator[Callable[[Callable[[], str]], object]]:
    """A function that replaces the line's text. It takes a callable, which is called only as often as eyes can read.

    Args:
        after: float, default 0. The seconds until there is a line.
        stays: bool, default False. Whether the last text stays in place.
    """
    write = _writer()
    if write is None:
        yield lambda text: None
        return
    due, shown = time.monotonic() + after, False
    latest: Callable[[], str] = str

    def show(text: Callable[[], str]) -> None:
        nonlocal due, shown, latest
        latest = text
        if (now := time.monotonic()) >= due:
            due, shown = now + _SECONDS_BETWEEN, True
            write(text(), False)

    try:
        yield show
    finally:
        if shown or stays:
            write(latest() if stays else "", True)


def told(what: str, done: int, total: int, seconds: float, more: str = "") -> str:
    """The text of a line.

    Examples:
        >>> told("indexing", 50, 200, 2.0)
        'indexing ━━━━━─────────────── 50/200, 25.0/s, 0:06 left'
        >>> told("listing", 50, 0, 2.0)
        'listing 50, 25.0/s'
    """
    rate = done / seconds if seconds > 0 else 0.0
    parts = [more or f"{rate:.1f}/s"]
    if not total:
        return f"{what} {done}, {parts[0]}"
    if rate and done < total:
        minutes, rest = divmod(round((total - done) / rate), 60)
        parts.append(f"{minutes}:{rest:02} left")
    full = min(_WIDTH, _WIDTH * done // total)
    return f"{what} {'━' * full}{'─' * (_WIDTH - full)} {done}/{total}, {', '.join(parts)}"


def _writer() -> Callable[[str, bool], None] | None:
    """A function of (text, whether it is the last) that replaces the line's text; None without terminal or notebook."""
    if os.environ.get("VIDEOLOADER_PROGRESS") == "0" or not is_first():
        return None
    # IPython is looked up rather than imported: a program that uses it has imported it.
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if getattr(shell, "kernel", None) is not None:
        return _notebook_writer()
    stream = sys.stderr
    if not _is_terminal(stream) or os.environ.get("TERM") == "dumb":
        return None

    def write(text: str, end: bool) -> None:
        # A closed terminal, or one that cannot encode the text, must not stop the job.
        with suppress(OSError, ValueError):
            width = _columns() - 1
            stream.write(f"\r{printable(text)[:width]}\x1b[K" + ("\n" if end and text else ""))
            stream.flush()

    return write


def _is_terminal(stream: Any) -> bool:
    # A program's replacement of stderr may be closed, or lack this method.
    with suppress(OSError, ValueError, AttributeError):
        return bool(stream.isatty())
    return False


def _columns() -> int:
    with suppress(OSError, ValueError, AttributeError):
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80
    return 80


def _notebook_writer() -> Callable[[str, bool], None]:
    from IPython.display import display

    handle: Any = None

    def write(text: str, end: bool) -> None:
        nonlocal handle
        content = {"text/plain": printable(text)}
        if handle is None:
            handle = display(content, raw=True, display_id=True)
        else:
            handle.update(content, raw=True)

    return write
