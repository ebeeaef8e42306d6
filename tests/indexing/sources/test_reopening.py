"""A folder of images is listed once for many clips, and again when its files are others."""

from __future__ import annotations

import os
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from archive_writing import tar_bytes, zip_bytes
from image_files import encoded, picture, write_frames
from range_server import serve

from videoloader.errors import SourceError, StaleIndexError
from videoloader.indexing import FileSource, MemorySource
from videoloader.indexing.sources import reopening
from videoloader.indexing.sources.directory_cache import DirectoryCache
from videoloader.indexing.sources.opening import open_source
from videoloader.indexing.sources.part import PartSource
from videoloader.indexing.sources.remote import RemoteSource
from videoloader.indexing.sources.reopening import reopen_source
from videoloader.indexing.sources.state import check_unchanged


def test_a_folder_is_listed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = str(write_frames(tmp_path / "frames", ["1.png", "2.png"]))
    first = reopen_source(folder)
    monkeypatch.setattr(reopening, "open_source", None)  # cannot be called
    assert reopen_source(folder) is first


@pytest.mark.parametrize("change", ["add", "remove", "rename", "replace"])
def test_a_folder_with_other_files_is_listed_again(tmp_path: Path, change: str) -> None:
    folder = write_frames(tmp_path / "frames", ["1.png", "2.png"])
    name = f"{folder}/*.png"
    before = reopen_source(name)
    os.utime(folder, ns=(0, 0))  # a clock may not tell a listing from a change right after it
    if change == "add":
        (folder / "3.png").write_bytes(b"more")
    elif change == "remove":
        (folder / "2.png").unlink()
    elif change == "rename":
        (folder / "2.png").rename(folder / "0.png")
    else:
        (tmp_path / "other.png").write_bytes(encoded(picture(7, (20, 20)), "PNG"))
        (tmp_path / "other.png").rename(folder / "2.png")
    after = reopen_source(name)
    assert after is not before
    assert (after.size, after.fingerprint) != (before.size, before.fingerprint)


def test_a_file_written_to_meanwhile_is_told_of(tmp_path: Path) -> None:
    folder = write_frames(tmp_path / "frames", ["1.png", "2.png"])
    reopen_source(str(folder))
    with (folder / "2.png").open("ab") as file:
        file.write(b"more")
    source = reopen_source(str(folder))
    with pytest.raises(SourceError, match=r"2\.png"):
        source.read(0, source.size)


def test_a_folder_that_is_gone_is_told_of(tmp_path: Path) -> None:
    folder = write_frames(tmp_path / "frames", ["1.png"])
    reopen_source(str(folder))
    (folder / "1.png").unlink()
    folder.rmdir()
    with pytest.raises(SourceError, match="frames"):
        reopen_source(str(folder))


def test_only_so_many_files_are_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reopening, "_listings", DirectoryCache(40, count=lambda folder: len(folder.files)))
    folders = [str(write_frames(tmp_path / name, ["1.png", "2.png"])) for name in "abc"]
    a, b, c = (reopen_source(folder) for folder in folders)
    assert reopen_source(folders[2]) is c
    assert reopen_source(folders[1]) is b
    assert reopen_source(folders[0]) is not a


def test_directories_without_entries_count_too() -> None:
    kept: DirectoryCache[list[int]] = DirectoryCache(1000)
    for number in range(1000):
        kept.get(number, list)
    assert 10 < len(kept._kept) < 100
    assert kept.kept(999) == []
    assert kept.kept(0) is None


def test_files_are_opened_as_ever(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"some")
    assert isinstance(reopen_source(str(tmp_path / "a.png")), FileSource)


def test_a_packed_member_of_a_remote_archive_may_be_older_than_an_index() -> None:
    old, new = (zip_bytes({"a.mp4": letter * 1000}, zipfile.ZIP_DEFLATED) for letter in (b"1", b"2"))
    with serve({"x.zip": old}) as server:
        name = f"{server.url}x.zip::a.mp4"
        assert open_source(name).read(0, 1) == b"1"
        server.files["x.zip"], server.version = new, "2"
        known = MemorySource(b"2" * 1000).state  # as another process sees it
        source = reopen_source(name, known)
        assert source.read(0, 1) == b"2"
        check_unchanged(source, known)


def test_what_is_remembered_of_a_remote_archive_may_be_older_than_an_index() -> None:
    old, new = (tar_bytes({"a.mp4": letter * 1000}) for letter in (b"1", b"2"))
    with serve({"x.tar": old}) as server:
        name = f"{server.url}x.tar::a.mp4"
        member = open_source(name)
        assert isinstance(member, PartSource)
        assert member.read(0, 1) == b"1"
        assert member.state is not None
        assert member.place is not None
        server.files["x.tar"], server.version = new, "2"
        # As another process sees it.
        other = PartSource(RemoteSource(f"{server.url}x.tar"), member.place.offset, member.size, name)
        assert other.read(0, 1) == b"2"
        assert other.state is not None
        known = replace(other.state, place=member.place)
        source = reopen_source(name, known)
        assert source.read(0, 1) == b"2"
        check_unchanged(source, known)
        before = replace(member.state, place=member.place)
        outdated = reopen_source(name, before)
        outdated.read(0, 1)
        with pytest.raises(StaleIndexError, match=r"x\.tar::a\.mp4: has changed"):
            check_unchanged(outdated, before)
