"""Work in processes of its own, with limits: what crashes, hangs or swells takes nothing else down with it.

Processes are forked, so that each case starts at once and from the same state. So nothing may be decoded, and no thread
started, in the process that hands out the work.
"""

from __future__ import annotations

import faulthandler
import json
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

Key = TypeVar("Key")


@dataclass(frozen=True)
class Limits:
    """What one case may take: seconds of processor time and of waiting, megabytes beyond what it starts with."""

    processor: int = 90
    seconds: int = 300
    megabytes: int = 2500


@dataclass(frozen=True)
class Ending:
    """How a case ended: with a result, or with what went wrong."""

    result: Any = None
    failure: str = ""


@dataclass
class _Child:
    pid: int
    output: Any
    errors: Any
    end: float
    hangs: bool = False


def run_limited(
    work: Callable[[Key], Any], keys: Iterable[Key], workers: int, limits: Limits | None = None
) -> Iterator[tuple[Key, Ending]]:
    """What ``work(key)`` gives for each key, as they come; it must be what JSON can hold."""
    limits = limits or Limits()
    waiting, running = iter(keys), dict[int, tuple[Key, _Child]]()
    exhausted = False
    try:
        while True:
            while len(running) < workers and not exhausted:
                try:
                    key = next(waiting)
                except StopIteration:
                    exhausted = True
                    break
                child = _start(work, key, limits)
                running[child.pid] = key, child
            if not running:
                return
            for pid, (key, child) in list(running.items()):
                done, status = os.waitpid(pid, os.WNOHANG)
                if done:
                    del running[pid]
                    yield key, _ending(child, status)
                elif time.monotonic() > child.end:
                    # The first signal has the traceback of each thread written down.
                    os.kill(pid, signal.SIGKILL if child.hangs else signal.SIGABRT)
                    child.hangs, child.end = True, time.monotonic() + 5
            time.sleep(0.01)
    finally:
        for pid in running:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _start(work: Callable[[Key], Any], key: Key, limits: Limits) -> _Child:
    output = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed when the child has ended
    errors = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return _Child(pid, output, errors, time.monotonic() + limits.seconds)
    try:
        os.dup2(errors.fileno(), 2)
        faulthandler.enable(errors)
        resource.setrlimit(resource.RLIMIT_CPU, (limits.processor, limits.processor + 5))
        used = int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_DATA, (used + (limits.megabytes << 20),) * 2)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        json.dump(work(key), output)
        output.flush()
        os._exit(0)
    except BaseException:
        traceback.print_exc(file=errors)
        errors.flush()
    finally:
        # Neither buffers nor exit handlers of the parent are the child's business.
        os._exit(1)


def _ending(child: _Child, status: int) -> Ending:
    child.output.seek(0)
    child.errors.seek(0)
    with child.output, child.errors:
        if status == 0:
            return Ending(json.load(child.output))
        told = child.errors.read()
    if child.hangs:
        return Ending(failure=f"hangs\n{told[-4000:]}")
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        what = "takes too much time" if number == signal.SIGXCPU else f"dies of {signal.Signals(number).name}"
        return Ending(failure=f"{what}\n{told[-4000:]}")
    return Ending(failure=f"raises\n{told[-4000:]}")
