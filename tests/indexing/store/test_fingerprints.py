"""By what a store knows a video again: size and time, size alone, or all bytes."""

from __future__ import annotations

import os
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from store_contents import build_here

from videoloader import EveryWindow, VideoDataset, VideoLoader
from videoloader.errors import ConfigurationError, StaleIndexError
from videoloader.indexing import IndexStore, build_store
from videoloader.indexing.store import fingerprints
from videoloader.indexing.store.fingerprints import FingerprintKind


@pytest.fixture
def data(tmp_path: Path, sample: Callable[[str], Path]) -> Path:
    """A folder with a file, a member of an archive, and a folder of images."""
    folder = tmp_path / "data"
    (folder / "frames").mkdir(parents=True)
    shutil.copy(sample("h264_mp4"), folder / "a.mp4")
    with tarfile.open(folder / "shard.tar", "w") as tar:
        tar.add(sample("hevc_mp4"), "b.mp4")
    for number in range(3):
        (folder / "frames" / f"{number}.pgm").write_bytes(b"P5 1 1 255\n%d" % number)
    return folder


def sources(data: Path) -> list[str]:
    return [f"{data}/a.mp4", f"{data}/shard.tar::b.mp4", f"{data}/frames"]


def copied(data: Path) -> Path:
    """Another folder of the same bytes, with other times of change."""
    copy = data.parent / "copy"
    shutil.copytree(data, copy)
    for path in [*copy.rglob("*"), copy]:
        if path.suffix != ".db":
            os.utime(path, ns=(1, 10**18))
    return copy


def change_a_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(1, 2 * 10**18))


@pytest.mark.parametrize("kind", ["size", "content"])
def test_a_copy_of_a_data_set_is_not_stale(data: Path, kind: FingerprintKind) -> None:
    build_here(sources(data), data / "index.db", fingerprint=kind)
    copy = copied(data)
    store = IndexStore(copy / "index.db")
    assert [len(store.get(source)) for source in sources(copy)] == [60, 60, 3]
    counts, errors = store.frame_counts(sources(copy))
    assert (counts.tolist(), errors) == ([60, 60, 3], {})
    loader = VideoLoader(
        VideoDataset.from_paths(sources(copy)[:2]), EveryWindow(30), batch_size=2, device="cpu", index=store
    )
    assert sum(len(batch) for batch in loader) == 4
    report = build_here(sources(copy), copy / "index.db")
    assert (report.indexed, report.unchanged) == (0, 3)


def test_a_copy_is_stale_by_time_and_the_message_names_the_remedy(data: Path) -> None:
    build_here(sources(data), data / "index.db")
    copy = copied(data)
    remedy = r"build the index store .* again \(its size is the same: .* with fingerprint='size' or 'content'\)"
    with pytest.raises(StaleIndexError, match=f"has changed since it was indexed: {remedy}"):
        IndexStore(copy / "index.db").get(sources(copy)[0])


@pytest.mark.parametrize("kind", ["mtime", "size", "content"])
def test_another_size_is_always_stale(data: Path, kind: FingerprintKind) -> None:
    build_here(sources(data), data / "index.db", fingerprint=kind)
    with open(data / "a.mp4", "ab") as file:
        file.write(b"\0" * 8)
    (data / "frames" / "3.pgm").write_bytes(b"P5 1 1 255\n3")
    for source in (sources(data)[0], sources(data)[2]):
        with pytest.raises(StaleIndexError, match="has changed since it was indexed: build the index store"):
            IndexStore(data / "index.db").get(source)
    os.unlink(data / "a.mp4")
    with pytest.raises(StaleIndexError, match="no longer exists"):
        IndexStore(data / "index.db").get(sources(data)[0])


def test_other_bytes_of_one_size_are_stale_by_content_and_not_by_size(data: Path) -> None:
    for kind in ("size", "content"):
        build_here(sources(data), data / f"{kind}.db", fingerprint=kind)
    for name in ("a.mp4", "shard.tar", "frames/2.pgm"):
        change_a_byte(data / name)
    os.utime(data / "frames")  # a folder is looked at as a whole
    for source in sources(data):
        assert len(IndexStore(data / "size.db").get(source))
    for source in (sources(data)[0], sources(data)[2]):
        with pytest.raises(StaleIndexError, match="has changed since it was indexed"):
            IndexStore(data / "content.db").get(source)
    # The last byte of an archive is none of its member's.
    assert len(IndexStore(data / "content.db").get(sources(data)[1]))
    report = build_here(sources(data), data / "content.db")
    assert (report.indexed, report.unchanged) == (2, 1)


def test_bytes_are_read_where_the_time_is_another_one_alone(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build_here(sources(data), data / "index.db", fingerprint="content")
    copy = copied(data)
    build_here(sources(copy), copy / "index.db")  # takes over the new times

    def read(source: str, now: str) -> str:
        raise AssertionError(source)

    monkeypatch.setattr(fingerprints, "_content", read)
    for folder in (data, copy):
        assert [len(IndexStore(folder / "index.db").get(source)) for source in sources(folder)] == [60, 60, 3]


@pytest.mark.parametrize("replaced", [True, False])
def test_another_file_of_one_name_size_and_time_is_stale(
    replaced: bool, tmp_path: Path, sample: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hash that was computed before is not taken for that of a file in another folder, or of one that replaces it."""
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        shutil.copy(sample("h264_mp4"), tmp_path / folder / "v.mp4")
    build_here([tmp_path / "a/v.mp4"], tmp_path / "a/s.db", fingerprint="content")
    shutil.copy(tmp_path / "a/s.db", tmp_path / "b/s.db")
    change_a_byte(tmp_path / "b/v.mp4")
    os.utime(tmp_path / "a/v.mp4", ns=(1, 2 * 10**18))
    monkeypatch.chdir(tmp_path / "a")
    assert len(IndexStore("s.db").get("v.mp4")) == 60
    if replaced:
        os.replace(tmp_path / "b/v.mp4", "v.mp4")
    else:
        monkeypatch.chdir(tmp_path / "b")
    with pytest.raises(StaleIndexError):
        IndexStore("s.db").get("v.mp4")


def test_a_store_keeps_its_kind_until_it_is_given_another(data: Path) -> None:
    store = data / "index.db"

    def kinds() -> set[str]:
        return {mark.partition(":")[0] for (mark,) in IndexStore(store).query("SELECT fingerprint FROM videos")}

    build_here(sources(data)[:1], store, fingerprint="size")
    build_here(sources(data), store)
    assert kinds() == {"size"}
    report = build_here(sources(data), store, fingerprint="content")
    assert (report.indexed, report.unchanged, kinds()) == (0, 3, {"content"})
    with pytest.raises(ConfigurationError, match="fingerprint must be one of mtime, size, content, got 'hash'"):
        build_store([], store, fingerprint="hash")  # type: ignore[arg-type]
