"""Paths that are not UTF-8 can be opened, stored, looked up, and printed in every error, warning and repr."""

from __future__ import annotations

import os
import pickle
import shutil
import tarfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from videoloader import EveryWindow, Video, VideoDataset, VideoLoader, verify
from videoloader.errors import SourceError, VideoLoaderError
from videoloader.indexing import IndexStore, build_index, build_store, open_source


@pytest.fixture
def folder(tmp_path: Path, sample: Callable[[str], Path]) -> str:
    """A folder of a name that is no UTF-8, with a video, one that is none, and an archive of such names."""
    path = os.fsdecode(os.fsencode(tmp_path) + b"/dir\xff")
    os.mkdir(path)
    shutil.copy(sample("h264_mp4"), os.path.join(path, os.fsdecode(b"clip\xfe.mp4")))
    Path(path, os.fsdecode(b"broken\xfd.mp4")).write_bytes(b"no video" * 100)
    with tarfile.open(os.path.join(path, os.fsdecode(b"shard\xfa.tar")), "w") as tar:
        tar.add(sample("h264_mp4"), os.fsdecode(b"member\xf9.mp4"))
    return path


@pytest.fixture(autouse=True)
def printable_warnings() -> Iterator[None]:
    """What users are told can be printed."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        yield
    for each in told:
        str(each.message).encode()


def named(folder: str, name: bytes) -> str:
    return os.path.join(folder, os.fsdecode(name))


def can_be_printed(thing: object) -> None:
    str(thing).encode()
    repr(thing).encode()


def test_a_video_is_opened_and_printed(folder: str) -> None:
    path = named(folder, b"clip\xfe.mp4")
    video = Video(path, device="cpu")
    assert video[-1].shape[0] == 3
    can_be_printed(video)
    can_be_printed(build_index(named(folder, b"shard\xfa.tar::member\xf9.mp4")))
    assert pickle.loads(pickle.dumps(open_source(path))).name == path


FAILS: dict[str, Callable[[str], object]] = {
    "range": lambda folder: Video(named(folder, b"clip\xfe.mp4"), device="cpu")[1000],
    "broken": lambda folder: build_index(named(folder, b"broken\xfd.mp4")),
    "missing": lambda folder: build_index(named(folder, b"missing\xfc.mp4")),
    "member": lambda folder: build_index(named(folder, b"shard\xfa.tar::other\xf9.mp4")),
    "images": lambda folder: build_index(folder),
    "pattern": lambda folder: build_index(named(folder, b"\xf8*.png")),
    "URL": lambda folder: build_index("http://127.0.0.1:9/" + os.fsdecode(b"\xf7.mp4")),
    "row": lambda folder: VideoLoader(VideoDataset.from_folder(folder), EveryWindow(2), batch_size=1, device="cpu"),
    "store": lambda folder: IndexStore(folder),
    "table": lambda folder: VideoDataset.from_csv(named(folder, b"none\xf6.csv")),
}


@pytest.mark.parametrize("fails", FAILS)
def test_an_error_can_be_printed(folder: str, fails: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIDEOLOADER_RETRIES", "0")
    with pytest.raises(VideoLoaderError) as error:
        FAILS[fails](folder)
    can_be_printed(error.value)
    for note in getattr(error.value, "__notes__", ()):
        note.encode()
    again = pickle.loads(pickle.dumps(error.value))
    assert (str(again), again.source) == (str(error.value), error.value.source)


def test_a_store_and_a_loader_know_them(folder: str) -> None:
    path = named(folder, b"clip\xfe.mp4")
    data = VideoDataset.from_folder(folder)
    where = named(folder, b"store\xfb.db")
    can_be_printed(build_store(data.table.path, where, workers=1))
    store = IndexStore(where)
    assert len(store.get(path)) == 60
    can_be_printed(list(store.errors()))
    with pytest.raises(VideoLoaderError) as error:
        store.get(named(folder, b"missing\xfc.mp4"))
    can_be_printed(error.value)
    for index in (None, store):
        loader = VideoLoader(data, EveryWindow(30), batch_size=2, device="cpu", index=index, on_error="skip")
        (batch,) = loader
        assert batch.paths == [path, path]
        can_be_printed(loader.unreadable)
        can_be_printed(batch)
    can_be_printed(data.describe(store=where))
    os.utime(path)
    with pytest.raises(VideoLoaderError) as error:
        store.get(path)
    can_be_printed(error.value)


def test_a_report_can_be_printed(folder: str) -> None:
    can_be_printed(verify(named(folder, b"broken\xfd.mp4"), device="cpu"))


def test_a_key_of_a_database(tmp_path: Path) -> None:
    lmdb = pytest.importorskip("lmdb")
    with lmdb.open(str(tmp_path / "db")) as database, database.begin(write=True) as transaction:
        transaction.put(b"key\xff", b"value")
    assert open_source(str(tmp_path / "db") + os.fsdecode(b"::key\xff")).read(0, 9) == b"value"
    with pytest.raises(VideoLoaderError) as error:
        open_source(str(tmp_path / "db") + os.fsdecode(b"::\xfe"))
    can_be_printed(error.value)


def test_what_steers_a_terminal_is_written_out(tmp_path: Path) -> None:
    path = tmp_path / "a\x1b[31m\x07\x9b0m\u202e4pm.mp4"
    with pytest.raises(VideoLoaderError, match=r"a\\x1b\[31m\\x07\\x9b0m\\u202e4pm\.mp4: cannot be opened"):
        build_index(path)


@pytest.mark.parametrize("name", ["a\0b", "a\ud800"])
def test_a_name_that_no_file_can_have(tmp_path: Path, name: str) -> None:
    path = os.path.join(tmp_path, name)
    doors = [open_source, VideoDataset.from_csv, VideoDataset.from_folder, VideoDataset.from_archives]
    for door in doors:
        with pytest.raises(SourceError, match=r"cannot be (opened|read)"):
            door(path)
    if name == "a\ud800":
        with pytest.raises(SourceError, match="no file can have this name"):
            build_store([path], tmp_path / "index.db")
