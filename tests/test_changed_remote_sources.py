"""A remote object that is replaced while in use gives an error that says so, never a mixture of frames."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import fsspec
import pytest
import torch
from archive_writing import recordio_bytes, tar_bytes
from range_server import RangeServer, serve

import videoloader as vl
from videoloader import StaleIndexError
from videoloader.indexing import build_index, open_source
from videoloader.indexing.sources.remote import RemoteSource
from videoloader.indexing.store.building import build_store

Sample = Callable[[str], Path]


@pytest.fixture
def server(sample: Sample) -> Iterator[RangeServer]:
    data = sample("h264_mp4").read_bytes()

    with serve({"clip.mp4": data, "all.tar": tar_bytes({"a.mp4": data})}) as running:
        yield running


class NewVersion:
    """Has a server change its version with the n-th answer from now on."""

    def __init__(self, server: RangeServer, answers: int) -> None:
        self.server, self.left = server, answers

    def __call__(self) -> None:
        self.left -= 1
        if self.left == 0:
            self.server.version = "2"


@pytest.mark.parametrize("name", ["clip.mp4", "all.tar::a.mp4"])
def test_another_version_between_clips(server: RangeServer, name: str, no_windows: None) -> None:
    video = vl.Video(server.url + name, device="cpu")
    video[3]
    server.version = "2"
    with pytest.raises(StaleIndexError, match='has changed while it was read: version "1", now "2"'):
        video[40]
    assert len(vl.Video(server.url + name, device="cpu")[0:60]) == 60


@pytest.mark.parametrize("answer", [1, 2, 3])
def test_another_version_during_a_clip(server: RangeServer, answer: int, no_windows: None) -> None:
    video = vl.Video(server.url + "clip.mp4", device="cpu")
    server.before_answer = NewVersion(server, answer)
    with pytest.raises(StaleIndexError, match="has changed"):
        [video[number] for number in (3, 20, 40, 59)]


@pytest.mark.parametrize("fingerprint", ["size", "content"])
def test_a_store_that_knows_no_versions_compares_sizes(
    server: RangeServer, sample: Sample, tmp_path: Path, fingerprint: Literal["size", "content"]
) -> None:
    data = vl.VideoDataset.from_paths([server.url + "clip.mp4"])
    build_store(data.paths, tmp_path / "store.db", workers=1, fingerprint=fingerprint)

    def frames() -> torch.Tensor:
        (batch,) = vl.VideoLoader(data, [3], batch_size=1, device="cpu", index=tmp_path / "store.db", num_workers=1)
        return batch.frames

    whole = frames()
    server.version = "2"  # as in another bucket
    assert torch.equal(frames(), whole)
    server.files["clip.mp4"] = sample("hevc_mp4").read_bytes()
    with pytest.raises(StaleIndexError, match=r"has changed since it was indexed or opened: .* bytes, now"):
        frames()


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("name", ["clip.mp4", "all.tar::a.mp4"])
def test_an_index_knows_the_version_that_it_was_made_of(
    server: RangeServer, tmp_path: Path, name: str, stored: bool, no_windows: None
) -> None:
    url = server.url + name
    index = build_index(url)
    if stored:
        build_store([url], tmp_path / "store.db", workers=1)
        index = vl.IndexStore(tmp_path / "store.db").get(url)
    assert vl.Video(url, index=index, device="cpu")[3].shape == (3, 128, 160)
    server.version = "2"
    reads = lambda video: video[3], lambda video: video.read([3]), lambda video: [*video.stream()]
    for read in reads:
        with pytest.raises(StaleIndexError, match="has changed"):
            read(vl.Video(url, index=index, device="cpu"))


@pytest.mark.parametrize("kind", ["http", "memory"])
def test_a_remote_archive_that_is_listed_again_is_read_anew(server: RangeServer, kind: str) -> None:
    def put(label: str) -> None:
        files = tar_bytes({"a.ts": label.encode() * 9, "a.cls": label.encode()})
        if kind == "http":
            server.files["small.tar"], server.version = files, label
        else:
            fsspec.filesystem("memory").pipe("/listed/small.tar", files)

    url = server.url + "small.tar" if kind == "http" else "memory://listed/small.tar"
    for label in ("1", "2"):
        put(label)
        (row,) = vl.VideoDataset.from_archives(url)
        assert row.label == int(label)
        assert open_source(row.path).read(0, 20) == label.encode() * 9


@pytest.mark.parametrize("kind", ["http", "memory"])
def test_a_remote_archive_is_not_read_with_the_keys_of_its_next_version(
    server: RangeServer, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both are replaced between the requests for the archive and for its keys."""

    def put(version: str, records: list[bytes], keys: tuple[int, int]) -> None:
        archive, (first, second) = recordio_bytes(records)
        files = {"keyed.rec": archive, "keyed.idx": b"%d\t%d\n%d\t%d\n" % (keys[0], first, keys[1], second)}
        if kind == "http":
            server.files.update(files)
            server.version = version
        else:
            for name, data in files.items():
                fsspec.filesystem("memory").pipe(f"/keyed/{name}", data)

    def replace_both(*_: object) -> None:
        server.before_answer = lambda: None
        put("2", [b"second" * 9, b"first!" * 9], (1, 0))

    put("1", [b"first!" * 9, b"second" * 9], (0, 1))
    if kind == "http":
        server.before_answer = lambda: replace_both() if len(server.requests) == 2 else None
        url = server.url + "keyed.rec"
    else:
        url, beside = "memory://keyed/keyed.rec", RemoteSource.beside
        monkeypatch.setattr(RemoteSource, "beside", lambda *given: replace_both() or beside(*given))
    with pytest.raises(StaleIndexError, match="has changed"):
        open_source(f"{url}::0").read(0, 6)
    monkeypatch.undo()
    assert open_source(f"{url}::0").read(0, 6) == b"first!"


