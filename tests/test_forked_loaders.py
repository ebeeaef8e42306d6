"""A loader in a forked process yields the same batches as the parent's, whatever the parent is doing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from changing_streams import write_h264
from forked_programs import IN_CHILD, run_program

# Defines loader(**settings) and same(batches, others).
PREAMBLE = (
    IN_CHILD
    + """
import threading, torch
import videoloader as vl
from videoloader.interop.torch import ClipRequest, DecodingLoader

torch.set_num_threads(1)
data = vl.VideoDataset.from_paths(sys.argv[1:])

def loader(**settings):
    return vl.VideoLoader(data, vl.EveryWindow(4, step=8), batch_size=2, device="cpu", num_workers=2, **settings)

def same(batches, others):
    pairs = list(zip(batches, others, strict=True))
    return len(pairs) > 3 and all(
        torch.equal(one.frames, other.frames) and one.paths == other.paths for one, other in pairs
    )

signal.alarm(200)
"""
)


def run(sample: Callable[[str], Path], program: str, *videos: Path) -> None:
    done = run_program(PREAMBLE + program, *(videos or (sample("h264_mp4"), sample("hevc_mp4"))))
    assert done.returncode == 0, done.stderr


def test_a_loader_that_was_iterated_before(sample):
    run(
        sample,
        """
ours = loader()
batches = list(ours)

def again():
    ours.set_epoch(0)
    return same(batches, list(ours))

assert in_child(again) == 7
ours.set_epoch(0)
assert same(batches, list(ours))
assert in_child(lambda: same(batches, list(loader()))) == 7
""",
    )


@pytest.mark.parametrize("shuffle", [False, True])
def test_a_loader_that_is_being_iterated(sample, shuffle):
    run(
        sample,
        f"""
shuffle = {shuffle}
expected = list(loader(shuffle=shuffle))
ours = loader(shuffle=shuffle)
loop = iter(ours)
given = [next(loop), next(loop)]
state = ours.state_dict()

def from_the_beginning():
    ours.set_epoch(0)
    return same(expected, list(ours))

def from_the_state():
    ours.load_state_dict(state)
    return same(expected, given + list(ours))

def left_behind():
    global loop
    loop.close()
    del loop
    return from_the_beginning()

for way in (from_the_beginning, from_the_state, left_behind):
    assert in_child(way) == 7, way
assert same(expected, given + list(loop))
""",
    )


def test_a_loop_of_the_parent_does_not_go_on_in_the_child(sample):
    run(
        sample,
        """
def refuses(loop):
    try:
        list(loop)  # what is there already may come
    except vl.ConfigurationError as error:
        return "started before the process was forked" in str(error)

requests = [[ClipRequest(path, vl.FrameList([3, 4]))] for path in sys.argv[1:] * 4]
video = vl.Video(sys.argv[1], device="cpu")
decoding = DecodingLoader(requests, device="cpu", num_workers=1)
torch.set_num_threads(2)
for loop in map(iter, (loader(), decoding, video.stream(), video.stream(slice(None, None, -1), memory=1))):
    next(loop)
    assert in_child(lambda: refuses(loop)) == 7
    assert next(loop) is not None
""",
    )


def test_requests_are_decoded_in_the_child(sample):
    run(
        sample,
        """
requests = [
    [ClipRequest(path, vl.FrameList([3, 4])), ClipRequest(path, vl.FrameList([9, 8]))] for path in sys.argv[1:] * 3
]
ours = DecodingLoader(requests, device="cpu", num_workers=2)
expected = list(ours)
loop = iter(ours)
next(loop)

def again():
    ours.set_epoch(0)
    made = list(ours)
    return len(made) == 6 and all(map(torch.equal, made, expected))

assert in_child(again) == 7
loop.close()
""",
    )


def test_pictures_of_another_size_that_were_scaled_before(sample, tmp_path):
    parts = [write_h264(tmp_path / f"{width}.h264", 2, size=(width, 96), frames=16) for width in (128, 192)]
    joined = tmp_path / "joined.h264"
    joined.write_bytes(b"".join(part.read_bytes() for part in parts))
    run(
        sample,
        """
batches = list(loader())
assert in_child(lambda: same(batches, list(loader()))) == 7
""",
        *[joined] * 6,
    )


def test_locks_that_other_threads_hold_are_free_in_the_child(sample):
    run(
        sample,
        """
from videoloader.indexing.store.cache import IndexCache
from videoloader.interop.torch.request_planner import VideoIndexes
from videoloader.indexing.sources import reopening

indexes = VideoIndexes(None, 2)
asked = [(entry, None) for entry in data]
indexes.frames_of(asked)
held = threading.Event()
done = threading.Event()

def hold():
    with indexes._kept._lock, reopening._listings._lock:
        held.set()
        done.wait()

thread = threading.Thread(target=hold)
thread.start()
held.wait()

def reads():
    frames = [video.stop for video in indexes.frames_of(asked)]
    reopening.reopen_source(sys.argv[1])
    return frames == [60, 60]

assert in_child(reads) == 7
done.set()
thread.join()
""",
    )


def test_what_is_told_of_forks_is_forgotten_with_its_object():
    program = """
import gc, os, weakref
from videoloader.runtime.forks import after_fork

class Counts:
    forks = 0
    def __init__(self):
        after_fork(self.count)
    def count(self):
        self.forks += 1

kept, gone = Counts(), weakref.ref(Counts())
gc.collect()
assert gone() is None
if not (child := os.fork()):
    os._exit(kept.forks)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
assert kept.forks == 0
"""
    done = run_program(program)
    assert done.returncode == 0, done.stderr
