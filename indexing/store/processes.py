"""Spread tasks over processes of this machine, so that one that dies does not take the others with it."""

from __future__ import annotations

import importlib
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection, wait
from typing import Any, TypeVar

from videoloader.errors import ConfigurationError, IndexingError
from videoloader.errors.of_handlers import errors_suppressed, raise_of_handler
from videoloader.indexing.limits import current_limits
from videoloader.indexing.store.tasks import Answer, Task, answer_task, failed_row
from videoloader.runtime.child_process import ChildProcess, Starts, end_processes, receive

# Both must be picklable.
TaskT = TypeVar("TaskT")
AnswerT = TypeVar("AnswerT")

# Seconds after which a process sends the answers it has, so that little is lost if the build is killed.
_HAND_OVER = 0.2
# Nothing interrupts libavcodec inside a packet, so a process that goes on for long after ``decode_seconds`` is ended:
# after twice as long and these seconds.
_PATIENCE = 60.0


class _Worker(ChildProcess):
    """A process, and the tasks that it has not answered yet."""

    def __init__(self, starts: Starts, answer: Callable[[Any], Any], seconds: float) -> None:
        named = answer.__module__, answer.__name__
        super().__init__(starts, serve, *named, str(seconds), imports=answer.__module__)
        self.waiting: list[Any] = []

    def give(self, tasks: list[Any]) -> None:
        self.waiting = list(tasks)
        with errors_suppressed(OSError):  # if it has died, this shows when its answers are taken
            self.connection.send(tasks)

    def take(self) -> list[Any]:
        """Return the answers that have come, in the order of the tasks.

        Raises:
            EOFError, ConnectionError: the process has died.
        """
        answers: list[Any] = receive(self.connection)
        self.note_begun()
        del self.waiting[: len(answers)]
        return answers


def answer_in_processes(
    chunks: Iterable[list[TaskT]],
    workers: int,
    answer: Callable[[TaskT], AnswerT],
    died_over: Callable[[TaskT, str], AnswerT],
    seconds: float = 0,
) -> Iterator[list[AnswerT]]:
    """Yield the answers to all tasks as they come.

    A process that dies over a task, as libav's code may, is replaced.

    Args:
        chunks: lists of tasks; a process is given one list at a time.
        workers: number of processes, started when there is work for them.
        answer: module-level function that answers a task; the processes import it.
        died_over: function that returns the answer if a process died over a task, for the task and what has happened.
        seconds: processor time after which a process is ended over one task; 0 for no limit.

    Raises:
        VideoLoaderError: processes cannot be started.
    """
    remaining, process = iter(chunks), os.getpid()
    again: list[list[TaskT]] = []
    starts = Starts()
    team: list[_Worker] = []
    idle: list[_Worker] = []
    try:
        while True:
            while idle or len(team) < workers:
                tasks = again.pop() if again else next(remaining, None)
                if tasks is None:
                    break
                if not idle:
                    try:
                        idle.append(_Worker(starts, answer, seconds))
                    except (OSError, ValueError) as error:
                        raise_of_handler(error)
                        raise starts.error(error) from error
                    team.append(idle[-1])
                idle.pop().give(tasks)
            busy = {worker.connection: worker for worker in team if worker.waiting}
            if not busy:
                return
            ready = wait(list(busy), timeout=_HAND_OVER)
            check_not_forked(process, "work")
            if not ready:
                yield []  # so that earlier answers are not kept waiting
                check_not_forked(process, "work")
            for connection in ready:
                worker = busy[connection]  # type: ignore[index]
                try:
                    answers = worker.take()
                except (EOFError, ConnectionError) as error:
                    raise_of_handler(error)
                    answers = []
                    team.remove(worker)
                    status = worker.bury()
                    if worker.has_begun and len(worker.waiting) == 1:
                        late = status == -signal.SIGPROF
                        told = f"was ended after {seconds:g} s of processor time" if late else "died"
                        answers.append(died_over(worker.waiting[0], told))
                    else:
                        again += [[task] for task in worker.waiting]
                else:
                    if not worker.waiting:
                        idle.append(worker)
                yield answers
                check_not_forked(process, "work")
    finally:
        end_processes(team)


def check_not_forked(process: int, work: str) -> None:
    """Raise ConfigurationError in a process that was forked since work began, as in a callback.

    Args:
        process: number of the process that began.
        work: "build", "merge" or "work".
    """
    if os.getpid() != process:
        raise ConfigurationError(
            f"this {work} was started before the process was forked: only the parent can go on with it"
        )


def index_in_processes(chunks: Iterable[list[Task]], workers: int) -> Iterator[list[Answer]]:
    """Yield the answers to indexing tasks; see ``answer_in_processes``."""
    return answer_in_processes(
        chunks, workers, answer_task, _died_over, 2 * current_limits().decode_seconds + _PATIENCE
    )


def _died_over(task: Task, what: str) -> Answer:
    # Without a fingerprint, so that the next build tries again: the reason may have been a lack of memory.
    return Answer(task.key, failed_row(task, None, IndexingError(f"the process that indexed it {what}", task.path)))


def serve(descriptor: int, module: str, function: str, seconds: str) -> None:
    """Answer the tasks that come through a pipe until it is closed. This is what a worker process runs.

    The system ends the process when it has spent ``seconds`` of processor time on one task.
    """
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGPROF])  # the parent may have blocked it
    answer = getattr(importlib.import_module(module), function)
    connection: Connection[Any, Any] = Connection(descriptor)
    try:
        connection.send([])  # tells the parent that this process has started
        while True:
            answers, since = [], time.monotonic()
            for task in receive(connection):
                signal.setitimer(signal.ITIMER_PROF, float(seconds))
                answers.append(answer(task))
                if time.monotonic() - since > _HAND_OVER:
                    connection.send(answers)
                    answers, since = [], time.monotonic()
            if answers:
                connection.send(answers)
    except (EOFError, ConnectionError):
        return
