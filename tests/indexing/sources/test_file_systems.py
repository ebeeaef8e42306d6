"""File systems of fsspec: of each kind, and with odd answers."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import fsspec
import fsspec.asyn
import numpy as np
import pytest
import torch
from archive_writing import tar_bytes, zip_bytes
from forked_programs import run_program

from videoloader import Video, VideoDataset, VideoLoader, verify
from videoloader.dataset.archive_patterns import names_of_archives
from videoloader.errors import SourceError, StaleIndexError
from videoloader.indexing import open_source

DATA = bytes(range(256)) * 4000


class _BlockedFile(fsspec.spec.AbstractBufferedFile):
    fetched: list[tuple[int, int]] = []  # noqa: RUF012

    def _fetch_range(self, start: int, end: int) -> bytes:
        self.fetched.append((start, end))
        return DATA[start:end]


class _BlockedFileSystem(fsspec.AbstractFileSystem):
    """One of those that have nothing but buffered files."""

    protocol = "blocked"

    def info(self, path: str, **kwargs: object) -> dict[str, object]:
        return {"name": path, "size": len(DATA), "type": "file", "mtime": 1}

    def _open(self, path: str, mode: str = "rb", **kwargs: object) -> io.IOBase:
        return _BlockedFile(self, path, mode, size=len(DATA), **kwargs)


def test_file_systems_with_a_cache_of_their_own_fetch_no_more_than_is_read() -> None:
    fsspec.register_implementation("blocked", _BlockedFileSystem, clobber=True)
    assert open_source("blocked://x").read_ranges([500_000], [10]) == [DATA[500_000:500_010]]
    assert _BlockedFile.fetched == [(500_000, 500_010)]


class _OddFileSystem(fsspec.AbstractFileSystem):
    """One whose answers have other types than fsspec's own."""

    protocol = "odd"
    facts: ClassVar[Any] = {"size": len(DATA), "type": "file"}
    give: Callable[[bytes], Any] = bytearray

    def info(self, path: str, **kwargs: object) -> Any:
        if isinstance(self.facts, BaseException):
            raise self.facts
        return self.facts

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **kwargs: object) -> Any:
        return type(self).give(DATA[start:end])


@pytest.fixture
def odd(monkeypatch: pytest.MonkeyPatch) -> type[_OddFileSystem]:
    fsspec.register_implementation("odd", _OddFileSystem, clobber=True)
    for name in ("facts", "give"):
        monkeypatch.setattr(_OddFileSystem, name, _OddFileSystem.__dict__[name])  # to be put back
    return _OddFileSystem


@pytest.mark.parametrize("give", [bytearray, memoryview, lambda data: np.frombuffer(data, np.uint8)])
def test_a_file_system_may_give_anything_that_holds_bytes(odd: Any, give: Callable[[bytes], Any]) -> None:
    odd.give = give
    (read,) = open_source("odd://x").read_ranges([500_000], [10])
    assert (type(read), read) == (bytes, DATA[500_000:500_010])


@pytest.mark.parametrize("give", [lambda data: data.decode("latin1"), list, lambda _: None])
def test_a_file_system_that_gives_no_bytes_is_an_error(odd: Any, give: Callable[[bytes], Any]) -> None:
    odd.give = give
    with pytest.raises(SourceError, match=r"cannot be read at byte 500000 \(TypeError"):
        open_source("odd://x").read_ranges([500_000], [10])


@pytest.mark.parametrize("facts", [None, [], {5: 6}, {None: 1}, {"type": np.arange(3)}, asyncio.CancelledError()])
def test_a_file_system_that_gives_odd_facts_is_an_error(odd: Any, facts: Any) -> None:
    odd.facts = facts
    with pytest.raises(SourceError, match=r"^odd://x: cannot be (opened|read: the server does not state its size)"):
        open_source("odd://x").size  # noqa: B018


@pytest.mark.parametrize("size", [-1, -80_971, 1.5, "9"])
def test_a_size_that_cannot_be_is_an_error(odd: Any, size: Any) -> None:
    odd.facts = {"size": size, "type": "file"}
    for read in (lambda: open_source("odd://x").size, lambda: open_source("odd://x::a.mp4")):
        with pytest.raises(SourceError, match=r"^odd://x: cannot be read: the server does not state its size"):
            read()


