"""How a loop over a loader ends: left early, by an error anywhere, by Ctrl-C, with the interpreter, by another loop."""

from __future__ import annotations

import gc
import linecache
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
import torch
from child_environment import child_environment
from sample_videos import RECIPES, Recipe, write_video
from waiting import PATIENCE, becomes

import videoloader as vl
from videoloader.decoding import cpu
from videoloader.interop.torch import ClipRequest, DecodingLoader

Sample = Callable[[str], Path]
OWN_THREADS = ("videoloader-decode", "videoloader-plan", "videoloader-batch")


@pytest.fixture(autouse=True)
def hears_ctrl_c() -> Iterator[None]:
    """Here and in programs started from here: a shell's background jobs, and what they start, have it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="module")
def data(sample: Sample) -> vl.VideoDataset:
    return vl.VideoDataset.from_paths([sample(name) for name in ("h264_mp4", "hevc_mp4", "vp9_webm")] * 4)


def make(data: vl.VideoDataset, **settings: object) -> vl.VideoLoader:
    defaults = {"batch_size": 2, "device": "cpu", "num_workers": 2, "prefetch": 3}
    return vl.VideoLoader(data, vl.RandomWindow(2, stride=5), **(defaults | settings))


def clips_of(batches: list[vl.Batch]) -> list[int]:
    return [clip for batch in batches for clip in batch.clips.tolist()]


def own_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith(OWN_THREADS)}


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """While it is closed decoders stand still in the middle of a clip."""
    gate, plain = threading.Event(), cpu.make_packet
    gate.set()

    def behind_gate(*arguments: Any) -> object:
        gate.wait(PATIENCE)
        return plain(*arguments)

    monkeypatch.setattr(cpu, "make_packet", behind_gate)
    yield gate
    gate.set()


@pytest.mark.parametrize("taken", [1, 3])
def test_a_loop_that_is_left_ends_all_its_work(data: vl.VideoDataset, taken: int, monkeypatch) -> None:
    fed = []
    plain = cpu.make_packet
    monkeypatch.setattr(cpu, "make_packet", lambda *arguments: (time.sleep(0.002), fed.append(0), plain(*arguments))[2])
    loader = make(data, prefetch=5)
    for number, _ in enumerate(loader, 1):
        if number == taken:
            break
    decoded = len(fed)
    time.sleep(0.1)
    assert len(fed) == decoded
    assert loader.state_dict()["epoch"] == 0
    assert clips_of(list(loader)) == list(range(12))


def test_a_clip_in_the_middle_of_its_decoding_is_not_decoded_to_its_end(
    sample: Sample, gate: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    fed = []
    plain = cpu.make_packet
    monkeypatch.setattr(cpu, "make_packet", lambda *arguments: (fed.append(0), plain(*arguments))[1])
    videos = vl.VideoDataset.from_paths([sample("h264_mp4")] * 8)
    loader = vl.VideoLoader(videos, vl.WholeVideo(), batch_size=1, device="cpu", num_workers=1, prefetch=7)
    loop = iter(loader)
    next(loop)
    assert becomes(lambda: len(fed) > 60)
    gate.clear()
    begun = len(fed)
    threading.Timer(0.2, gate.set).start()
    loop.close()
    assert len(fed) <= begun + 1
    assert len(fed) < 8 * 60


class ConsumerError(Exception):
    pass


def test_an_error_of_the_consumer_is_like_leaving(data: vl.VideoDataset) -> None:
    loader, whole = make(data), list(make(data))
    with pytest.raises(ConsumerError):  # noqa: PT012
        for _ in loader:
            raise ConsumerError
    resumed = make(data)
    resumed.load_state_dict(loader.state_dict())
    assert clips_of(list(resumed)) == clips_of(whole[1:])
    assert clips_of(list(loader)) == list(range(12))


def failing_with(mark: int) -> Callable[[object], object]:
    """A transform that fails for the clip whose last frame has this number, and only once."""
    left = [mark]

    def fail(frames: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        if left and frames.shape[0] == left[0]:
            left.clear()
            raise ZeroDivisionError("in a transform")
        return frames

    return fail


def lengths(paths: list[Path]) -> vl.VideoDataset:
    """A clip of 1, 2, 3 … frames of each video."""
    return vl.VideoDataset([vl.VideoEntry(str(path), start=0, stop=number) for number, path in enumerate(paths, 1)])


@pytest.mark.parametrize("kind", ["function", "module"])
def test_after_an_error_in_a_transform_the_state_is_that_before_its_batch(data: vl.VideoDataset, kind: str) -> None:
    rows = lengths([Path(entry.path) for entry in data])
    fail = failing_with(7)
    transform = vl.PythonFunction(fail) if kind == "function" else vl.Module(lambda clip: fail(clip, None), view="clip")
    settings = {"batch_size": 2, "device": "cpu", "num_workers": 2, "collate": "list"}
    loader = vl.VideoLoader(rows, vl.WholeVideo(), transforms=[transform], **settings)
    seen = []
    with pytest.raises(ZeroDivisionError, match="in a transform"):  # noqa: PT012
        for batch in loader:
            seen += batch.clips.tolist()
    assert seen == [0, 1, 2, 3, 4, 5]
    state = loader.state_dict()
    assert clips_of(list(loader)) == list(range(12)), "a new loop is the next epoch"
    loader.load_state_dict(state)
    assert clips_of(list(loader)) == list(range(6, 12)), "the batch that failed is made again"


def test_an_error_in_the_first_batch_leaves_the_loader_as_it_was(data: vl.VideoDataset) -> None:
    loader = make(data, transforms=[vl.PythonFunction(failing_with(2))])
    with pytest.raises(ZeroDivisionError):
        next(iter(loader))
    assert loader.state_dict()["epoch"] == 0
    assert clips_of(list(loader)) == list(range(12))
    assert loader.state_dict()["epoch"] == 1


def test_an_error_while_planning_comes_after_the_batches_before_it(data: vl.VideoDataset, tmp_path: Path) -> None:
    small = write_video(tmp_path / "small.mp4", Recipe("mp4", "libx264", RECIPES["h264_mp4"].options, size=(96, 64)))
    paths = [entry.path for entry in data]
    mixed = vl.VideoDataset.from_paths([*paths[:6], small, *paths[6:]])
    loader = make(mixed)
    for _ in range(2):
        seen = []
        with pytest.raises(vl.ConfigurationError, match="Resize"):  # noqa: PT012
            for batch in loader:
                seen += batch.clips.tolist()
        assert seen == [0, 1, 2, 3, 4, 5]
    resumed = make(mixed, transforms=[vl.Resize((32, 32))])
    resumed.load_state_dict(loader.state_dict())
    assert clips_of(list(resumed)) == list(range(6, 13))


def test_two_loaders_do_not_know_of_each_other(data: vl.VideoDataset) -> None:
    one, other = make(data), make(data, shuffle=True, seed=1)
    alone = clips_of(list(make(data, shuffle=True, seed=1)))
    for batch in one:
        assert clips_of(list(other)) == alone
        other.set_epoch(0)
        last = batch
    assert last.clips.tolist() == [10, 11]
    assert [clips_of([a]) for a, _ in zip(one, other, strict=True)] == [[i, i + 1] for i in range(0, 12, 2)]


def test_another_loop_over_a_loader_ends_the_one_before(data: vl.VideoDataset) -> None:
    loader = make(data)
    older = iter(loader)
    next(older)
    newer = iter(loader)
    assert next(newer).clips.tolist() == [0, 1]
    assert loader.state_dict()["epoch"] == 1, "the older loop's epoch ended with it"
    with pytest.raises(vl.ConfigurationError, match="another loop"):
        next(older)
    assert clips_of(list(newer)) == list(range(2, 12))
    assert loader.state_dict()["epoch"] == 2


def test_an_abandoned_loop_that_is_collected_late_changes_nothing(data: vl.VideoDataset) -> None:
    loader = make(data)
    older = iter(loader)
    next(older)
    for _ in loader:
        break
    state = loader.state_dict()
    del older
    gc.collect()
    assert loader.state_dict() == state
    list(loader)
    assert loader.state_dict()["epoch"] == 3


def test_an_epoch_set_within_a_loop_is_the_next_one(data: vl.VideoDataset) -> None:
    loader = make(data)
    for _ in loader:
        loader.set_epoch(7)
    assert loader.state_dict() == make_state(data, 7)


def make_state(data: vl.VideoDataset, epoch: int) -> dict[str, object]:
    loader = make(data)
    loader.set_epoch(epoch)
    return loader.state_dict()


@pytest.mark.parametrize("end", ["whole", "left", "failed", "never begun"])
def test_threads_end_with_their_loader(data: vl.VideoDataset, end: str) -> None:
    before = own_threads()
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
    del loop, loader
    gc.collect()
    assert becomes(lambda: own_threads() <= before)


@pytest.mark.parametrize("taken", [0, 1, 6])
@pytest.mark.parametrize("workers", [0, 2])
def test_a_closed_loader_has_no_threads_and_no_more_batches(data: vl.VideoDataset, taken: int, workers: int) -> None:
    before = own_threads()
    with make(data, num_workers=workers) as loader:
        loop = iter(loader)
        first = clips_of([next(loop) for _ in range(taken)])
        state = loader.state_dict()
    assert becomes(lambda: own_threads() <= before)
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


# --- programs of their own ---------------------------------------------------------------------------------------

PREPARE = """
import itertools, sys, time
import videoloader as vl
from videoloader.decoding import cpu
from videoloader.interop.torch import ClipRequest, DecodingLoader

