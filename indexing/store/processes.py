"""Spread tasks over processes of this machine, so that one that dies does not take the others with it.

The processes are started afresh, not forked (threads and CUDA do not survive a fork). Unlike those of
``multiprocessing``, they do not import the main module of the program that started them, so a plain script without a
``__main__`` guard works.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Any, TypeVar

from videoloader.errors import IndexingError, VideoLoaderError, what_the_system_lacks
from videoloader.indexing.store.tasks import Answer, Task, answer_task, failed_row

# What a process runs. It imports outside of the current folder, because MKL ends the process if that was deleted.
_START = """
import os, sys
sys.path[:] = {paths!r}
try:
    here = os.open(".", getattr(os, "O_PATH", os.O_RDONLY))
    os.chdir("/")
except OSError:  # a folder that this user may not enter, and could not come back to
    here = None
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


def start_process(serve: Callable[..., None], *arguments: str) -> tuple[subprocess.Popen[bytes], Connection[Any, Any]]:
    """Start a process that shares a pipe with this one; return the process and this end of the pipe.

    Args:
        serve: module-level function that the process calls with the descriptor of its end of the pipe.
        arguments: further arguments of the function.

    Raises:
        OSError: the system cannot start another process.
    """
    ours, theirs = Pipe()
    with theirs:
        folder = current_folder()
        start = _START.format(
            paths=[os.path.join(folder, each) for each in sys.path if isinstance(each, str)],
            module=serve.__module__,
            function=serve.__name__,
            descriptor=theirs.fileno(),
            arguments=arguments,
        )
        # In a session of its own, since Ctrl-C is for the parent process.
        process = subprocess.Popen(
            [sys.executable, "-c", start], stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()], start_new_session=True
        )
    return process, ours


# Both must be picklable.
TaskT = TypeVar("TaskT")
AnswerT = TypeVar("AnswerT")

# Seconds after which a process sends the answers it has, so that little is lost if the build is killed.
_HAND_OVER = 0.2


class _Worker:
    """A process, and the tasks that it has not answered yet."""

    def __init__(self, answer: Callable[[Any], Any]) -> None:
        try:
            self._process, self.connection = start_process(serve, answer.__module__, answer.__name__)
        except OSError as error:
            if what_the_system_lacks(error):
                raise
            raise VideoLoaderError(f"no process can be started with {sys.executable} ({error.strerror})") from error
        self.has_begun = False
        self.waiting: list[Any] = []

    def give(self, tasks: list[Any]) -> None:
        self.waiting = list(tasks)
        with suppress(ConnectionError):  # if it has died, this shows when its answers are taken
            self.connection.send(tasks)

    def take(self) -> list[Any]:
        """Return the answers that have come, in the order of the tasks.

        Raises:
            EOFError, ConnectionError: the process has died.
        """
        answers: list[Any] = self.connection.recv()
        self.has_begun = True
        del self.waiting[: len(answers)]
        return answers

    def end(self) -> None:
        self.connection.close()
        self._process.kill()
        self._process.wait()


def answer_in_processes(
    chunks: Iterable[list[TaskT]],
    workers: int,
    answer: Callable[[TaskT], AnswerT],
    died_over: Callable[[TaskT], AnswerT],
) -> Iterator[list[AnswerT]]:
    """Yield the answers to all tasks as they come.

    A process that dies over a task, as libav's code may, is replaced.

    Args:
        chunks: lists of tasks; a process is given one list at a time.
        workers: number of processes, started when there is work for them.
        answer: module-level function that answers a task; the processes import it.
        died_over: function that returns the answer if a process died over a task.

    Raises:
        VideoLoaderError: processes cannot be started.
    """
    remaining = iter(chunks)
    again: list[list[TaskT]] = []
    team: list[_Worker] = []
    idle: list[_Worker] = []
    try:
        while True:
            while idle or len(team) < workers:
                tasks = again.pop() if again else next(remaining, None)
                if tasks is None:
                    break
                if not idle:
                    idle.append(_Worker(answer))
                    team.append(idle[-1])
                idle.pop().give(tasks)
            busy = {worker.connection: worker for worker in team if worker.waiting}
            if not busy:
                return
            ready = wait(list(busy), timeout=_HAND_OVER)
            if not ready:
                yield []  # so that earlier answers are not kept waiting
            for connection in ready:
                worker = busy[connection]  # type: ignore[index]
                try:
                    answers = worker.take()
                except (EOFError, ConnectionError):
                    answers = []
                    team.remove(worker)
                    worker.end()
                    if not worker.has_begun:
                        raise VideoLoaderError(f"no process can be started with {sys.executable}") from None
                    if len(worker.waiting) == 1:
                        answers.append(died_over(worker.waiting[0]))
                    else:
                        again += [[task] for task in worker.waiting]
                else:
                    if not worker.waiting:
                        idle.append(worker)
                yield answers
    finally:
        for worker in team:
            worker.end()


def index_in_processes(chunks: Iterable[list[Task]], workers: int) -> Iterator[list[Answer]]:
    """Yield the answers to indexing tasks; see ``answer_in_processes``."""
    return answer_in_processes(chunks, workers, answer_task, _died_over)


def _died_over(task: Task) -> Answer:
    # Without a fingerprint, so that the next build tries again: the reason may have been a lack of memory.
    return Answer(task.key, failed_row(task, None, IndexingError("the process that indexed it died", task.path)))


def serve(descriptor: int, module: str, function: str) -> None:
    """Answer the tasks that come through a pipe until it is closed. This is what a worker process runs."""
    answer = getattr(importlib.import_module(module), function)
    connection: Connection[Any, Any] = Connection(descriptor)
    try:
        connection.send([])  # tells the parent that this process has started
        while True:
            answers, since = [], time.monotonic()
            for task in connection.recv():
                answers.append(answer(task))
                if time.monotonic() - since > _HAND_OVER:
                    connection.send(answers)
                    answers, since = [], time.monotonic()
            if answers:
                connection.send(answers)
    except (EOFError, ConnectionError):
        return
