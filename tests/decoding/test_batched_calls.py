"""What threads ask for together is done together, and each gets the answer to its own question."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from videoloader.decoding.batched_calls import BatchedCalls


@given(st.lists(st.lists(st.integers(), min_size=1, max_size=5), min_size=1, max_size=20), st.integers(1, 8))
def test_each_call_gets_its_own_results(calls: list[list[int]], most: int) -> None:
    batches: list[int] = []

    def squares(numbers: list[int]) -> list[int]:
        batches.append(len(numbers))
        return [number * number for number in numbers]

    together = BatchedCalls(squares, most)
    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(together, calls)) == [[number * number for number in call] for call in calls]
    assert sum(batches) == sum(map(len, calls))
    assert max(batches) <= max(most, *map(len, calls))


def test_what_waits_meanwhile_is_the_next_batch() -> None:
    started, all_wait = threading.Event(), threading.Event()
    batches: list[int] = []

    def slow(numbers: list[int]) -> list[int]:
        batches.append(len(numbers))
        started.set()
        assert all_wait.wait(10)
        return numbers

    together = BatchedCalls(slow, 64)
    with ThreadPoolExecutor(9) as pool:
        first = pool.submit(together, [0])
        assert started.wait(10)
        others = [pool.submit(together, [number]) for number in range(1, 9)]
        while len(together._waiting) < 8:
            pass
        all_wait.set()
        assert [call.result(10) for call in [first, *others]] == [[number] for number in range(9)]
    assert batches == [1, 8]


def test_an_error_is_that_of_all_calls_in_its_batch_and_no_others() -> None:
    def refuse_odd(numbers: list[int]) -> list[int]:
        if any(number % 2 for number in numbers):
            raise ValueError("odd")
        return numbers

    together = BatchedCalls(refuse_odd, 1)
    with pytest.raises(ValueError, match="odd"):
        together([1])
    assert together([2]) == [2]