fast, seconds = cpu.make_packet, 0.01
def slow(*arguments):
    time.sleep(seconds)
    return fast(*arguments)
cpu.make_packet = slow

path = sys.argv[1]
settings = dict(device="cpu", num_workers=2, prefetch=50)
if sys.argv[2] == "VideoLoader":
    videos = vl.VideoDataset.from_paths([path] * 400)
    loader = vl.VideoLoader(videos, vl.FrameList([0, 59]), batch_size=4, shuffle=True, **settings)
elif sys.argv[2] == "DecodingLoader":
    loader = DecodingLoader([[ClipRequest(path, [0, 59])] * 4] * 100, **settings)
else:
    loader = (vl.Video(path, device="cpu")[:] for _ in itertools.count())
"""
# What is under way when a program runs takes 20 minutes.
BEGIN = PREPARE + "running = iter(loader)\nnext(running)\nseconds = 0.2\nprint('running', flush=True)\n"
KINDS = ["VideoLoader", "DecodingLoader"]


def start(script: str, path: Path, kind: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-P", "-c", script, str(path), kind]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, env=child_environment(), text=True, **pipes)


def end_of(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Exit code and stderr of a program that must end."""
    try:
        _, stderr = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
    return process.returncode, stderr


@pytest.mark.parametrize("kind", KINDS)
def test_a_program_ends_at_once_in_the_middle_of_an_epoch(sample: Sample, kind: str) -> None:
    process = start(BEGIN, sample("h264_mp4"), kind)
    assert process.stdout.readline() == "running\n"
    assert end_of(process) == (0, "")


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGINT for one process")
@pytest.mark.parametrize("kind", [*KINDS, "Video"])
def test_ctrl_c_ends_a_program_at_once(sample: Sample, kind: str) -> None:
    process = start(BEGIN + "for _ in running: pass", sample("h264_mp4"), kind)
    assert process.stdout.readline() == "running\n"
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    code, stderr = end_of(process)
    assert code in (-signal.SIGINT, 130)
    assert stderr.count("Traceback") == 1
    assert stderr.endswith("KeyboardInterrupt\n")


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGINT for one process")
def test_after_ctrl_c_a_loop_can_be_begun_again(data: vl.VideoDataset, gate: threading.Event) -> None:
    loader = make(data)
    gate.clear()
    before = own_threads()

    def interrupt() -> None:
        assert becomes(lambda: bool(own_threads() - before))
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.2)
        gate.set()

    interrupting = threading.Thread(target=interrupt)
    interrupting.start()
    with pytest.raises(KeyboardInterrupt):
        next(iter(loader))
    interrupting.join()
    assert clips_of(list(loader)) == list(range(12))


