"""What remains of a loader that is closed or no longer referenced."""

from __future__ import annotations

import gc
import threading
import weakref

import pytest
from stopped_loaders import all_idle, at_line, clips_of, failing_with, make, own_threads
from waiting import becomes

import videoloader as vl
from videoloader.interop.torch import ClipRequest, DecodingLoader


@pytest.mark.parametrize("end", ["whole", "left", "failed", "never begun"])
def test_loaders_one_after_the_other_have_the_same_threads(data: vl.VideoDataset, end: str) -> None:
    before = own_threads()
    for _ in range(3):
        transforms = [vl.PythonFunction(failing_with(2))] if end == "failed" else []
        loader = make(data, transforms=transforms)
        loop = iter(loader)
        if end == "whole":
            list(loop)
        elif end == "left":
            next(loop)
        elif end == "failed":
            with pytest.raises(ZeroDivisionError):
                next(loop)
        gone = weakref.ref(loader)
        del loop, loader
        gc.collect()
        assert gone() is None
        assert becomes(all_idle)
    assert len(own_threads() - before) <= 4, "two that decode, one that plans, one that finishes batches"


@pytest.mark.parametrize("taken", [0, 1, 6])
@pytest.mark.parametrize("workers", [0, 2])
def test_a_closed_loader_needs_no_threads_and_has_no_more_batches(
    data: vl.VideoDataset, taken: int, workers: int
) -> None:
    with make(data, num_workers=workers) as loader:
        loop = iter(loader)
        first = clips_of([next(loop) for _ in range(taken)])
        state = loader.state_dict()
    assert becomes(all_idle)
    loader.close()
    for closed in (loop, iter(loader)):
        with pytest.raises(vl.ConfigurationError, match="the loader is closed: make another one"):
            next(closed)
    assert loader.state_dict() == state
    with make(data) as other:
        other.load_state_dict(state)
        assert first + clips_of(list(other)) == [*range(12)] * (2 if taken == 6 else 1)


def test_a_loader_that_another_thread_closes_ends_the_loop_that_waits(
    data: vl.VideoDataset, gate: threading.Event
) -> None:
    loader = make(data)
    loop = iter(loader)
    next(loop)
    gate.clear()

    def close() -> None:
        threading.Timer(0.2, gate.set).start()
        loader.close()

    closing = threading.Timer(0.1, close)
    closing.start()
    with pytest.raises(vl.ConfigurationError, match="the loader is closed"):
        list(loop)
    closing.join()


@pytest.mark.parametrize("kind", ["VideoLoader", "DecodingLoader"])
@pytest.mark.parametrize("begun", [0, 1])
def test_a_loader_that_is_closed_at_any_line_of_a_loop_ends_it_with_its_own_error(
    data: vl.VideoDataset, kind: str, begun: int
) -> None:
    """Here another thread closes it between two lines of the consumer's thread, at every third of them."""
    for chosen in range(1, 10_000, 3):
        if kind == "VideoLoader":
            loader: vl.VideoLoader | DecodingLoader = make(data, prefetch=1)
        else:
            requests = [[ClipRequest(entry.path, [number])] for number, entry in enumerate(data)]
            loader = DecodingLoader(requests, device="cpu", num_workers=2, prefetch=1)
        closing = threading.Thread(target=loader.close)
        loop = iter(loader)
        for _ in range(begun):
            next(loop)
        told = ""
        with at_line(chosen, closing.start) as reached:
            try:
                next(loop)
            except vl.ConfigurationError as error:
                told = str(error)
        if not reached:
            break
        assert told in ("", "the loader is closed: make another one")
        closing.join()
        with pytest.raises((vl.ConfigurationError, StopIteration)):
            next(loop)
        assert becomes(all_idle)
    assert chosen > 30


@pytest.mark.parametrize("workers", [0, 2])
def test_a_closed_decoding_loader_has_no_more_batches(data: vl.VideoDataset, workers: int) -> None:
    with DecodingLoader([[ClipRequest(data[0].path, [3])]] * 4, device="cpu", num_workers=workers) as loader:
        loop = iter(loader)
        next(loop)
    for closed in (loop, iter(loader)):
        with pytest.raises(vl.ConfigurationError, match="the loader is closed: make another one"):
            next(closed)
    assert loader.state_dict()["batches"] == 1
