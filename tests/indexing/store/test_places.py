"""Members of archives: a store knows where they lie, so nothing else of an archive is read."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from archive_writing import tar_bytes
from range_server import RangeServer, serve
from store_contents import build_here

import videoloader as vl
from videoloader.errors import StaleIndexError
from videoloader.indexing.sources import opening, tar
from videoloader.indexing.store.keys import SourceKeys


@pytest.fixture
def members(videos: list[Path]) -> dict[str, bytes]:
    return {f"{number:03}.mp4": videos[0].read_bytes() for number in range(100)}


@pytest.fixture
def archive(members: dict[str, bytes], tmp_path: Path) -> Path:
    path = tmp_path / "data.tar"
    path.write_bytes(tar_bytes(members))
    return path


@pytest.fixture
def server(archive: Path) -> Iterator[RangeServer]:
    with serve({"data.tar": archive.read_bytes()}) as server:
        yield server


def forget_archives() -> None:
    """What a process that begins knows of archives: nothing."""
    tar._directories._clear()
    opening._kept_remote.cache_clear()


def first_frames(store: vl.IndexStore, path: str) -> torch.Tensor:
    data = vl.VideoDataset.from_paths([path])
    loader = vl.VideoLoader(data, vl.FrameList([0, 1]), batch_size=1, device="cpu", num_workers=0, index=store)
    (batch,) = loader
    return batch.frames


def test_a_clip_of_a_member_takes_one_request_of_a_server(server: RangeServer, videos: list[Path], tmp_path: Path):
    url = f"{server.url}data.tar"
    build_here([f"{url}::{number:03}.mp4" for number in (7, 50)], tmp_path / "remote.db")
    for store, most in (
        (vl.IndexStore(tmp_path / "remote.db"), 1),
        (vl.IndexStore(tmp_path / "remote.db", verify=False), 2),
    ):
        forget_archives()
        server.forget()
        frames = first_frames(store, f"{url}::050.mp4")
        assert len(server.requests) <= most
        assert torch.equal(frames, vl.Video(videos[0], device="cpu")[:2][None])


def test_another_archive_at_the_same_url_is_an_error(server: RangeServer, tmp_path: Path):
    path = f"{server.url}data.tar::050.mp4"
    build_here([path], tmp_path / "remote.db")
    forget_archives()
    server.version = "2"
    with pytest.raises(StaleIndexError):
        first_frames(vl.IndexStore(tmp_path / "remote.db"), path)


def test_a_local_archive_is_not_listed(
    archive: Path, members: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    paths, size = [f"{archive}::{name}" for name in members], len(members["001.mp4"])
    build_here(paths, tmp_path / "local.db")
    monkeypatch.setattr(tar, "_walk", None)
    forget_archives()
    store = vl.IndexStore(tmp_path / "local.db")
    assert store.query("SELECT archive, byte_offset, byte_size FROM videos WHERE source LIKE '%::001.mp4'") == [
        ("data.tar", 512 + size + -size % 512 + 512, size)
    ]
    assert store.frame_counts(paths)[0].tolist() == [60] * 100
    assert first_frames(store, paths[3]).shape[1] == 2


def test_members_of_a_moved_data_set_are_read_where_their_paths_say(archive: Path, tmp_path: Path):
    (tmp_path / "set").mkdir()
    archive.rename(tmp_path / "set" / "data.tar")
    build_here([tmp_path / "set" / "data.tar::000.mp4"], tmp_path / "set" / "index.db")
    (tmp_path / "set").rename(tmp_path / "moved")
    store = vl.IndexStore(tmp_path / "moved" / "index.db")
    state = store.get(f"{tmp_path}/moved/data.tar::000.mp4").state
    assert state is not None
    assert state.place is not None
    assert state.place.archive == f"{tmp_path}/moved/data.tar"
    assert first_frames(store, f"{tmp_path}/moved/data.tar::000.mp4").shape[1] == 2


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/a/../b//c.zip::d/../e//f", "/b/c.zip::d/../e//f"),
        ("/a/./run::timestamps=../../times.txt", "/a/run::timestamps=../../times.txt"),
        ("/a/::b", "/a/::b"),
        ("/::b", "/::b"),
    ],
)
def test_only_what_is_before_two_colons_is_a_path(path: str, expected: str):
    assert SourceKeys.absolute(path) == expected
    assert SourceKeys.absolute(os.path.relpath("/", os.getcwd()) + path) == expected


def test_the_names_of_members_are_no_paths(videos: list[Path], tmp_path: Path):
    (tmp_path / "zips").mkdir()
    (tmp_path / "secret.mp4").write_bytes(videos[0].read_bytes())
    names = ["a.mp4", "v/../a.mp4", "v/./a.mp4", "v//a.mp4", "v/a.mp4", "v/../../../secret.mp4", "http://a/b"]
    with zipfile.ZipFile(tmp_path / "zips/all.zip", "w") as archive:
        for number, name in enumerate(names):
            archive.writestr(name, videos[number % 5].read_bytes())
    paths = [f"{tmp_path}/zips/../zips//all.zip::{name}" for name in names]
    report = build_here(paths, tmp_path / "zips/index.db")
    assert report.indexed == len(names)
    found = vl.VideoDataset.from_store(tmp_path / "zips/index.db").paths
    assert sorted(found) == sorted(f"{tmp_path}/zips/all.zip::{name}" for name in names)
    data = vl.VideoDataset.from_paths(found)
    for batch in vl.VideoLoader(data, [0], batch_size=1, device="cpu", index=tmp_path / "zips/index.db"):
        assert torch.equal(batch.frames[0, 0], vl.Video(batch.paths[0], device="cpu")[0])


@pytest.mark.parametrize("verify", [True, False])
def test_where_an_archive_was_written_anew_its_places_are_not_believed(
    archive: Path, members: dict[str, bytes], videos: list[Path], tmp_path: Path, verify: bool
):
    path = f"{archive}::050.mp4"
    build_here([path], tmp_path / "local.db")
    archive.write_bytes(tar_bytes({"more.txt": bytes(5000), **members}))
    os.utime(archive, (1, 1))
    forget_archives()
    store = vl.IndexStore(tmp_path / "local.db", verify=verify)
    if verify:
        with pytest.raises(StaleIndexError):
            first_frames(store, path)
    else:
        assert torch.equal(first_frames(store, path), vl.Video(videos[0], device="cpu")[:2][None])


def test_what_does_not_lie_in_one_piece_has_no_place(videos: list[Path], tmp_path: Path):
    with zipfile.ZipFile(tmp_path / "both.zip", "w") as file:
        file.write(videos[0], "stored.mp4", zipfile.ZIP_STORED)
        file.write(videos[0], "deflated.mp4", zipfile.ZIP_DEFLATED)
    paths = [f"{tmp_path}/both.zip::{name}.mp4" for name in ("stored", "deflated")]
    paths += [f"{videos[0]}::stream_index=0", str(videos[1])]
    build_here(paths, tmp_path / "index.db")
    store = vl.IndexStore(tmp_path / "index.db")
    assert [place for (place,) in store.query("SELECT archive FROM videos ORDER BY source LIKE '%stored%'")] == [
        *[None] * 3,
        "both.zip",
    ]
    for path in paths[:2]:
        assert first_frames(store, path).shape[1] == 2
