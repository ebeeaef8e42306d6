"""Forking or starting a process at any time: both processes work, or raise at once."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import torch
from forked_programs import run_program

import videoloader as vl
from videoloader.interop.torch import ClipRequest, DecodingLoader

Copy: TypeAlias = Callable[[Any], Any]

# Seconds after which a process that hangs is ended. What works takes a few, on a machine where nothing else runs.
HANGS = 300
PREAMBLE = f"""
import faulthandler, os, signal, sys, tempfile, threading, torch
faulthandler.enable()
import videoloader as vl
from videoloader.interop.torch import ClipRequest, DecodingLoader
from videoloader.reading import process_pool

faulthandler.register(signal.SIGALRM, chain=True)  # shows where a process hangs
signal.alarm({HANGS})
torch.set_num_threads(2)
process_pool._CLIPS_BEFORE = 0
paths = sys.argv[1:]
data = vl.VideoDataset.from_paths(paths * 4)
folder = tempfile.TemporaryDirectory()
store = data.build_store(folder.name + "/index.db", workers=1) and folder.name + "/index.db"
video = vl.Video(paths[0], device="cpu")

def loader(**settings):
    settings = dict(num_workers=2, prefetch=3) | settings
    return vl.VideoLoader(data, vl.EveryWindow(4, step=16), batch_size=2, device="cpu", **settings)

def everything():
    "What a program does with the library, as numbers."
    found = [int(batch.frames.sum()) for batch in loader(index=store)]
    if with_processes:  # they take seconds to start
        found += [int(batch.frames.sum()) for batch in loader(num_processes=1)]
    found += [int(frames.sum()) for frames in DecodingLoader([[ClipRequest(paths[0], [3, 4])]] * 2, device="cpu")]
    found += [int(video[7].sum()), int(video[:].sum()), len(vl.IndexStore(store))]
    return found

expected = everything()

def in_child(function):
    "What a forked process gives: whether it finds what this one does."
    sys.stdout.flush()
    if not (child := os.fork()):
        signal.alarm({HANGS})
        try:
            found = function(); os._exit(0 if found == expected else print(found, expected, file=sys.stderr) or 8)
        finally:
            import traceback; traceback.print_exc()
            os._exit(9)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

def while_it_goes_on(work):
    "Fork a few times while another thread works."
    begun, done = threading.Event(), threading.Event()
    def run():
        while not done.is_set():
            work(begun.set)
    thread = threading.Thread(target=run)
    thread.start()
    begun.wait()
    for _ in range(2):
        assert (code := in_child(everything)) == 0, code
    done.set()
    thread.join()
"""

# What is under way in the process that is forked. ``begun`` is to be called when it is.
UNDER_WAY = {
    "a batch is made": """
def work(begun):
    for batch in loader(shuffle=True):
        begun()
while_it_goes_on(work)
""",
    "processes start": """
def work(begun):
    for batch in loader(num_processes=2):
        begun()
while_it_goes_on(work)
""",
    "a loader indexes": "while_it_goes_on(lambda begun: loader(on_indexed=begun))",
    "a store is built": """
while_it_goes_on(lambda begun: data.build_store(
    tempfile.mkdtemp(dir=folder.name) + "/other.db", workers=2, progress=lambda done, total: begun()
))
""",
    "a video is read in threads": """
def work(begun):
    for frame in video.stream():
        begun()
while_it_goes_on(work)
""",
    "another thread forks": """
codes = []
loop = iter(loader(num_processes=1))
next(loop)
thread = threading.Thread(target=lambda: codes.append(in_child(everything)))
thread.start()
thread.join()
assert codes == [0]
assert sum(1 for _ in loop) > 3
""",
    "a forked process forks": """
loop = iter(loader(num_processes=1))
next(loop)
def forks():
    loop = iter(loader(num_processes=1))
    next(loop)
    assert in_child(everything) == 0
    return everything()
assert in_child(forks) == 0
assert sum(1 for _ in loop) > 3
""",
}


def run(program: str | Path, *arguments: str | Path) -> None:
    done = run_program(program, *arguments)
    assert done.returncode == 0, done.stderr[-4000:]


@pytest.mark.parametrize("under_way", UNDER_WAY.values(), ids=UNDER_WAY)
def test_a_process_that_is_forked_while(sample: Callable[[str], Path], under_way: str) -> None:
    setting = f"with_processes = {'num_processes' in under_way}"
    program = setting + PREAMBLE + under_way + "\nassert everything() == expected"
    run(program, sample("h264_mp4"), sample("hevc_mp4"))


FORKED_WHILE_STORES_ARE_OPENED = f"""
import faulthandler, os, signal, sys, threading
import videoloader as vl

faulthandler.register(signal.SIGALRM, chain=True)
signal.alarm({HANGS})
IndexStore = vl.IndexStore

def use():
    store = IndexStore(sys.argv[1])
    assert len(store) == 1 and store.query("SELECT source FROM videos") == [("a.mp4",)]

def run():
    while True:
        use()

