"""A queue of work in the making: started ahead, and given up when its loop is left."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

import pytest

from videoloader.batching.account import LoaderAccount
from videoloader.batching.prefetch import give_out
from videoloader.errors import ConfigurationError
from videoloader.reading.cancellation import CancelToken, ReadCancelled

Finish = Callable[[deque[int]], list[int]]


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

    def loop(self, most: int, token: CancelToken, finish: Finish = lambda queue: [queue.popleft()]) -> Iterator[int]:
        def has_room(queue: deque[int]) -> bool:
            return len(queue) + self.at_once <= most

        return give_out(self.begin(), has_room, self.given_up.append, finish, LoaderAccount(), token)


@pytest.mark.parametrize(("at_once", "most"), [(1, 1), (1, 4), (3, 6), (5, 2)])
def test_all_come_in_order_and_no_more_than_asked_for_are_begun(at_once: int, most: int) -> None:
    work = Work(11, at_once)

    def finish(queue: deque[int]) -> list[int]:
        assert len(queue) <= max(at_once, most)
        return [queue.popleft()]

    assert list(work.loop(most, CancelToken(), finish)) == work.begun == list(range(11))
    assert not work.given_up


def test_nothing_is_given_out_where_nothing_is_begun() -> None:
    assert not list(Work(0).loop(4, CancelToken()))


def test_what_is_in_the_making_is_given_up_when_the_loop_is_left() -> None:
    work = Work(11)
    loop = work.loop(4, CancelToken())
    assert [next(loop), next(loop)] == [0, 1]
    loop.close()  # type: ignore[attr-defined]
    assert work.begun == [0, 1, 2, 3, 4]
    assert work.given_up == [2, 3, 4]


def test_an_error_at_the_beginning_of_one_gives_up_those_before_it() -> None:
    class Fails(Work):
        def begin(self) -> Iterator[list[int]]:
            yield [1, 2]
            raise KeyError("the third")

    work = Fails(3)
    with pytest.raises(KeyError, match="the third"):
        next(work.loop(9, CancelToken()))
    assert work.given_up == [1, 2]


def test_a_fork_gives_nothing_up_that_is_its_parents(monkeypatch: pytest.MonkeyPatch) -> None:
    work, token = Work(11), CancelToken()
    loop = work.loop(4, token)
    assert next(loop) == 0
    monkeypatch.setattr(token, "_process", -1)  # as in a child
    with pytest.raises(ConfigurationError, match="before the process was forked"):
        next(loop)
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

    loop = Work(3).loop(2, token, finish)
    with pytest.raises(
        ReadCancelled if exits else ConfigurationError, match=None if exits else "make a loader for each"
    ):
        next(loop)
