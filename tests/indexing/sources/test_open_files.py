"""Any number of local files may be in use: only those read last are kept open."""

from __future__ import annotations

import errno
import gc
import os
import pickle
import sys
from functools import partial
from pathlib import Path

import pytest
from forked_programs import run_program

from videoloader import SourceError, StaleIndexError
from videoloader.indexing import FileSource, open_source
from videoloader.indexing.sources import local


@pytest.fixture
def at_most_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "most_open_files", lambda: 2)


def files(folder: Path, count: int) -> list[FileSource]:
    for number in range(count):
        (folder / str(number)).write_bytes(f"file {number}".encode())
    return [FileSource(folder / str(number)) for number in range(count)]


def is_open(source: FileSource) -> bool:
    return source._key in local._open_files


def test_files_read_less_often_are_closed_and_read_on(tmp_path: Path, at_most_two: None) -> None:
    sources = files(tmp_path, 4)
    assert [is_open(source) for source in sources] == [False, False, True, True]
    assert [source.read(0, 10) for source in sources] == [b"file 0", b"file 1", b"file 2", b"file 3"]
    sources[2].read(0, 1)
    sources[0].read(0, 1)
    assert [is_open(source) for source in sources] == [True, False, True, False]


@pytest.mark.parametrize("how", ["replace", "rewrite"])
def test_a_file_that_is_another_one_when_it_is_opened_again(tmp_path: Path, at_most_two: None, how: str) -> None:
    changed, *_ = files(tmp_path, 3)
    (tmp_path / "new").write_bytes(b"other")
    if how == "replace":
        (tmp_path / "new").replace(tmp_path / "0")
    else:
        (tmp_path / "0").write_bytes(b"another one")
    for _ in range(2):
        with pytest.raises(StaleIndexError, match="0: has changed"):
            changed.read(0, 10)


def test_a_file_that_is_gone_when_it_is_opened_again(tmp_path: Path, at_most_two: None) -> None:
    gone, *_ = files(tmp_path, 3)
    (tmp_path / "0").unlink()
    with pytest.raises(SourceError, match=r"0: cannot be opened \(No such file"):
        gone.read(0, 10)


def test_a_file_is_opened_again_from_another_working_directory(
    tmp_path: Path, at_most_two: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").write_bytes(b"here")
    monkeypatch.chdir(tmp_path)
    source = FileSource("here")
    monkeypatch.chdir("/")
    others = files(tmp_path, 3)
    assert not is_open(source)
    assert source.read(0, 10) == b"here"
    assert source.open().read() == b"here"
    del others


def test_an_open_file_that_cannot_be_examined_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (source,) = files(tmp_path, 1)

    def stale(descriptor: int) -> None:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    for change in ((tmp_path / "0").touch, partial(os.truncate, tmp_path / "0", 2), (tmp_path / "0").unlink):
        change()
        with monkeypatch.context() as patch:
            patch.setattr(os, "fstat", stale)
            with pytest.raises(SourceError, match="cannot be examined"):
                source.read_ranges([0], [2])
            if source.size > len(os.pread(source._file().fileno(), 10, 0)):
                with pytest.raises(SourceError, match="cannot be examined"):
                    source.read(0, 6)
            if not (tmp_path / "0").exists():
                with pytest.raises(SourceError, match="cannot be examined"):
                    source.check_unchanged()


def test_a_source_that_is_no_longer_used_closes_its_file(tmp_path: Path) -> None:
    (source,) = files(tmp_path, 1)
    descriptor = source._file().fileno()
    assert os.readlink(f"/proc/self/fd/{descriptor}") == str(tmp_path / "0")
    del source
    gc.collect()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_no_function_of_pythons_runs_while_a_source_goes(tmp_path: Path) -> None:
    """A Ctrl-C that comes in one would be lost: "Exception ignored in" is all that Python says of it."""
    (source,) = files(tmp_path, 1)
    called: list[str] = []
    sys.setprofile(lambda frame, event, _: called.append(frame.f_code.co_name) if event == "call" else None)
    del source
    sys.setprofile(None)
    assert called == []


def test_a_file_stays_open_while_it_is_read(tmp_path: Path, at_most_two: None) -> None:
    first, *others = files(tmp_path, 3)
    file = first._file()
    for other in others:
        other.read(0, 1)
    assert not is_open(first)
    assert os.pread(file.fileno(), 10, 0) == b"file 0"


def test_more_videos_than_the_process_may_have_files(sample) -> None:
    code = (
        "import resource, sys, warnings, videoloader as vl\n"
        "warnings.simplefilter('error')\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))\n"
        "videos = [vl.Video(sys.argv[1], device='cpu') for _ in range(400)]\n"
        "assert len({int(video[3].sum()) for video in videos}) == 1\n"
    )
    done = run_program(code, sample("h264_mp4"))
    assert (done.returncode, done.stderr) == (0, "")


def test_a_relative_path_means_what_the_system_takes_it_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a link, ``..`` leads up from where the link leads to, and after what is no folder nowhere."""
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "v.mp4").write_bytes(b"outer")
    (tmp_path / "a/v.mp4").write_bytes(b"inner")
    (tmp_path / "link").symlink_to("a/b")
    monkeypatch.chdir(tmp_path)
    source = FileSource("link/../v.mp4")
    assert source.read(0, 5) == pickle.loads(pickle.dumps(source)).read(0, 5) == b"inner"
    with open("link/../v.mp4", "rb") as file:
        assert pickle.loads(pickle.dumps(open_source(file))).read(0, 5) == b"inner"
    for name in ("nope/../v.mp4", "v.mp4::/../a/v.mp4", "v.mp4/../v.mp4"):
        with pytest.raises(SourceError, match="cannot be opened"):
            FileSource(name)
    monkeypatch.chdir(tmp_path / "a")
    assert source.read(0, 5) == b"inner"


def test_a_file_object_with_an_absolute_name_goes_to_other_processes_from_a_folder_that_was_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "v.mp4").write_bytes(b"video")
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with open(tmp_path / "v.mp4", "rb") as file:
        assert pickle.loads(pickle.dumps(open_source(file))).read(0, 5) == b"video"
