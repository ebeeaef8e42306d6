"""A queue of work in the making: started ahead, and given up when its loop is left."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

import pytest

from videoloader.batching.account import LoaderAccount
from videoloader.batching.prefetch import BatchGroups, give_out
from videoloader.errors import ConfigurationError
from videoloader.reading.cancellation import CancelToken, ReadCancelled


class Number(int):
    """A batch that is made when its work says so."""

    work: Work

    def is_made(self) -> bool:
        return self in self.work.made

    def drop(self) -> None:
        self.work.given_up.append(self)


Finish = Callable[[deque[Number]], list[int]]


class Work:
    """Numbers that are begun some at a time, and what became of them."""

    def __init__(self, numbers: int, at_once: int = 1) -> None:
        self.numbers, self.at_once = numbers, at_once
        self.begun: list[int] = []
        self.given_up: list[int] = []
        self.made: set[int] = set()
        self.paces: list[tuple[int, int]] = []

    def number(self, value: int) -> Number:
        number = Number(value)
        number.work = self
        return number

    def begin(self) -> Iterator[list[Number]]:
        for first in range(0, self.numbers, self.at_once):
            some = [self.number(value) for value in range(first, min(first + self.at_once, self.numbers))]
            self.begun += some
            yield some

    def loop(self, most: int, token: CancelToken, finish: Finish = lambda queue: [queue.popleft()]) -> Iterator[int]:
        def has_room(queue: deque[Number]) -> bool:
            return len(queue) + self.at_once <= most

        def set_pace(ready: int, asked_for: int) -> None:
            self.paces.append((ready, asked_for))

        return give_out(self.begin(), has_room, finish, set_pace, LoaderAccount(), token)


@pytest.mark.parametrize(("at_once", "most"), [(1, 1), (1, 4), (3, 6), (5, 2)])
def test_all_come_in_order_and_no_more_than_asked_for_are_begun(at_once: int, most: int) -> None:
    work = Work(11, at_once)

    def finish(queue: deque[Number]) -> list[int]:
        assert len(queue) <= max(at_once, most)
        return [queue.popleft()]

    assert list(work.loop(most, CancelToken(), finish)) == work.begun == list(range(11))
    assert not work.given_up


def test_a_group_of_batches_begins_as_soon_as_the_queue_has_room_for_it() -> None:
    work, begun = Work(0), []

    def begin(batches: range) -> list[Number]:
        begun.append(batches)
        return list(map(work.number, batches))

    sizes = (3, 2, 1, 3, 1)
    bounds = [sum(sizes[:place]) for place in range(len(sizes) + 1)]
    groups = BatchGroups(map(range, bounds, bounds[1:]), begin, 4)
    queue: deque[Number] = deque()
    told = []
    while queue or groups.has_room(queue):
        while groups.has_room(queue):
            queue += next(groups)
        told.append((len(begun), len(queue)))
        queue.popleft()
    assert told == [(2, 5), (3, 5), (3, 4), (3, 3), (4, 5), (5, 5), (5, 4), (5, 3), (5, 2), (5, 1)]
    assert begun == list(map(range, bounds, bounds[1:]))
    assert not list(groups)


def test_batches_count_as_ready_once_the_loop_has_not_waited_for_a_whole_queue() -> None:
    work = Work(20)
    work.made.update(range(12))
    assert len(list(work.loop(3, CancelToken()))) == 20
    assert work.paces[:4] == [(0, 1)] + [(0, 3)] * 3, "they may have been planned together"
    assert work.paces[4:11] == [(2, 3)] * 7, "the third is begun next"
    assert work.paces[11:13] == [(1, 3), (0, 3)]
    assert work.paces[13:] == [(0, 3)] * 6 + [(0, 2), (0, 1)]


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
        def begin(self) -> Iterator[list[Number]]:
            yield [self.number(1), self.number(2)]
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

    def finish(queue: deque[Number]) -> list[int]:
        token.cancel()
        raise ReadCancelled

    loop = Work(3).loop(2, token, finish)
    with pytest.raises(ConfigurationError, match="main thread has ended" if exits else "make a loader for each"):
        next(loop)
