"""Lent threads: they belong to the process, are limited per executor, and are returned."""

from __future__ import annotations

import threading
import weakref
from concurrent.futures import wait
from typing import Any

import pytest
from waiting import becomes

from videoloader.errors import ConfigurationError, VideoLoaderError
from videoloader.runtime import threads
from videoloader.runtime.threads import AtOnce, LentThreads, Outcome, executor_of


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name that no other test's threads have."""
    return f"of-{request.node.name}"


def alive(name: str) -> int:
    return sum(thread.name.startswith(name) for thread in threading.enumerate())


def test_calls_of_one_thread_keep_their_order(name: str) -> None:
    one, done = LentThreads(1, name), []
    wait([one.submit(done.append, number) for number in range(1000)])
    assert done == list(range(1000))
    assert alive(name) == 1


def test_no_more_threads_work_at_once_than_may(name: str) -> None:
    executor, lock, counts, working = LentThreads(3, name), threading.Lock(), [], set()

    def work(_: int) -> None:
        with lock:
            working.add(threading.get_ident())
            counts.append(len(working))
        threading.Event().wait(0.0005)
        with lock:
            working.discard(threading.get_ident())

    list(executor.map(work, range(300)))
    assert max(counts) == alive(name) == 3


def test_one_executor_after_the_other_has_the_same_threads(name: str) -> None:
    for _ in range(20):
        with LentThreads(2, name) as executor:
            assert list(executor.map(abs, [-1, -2, -3])) == [1, 2, 3]
    assert alive(name) <= 2


