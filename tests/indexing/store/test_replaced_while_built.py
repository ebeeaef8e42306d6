"""A file that is replaced while a store is built: its row is stale or new, but never the index of another file."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from sample_videos import Recipe, write_video
from store_contents import build_here

from videoloader.errors import StaleIndexError
from videoloader.indexing import IndexStore, VideoIndex, build_index, build_store
from videoloader.indexing.store import fingerprints, tasks
from videoloader.indexing.store.building import StoreBuild
from videoloader.indexing.store.fingerprints import FingerprintKind
from videoloader.indexing.store.tasks import answer_task

KINDS: list[FingerprintKind] = ["mtime", "size", "content"]


@pytest.fixture
def video(tmp_path: Path, sample: Callable[[str], Path]) -> Path:
    """A video of 60 frames; beside it is another one of 24."""
    shutil.copy(sample("h264_mp4"), tmp_path / "video.mp4")
    write_video(tmp_path / "other.mp4", Recipe("mp4", "libx264", frames=24))
    assert len(build_index(tmp_path / "video.mp4")) != len(build_index(tmp_path / "other.mp4"))
    return tmp_path / "video.mp4"


def _put(other: Path, video: Path) -> None:
    shutil.copy2(other, f"{other}.copy")
    os.replace(f"{other}.copy", video)


def _is_told_right(video: Path, store: Path) -> bool:
    """Whether the store has no other video's index, and the next build has the video's own."""
    try:
        known = len(IndexStore(store).get(video))
    except StaleIndexError:
        known = len(build_index(video))
    build_here([video], store)
    return known == len(IndexStore(store).get(video)) == len(build_index(video))


def test_a_fingerprint_is_renewed_for_the_bytes_that_were_compared(
    video: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, plain = tmp_path / "s.db", fingerprints._hash
    build_here([video], store, fingerprint="content")
    os.utime(video, ns=(1, 10**18))
    with monkeypatch.context() as patch:
        patch.setattr(fingerprints, "_hash", lambda opened: (plain(opened), _put(tmp_path / "other.mp4", video))[0])
        build_here([video], store)
    assert _is_told_right(video, store)


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_lies_there_for_a_moment_is_not_indexed_under_the_fingerprint_of_another(
    kind: FingerprintKind, video: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def index(source: object) -> VideoIndex:
        os.rename(video, tmp_path / "kept.mp4")
        shutil.copy(tmp_path / "other.mp4", video)
        try:
            return build_index(source)  # type: ignore[arg-type]
        finally:
            os.rename(tmp_path / "kept.mp4", video)

    with monkeypatch.context() as patch:
        patch.setattr(tasks, "build_index", index)
        build_here([video], tmp_path / "s.db", fingerprint=kind)
    build_here([video], tmp_path / "s.db")
    assert _is_told_right(video, tmp_path / "s.db")


def test_an_error_of_a_file_that_lies_there_for_a_moment_is_not_the_other_s(
    video: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = tasks.open_source

    def opened(name: str) -> object:
        os.rename(video, tmp_path / "kept.mp4")
        os.mkdir(video)  # an empty folder is no video
        try:
            return plain(name)
        finally:
            os.rmdir(video)
            os.rename(tmp_path / "kept.mp4", video)
            os.utime(video)

    with monkeypatch.context() as patch:
        patch.setattr(tasks, "open_source", opened)
        assert len(build_here([video], tmp_path / "s.db").unreadable) == 1
    assert build_here([video], tmp_path / "s.db").indexed == 1


def test_a_build_renews_no_fingerprint_of_a_row_that_another_one_has_written(video: Path, tmp_path: Path) -> None:
    store, old = tmp_path / "s.db", tmp_path / "old.mp4"
    shutil.copy2(video, old)
    build_here([video], store, fingerprint="content")
    os.utime(video, ns=(1, 10**18))
    with StoreBuild([video], store) as slow:
        answers = [answer_task(task) for tasks in slow.chunks() for task in tasks]
        _put(tmp_path / "other.mp4", video)
        assert build_store([video], store, workers=1).indexed == 1
        slow.add(answers)
        assert slow.finish(prune=False).unchanged == 1
    assert len(IndexStore(store).get(video)) == len(build_index(video))
    _put(old, video)
    assert _is_told_right(video, store)