@pytest.mark.parametrize("name", ["videoloader-plan", "videoloader-batch"])
def test_a_ctrl_c_while_a_thread_starts_leaves_one_thread_that_keeps_the_order(
    data: vl.VideoDataset, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, interrupted, before = threading.Thread.start, [], own_threads()

    def start(thread: threading.Thread) -> None:
        plain(thread)
        if thread.name.startswith(name) and not interrupted:
            interrupted.append(thread)
            raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", start)
    loader = make(data)
    with pytest.raises(KeyboardInterrupt):
        next(iter(loader))
    assert clips_of(list(loader)) == list(range(12))
    gc.collect()
    assert becomes(lambda: len([each for each in own_threads() - before if each.name.startswith(name)]) == 1)


def test_a_ctrl_c_at_any_line_leaves_nothing_to_the_next_loop(data: vl.VideoDataset) -> None:
    """A signal may come between any two lines of the consumer's thread; here one comes at every fifth of them."""
    root = str(Path(vl.__file__).parent)
    for chosen in range(1, 10_000, 5):
        loader, lines = make(data), iter(range(1, chosen + 1))

        def interrupt(
            frame: FrameType, event: str, _: object, lines: Iterator[int] = lines, chosen: int = chosen
        ) -> Any:
            if not frame.f_code.co_filename.startswith(root):
                return None
            # A with statement's own lines are left out: a tracer gets in where Python lets no signal in, between a lock
            # and the block that frees it.
            line = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
            if event == "line" and not line.lstrip().startswith("with ") and next(lines, None) == chosen:
                raise KeyboardInterrupt
            return interrupt

        loop, interrupted = iter(loader), False
        sys.settrace(interrupt)
        try:
            next(loop)
        except KeyboardInterrupt:
            interrupted = True
        finally:
            sys.settrace(None)
        if not interrupted:
            break
        assert clips_of(list(loader)) == list(range(12)), chosen
    assert chosen > 100


# --- DecodingLoader ----------------------------------------------------------------------------------------------


def requests(data: vl.VideoDataset, count: int) -> list[list[ClipRequest]]:
    return [[ClipRequest(data[number % len(data)].path, [number])] for number in range(count)]


def test_a_decoding_loader_has_one_loop_at_a_time(data: vl.VideoDataset) -> None:
    loader = DecodingLoader(requests(data, 4), device="cpu", num_workers=2)
    older = iter(loader)
    next(older)
    assert len(list(loader)) == 4
    assert loader.state_dict()["epoch"] == 2, "the older loop's epoch ended with it"
    with pytest.raises(vl.ConfigurationError, match="another loop"):
        next(older)


def test_a_decoding_loader_that_fails_at_once_after_a_resume_still_goes_on_there(data: vl.VideoDataset) -> None:
    failures = 2

    def number_of(clips: vl.Batch) -> int:
        nonlocal failures
        number = int(clips.frame_numbers[0, 0])
        if number == 2 and failures:
            failures -= 1
            raise ZeroDivisionError
        return number

    loader = DecodingLoader(requests(data, 5), device="cpu", num_workers=2, replace_with=number_of)
    with pytest.raises(ZeroDivisionError):
        list(loader)
    loader.load_state_dict(loader.state_dict())
    with pytest.raises(ZeroDivisionError):
        next(iter(loader))
    assert list(loader) == [2, 3, 4]
    assert list(loader) == [0, 1, 2, 3, 4]


def test_a_video_that_is_left_in_the_middle_of_a_stream_can_be_read_on(sample: Sample) -> None:
    video = vl.Video(sample("h264_mp4"), device="cpu")
    expected = video[:]
    for number, frame in enumerate(video.stream()):
        assert torch.equal(frame, expected[number])
        if number == 5:
            break
    assert torch.equal(video[:], expected)
