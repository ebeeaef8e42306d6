"""Data sets that one of many processes makes and saves while the others wait."""

from __future__ import annotations

import fcntl
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from child_environment import SAFE_PATH
from forked_programs import Program
from waiting import becomes

import videoloader as vl

# Every process says that it makes the data set by a file of its own, and goes on once it may. One program imports torch
# for all of them, which takes longer than all that they do. No thread of Python has started when it forks.
SCRIPT = """
import os, sys, time
from pathlib import Path
import videoloader as vl
from videoloader.dataset import preparing

folder, processes, ranks, fails = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4] == "fails"
meeting = sys.argv[5] or f"file://{folder}/meeting"
if ranks:
    import torch.distributed as dist
for rank in range(processes):
    if not os.fork():
        break
else:
    for _ in range(processes):
        os.wait()
    sys.exit()
for number, name in (1, "out"), (2, "err"):
    os.dup2(os.open(folder / f"{name}.{rank}", os.O_WRONLY | os.O_CREAT), number)
(folder / f"part.{rank}").write_text(str(os.getpid()))
(folder / f"part.{rank}").rename(folder / f"pid.{rank}")
if ranks:
    dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=ranks)
    preparing._BEAT, preparing._LONGEST_SILENCE = 0.1, 5


def make():
    # As pools of multiprocessing do. Not in a process group, whose sockets the child would keep open.
    if not ranks and not os.fork():
        os.close(1), os.close(2)
        while not (folder / "go").exists():
            time.sleep(0.01)
        os._exit(0)
    (folder / f"made.{os.getpid()}").touch()
    while not (folder / "go").exists():
        time.sleep(0.01)
    if fails:
        raise ValueError("no such bucket")
    return vl.VideoDataset.from_folder(folder / "videos")


(folder / f"started.{os.getpid()}").touch()
try:
    data = vl.VideoDataset.load_or_make(folder / "x.arrow", make, store=folder / "x.db")
except Exception as error:
    sys.exit(f"{type(error).__name__}: {error}")
print(len(data), data.table.frames is not None)
if ranks:
    dist.barrier()
    dist.destroy_process_group()
"""


@pytest.fixture
def folder(sample: Callable[[str], Path], tmp_path: Path) -> Path:
    (tmp_path / "videos").mkdir()
    for name in ("a.mp4", "b.mp4"):
        (tmp_path / "videos" / name).write_bytes(sample("h264_mp4").read_bytes())
    return tmp_path


class Processes:
    """Processes that all want one data set, ``ranks`` of them in a process group."""

    def __init__(self, folder: Path, processes: int, ranks: int = 0, fails: str = "", meeting: str = "") -> None:
        self.folder, self.count = folder, processes
        self.program = Program(SCRIPT, folder, processes, ranks, fails, meeting)

    def pid(self, rank: int) -> int:
        """The number of one of the processes, once it has begun."""
        assert becomes((self.folder / f"pid.{rank}").exists), self.program.pid
        return int((self.folder / f"pid.{rank}").read_text())

    def said(self) -> list[tuple[str, str]]:
        """What each of the processes wrote to its two streams, when all have ended."""
        assert self.program.communicate()[1] == ""
        streams = [
            [(self.folder / f"{name}.{rank}").read_text() for name in ("out", "err")] for rank in range(self.count)
        ]
        return [(out, err) for out, err in streams]


def makers(folder: Path) -> list[int]:
    return [int(path.suffix[1:]) for path in folder.glob("made.*")]


def started(folder: Path) -> int:
    return len(list(folder.glob("started.*")))


@pytest.mark.parametrize("ranks", [0, 3], ids=["locks", "torch.distributed"])
def test_one_process_makes_it_and_all_load_it(folder: Path, ranks: int) -> None:
    processes = Processes(folder, 3, ranks)
    assert becomes(lambda: started(folder) == 3 and len(makers(folder)) == 1)
    (folder / "go").touch()
    said = processes.said()
    assert [out for out, _ in said] == ["2 True\n"] * 3, said
    assert len(makers(folder)) == 1
    assert ranks == 0 or makers(folder) == [processes.pid(0)]
    assert sorted(path.name for path in folder.glob("x.*")) == ["x.arrow", "x.arrow.lock", "x.db"]
    assert len(vl.IndexStore(folder / "x.db")) == 2


