"""Members of archives: a store knows where they lie, so nothing else of an archive is read."""

from __future__ import annotations

import os
import sqlite3
import zipfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import torch
from any_index import assert_same_index
from archive_writing import tar_bytes
from range_server import RangeServer, serve

import videoloader as vl
from videoloader.errors import StaleIndexError
from videoloader.indexing import build_store
from videoloader.indexing.sources import opening, tar
from videoloader.indexing.store.schema import COLUMNS

NEW = ("archive", "byte_offset", "byte_size", "first_time_s", "last_time_s", "is_even", "first_key_frame",
       "frames_without_key", "time_rule")  # fmt: skip


# What the first stores were made by.
VERSION_1 = (
    "CREATE TABLE videos (id INTEGER PRIMARY KEY, source TEXT NOT NULL UNIQUE, fingerprint TEXT, error_type TEXT, "
    "error TEXT, indexer INTEGER, container TEXT, method TEXT, codec TEXT, width INTEGER, height INTEGER, rotation "
    "INTEGER, fps REAL, duration_s REAL, frames INTEGER, packets INTEGER, keyframes INTEGER, longest_gop INTEGER, "
    "is_vfr INTEGER, bit_depth INTEGER, chroma TEXT, color_primaries INTEGER, color_transfer INTEGER, color_matrix "
    "INTEGER, color_range TEXT, byte_ranges INTEGER, size_varies INTEGER, encrypted INTEGER)"
)


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
    build_store([f"{url}::{number:03}.mp4" for number in (7, 50)], tmp_path / "remote.db", workers=1)
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
    build_store([path], tmp_path / "remote.db", workers=1)
    forget_archives()
    server.version = "2"
    with pytest.raises(StaleIndexError):
        first_frames(vl.IndexStore(tmp_path / "remote.db"), path)


def test_a_local_archive_is_not_listed(
    archive: Path, members: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    paths, size = [f"{archive}::{name}" for name in members], len(members["001.mp4"])
    build_store(paths, tmp_path / "local.db", workers=1)
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
    build_store([tmp_path / "set" / "data.tar::000.mp4"], tmp_path / "set" / "index.db", workers=1)
    (tmp_path / "set").rename(tmp_path / "moved")
    store = vl.IndexStore(tmp_path / "moved" / "index.db")
    _, state = store.look_up(f"{tmp_path}/moved/data.tar::000.mp4")
    assert state is not None
    assert state.place is not None
    assert state.place.archive == f"{tmp_path}/moved/data.tar"
    assert first_frames(store, f"{tmp_path}/moved/data.tar::000.mp4").shape[1] == 2


@pytest.mark.parametrize("verify", [True, False])
def test_where_an_archive_was_written_anew_its_places_are_not_believed(
    archive: Path, members: dict[str, bytes], videos: list[Path], tmp_path: Path, verify: bool
):
    path = f"{archive}::050.mp4"
    build_store([path], tmp_path / "local.db", workers=1)
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
    build_store(paths, tmp_path / "index.db", workers=1)
    store = vl.IndexStore(tmp_path / "index.db")
    assert [place for (place,) in store.query("SELECT archive FROM videos ORDER BY source LIKE '%stored%'")] == [
        *[None] * 3,
        "both.zip",
    ]
    for path in paths[:2]:
        assert first_frames(store, path).shape[1] == 2


def test_a_store_of_before_is_brought_up_to_date_out_of_its_own_rows(
    archive: Path, videos: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    paths = [f"{archive}::000.mp4", f"{videos[0]}::stream_index=0", *map(str, videos)]
    path = tmp_path / "index.db"
    build_store(paths, path, workers=1)
    store = vl.IndexStore(path)
    now = sorted(store.query(f"SELECT {', '.join(COLUMNS)} FROM videos"))
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(
            f"""BEGIN; ALTER TABLE videos RENAME TO new; {VERSION_1};
            INSERT INTO videos SELECT id, {", ".join(name for name in COLUMNS if name not in NEW)} FROM new;
            DROP TABLE new; PRAGMA user_version = 1; COMMIT"""
        )
    with pytest.raises(vl.IndexingError, match=r"version 1, of an earlier videoloader: build_store\(\[\], path\)"):
        vl.IndexStore(path)
    monkeypatch.setattr("videoloader.indexing.build.build_index", None)
    report = build_store([], path, workers=1)
    assert (report.indexed, report.unchanged) == (0, 0)
    store = vl.IndexStore(path)
    assert sorted(store.query(f"SELECT {', '.join(COLUMNS)} FROM videos")) == now
    assert_same_index(store.get(videos[0]), vl.IndexStore(path).get(videos[0]))
    assert build_store(paths, path, workers=1).unchanged == len(paths)