@pytest.mark.parametrize(
    "name",
    ["ETag", "LastModified", "last_modified", "modificationTime", "modify", "mtime", "blob_id", "xet_hash", "sha",
     "hex", "content-md5", "md5Hash", "versionId", "server_modified"],
)  # fmt: skip
def test_a_new_version_is_noticed_however_it_is_told(odd: Any, name: str) -> None:
    odd.facts = {"size": len(DATA), "type": "file", name: 1}
    source = open_source("odd://x")
    before = source.fingerprint
    source.check_unchanged()
    odd.facts = {"size": len(DATA), "type": "file", name: 2}
    assert open_source("odd://x").fingerprint != before
    with pytest.raises(StaleIndexError, match=rf"has changed while it was read: version .*{name}"):
        source.check_unchanged()


def test_what_tells_nothing_of_the_content_may_change(odd: Any) -> None:
    odd.facts = {"size": len(DATA), "type": "file", "atime": 1, "name": "a"}
    source = open_source("odd://x")
    assert source.fingerprint
    odd.facts = {"size": len(DATA), "type": "file", "atime": 2, "name": "b"}
    source.check_unchanged()


class _ListedFileSystem(fsspec.AbstractFileSystem):
    """One that tells of files what the last listing of their folder told, as that of S3 does."""

    protocol = "listed"
    version: ClassVar[int] = 1
    names: ClassVar[list[str]] = ["a.tar"]

    def ls(self, path: str, detail: bool = True, **kwargs: object) -> Any:
        path = self._strip_protocol(path)
        if path not in self.dircache:
            self.dircache[path] = [
                {"name": f"{path}/{name}", "size": len(DATA), "type": "file", "ETag": self.version}
                for name in self.names
            ]
        return self.dircache[path]

    def info(self, path: str, **kwargs: object) -> Any:
        path = self._strip_protocol(path)
        if path == "bucket":
            return {"name": path, "size": 0, "type": "directory"}
        return next(each for each in self.ls(self._parent(path)) if each["name"] == path)

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **kwargs: object) -> bytes:
        return DATA[start:end]


def test_a_listing_that_a_file_system_keeps_is_not_asked_for_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    fsspec.register_implementation("listed", _ListedFileSystem, clobber=True)
    assert names_of_archives("listed://bucket/*.tar") == ["listed://bucket/a.tar"]
    source = open_source("listed://bucket/a.tar")
    source.read(0, 10)
    monkeypatch.setattr(_ListedFileSystem, "version", 2)
    with pytest.raises(StaleIndexError, match="version"):
        source.check_unchanged()
    monkeypatch.setattr(_ListedFileSystem, "names", ["a.tar", "b.tar"])
    assert len(names_of_archives("listed://bucket/*.tar")) == 2


class _AsyncFileSystem(fsspec.asyn.AsyncFileSystem):
    """One of the kind that clouds have; what it is told to lose is missing at the end of each range."""

    protocol = "asynchronous"
    lost = 0
    looks = 0

    async def _info(self, path: str, **kwargs: object) -> dict[str, object]:
        type(self).looks += 1
        return {"name": path, "size": len(DATA), "type": "file", "ETag": "1"}

    async def _cat_file(self, path: str, start: int, end: int, **kwargs: object) -> bytes:
        if start >= len(DATA):
            raise OSError("416")
        return DATA[start : end - self.lost]


@pytest.mark.parametrize("scheme", ["asynchronous", "odd", "blocked"])
def test_there_is_nothing_to_read_at_the_end(odd: Any, scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_AsyncFileSystem, "looks", 0)  # to be put back
    fsspec.register_implementation("asynchronous", _AsyncFileSystem, clobber=True)
    fsspec.register_implementation("blocked", _BlockedFileSystem, clobber=True)
    source = open_source(f"{scheme}://x")
    assert source.read(source.size, 10) == source.read(source.size + 5, 10) == b""
    assert source.read(source.size - 2, 10) == DATA[-2:]
    assert source.read_ranges([source.size, 3], [10, 2]) == [b"", DATA[3:5]]


class _CloudFileSystem(fsspec.asyn.AsyncFileSystem):
    protocol = "cloud"
    files: ClassVar[dict[str, bytes]] = {}

    async def _info(self, path: str, **kwargs: object) -> dict[str, object]:
        return {"name": path, "size": len(self.files[path]), "type": "file", "ETag": str(hash(self.files[path]))}

    async def _cat_file(self, path: str, start: int, end: int, **kwargs: object) -> bytes:
        return self.files[path][start:end]


