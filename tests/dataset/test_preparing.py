"""Data sets that one of many processes makes and saves while the others wait."""

from __future__ import annotations

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
from child_environment import child_environment
from waiting import PATIENCE, becomes

import videoloader as vl

# Every process says that it makes the data set by a file of its own, and goes on once it may.
SCRIPT = """
import os, sys, time
from pathlib import Path
import videoloader as vl

folder, rank, ranks, fails = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4] == "fails"
meeting = sys.argv[5] or f"file://{folder}/meeting"
if ranks:
    import torch.distributed as dist
    from videoloader.dataset import preparing
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


def start(folder: Path, rank: int, ranks: int, fails: str = "", meeting: str = "") -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-P", "-c", SCRIPT, str(folder), str(rank), str(ranks), fails, meeting],
        env=child_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def makers(folder: Path) -> list[int]:
    return [int(path.suffix[1:]) for path in folder.glob("made.*")]


def started(folder: Path) -> int:
    return len(list(folder.glob("started.*")))


@pytest.mark.parametrize("ranks", [0, 3], ids=["locks", "torch.distributed"])
def test_one_process_makes_it_and_all_load_it(folder: Path, ranks: int) -> None:
    processes = [start(folder, rank, ranks) for rank in range(3)]
    assert becomes(lambda: started(folder) == 3 and len(makers(folder)) == 1)
    (folder / "go").touch()
    said = [process.communicate(timeout=PATIENCE) for process in processes]
    assert [out for out, _ in said] == ["2 True\n"] * 3, said
    assert len(makers(folder)) == 1
    assert ranks == 0 or makers(folder) == [processes[0].pid]
    assert sorted(path.name for path in folder.glob("x.*")) == ["x.arrow", "x.arrow.lock", "x.db"]
    assert len(vl.IndexStore(folder / "x.db")) == 2


def test_where_the_first_dies_the_next_one_makes_it(folder: Path) -> None:
    first = start(folder, 0, 0)
    assert becomes(lambda: makers(folder) == [first.pid])
    (folder / f"x.arrow.{first.pid}.part").write_bytes(b"half")
    second = start(folder, 1, 0)
    assert becomes(lambda: started(folder) == 2)
    assert makers(folder) == [first.pid]
    os.kill(first.pid, signal.SIGKILL)
    first.communicate(timeout=PATIENCE)
    assert becomes(lambda: set(makers(folder)) == {first.pid, second.pid})
    assert not (folder / "x.arrow").exists()
    (folder / "go").touch()
    assert second.communicate(timeout=PATIENCE)[0] == "2 True\n"
    assert not list(folder.glob("*.part"))


def test_all_ranks_learn_that_the_first_has_failed(folder: Path) -> None:
    (folder / "go").touch()
    processes = [start(folder, rank, 2, "fails") for rank in range(2)]
    first, second = (process.communicate(timeout=PATIENCE)[1] for process in processes)
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
    first, *others = (start(folder, rank, 3, meeting=meeting) for rank in range(3))
    assert becomes(lambda: started(folder) == 3 and len(makers(folder)) == 1)
    time.sleep(1)  # so that the others have heard of it
    os.kill(first.pid, signal.SIGKILL)
    for process in others:
        said = process.communicate(timeout=PATIENCE)[1]
        assert re.search(rf"SourceError: \S*x\.arrow: {message}", said), said
    first.communicate()
    assert makers(folder) == [first.pid]


def test_a_rank_that_prepares_for_long_is_waited_for(folder: Path) -> None:
    processes = [start(folder, rank, 2) for rank in range(2)]
    assert becomes(lambda: started(folder) == 2 and len(makers(folder)) == 1)
    time.sleep(7)  # longer than silence may last
    (folder / "go").touch()
    said = [process.communicate(timeout=PATIENCE) for process in processes]
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
