"""After a batch, threads that decode leave the GIL to the training loop for a part of its step."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

import videoloader.runtime.quiet_time as quiet
from videoloader.reading.workers import DecodeWorkers


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A clock that only sleeping, or the test, moves; ``slept`` adds up what was slept, in the thread ``thread``."""
    clock = SimpleNamespace(now=1000.0, slept=0.0, thread=2)

    def sleep(seconds: float) -> None:
        clock.now += seconds
        clock.slept += seconds

    monkeypatch.setattr(quiet, "time", SimpleNamespace(perf_counter=lambda: clock.now, sleep=sleep))
    monkeypatch.setattr(quiet, "threading", SimpleNamespace(get_ident=lambda: clock.thread))
    monkeypatch.setattr(quiet, "_last", clock.now)
    monkeypatch.setattr(quiet, "_until", 0.0)
    return clock


def quiet_after(clock: SimpleNamespace, step: float) -> float:
    """How long a thread waits that comes right after a batch, when the last one came a step before."""
    clock.now += step
    take_a_batch(clock)
    before = clock.slept
    quiet.wait_for_quiet_time()
    return clock.slept - before


def take_a_batch(clock: SimpleNamespace) -> None:
    clock.thread = 1
    quiet.begin_quiet_time()
    clock.thread = 2


def test_nobody_waits_without_a_quiet_time(clock: SimpleNamespace) -> None:
    quiet.wait_for_quiet_time()
    assert clock.slept == 0


def test_a_quiet_time_is_a_part_of_a_step(clock: SimpleNamespace) -> None:
    assert quiet_after(clock, 0.05) == pytest.approx(0.015)
    clock.now -= clock.slept  # as if nobody had waited
    assert quiet_after(clock, 0.01) < 0.01


def test_after_a_long_step_it_is_short_nevertheless(clock: SimpleNamespace) -> None:
    assert quiet_after(clock, 5.0) == pytest.approx(0.03)


def test_who_comes_later_waits_for_the_rest(clock: SimpleNamespace) -> None:
    clock.now += 5
    take_a_batch(clock)
    clock.now += 0.02
    quiet.wait_for_quiet_time()
    assert clock.slept == pytest.approx(0.01)


def test_the_loop_that_took_the_batch_does_not_wait(clock: SimpleNamespace) -> None:
    clock.now += 5
    take_a_batch(clock)
    clock.thread = 1
    quiet.wait_for_quiet_time()
    assert clock.slept == 0


def test_a_second_loader_does_not_end_the_time_of_the_first(clock: SimpleNamespace) -> None:
    clock.now += 5
    take_a_batch(clock)
    take_a_batch(clock)
    quiet.wait_for_quiet_time()
    assert clock.slept == pytest.approx(0.03)


@pytest.mark.parametrize(("device", "ready", "begins"), [("cuda", 2, True), ("cuda", 1, False), ("cpu", 4, False)])
def test_only_a_loader_with_a_batch_in_store_is_quiet(
    monkeypatch: pytest.MonkeyPatch, device: str, ready: int, begins: bool
) -> None:
    begun: list[None] = []
    monkeypatch.setattr("videoloader.reading.workers.begin_quiet_time", lambda: begun.append(None))
    workers = DecodeWorkers(torch.device(device, 0), num_workers=1, cpu_workers=0, num_processes=0)
    workers.set_pace(ready, 4)
    workers.close()
    assert bool(begun) == begins