def test_where_the_first_dies_the_next_one_makes_it(folder: Path) -> None:
    processes = Processes(folder, 2)
    assert becomes(lambda: started(folder) == 2 and len(makers(folder)) == 1)
    (first,) = makers(folder)
    second = processes.pid(0) + processes.pid(1) - first
    os.kill(first, signal.SIGKILL)
    assert becomes(lambda: set(makers(folder)) == {first, second})
    assert not (folder / "x.arrow").exists()
    (folder / "go").touch()
    assert sorted(out for out, _ in processes.said()) == ["", "2 True\n"]


WAITS = """
import fcntl, os, sys, threading
import videoloader as vl

began, waits, forked = threading.Event(), threading.Event(), threading.Event()
flock = fcntl.flock

def fail():
    began.set()
    forked.wait()
    raise ValueError

def make():
    try:
        vl.VideoDataset.load_or_make(sys.argv[1], fail)
    except ValueError:
        pass

def tell(*given):
    waits.set()
    flock(*given)

threads = [threading.Thread(target=make) for _ in range(2)]
threads[0].start()
began.wait()
fcntl.flock = tell
threads[1].start()
waits.wait()
child = os.fork()
if not child:
    os.close(1)
    sys.stdin.read()  # until the test closes it
    os._exit(0)
forked.set()
for thread in threads:
    thread.join()
print(child)
"""


def test_a_process_that_is_forked_while_a_thread_waits_does_not_hold_the_lock(folder: Path) -> None:
    command = [sys.executable, *SAFE_PATH, "-W", "ignore", "-c", WAITS, folder / "x"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        child = int(process.stdout.read())
        with open(folder / "x.lock", "ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        assert Path(f"/proc/{child}").exists(), "the child is to outlive what it was forked from"


def test_all_ranks_learn_that_the_first_has_failed(folder: Path) -> None:
    (folder / "go").touch()
    (_, first), (_, second) = Processes(folder, 2, 2, "fails").said()
    assert "ValueError: no such bucket" in first
    assert "x.arrow: rank 0 could not make this data set (ValueError: no such bucket)" in second
    assert len(makers(folder)) == 1
    assert not (folder / "x.arrow").exists()


@pytest.mark.parametrize(
    ("meeting", "message"),
    [
        ("tcp://127.0.0.1:{port}", r"the process group ended while rank 0 made this data set \(.*[Cc]onnection"),
        ("", "rank 0, which makes this data set, gave no sign of life for 5 s"),
    ],
    ids=["store of rank 0", "store on disk"],
)
def test_all_ranks_learn_that_the_first_has_died(folder: Path, meeting: str, message: str) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        meeting = meeting.format(port=free.getsockname()[1])
    processes = Processes(folder, 3, 3, meeting=meeting)
    assert becomes(lambda: started(folder) == 3 and len(makers(folder)) == 1)
    time.sleep(1)  # so that the others have heard of it
    os.kill(processes.pid(0), signal.SIGKILL)
    for _, said in processes.said()[1:]:
        assert re.search(rf"SourceError: \S*x\.arrow: {message}", said), said
    assert makers(folder) == [processes.pid(0)]


def test_a_rank_that_prepares_for_long_is_waited_for(folder: Path) -> None:
    processes = Processes(folder, 2, 2)
    assert becomes(lambda: started(folder) == 2 and len(makers(folder)) == 1)
    time.sleep(7)  # longer than silence may last
    (folder / "go").touch()
    said = processes.said()
    assert [out for out, _ in said] == ["2 True\n"] * 2, said


def test_what_is_there_is_loaded_and_nothing_is_made(folder: Path) -> None:
    data = vl.VideoDataset.from_folder(folder / "videos")
    data.save(folder / "x.arrow")

    def make() -> vl.VideoDataset:
        raise AssertionError

    assert list(vl.VideoDataset.load_or_make(folder / "x.arrow", make)) == list(data)


def test_what_cannot_be_made_leaves_nothing(folder: Path) -> None:
    with pytest.raises(vl.ConfigurationError, match="what make gives must be a VideoDataset, got 3"):
        vl.VideoDataset.load_or_make(folder / "x.arrow", lambda: 3)
    with pytest.raises(vl.SourceError, match=r"y/x\.arrow\.lock: cannot be prepared \(No such file"):
        vl.VideoDataset.load_or_make(folder / "y" / "x.arrow", lambda: 3)
    assert not (folder / "x.arrow").exists()
