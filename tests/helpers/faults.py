"""Injects faults at numbered points: points that a program reaches are counted, and then each, or some, fail in turn.

A point is a call of a watched function, such as ``os.pread``, or a size that a file reaches while it is written.
``walk`` goes through a scenario once without a fault, to count the points, and then once for each of them.
"""

from __future__ import annotations

import errno
import os
import resource
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest

Fault = Callable[[Callable[..., Any], tuple[Any, ...]], Any]


class Points:
    """Calls of watched functions, counted from 1.

    Args:
        chosen: the call at which the fault comes; 0 for none.
        fault: what to do instead of the call; see ``refuse``.
    """

    def __init__(self, chosen: int = 0, fault: Fault | None = None) -> None:
        self.count, self._chosen, self._fault = 0, chosen, fault

    def watch(self, patch: pytest.MonkeyPatch, owner: object, name: str) -> None:
        """Count the calls of a function while the patch holds."""
        plain = getattr(owner, name)

        def watched(*arguments: Any, **more: Any) -> Any:
            self.count += 1
            if self.count == self._chosen and self._fault is not None:
                return self._fault(lambda *given: plain(*given, **more), arguments)
            return plain(*arguments, **more)

        patch.setattr(owner, name, watched)


def refuse(number: int) -> Fault:
    """Make the call fail with this system error, such as ``errno.EIO``."""

    def fault(_: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        raise OSError(number, os.strerror(number))

    return fault


def give_less(plain: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """Make the call return half of what it should: a short read."""
    given = plain(*arguments)
    return given[: len(given) // 2]


def take_long(plain: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """Make the call slow."""
    time.sleep(0.05)
    return plain(*arguments)


def kill(plain: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """Kill the process at the call."""
    os.kill(os.getpid(), signal.SIGKILL)


FAULTS: dict[str, Fault] = {
    "EIO": refuse(errno.EIO),
    "ENOSPC": refuse(errno.ENOSPC),
    "EINTR": refuse(errno.EINTR),
    "short read": give_less,
    "slow read": take_long,
}


def walk(scenario: Callable[[Points], object], fault: Fault, most: int = 1 << 30) -> Iterator[int]:
    """Go through a scenario once for each of its points, with a fault there; yield the number of each point after it.

    Args:
        scenario: function of the points, which it tells what to watch.
        fault: the fault at each point.
        most: the most points to try, spread evenly over all.
    """
    points = Points()
    scenario(points)
    step = max(points.count // most, 1)
    assert points.count, "nothing was watched"
    for chosen in range(1, points.count + 1, step):
        scenario(Points(chosen, fault))
        yield chosen


def in_child(function: Callable[[], int | None], before: Callable[[], object] = lambda: None) -> int:
    """Call a function in a forked process, and return its exit status.

    Args:
        function: returns the status; None is 0. An error is 1, and a signal n that ends the process is -n.
        before: called in the process before it.
    """
    if not (child := os.fork()):
        try:
            before()
            os._exit(function() or 0)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def killed_beyond(size: int) -> Callable[[], None]:
    """For ``in_child``: the system kills the process if it writes beyond so many bytes of any file."""

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    return limit


def full_beyond(size: int) -> Callable[[], None]:
    """For ``in_child``: no file can grow beyond so many bytes, as on a full disk."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def jumping_clock(patch: pytest.MonkeyPatch, seconds: float) -> None:
    """Make the time of day jump back and forth by so many seconds between calls, while the patch holds."""
    plain, looks = time.time, count()
    patch.setattr(time, "time", lambda: plain() + seconds * (-1) ** next(looks))
