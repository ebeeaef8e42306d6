"""A lack of memory gives one error that names the file, the frames, and a remedy."""

from __future__ import annotations

import errno
import sys
from collections.abc import Callable
from types import FunctionType

import numpy as np
import pytest
import torch
from forked_programs import run_program

import videoloader as vl
from videoloader.errors import argument_names, enough_memory
from videoloader.errors.argument_names import tells_of_arguments
from videoloader.runtime import threads

TOO_LARGE = 10**9  # more bytes than a size can tell
MOST_FRAMES = 1 << 24  # of a clip
READS: dict[str, Callable[[vl.Video], object]] = {
    "resized": lambda video: video.read([0, 1], transforms=[vl.Resize(TOO_LARGE)]),
    "resized after other transforms": lambda video: video.read([0, 1], transforms=[vl.Resize(TOO_LARGE), vl.Invert()]),
    "padded": lambda video: video.read([0, 1], transforms=[vl.Pad(TOO_LARGE)]),
    "a window": lambda video: video.read(vl.RandomWindow(MOST_FRAMES, pad="wrap"), transforms=[vl.Resize(100_000)]),
    "several clips": lambda video: video.read_clips([0, 1], transforms=[vl.Resize(TOO_LARGE)]),
}


@pytest.mark.parametrize("what", READS)
def test_frames_that_no_memory_can_hold_are_one_error_that_names_the_file(sample, what):
    video = vl.Video(sample("h264_mp4"), device="cpu")
    with pytest.raises(vl.NoMemoryError, match=r"not enough memory for .*: ask for fewer or smaller frames") as caught:
        READS[what](video)
    assert caught.value.source == video.index.source
    assert isinstance(caught.value, MemoryError)
    assert len(video.read([0, 1]).frames) == 2


@pytest.mark.parametrize("count", [MOST_FRAMES + 1, TOO_LARGE**2, TOO_LARGE**3])
def test_more_frames_than_a_clip_may_have_are_refused_before_any_memory_is_asked_for(sample, count):
    video = vl.Video(sample("h264_mp4"), device="cpu")
    for read in (
        lambda: video.read(vl.RandomWindow(count, pad="wrap")),
        lambda: video.read(vl.Segments(count)),
        lambda: video.between(0, 1, fps=count),
    ):
        with pytest.raises(vl.ConfigurationError, match=f"{MOST_FRAMES}|at most 64 bits"):
            read()


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_batch_that_no_memory_can_hold_names_its_clips(sample, num_workers):
    data = vl.VideoDataset.from_paths([sample("h264_mp4")])
    loader = vl.VideoLoader(
        data, [0], batch_size=1, device="cpu", transforms=[vl.Resize(TOO_LARGE)], num_workers=num_workers
    )
    with pytest.raises(vl.NoMemoryError, match=r"GB of frames \(1 × 1 × 3 × \d+ × \d+, uint8\)") as caught:
        next(iter(loader))
    assert any("clip 0" in note and "h264_mp4" in note for note in caught.value.__notes__)


def test_threads_that_get_no_memory_are_an_error_of_the_library(sample, monkeypatch):
    def refuse(*_):
        raise MemoryError

    data = vl.VideoDataset.from_paths([sample("h264_mp4")])
    loader = vl.VideoLoader(data, [0], batch_size=1, device="cpu", num_workers=2)
    own = FunctionType(refuse.__code__, {"__name__": "videoloader.own", "MemoryError": MemoryError})
    monkeypatch.setattr(threads, "_lend", own)
    with pytest.raises(vl.NoMemoryError, match="there is not enough memory"):
        next(iter(loader))


def test_a_call_whose_arguments_cannot_be_checked_for_lack_of_memory(monkeypatch):
    def refuse(*_):
        raise MemoryError

    monkeypatch.setattr(argument_names, "hints_of", refuse)
    own = FunctionType(refuse.__code__, {"__name__": "videoloader.own", "MemoryError": MemoryError})
    with pytest.raises(vl.NoMemoryError, match="there is not enough memory"):
        tells_of_arguments(own)(5)


CHILD = """
import resource, sys
import videoloader as vl
video = vl.Video(sys.argv[1], device="cpu")
video.read([0], transforms=[vl.Resize(64)])
used = int(open("/proc/self/statm").read().split()[5]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_DATA, (used + (200 << 20),) * 2)
for read in (lambda: video[[0] * 20_000], lambda: video.read([0], transforms=[vl.Resize(10_000)])):
    try:
        read()
    except vl.NoMemoryError as error:
        print(error)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="a limit of Linux")
def test_a_limit_of_the_system_is_the_same_error(sample):
    path = str(sample("h264_mp4"))
    child = run_program(CHILD, path, timeout=120)
    assert child.returncode == 0, child.stderr
    lines = child.stdout.splitlines()
    assert len(lines) == 2
    assert all(line.startswith(f"{path}: there is not enough memory for ") for line in lines)


@pytest.mark.parametrize(
    "fails",
    [
        lambda: torch.empty(1 << 62, dtype=torch.uint8),
        lambda: torch.empty((1 << 40, 1 << 40)),
        lambda: np.empty(1 << 62, np.uint8),
        lambda: np.empty((1 << 40, 1 << 40)),
        lambda: np.empty(1 << 64),
        lambda: np.arange(1 << 62, dtype=np.int64),
        lambda: bytearray(sys.maxsize - 1),
    ],
    ids=["PyTorch", "PyTorch, too many", "NumPy", "NumPy, too many", "NumPy, one axis", "NumPy, a range", "Python"],
)
def test_each_library_s_error_is_ours(fails):
    with pytest.raises(vl.NoMemoryError, match=r"^a\.mp4: there is not enough memory"), enough_memory(source="a.mp4"):
        fails()


def test_the_innermost_file_is_named_and_other_errors_stay():
    with (
        pytest.raises(vl.NoMemoryError) as caught,
        enough_memory(source="outer.mp4"),
        enough_memory(source="inner.mp4"),
    ):
        raise MemoryError
    assert caught.value.source == "inner.mp4"
    with pytest.raises(vl.NoMemoryError) as caught, enough_memory(source="outer.mp4"), enough_memory():
        raise OSError(errno.ENOMEM, "Cannot allocate memory")
    assert caught.value.source == "outer.mp4"
    for error in (OSError(errno.EIO, "Input/output error"), RuntimeError("CUDA error"), vl.SourceError("cut off")):
        with pytest.raises(type(error)) as other, enough_memory():
            raise error
        assert other.value is error