@pytest.mark.parametrize("name", ["h264_mp4", "vp9_webm", "mpeg2_ts", "mpeg4_avi", "hevc_mkv"])
def test_videos_in_a_cloud_are_those_on_disk(sample: Callable[[str], Path], name: str) -> None:
    fsspec.register_implementation("cloud", _CloudFileSystem, clobber=True)
    path = sample(name)
    _CloudFileSystem.files = {name: path.read_bytes(), f"{name}.zip": zip_bytes({"x": path.read_bytes()})}
    frames = Video(path, device="cpu")[:]
    for url in (f"cloud://{name}", f"cloud://{name}.zip::x"):
        assert torch.equal(Video(url, device="cpu")[:], frames)
    assert verify(f"cloud://{name}", device="cpu").ok


@pytest.mark.parametrize("chain", ["tar://a.mp4::{}", "{}::a.mp4"])
def test_a_member_of_an_archive_that_is_replaced_is_not_given(odd: Any, chain: str) -> None:
    fsspec.register_implementation("cloud", _CloudFileSystem, clobber=True)
    old, new = (tar_bytes({"b.mp4": letter * 700, "a.mp4": letter * 700}) for letter in (b"1", b"2"))
    _CloudFileSystem.files = {f"{len(chain)}.tar": old}
    source = open_source(chain.format(f"cloud://{len(chain)}.tar"))
    assert source.read(0, 2) == b"11"
    _CloudFileSystem.files = {f"{len(chain)}.tar": new}
    with pytest.raises(StaleIndexError):
        source.check_unchanged()


def test_clouds_are_asked_for_ranges_and_their_answers_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    fsspec.register_implementation("asynchronous", _AsyncFileSystem, clobber=True)
    source = open_source("asynchronous://x")
    assert source.read_ranges([500_000, 3], [10, 10]) == [DATA[500_000:500_010], DATA[3:13]]
    assert _AsyncFileSystem.looks == 0  # a clip whose index is known costs no request but its ranges
    assert source.read_ranges([len(DATA) + 7, len(DATA) - 3], [10, 10]) == [b"", DATA[-3:]]
    assert source.read(7, 9) == DATA[7:16]
    monkeypatch.setattr(_AsyncFileSystem, "lost", 1)
    with pytest.raises(SourceError, match="asynchronous://x: of the bytes 500000 to 500010 the server sent 9"):
        source.read_ranges([500_000], [10])


def test_a_folder_behind_a_url() -> None:
    fsspec.filesystem("memory").pipe("/folder/clip.mp4", b"x")
    with pytest.raises(SourceError, match=r"memory://folder: cannot be opened \(Is a directory"):
        Video("memory://folder", device="cpu")


class _WithoutText(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")

    def __bool__(self) -> bool:
        raise ValueError("no truth")


class _OddSize(int):
    def __lt__(self, other: object) -> bool:
        raise ValueError("no order")


@pytest.mark.parametrize("facts", [_WithoutText(), OSError(_WithoutText()), {"size": _OddSize(-1), "type": "file"}])
def test_odd_objects_of_a_file_system_are_errors_of_the_video(odd: Any, facts: Any) -> None:
    odd.facts = facts
    data = VideoDataset.from_paths(["odd://x/a.mp4"])
    for use in (
        lambda: Video("odd://x/a.mp4", device="cpu"),
        lambda: VideoLoader(data, [0], batch_size=1, device="cpu", num_processes=0),
        lambda: VideoDataset.from_archives("odd://x/a.tar"),
    ):
        with pytest.raises(SourceError, match="odd://x/a"):
            use()


def test_an_event_loop_that_has_ended_is_not_waited_for() -> None:
    program = """
import videoloader as vl
from fsspec import register_implementation
from fsspec.asyn import AsyncFileSystem

class Leaving(AsyncFileSystem):
    protocol = "leaving"
    async def _info(self, path, **kwargs):
        raise SystemExit(3)

register_implementation("leaving", Leaving)
for _ in range(2):
    try:
        vl.Video("leaving://a.mp4", device="cpu")
    except vl.SourceError as error:
        print(error)
"""
    told = run_program(program).stdout.splitlines()
    assert [line.partition(", by")[0] for line in told] == [
        "leaving://a.mp4: cannot be opened (RuntimeError: the event loop has ended"
    ] * 2
