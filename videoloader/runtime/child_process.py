"""Start processes of Python that share a pipe with this one.

They are started afresh, not forked (threads and CUDA do not survive a fork). Unlike those of ``multiprocessing``, they
do not import the main module of the program that started them, so a plain script without a ``__main__`` guard works.
"""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

from videoloader.errors import VideoLoaderError, system_reason
from videoloader.errors.of_handlers import error_of_handler
from videoloader.runtime.forks import after_fork, lead_nowhere, no_forks

# Seconds to wait for processes that were killed. One that waits for a disk that does not answer does not end.
_MOST_WAITED = 5.0

# What a process runs. It imports outside of the current folder, because MKL ends the process if that was deleted.
_START = """
import os, sys
sys.path[:] = {paths!r}
try:
    here = os.open(".", getattr(os, "O_PATH", os.O_RDONLY))
    os.chdir("/")
except OSError:  # a folder that this user may not enter, and could not come back to
    here = None
import {imports}
from {module} import {function}
if here is not None:
    os.fchdir(here)
    os.close(here)
{function}({descriptor}, *{arguments!r})
"""


def current_folder() -> str:
    """The path of the current folder, by which other processes find it, too, even if it was deleted."""
    try:
        return os.getcwd()
    except OSError:  # relative paths lead nowhere from a folder that was deleted, in another process as in this one
        return f"/proc/{os.getpid()}/cwd"


def start_process(
    serve: Callable[..., None], arguments: tuple[str, ...], imports: str
) -> tuple[subprocess.Popen[bytes], Connection[Any, Any]]:
    """Start a process; return it and this end of the pipe. See ``ChildProcess``."""
    if not sys.executable:  # as where another program has Python in it
        raise FileNotFoundError(errno.ENOENT, "sys.executable does not name Python")
    folder = current_folder()
    # A process that is forked meanwhile would have the other end, and that of the pipe through which ``Popen`` learns
    # that the process has started. ``Popen`` would wait until it ends, too.
    with no_forks():
        ours, theirs = Pipe()
        with theirs:
            start = _START.format(
                paths=[os.path.join(folder, each) for each in sys.path if isinstance(each, str)],
                imports=imports,
                module=serve.__module__,
                function=serve.__name__,
                descriptor=theirs.fileno(),
                arguments=arguments,
            )
            # In a session of its own, since Ctrl-C is for the parent process.
            process = subprocess.Popen(
                [sys.executable, "-c", start],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
    return process, ours


def receive(connection: Connection[Any, Any]) -> Any:
    """Return the next object that comes through a pipe.

    Raises:
        EOFError: the process at the other end has ended, perhaps while it sent the object.
        ConnectionError: the same.
    """
    try:
        return connection.recv()
    except OSError as error:
        # Python tells by an error without a number that a part of an object has come.
        if error.errno is None and error_of_handler(error) is None:
            raise EOFError from error
        raise


class Starts:
    """A record of whether processes could be started.

    A process that is killed while it starts, perhaps for lack of memory that has been given back by now, may be
    replaced. One that ends by itself, and a replacement that is killed, are an error.

    Args:
        instead: str, default "". What the error tells the user to do.

    Attributes:
        one_was_killed: bool. Whether a process was killed while it started, and no replacement has started since.
    """

    def __init__(self, instead: str = "") -> None:
        self._instead = instead
        self.one_was_killed = False

    def error(self, why: str | Exception) -> VideoLoaderError:
        """The error that says that no process can be started, because of an exit status or an error of the system."""
        if isinstance(why, BlockingIOError):  # EAGAIN
            why = f"{system_reason(why)}; ulimit -u shows the number of processes that are allowed"
        elif isinstance(why, Exception):
            why = system_reason(why)
        return VideoLoaderError(f"no process can be started with {sys.executable} ({why}){self._instead}")


class ChildProcess:
    """A process that shares a pipe with this one.

    Args:
        starts: the record of starting processes of its kind.
        serve: module-level function that the process calls with the descriptor of its end of the pipe.
        arguments: further arguments of the function.
        imports: module that the process imports at the start, too.

    Attributes:
        connection: this end of the pipe.
        has_begun: whether the process has started up, as ``note_begun`` was told.

    Raises:
        OSError, ValueError: the system cannot start another process, or ``sys.executable`` is no path.
    """

    def __init__(self, starts: Starts, serve: Callable[..., None], *arguments: str, imports: str) -> None:
        self._starts, self._is_replacement = starts, starts.one_was_killed
        self.has_begun = False
        self._owner = os.getpid()
        with no_forks():  # until ``_let_go`` is known
            self._process, self.connection = start_process(serve, arguments, imports)
            after_fork(self._let_go)

    def _let_go(self) -> None:
        """Give up this end of the pipe in a forked process, so that the other end sees when the parent has died."""
        with suppress(OSError):  # it is closed
            lead_nowhere(self.connection.fileno())

    def note_begun(self) -> None:
        """Take note that the process has started up."""
        self.has_begun = True
        if self._is_replacement:
            self._is_replacement = self._starts.one_was_killed = False

    def end(self) -> int:
        """Kill the process and return its exit status. ``end_processes`` says what happens if it does not end."""
        end_processes([self])
        return -signal.SIGKILL if self._process.returncode is None else self._process.returncode

    def bury(self) -> int:
        """End the process, which has died, and return its exit status.

        Raises:
            VideoLoaderError: it died while it started, and there is no sense in starting another one.
        """
        status = self.end()
        if not self.has_begun:
            if status >= 0 or (self._is_replacement and self._starts.one_was_killed):
                raise self._starts.error(f"exit status {status}") from None
            self._starts.one_was_killed = True
        return status


def end_processes(processes: Sequence[ChildProcess]) -> None:
    """Kill processes, and wait a few seconds for their ends. What ends later is buried by ``subprocess``.

    Those that belong to the parent of this process are left alone.
    """
    processes = [each for each in processes if each._owner == os.getpid()]
    for each in processes:
        each.connection.close()
        each._process.kill()
    until = time.monotonic() + _MOST_WAITED
    for each in processes:
        with suppress(subprocess.TimeoutExpired):
            each._process.wait(max(until - time.monotonic(), 0))
