"""Any number of LMDB databases may be in use: only those read last are kept open."""

from __future__ import annotations

import os
import shutil
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from archive_writing import write_lmdb
from forked_programs import run_program

import videoloader as vl
from videoloader import SourceError, StaleIndexError
from videoloader.indexing import open_source
from videoloader.indexing.sources import lmdb_value

pytest.importorskip("lmdb")


@pytest.fixture(autouse=True)
def _at_most_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lmdb_value, "_MOST_KEPT", 2)


def databases(folder: Path, count: int) -> list[Path]:
    return [write_lmdb(folder / f"{number}.lmdb", {"k": f"value {number}".encode()}) for number in range(count)]


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_those_read_less_often_are_closed_and_read_on(tmp_path: Path) -> None:
    before = descriptors()
    sources = [open_source(f"{path}::k") for path in databases(tmp_path, 20)]
    for _ in range(2):
        assert [source.read(0, 10) for source in sources] == [f"value {number}".encode() for number in range(20)]
    assert descriptors() <= before + 2


def test_videos_that_are_open_are_read_on(sample: Callable[[str], Path], tmp_path: Path) -> None:
    names = [f"{write_lmdb(tmp_path / str(number), {'v': sample('h264_mp4').read_bytes()})}::v" for number in range(5)]
    videos = [vl.Video(name, device="cpu") for name in names]
    expected = vl.Video(sample("h264_mp4"), device="cpu")[7]
    assert all((video[7] == expected).all() for video in videos)


def test_a_database_that_is_another_one_when_it_is_opened_again(tmp_path: Path) -> None:
    paths = databases(tmp_path, 3)
    first, *_ = [open_source(f"{path}::k") for path in paths]
    new = write_lmdb(tmp_path / "new", {"k": b"other"})
    (new / "data.mdb").replace(paths[0] / "data.mdb")
    for _ in range(2):
        with pytest.raises(StaleIndexError, match=r"0\.lmdb::k: has changed since it was opened"):
            first.read(0, 10)


def test_a_database_that_replaces_another_can_be_read(tmp_path: Path) -> None:
    for number in range(3):
        new = write_lmdb(tmp_path / str(number), {"k": f"value {number}".encode()})
        (tmp_path / "a.lmdb").mkdir(exist_ok=True)
        (new / "data.mdb").replace(tmp_path / "a.lmdb/data.mdb")
        assert open_source(f"{tmp_path}/a.lmdb::k").read(0, 10) == f"value {number}".encode()


def test_a_database_that_is_written_anew_is_read_anew(tmp_path: Path) -> None:
    """Its data file may get the inode of the one that was deleted."""
    for number in range(5):
        path = write_lmdb(tmp_path / "a.lmdb", {"k": f"value {number}".encode()})
        assert open_source(f"{path}::k").read(0, 10) == f"value {number}".encode()
        shutil.rmtree(path)


def test_a_database_that_is_gone_when_it_is_opened_again(tmp_path: Path) -> None:
    paths = databases(tmp_path, 3)
    first, *_ = [open_source(f"{path}::k") for path in paths]
    (paths[0] / "data.mdb").unlink()
    with pytest.raises(SourceError, match="cannot be opened as an LMDB database"):
        first.read(0, 10)


def test_the_current_folder_may_change_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    databases(tmp_path, 3)
    monkeypatch.chdir(tmp_path)
    sources = [open_source(f"{number}.lmdb::k") for number in range(3)]
    monkeypatch.chdir("/")
    assert [source.read(0, 10) for source in sources] == [b"value 0", b"value 1", b"value 2"]
    for source in sources:
        source.check_unchanged()


def test_threads_may_read_any_of_them(tmp_path: Path) -> None:
    """A database may be wanted again while the last thread that read it closes it."""
    sources = [open_source(f"{path}::k") for path in databases(tmp_path, 4)]
    found: list[bool] = []

    def read(first: int) -> None:
        for number in range(first, first + 600):
            found.append(sources[number % 4].read(0, 10) == f"value {number % 4}".encode())

    threads = [threading.Thread(target=read, args=(first,)) for first in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 3600
    assert all(found)


def test_a_program_may_open_more_than_its_limit_allows(tmp_path: Path) -> None:
    databases(tmp_path, 60)
    program = f"""
import os, resource
from videoloader.indexing import open_source
resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
sources = [open_source(f"{tmp_path}/{{number}}.lmdb::k") for number in range(60)]
assert all(source.read(0, 5) == b"value" for source in sources)
if (child := os.fork()) == 0:  # which opens its own
    os._exit(0 if all(source.read(0, 5) == b"value" for source in sources) else 1)
print(os.waitpid(child, 0)[1])
"""
    assert run_program(program).stdout == "0\n"


def test_databases_are_opened_while_other_threads_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lmdb_value, "_MOST_KEPT", 1000)
    names = [f"{path}::k" for path in databases(tmp_path, 60)]
    sources, ends = [open_source(name) for name in names], threading.Event()

    def read() -> None:
        while not ends.is_set():
            for source in sources:
                source.read(0, 1)

    threads, interval = [threading.Thread(target=read) for _ in range(3)], sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        assert [open_source(name).size for name in names * 5] == [source.size for source in sources * 5]
    finally:
        ends.set()
        sys.setswitchinterval(interval)
        for thread in threads:
            thread.join()
