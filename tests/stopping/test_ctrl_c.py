"""Programs that are interrupted by Ctrl-C, or that end in the middle of an epoch."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from forked_programs import Program
from stopped_loaders import all_idle, at_line, clips_of, make, own_threads
from waiting import becomes

import videoloader as vl
from videoloader.runtime import threads

Sample = Callable[[str], Path]

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


def end_of(process: Program) -> tuple[int | None, str]:
    """Exit code and stderr of a program that must end."""
    _, stderr = process.communicate()
    return process.returncode, stderr


AT_THE_END = """
import atexit, sys
import videoloader as vl
from videoloader.interop.torch import ClipDataset

data = vl.VideoDataset.from_paths([sys.argv[1]])
reads = {
    "a frame": lambda: vl.Video(sys.argv[1], device="cpu")[1],
    "frames": lambda: next(iter(vl.Video(sys.argv[1], device="cpu"))),
    "a clip": lambda: ClipDataset(data, [0, 2])[0],
    **{
        f"{threads} threads": lambda threads=threads: next(
            iter(vl.VideoLoader(data, [0, 2], batch_size=1, device="cpu", num_workers=threads, num_processes=0))
        )
        for threads in (0, 2)
    },
    "an archive": lambda: vl.VideoDataset.from_archives(sys.argv[1]),
}

@atexit.register
def late():
    for name, read in reads.items():
        try:
            read()
            print(name, "is read")
        except vl.ConfigurationError as error:
            print(name, str(error)[:25])
"""


def test_reading_after_the_end_of_the_main_thread_is_an_error_that_says_so(sample: Sample) -> None:
    process = Program(AT_THE_END, sample("h264_mp4"))
    stdout, stderr = process.communicate()
    names = ("a frame", "frames", "a clip", "0 threads", "2 threads", "an archive")
    told = [f"{name} the main thread has ended" for name in names]
    assert (process.returncode, stdout.splitlines(), stderr) == (0, told, "")


FIRST_USE_AT_THE_END = """
import atexit, sys
import videoloader as vl

@atexit.register
def late():
    try:
        vl.Video(sys.argv[1], device="cpu")[0]
    except vl.ConfigurationError as error:
        print(error)
"""


def test_a_first_use_after_the_end_of_the_main_thread_is_an_error_that_says_so(sample: Sample) -> None:
    process = Program(FIRST_USE_AT_THE_END, sample("h264_mp4"))
    stdout, _ = process.communicate()  # PyTorch's own finalizers fail, since it was imported in part
    assert (process.returncode, stdout[:25]) == (0, "the main thread has ended")


@pytest.mark.parametrize("kind", KINDS)
def test_a_program_ends_at_once_in_the_middle_of_an_epoch(sample: Sample, kind: str) -> None:
    process = Program(BEGIN, sample("h264_mp4"), kind)
    assert process.stdout.readline() == "running\n"
    assert end_of(process) == (0, "")


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGINT for one process")
@pytest.mark.parametrize("kind", [*KINDS, "Video"])
def test_ctrl_c_ends_a_program_at_once(sample: Sample, kind: str) -> None:
    process = Program(BEGIN + "for _ in running: pass", sample("h264_mp4"), kind)
    assert process.stdout.readline() == "running\n"
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    code, stderr = end_of(process)
    assert code in (-signal.SIGINT, 130)
    assert stderr.count("Traceback") == 1
    assert stderr.endswith("KeyboardInterrupt\n")


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGINT for one process")
def test_after_ctrl_c_a_loop_can_be_begun_again(data: vl.VideoDataset, gate: threading.Event) -> None:
    gc.collect()  # Python forgets a Ctrl-C that comes in a finalizer
    loader = make(data)
    gate.clear()

    def interrupt() -> None:
        assert becomes(lambda: not all_idle())
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
    monkeypatch.setattr(threads, "_idle", defaultdict(threads._Idle))  # none that other tests have started
    loader = make(data)
    with pytest.raises(KeyboardInterrupt):
        next(iter(loader))
    assert clips_of(list(loader)) == list(range(12))
    assert len([each for each in own_threads() - before if each.name.startswith(name)]) == 1


def test_a_ctrl_c_at_any_line_leaves_nothing_to_the_next_loop(data: vl.VideoDataset) -> None:
    """A signal may come between any two lines of the consumer's thread; here one comes at every fifth of them."""
    for chosen in range(1, 10_000, 5):
        loader = make(data)
        loop = iter(loader)
        with suppress(KeyboardInterrupt), at_line(chosen, interrupted) as reached:
            next(loop)
        if not reached:
            break
        assert clips_of(list(loader)) == list(range(12)), reached
    assert chosen > 100


def interrupted() -> None:
    raise KeyboardInterrupt
