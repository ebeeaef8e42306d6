"""A queue of work in the making: started ahead, and given up when its loop is left."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import pytest

from videoloader.batching.account import LoaderAccount
from videoloader.batching.prefetch import batches_ahead, give_out
from videoloader.errors import ConfigurationError
from videoloader.reading.cancellation import CancelToken, ReadCancelled


class Work:
    """Numbers that are begun some at a time, and what became of them."""

    def __init__(self, numbers: int, at_once: int = 1) -> None:
        self.numbers, self.at_once = numbers, at_once
        self.begun: list[int] = []
        self.given_up: list[int] = []

    def begin(self) -> Iterator[list[int]]:
        for first in range(0, self.numbers, self.at_once):
            some = list(range(first, min(first + self.at_once, self.numbers)))
            self.begun += some
            yield some

    def ahead(self, most: int, token: CancelToken) -> Iterator[deque[int]]:
        return batches_ahead(self.begin(), lambda queue: len(queue) + self.at_once <= most, self.given_up.append, token)


@pytest.mark.parametrize(("at_once", "most"), [(1, 1), (1, 4), (3, 6), (5, 2)])
def test_all_come_in_order_and_no_more_than_asked_for_are_begun(at_once: int, most: int) -> None:
    work, seen = Work(11, at_once), []
    for queue in work.ahead(most, CancelToken()):
        assert len(queue) <= max(at_once, most)
        seen.append(queue.popleft())
    assert seen == work.begun == list(range(11))
    assert not work.given_up


def test_nothing_is_given_out_where_nothing_is_begun() -> None:
    assert not list(Work(0).ahead(4, CancelToken()))


def test_what_is_in_the_making_is_given_up_when_the_loop_is_left() -> None:
    work = Work(11)
    loop = work.ahead(4, CancelToken())
    next(loop).popleft()
    assert list(next(loop)) == [1, 2, 3, 4]
    loop.close()  # type: ignore[attr-defined]
    assert work.given_up == [1, 2, 3, 4]


def test_an_error_at_the_beginning_of_one_gives_up_those_before_it() -> None:
    def begin() -> Iterator[list[int]]:
        yield [1, 2]
        raise KeyError("the third")

    given_up: list[int] = []
    with pytest.raises(KeyError, match="the third"):
        next(batches_ahead(begin(), lambda queue: len(queue) < 9, given_up.append, CancelToken()))
    assert given_up == [1, 2]


def test_a_fork_gives_nothing_up_that_is_its_parents(monkeypatch: pytest.MonkeyPatch) -> None:
    work, token = Work(11), CancelToken()
    queues = work.ahead(4, token)
    next(queues).popleft()
    monkeypatch.setattr(token, "_process", -1)  # as in a child
    with pytest.raises(ConfigurationError, match="before the process was forked"):
        next(queues)
    assert not work.given_up


@pytest.mark.parametrize("exits", [False, True])
def test_a_loop_that_waits_while_another_begins_in_another_thread_says_so(
    exits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = CancelToken()
    monkeypatch.setattr(token, "_interpreter_exits", exits)

    def finish(queue: deque[int]) -> list[int]:
        token.cancel()
        raise ReadCancelled

    loop = give_out(Work(3).ahead(2, token), finish, LoaderAccount(), token)
    with pytest.raises(
        ReadCancelled if exits else ConfigurationError, match=None if exits else "make a loader for each"
    ):
        next(loop)
