"""SQLite's logs beside a store: they are found behind links, and one of another file is refused."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from child_environment import SAFE_PATH

from videoloader import VideoDataset
from videoloader.errors import IndexingError, SourceError
from videoloader.indexing import IndexStore, build_store, merge_stores

_BUILD_THAT_DIES = """
import os, sys
from videoloader.indexing.store import building
building._SECONDS_AT_ONCE = -1
building.build_store(sys.argv[2:], sys.argv[1], workers=1, progress=lambda done, given: done < given or os._exit(9))
"""


@pytest.fixture
def videos(sample: Callable[[str], Path], tmp_path: Path) -> list[Path]:
    data = sample("h264_mp4").read_bytes()
    paths = [tmp_path / f"{number}.mp4" for number in range(6)]
    for path in paths:
        path.write_bytes(data)
    return paths


def die_in_a_build(videos: list[Path], store: Path) -> None:
    done = subprocess.run([sys.executable, *SAFE_PATH, "-c", _BUILD_THAT_DIES, store, *videos])
    assert done.returncode == 9
    assert os.path.getsize(f"{store}-wal") > 0


def test_rows_in_the_log_are_seen_through_a_link(videos: list[Path], tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    store, link = tmp_path / "real/s.db", tmp_path / "link.db"
    build_store(videos[:2], store, workers=1)
    link.symlink_to("real/s.db")
    die_in_a_build(videos, store)
    assert len(IndexStore(link)) == len(VideoDataset.from_store(link)) == 6
    assert merge_stores([link], tmp_path / "merged.db").added == 6


@pytest.mark.parametrize("write", [lambda videos, link: build_store(videos, link, workers=1),
                                   lambda videos, link: merge_stores([link.with_name("other.db")], link)])  # fmt: skip
def test_a_journal_beside_the_target_of_a_link_deletes_nothing(
    videos: list[Path], tmp_path: Path, write: Callable[[list[Path], Path], object]
) -> None:
    (tmp_path / "real").mkdir()
    store, link, victim = tmp_path / "real/s.db", tmp_path / "link.db", tmp_path / "precious.txt"
    for path in (store, tmp_path / "other.db"):
        build_store(videos[:1], path, root=tmp_path, workers=1)
    link.symlink_to("real/s.db")
    victim.write_text("my only copy")
    name, magic = os.fsencode(victim), bytes.fromhex("d9d505f920a163d7")
    journal = (magic + struct.pack(">IIIII", 0, 7, store.stat().st_size // 8192, 512, 8192)).ljust(512, b"\0")
    journal += struct.pack(">I", (1 << 30) // 8192 + 1) + name + struct.pack(">II", len(name), sum(name)) + magic
    Path(f"{store}-journal").write_bytes(journal)
    with pytest.raises(SourceError, match=r"s\.db-journal beside the index store names another file: delete it"):
        write(videos, link)
    assert victim.read_text() == "my only copy"


def test_the_log_of_a_store_that_was_replaced_is_refused(videos: list[Path], tmp_path: Path) -> None:
    store, new = tmp_path / "s.db", tmp_path / "new.db"
    build_store(videos[:2], store, workers=1)
    die_in_a_build(videos[:4], store)
    build_store(videos[3:], new, workers=1)
    new.replace(store)
    whole = store.read_bytes()
    for use in (IndexStore, lambda path: build_store(videos, path, workers=1), VideoDataset.from_store):
        with pytest.raises(IndexingError, match=r"the log s\.db-wal is of another index store, .*: delete s\.db-wal"):
            use(store)
    assert store.read_bytes() == whole
    for ending in ("-wal", "-shm"):
        Path(f"{store}{ending}").unlink()
    assert len(IndexStore(store)) == 3


def test_the_log_of_a_copy_with_other_rows_is_refused(videos: list[Path], tmp_path: Path) -> None:
    store, new = tmp_path / "s.db", tmp_path / "new.db"
    build_store(videos[:2], store, workers=1)
    new.write_bytes(store.read_bytes())
    die_in_a_build(videos[:4], store)
    build_store(videos, new, workers=1)
    new.replace(store)
    with pytest.raises(IndexingError, match=r"the log s\.db-wal is of another index store"):
        IndexStore(store)


def test_a_store_is_copied_with_its_log(videos: list[Path], tmp_path: Path) -> None:
    store, copy = tmp_path / "s.db", tmp_path / "copy.db"
    build_store(videos[:2], store, workers=1)
    die_in_a_build(videos, store)
    for ending in ("", "-wal"):
        Path(f"{copy}{ending}").write_bytes(Path(f"{store}{ending}").read_bytes())
    assert len(IndexStore(copy)) == 6
    assert build_store(videos, copy, workers=1).unchanged == 6
    assert not Path(f"{copy}-wal").exists()
