"""Conditions and futures whose locks no exception of a signal's handler leaves locked."""

# mypy: ignore-errors
from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from concurrent import futures
from concurrent.futures import Future
from itertools import count

import pytest
from waiting import PATIENCE

from videoloader.indexing.sources.directory_cache import DirectoryCache
from videoloader.runtime.condition import Condition
from videoloader.runtime.threads import Outcome, executor_of, wait_for_all


class Interrupt(Exception):
    """As a signal's handler raises it."""


def interrupted(call: Callable[[], object], at: int) -> bool:
    """Call a function; raise Interrupt where Python runs handlers of signals for the ``at``-th time, if it does.

    That is when a function begins or returns, and when one that is written in C has returned.
    """
    left = at

    def look(frame, event, argument) -> None:
        nonlocal left
        if event != "c_call":
            left -= 1
            if left == 0:
                sys.setprofile(None)
                raise Interrupt

    sys.setprofile(look)
    try:
        call()
    except Interrupt:
        return True
    finally:
        sys.setprofile(None)
    return False


def is_free(condition: Condition) -> bool:
    """Whether another thread can take a condition's lock."""
    taken: list[bool] = []

    def take() -> None:
        if taken.append(condition.acquire(timeout=5)) or taken[0]:
            condition.release()

    thread = threading.Thread(target=take)
    thread.start()
    thread.join(PATIENCE)
    return taken == [True]


def done_later() -> Future[int]:
    """A future to which another thread gives a result."""
    future: Future[int] = Outcome()
    threading.Timer(0.002, future.set_result, [1]).start()
    return future


def not_in_time(future: Future[int]) -> None:
    with pytest.raises(futures.TimeoutError):
        future.exception(0.001)


USES: dict[str, tuple[Callable[[], Future[int]], Callable[[Future[int]], object]]] = {
    "done": (Outcome, Future.done),
    "cancel": (Outcome, Future.cancel),
    "set_result": (Outcome, lambda future: future.set_result(1)),
    "set_exception": (Outcome, lambda future: future.set_exception(ValueError())),
    "result": (done_later, lambda future: future.result(PATIENCE)),
    "exception": (done_later, lambda future: future.exception(PATIENCE)),
    "a result that is late": (Outcome, not_in_time),
    "wait_for_all": (done_later, lambda future: wait_for_all([future])),
    "add_done_callback": (Outcome, lambda future: future.add_done_callback(id)),
}


@pytest.mark.parametrize(("make", "use"), USES.values(), ids=USES)
def test_no_interruption_leaves_a_future_locked(make, use) -> None:
    for at in count(1):
        future = make()
        was = interrupted(lambda future=future: use(future), at)
        assert is_free(future._condition), f"locked after interruption {at}"
        if not was:
            break
    assert at > 2


@pytest.mark.parametrize("lent", [True, False])
def test_no_interruption_leaves_an_executor_locked(lent: bool) -> None:
    with executor_of(1, "test-of-locks", lent=lent) as pool:
        pool.submit(int).result(PATIENCE)  # starts the thread
        for at in count(1):
            was = interrupted(lambda: pool.submit(int), at)
            assert pool.submit(int).result(PATIENCE) == 0
            if not was:
                break
    assert at > 5


def test_no_interruption_makes_the_next_one_wait_for_a_directory() -> None:
    for at in count(1):
        cache: DirectoryCache[list[int]] = DirectoryCache(100)
        was = interrupted(lambda cache=cache: cache.get("a", lambda: [1]), at)
        got: list[list[int]] = [cache.get("a", lambda: [2])]
        thread = threading.Thread(target=lambda cache=cache, got=got: got.append(cache.get("a", lambda: [3])))
        thread.start()
        thread.join(PATIENCE)
        assert got in ([[1], [1]], [[2], [2]])
        if not was:
            break
    assert at > 10