def test_threads_end_that_nobody_has_needed_for_a_while(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with LentThreads(3, name) as executor:
        meeting = threading.Barrier(3)
        wait([executor.submit(meeting.wait, 20) for _ in range(3)])
        assert becomes(lambda: len(threads._idle[name]) == 3)
        executor.submit(abs, -1).result()
        assert alive(name) == 3
        monkeypatch.setattr(threads, "_SECONDS_IDLE", -1)
        assert becomes(lambda: executor.submit(abs, -1).result() and alive(name) <= 1)
        assert executor.submit(abs, -2).result() == 2


def test_errors_are_the_futures(name: str) -> None:
    executor = LentThreads(1, name)
    with pytest.raises(ZeroDivisionError):
        executor.submit(lambda: 1 // 0).result()
    with pytest.raises(KeyboardInterrupt):
        executor.submit(_interrupt).result()
    assert executor.submit(abs, -1).result() == 1


def test_an_error_of_a_signal_s_handler_is_the_caller_s(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Outcome.set_result

    def set_result(self: Outcome[int], result: int) -> None:
        plain(self, result)
        raise TimeoutError  # as a handler does whose signal comes now

    monkeypatch.setattr(Outcome, "set_result", set_result)
    with pytest.raises(TimeoutError):
        AtOnce().submit(abs, -1)


def test_own_threads_say_that_the_program_ends(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    executor = threads.executor_of(1, name, lent=False)
    executor.shutdown()
    with pytest.raises(RuntimeError, match="after shutdown"):
        executor.submit(abs, -1)
    monkeypatch.setattr(threads, "_process_ends", True)
    with pytest.raises(ConfigurationError, match="the main thread has ended"):
        executor.submit(abs, -1)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def test_shutting_down_waits_and_then_nothing_is_taken(name: str) -> None:
    executor, gate, done = LentThreads(1, name), threading.Event(), []
    for number in range(3):
        executor.submit(lambda number=number: (gate.wait(), done.append(number)))
    threading.Timer(0.05, gate.set).start()
    executor.shutdown()
    assert done == [0, 1, 2]
    with pytest.raises(RuntimeError, match="after shutdown"):
        executor.submit(done.append, 3)
    executor.shutdown()
    assert done == [0, 1, 2]


def test_a_thread_that_shuts_its_own_executor_down_does_not_wait_for_itself(name: str) -> None:
    executor = LentThreads(1, name)
    executor.submit(executor.shutdown).result()


def test_whatever_is_submitted_while_another_thread_shuts_down_is_done_or_refused(name: str) -> None:
    for _ in range(100):
        executor, futures, refused = LentThreads(1, name), [], threading.Event()

        def submit(executor: LentThreads = executor, futures=futures, refused=refused) -> None:
            try:
                while True:
                    futures.append(executor.submit(abs, -1))
            except RuntimeError:
                refused.set()

        thread = threading.Thread(target=submit)
        thread.start()
        assert becomes(lambda futures=futures: len(futures) > 3)
        executor.shutdown()
        thread.join()
        assert refused.is_set()
        assert {future.result(20) for future in futures} == {1}


def test_an_executor_goes_although_its_threads_stay(name: str) -> None:
    executor = LentThreads(1, name)
    executor.submit(abs, -1).result()
    gone = weakref.ref(executor)
    del executor
    assert becomes(lambda: gone() is None)
    assert alive(name) == 1


@pytest.mark.parametrize("began", [True, False])
def test_a_ctrl_c_while_a_thread_is_asked_for_loses_none(
    name: str, monkeypatch: pytest.MonkeyPatch, began: bool
) -> None:
    plain, interrupted = threads._lend, []

    def lend(*arguments: Any) -> str | None:
        refused = plain(*arguments) if began or interrupted else None
        if not interrupted:
            interrupted.append(name)
            raise KeyboardInterrupt
        return refused

    executor, done = LentThreads(1, name), []
    with monkeypatch.context() as patch:
        patch.setattr(threads, "_lend", lend)
        with pytest.raises(KeyboardInterrupt):
            executor.submit(done.append, 0)
    wait([executor.submit(done.append, number) for number in range(1, 50)])
    assert done == list(range(50))
    executor.shutdown()


@pytest.mark.parametrize(("most", "lent"), [(0, True), (1, True), (1, False)])
def test_an_error_that_is_false_is_raised(most: int, lent: bool, name: str) -> None:
    class Problems(Exception):
        def __bool__(self) -> bool:
            raise ValueError("nobody asks")

    def fail(_: int) -> None:
        raise Problems

    with threads.executor_of(most, name, lent=lent) as executor:
        with pytest.raises(Problems):
            executor.submit(fail, 0).result()
        with pytest.raises(Problems):
            list(executor.map(fail, range(2)))


@pytest.mark.parametrize("startable", [0, 1, 2])
def test_an_executor_of_its_own_threads_does_with_those_that_start(
    name: str, monkeypatch: pytest.MonkeyPatch, startable: int
) -> None:
    start, started = threading.Thread.start, []

    def start_some(thread: threading.Thread) -> None:
        if thread.name == name:  # the first one of a process starts others for the main thread
            if len(started) == startable:
                raise RuntimeError("can't start new thread")
            started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_some)
    with executor_of(3, name, lent=False) as executor:
        if startable:
            assert list(executor.map(abs, range(-20, 0))) == list(range(20, 0, -1))
        else:
            with pytest.raises(VideoLoaderError, match=r"no thread can be started \(can't start new thread\)"):
                executor.submit(abs, -1)


@pytest.mark.parametrize("lent", [True, False])
def test_where_no_thread_starts_no_call_of_another_thread_is_lost(
    name: str, monkeypatch: pytest.MonkeyPatch, lent: bool
) -> None:
    """A call may rely on the thread that another call starts, which the system refuses."""
    mine = [threading.Thread(target=lambda: outcomes.append(outcome())) for _ in range(4)]
    start, outcomes = threading.Thread.start, list[set[str]]()

    def refuse(thread: threading.Thread) -> None:
        if thread in mine:
            return start(thread)
        threading.Event().wait(0.0005)  # in which others submit calls, too
        raise RuntimeError("can't start new thread")

    def outcome() -> set[str]:
        told = set[str]()
        for _ in range(100):
            try:
                executor.submit(abs, -1).result(20)
            except VideoLoaderError as error:
                told.add(str(error))
        return told

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with executor_of(2, name, lent=lent) as executor:
        for each in mine:
            each.start()
        for each in mine:
            each.join()
        refused = "no thread can be started (can't start new thread): loaders with num_workers=0 need none"
        assert outcomes == [{refused}] * 4
        monkeypatch.undo()
        assert executor.submit(abs, -2).result(20) == 2


def test_calls_that_need_no_threads_are_made_where_none_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with executor_of(3, "test-of-refusals", lent=False, needed=False) as executor:
        monkeypatch.setattr(threading.Thread, "start", refuse)
        made = [executor.submit(threading.get_ident) for _ in range(5)]
        monkeypatch.undo()
        assert {each.result(20) for each in made} == {threading.get_ident()}
        assert executor.submit(threading.get_ident).result(20) != threading.get_ident()