def test_a_loader_compares_versions_without_further_requests(server: RangeServer) -> None:
    data = vl.VideoDataset.from_paths([server.url + "clip.mp4"])
    loader = vl.VideoLoader(data, vl.FrameList((3, 4)), batch_size=1, device="cpu", num_workers=1)
    server.forget()
    assert len(list(loader)) == 1
    asked = len(server.requests)
    source, index = open_source(server.url + "clip.mp4"), build_index(server.url + "clip.mp4")
    server.forget()
    vl.Video(source, index=index, device="cpu").read([3, 4])
    assert asked == len(server.requests)
    server.version = "2"
    with pytest.raises(StaleIndexError, match="has changed"):
        list(loader)


def test_a_weak_tag_is_the_same_tag(server: RangeServer, no_windows: None) -> None:
    video = vl.Video(server.url + "clip.mp4", device="cpu")
    server.weak = True
    assert video[40].shape == video[3].shape


def test_a_tag_that_is_no_text_is_a_tag(server: RangeServer, no_windows: None) -> None:
    server.version = "\xff"  # as a header this is a byte that is not UTF-8
    video = vl.Video(server.url + "clip.mp4", device="cpu")
    assert video[40].shape == video[3].shape
    server.version = "\xfe"
    with pytest.raises(StaleIndexError, match="has changed"):
        video[20]


def test_other_file_systems_are_asked_after_a_clip(sample: Sample) -> None:
    memory = fsspec.filesystem("memory")
    memory.pipe("/changing.mp4", sample("h264_mp4").read_bytes())
    video = vl.Video("memory://changing.mp4", device="cpu")
    video[3]
    memory.pipe("/changing.mp4", sample("h264_mp4").read_bytes())  # made at another time
    with pytest.raises(StaleIndexError, match="has changed while it was read: version"):
        video[3]


def test_a_remote_source_keeps_its_version_when_pickled(server: RangeServer) -> None:
    source, index = open_source(server.url + "clip.mp4"), build_index(server.url + "clip.mp4")
    assert source.size
    pickled = pickle.dumps(source)
    server.version = "2"
    with pytest.raises(StaleIndexError, match="has changed"):
        vl.Video(pickle.loads(pickled), index=index, device="cpu")[40]


@pytest.fixture
def no_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that each read asks the server."""
    monkeypatch.setattr("videoloader.indexing.sources.read_ahead.ReadAhead._keep", lambda *_: None)