threading.Thread(target=run, daemon=True).start()
for _ in range(200):
    if not (child := os.fork()):
        signal.alarm({HANGS} // 2)
        try:
            use(); os._exit(0)
        finally:
            os._exit(9)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code == 0, code
os._exit(0)
"""


def test_a_process_that_is_forked_while_another_thread_opens_and_reads_stores(
    sample: Callable[[str], Path], tmp_path: Path
) -> None:
    # SQLite has locks of its own. Without care, one of about twenty forks hung.
    (tmp_path / "a.mp4").write_bytes(sample("h264_mp4").read_bytes())
    vl.VideoDataset.from_paths([tmp_path / "a.mp4"]).build_store(tmp_path / "index.db", workers=1)
    run(FORKED_WHILE_STORES_ARE_OPENED, tmp_path / "index.db")


WORKERS = """
import signal, sys
import videoloader as vl
from torch.utils.data import DataLoader, Dataset

signal.alarm(LIMIT)

class Frames(Dataset):
    "What some videos and loaders give, in the process that asks."
    def __init__(self, *sources):
        self.sources = sources
    def __len__(self):
        return len(self.sources)
    def __getitem__(self, row):
        source = self.sources[row]
        return int((source[row] if isinstance(source, vl.Video) else next(iter(source)).frames).sum())

if __name__ == "__main__":
    method, *paths = sys.argv[1:]
    videos = [vl.Video(path, device="cpu") for path in paths]
    loader = vl.VideoLoader(vl.VideoDataset.from_paths(paths), [0, 5], batch_size=2, device="cpu", num_workers=2)
    expected = [Frames(*videos)[row] for row in range(2)]
    loop = iter(loader)
    first = next(loop)
    settings = dict(batch_size=None, num_workers=1, multiprocessing_context=method)
    assert list(DataLoader(Frames(*videos), **settings)) == expected
    try:
        assert list(DataLoader(Frames(loader), **settings)) == [int(first.frames.sum())]
        assert method == "fork"
    except vl.ArgumentError as error:
        assert method != "fork" and "make one in the process that uses it" in str(error), error
"""


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_workers_of_a_torch_data_loader_that_is_given(
    sample: Callable[[str], Path], tmp_path: Path, method: str
) -> None:
    (tmp_path / "program.py").write_text(WORKERS.replace("LIMIT", str(HANGS)))
    run(tmp_path / "program.py", method, sample("h264_mp4"), sample("hevc_mp4"))


HOW = {"pickle": lambda each: pickle.loads(pickle.dumps(each)), "copy": copy.copy, "deepcopy": copy.deepcopy}


@pytest.mark.parametrize("how", HOW.values(), ids=HOW)
def test_copies_work_or_say_what_to_do_instead(sample: Callable[[str], Path], tmp_path: Path, how: Copy) -> None:
    path = sample("h264_mp4")
    data = vl.VideoDataset.from_paths([path] * 2)
    data.build_store(tmp_path / "index.db", workers=1)
    transforms = [vl.RandomResizedCrop(32), vl.RandAugment(2, 9), vl.Normalize()]
    settings = {"batch_size": 2, "device": "cpu", "num_workers": 1}
    loader = vl.VideoLoader(data, vl.RandomWindow(4), transforms=transforms, **settings)
    with open(path, "rb") as file:
        for video in (vl.Video(path, device="cpu"), vl.Video(path.read_bytes(), device="cpu"), vl.Video(file)):
            assert torch.equal(how(video)[7], video[7])
    batch = next(iter(loader))
    assert torch.equal(how(batch).frames, batch.frames)
    again = vl.VideoLoader(
        how(data), how(vl.RandomWindow(4)), transforms=how(transforms), index=how(vl.IndexStore(tmp_path / "index.db")),
        **settings,
    )  # fmt: skip
    assert torch.equal(next(iter(again)).frames, batch.frames)
    assert how(loader.state_dict()) == loader.state_dict()
    for one in (loader, DecodingLoader([[ClipRequest(str(path), [0])]], device="cpu")):
        with pytest.raises(
            vl.ArgumentError, match=r"neither copied nor pickled: make one in the process that uses it.*"
        ):
            how(one)


@pytest.mark.parametrize("how", HOW.values(), ids=HOW)
def test_a_video_is_copied_while_a_stream_of_it_is_open(sample: Callable[[str], Path], how: Copy) -> None:
    video = vl.Video(sample("h264_mp4"), device="cpu")
    frames = video.stream()
    first = next(frames)
    copied = how(video)
    assert torch.equal(copied[0], first)
    assert torch.equal(torch.stack([first, *frames]), copied[:])


def test_a_process_forked_in_a_callback_ends_there(sample: Callable[[str], Path]) -> None:
    """What follows a callback in a thread of the library waits for threads that a child does not have."""
    program = f"""
import os, signal
import videoloader as vl

signal.alarm({HANGS})
data, children = vl.VideoDataset.from_paths([{str(sample("h264_mp4"))!r}] * 3), []

def on_indexed():
    if not children:
        children.append(os.fork())
        if not children[0]:
            signal.alarm({HANGS // 3})

vl.VideoLoader(data, [0], batch_size=2, device="cpu", num_workers=2, on_indexed=on_indexed)
print(os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]))
"""
    done = run_program(program)
    assert done.stdout.split() == ["1"]
    assert "a process that is forked in a callback must end there, by os._exit" in done.stderr
