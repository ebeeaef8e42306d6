"""Building a store: once, again, with what goes wrong."""

import errno
import os
import shutil
import sqlite3
import tarfile
from contextlib import closing
from unittest.mock import Mock

import av
import pytest
from PIL import Image
from store_contents import build_here, change, contents, make_store

from videoloader.errors import (
    ArgumentError,
    ConfigurationError,
    IndexingError,
    NoMemoryError,
    SourceError,
    StaleIndexError,
    VideoLoaderError,
    VideoLoaderWarning,
)
from videoloader.indexing import IndexStore, build_store, merge_stores
from videoloader.indexing.store import building, connection, opening, tasks
from videoloader.indexing.store import store as store_module
from videoloader.indexing.store.reader import rows_by_id
from videoloader.indexing.store.tasks import Task


def test_a_report_tells_what_was_done(videos, tmp_path):
    seen = []
    report = build_store(videos, tmp_path / "a.db", workers=2, progress=lambda *counts: seen.append(counts))
    assert (report.indexed, report.unchanged, report.vanished) == (5, 0, [])
    assert report.unreadable == [
        (str(videos[-1]), "libavformat cannot read it: Invalid data found when processing input: it is text")
    ]
    assert seen[-1] == (6, 6)
    assert seen == sorted(seen)


def test_only_new_and_changed_files_are_read(videos, store_path, tmp_path):
    again = build_store(videos, store_path, workers=1)
    assert (again.indexed, again.unchanged) == (0, 6)
    assert [path for path, _ in again.unreadable] == [str(videos[-1])]
    shutil.copy(videos[0], videos[1])
    new = shutil.copy(videos[0], tmp_path / "new.mp4")
    changed = build_store([*videos, new, new], store_path, workers=1)
    assert (changed.indexed, changed.unchanged) == (2, 5)
    assert IndexStore(store_path).get(videos[1]).stream.codec == "h264"


def test_videos_that_cannot_be_reached_are_not_pruned(tmp_path, monkeypatch):
    there, lost, gone = (str(tmp_path / name / "a.mp4") for name in ("there", "lost", "gone"))
    build_store([there, lost, gone], tmp_path / "a.db", workers=1)
    plain = os.stat

    def stat(path, *arguments, **options):
        if os.fspath(path) == lost:
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
        return plain(path, *arguments, **options)

    monkeypatch.setattr(os, "stat", stat)
    report = build_store([there], tmp_path / "a.db", workers=1, prune=True)
    assert report.vanished == [gone]
    assert len(IndexStore(tmp_path / "a.db")) == 2


def test_a_pass_over_a_store_that_is_replaced_is_an_error(tmp_path, monkeypatch):
    path = tmp_path / "store.db"
    for number in range(2):
        make_store(tmp_path / f"{number}.db", {f"{number}{name}.mp4": 9 for name in "abcd"})
    shutil.copy(tmp_path / "0.db", path)
    store, reader = IndexStore(path), IndexStore(path)._reader
    rows = rows_by_id(reader, reader.select, ["source"], at_once=2)
    assert [next(rows), next(rows)] == [("0a.mp4",), ("0b.mp4",)]
    monkeypatch.setattr(store_module, "_KEYS_AT_ONCE", 2)
    keys = store.keys_of_readable("frames > ?", [1])
    assert [next(keys), next(keys)] == ["0a.mp4", "0b.mp4"]
    (tmp_path / "1.db").replace(path)
    with pytest.raises(StaleIndexError, match="the index store was replaced while its rows were read: read them again"):
        list(rows)
    with pytest.raises(StaleIndexError, match="was replaced"):
        list(keys)


@pytest.mark.parametrize("parameters", [2, None, {"a": 1}, "9"])
def test_parameters_of_keys_are_a_list(tmp_path, parameters):
    make_store(tmp_path / "a.db", {"a.mp4": 9})
    with pytest.raises(ArgumentError, match="parameters must be a list with a value for each"):
        list(IndexStore(tmp_path / "a.db").keys_of_readable("frames > ?", parameters))


def test_names_that_are_damaged_in_the_index_over_them_are_mended(tmp_path):
    path, videos = tmp_path / "a.db", [tmp_path / f"{name}.mp4" for name in "abcd"]
    for video in videos:
        video.write_text("no video")
    build_here(videos, path)
    before = contents(path)
    with closing(sqlite3.connect(path)) as connection:
        ((root,), (size,)) = (
            connection.execute(sql).fetchone()
            for sql in ("SELECT rootpage FROM sqlite_schema WHERE name LIKE 'sqlite_auto%videos%'", "PRAGMA page_size")
        )
    damaged = bytearray(path.read_bytes())
    at = damaged.index(b"b.mp4", (root - 1) * size)
    damaged[at] ^= 0x40
    path.write_bytes(damaged)
    with pytest.warns(VideoLoaderWarning, match=r"a\.db: names in the index store were damaged and are mended"):
        report = build_here(videos, path)
    assert (report.indexed, report.unchanged, report.vanished) == (0, len(videos), [])
    assert contents(path) == before
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_what_an_earlier_version_indexed_is_read_again(videos, store_path, monkeypatch):
    monkeypatch.setattr(building, "INDEXER_VERSION", building.INDEXER_VERSION + 1)
    assert build_store(videos, store_path, workers=1).unchanged == 0
    assert build_store(videos, store_path, workers=1).unchanged == 6


def test_members_of_archives_and_folders_of_images_are_known_again(videos, tmp_path):
    shard, folder = tmp_path / "shard.tar", tmp_path / "frames"
    with tarfile.open(shard, "w") as tar:
        tar.add(videos[0], "a.mp4")
    folder.mkdir()
    for number in range(3):
        Image.new("RGB", (16, 16)).save(folder / f"im{number}.png")
    sources = [f"{shard}::a.mp4", str(folder)]
    assert build_store(sources, tmp_path / "s.db", workers=1).indexed == 2
    assert build_store(sources, tmp_path / "s.db", workers=1).unchanged == 2
    store = IndexStore(tmp_path / "s.db")
    assert [len(store.get(source)) for source in sources] == [60, 3]
    Image.new("RGB", (16, 16)).save(folder / "im3.png")
    with tarfile.open(shard, "a") as tar:
        tar.add(videos[1], "b.mp4")
    for source in sources:
        with pytest.raises(StaleIndexError):
            store.get(source)
    assert build_store(sources, tmp_path / "s.db", workers=1).indexed == 2
    assert len(IndexStore(tmp_path / "s.db").get(str(folder))) == 4


def test_a_store_does_not_grow_with_the_changes_of_a_file(tmp_path):
    path, store = tmp_path / "v", tmp_path / "index.db"
    path.mkdir()
    for size in range(16, 96, 16):
        Image.new("RGB", (size, 16)).save(path / "0.png")
        os.utime(path, ns=(size, size))
        assert build_store([path], store, workers=1).indexed == 1
    with closing(sqlite3.connect(store)) as connection:
        assert connection.execute("SELECT count(*) FROM records").fetchone() == (1,)


def test_unreadable_files_are_tried_again_when_they_change_or_when_asked(videos, store_path):
    assert build_store(videos, store_path, workers=1, retry=True).unchanged == 5
    shutil.copy(videos[0], videos[-1])
    assert build_store(videos, store_path, workers=1).unreadable == []
    assert len(IndexStore(store_path).get(videos[-1])) == 60
    videos[-1].write_text("again no video")
    assert len(build_store(videos, store_path, workers=1).unreadable) == 1
    assert len(contents(store_path)) == 6


def test_vanished_videos_are_told_and_forgotten_when_asked(videos, store_path):
    for path in videos[:2]:
        path.unlink()
    report = build_store(videos[2:4], store_path, workers=1)
    assert (report.vanished, report.pruned) == ([str(path) for path in videos[:2]], False)
    assert len(IndexStore(store_path)) == 6
    assert build_store(videos[2:4], store_path, workers=1, prune=True).pruned
    assert [len(IndexStore(store_path)), len(contents(store_path))] == [4, 4]
    assert len(IndexStore(store_path).get(videos[2])) == 60
    assert build_store(videos[2:], store_path, workers=1).vanished == []


def test_a_video_that_is_not_there_is_unreadable(tmp_path):
    report = build_store([tmp_path / "none.mp4"], tmp_path / "a.db", workers=1)
    assert report.unreadable == [(str(tmp_path / "none.mp4"), "cannot be opened (No such file or directory)")]


def test_a_file_that_could_not_be_read_is_tried_again(videos, tmp_path):
    missing = tmp_path / "later.mp4"
    assert len(build_store([missing], tmp_path / "a.db", workers=1).unreadable) == 1
    shutil.copy2(videos[0], missing)
    assert build_store([missing], tmp_path / "a.db", workers=1).indexed == 1
    videos[1].write_bytes(b"")
    for _ in range(2):
        report = build_store([videos[1]], tmp_path / "b.db", workers=1)
        assert (report.unchanged, report.unreadable) == (0, [(str(videos[1]), "is empty")])


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE frame_tables SET blob = x'0001'",
        "UPDATE frame_tables SET blob = substr(blob, 1, 20)",
        "DELETE FROM frame_tables",
        "DELETE FROM records",
        "UPDATE videos SET frames = frames + 1",
    ],
)
def test_damaged_rows_are_indexed_again_when_asked(videos, store_path, damage):
    before = contents(store_path)
    change(store_path, damage)
    with pytest.raises(IndexingError, match=r"build_store\(…, retry=True\) indexes the video again"):
        IndexStore(store_path).get(videos[0])
    assert build_store(videos, store_path, workers=1, retry=True).unchanged == 0
    assert contents(store_path) == before
    assert build_store(videos, store_path, workers=1, retry=True).unchanged == len(videos) - 1  # one is no video


def test_wrong_settings_are_no_fault_of_the_videos(videos, tmp_path, monkeypatch):
    monkeypatch.setenv("VIDEOLOADER_LIMITS", "decode_seconds=60s")
    with pytest.raises(ConfigurationError, match="VIDEOLOADER_LIMITS must be name=number"):
        build_store(videos, tmp_path / "a.db", workers=1)
    monkeypatch.delenv("VIDEOLOADER_LIMITS")
    assert build_store(videos, tmp_path / "a.db", workers=1).indexed == 5


def _lacks_memory(_):
    try:
        av.error.err_check(-errno.ENOMEM)
    except av.FFmpegError:
        raise IndexingError("libavformat cannot read it: Cannot allocate memory") from None


@pytest.mark.parametrize("fails", [_lacks_memory, MemoryError, NoMemoryError("x"), ConfigurationError("no lmdb")])
def test_what_may_pass_without_a_change_of_a_file_is_tried_again(videos, tmp_path, monkeypatch, fails):
    with monkeypatch.context() as patch:
        patch.setattr(tasks, "build_index", Mock(side_effect=fails))
        assert build_here(videos, tmp_path / "a.db").indexed == 0
    assert build_here(videos, tmp_path / "a.db").indexed == 5


def test_a_file_that_cannot_be_reached_while_its_fingerprint_is_taken_is_tried_again(videos, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(tasks, "fingerprint_of", lambda *_: None)
        assert build_here(videos, tmp_path / "a.db").indexed == 0
    assert build_here(videos, tmp_path / "a.db").indexed == 5


def test_fingerprints_that_are_no_text_do_not_match(videos, store_path):
    change(store_path, "UPDATE videos SET fingerprint = x'00'")
    assert build_here(videos, store_path).unchanged == 0


def test_the_number_of_workers_changes_nothing(many, tmp_path):
    for workers in (1, 3):
        build_store(many, tmp_path / f"{workers}.db", workers=workers)
    assert contents(tmp_path / "1.db") == contents(tmp_path / "3.db")
    with pytest.raises(ConfigurationError, match="workers must be a positive integer, got 0"):
        build_store(many, tmp_path / "0.db", workers=0)


def test_a_store_that_cannot_be_written_is_an_error(videos, tmp_path):
    with pytest.raises(SourceError, match=r"no/index.db: the index store cannot be written"):
        build_store(videos, tmp_path / "no" / "index.db")


def test_a_store_that_may_only_be_read_is_an_error_at_once(store_path, monkeypatch):
    """Only a lock that others hold is waited for."""
    monkeypatch.setattr(connection.time, "sleep", lambda seconds: pytest.fail("waited"))
    opened = connection.Connection(f"file:{store_path}?mode=ro", uri=True)
    with closing(opened), pytest.raises(sqlite3.OperationalError, match="readonly"):
        opening._set_journal_mode(opened, "wal")


@pytest.mark.parametrize("page", range(1, 4))
def test_a_damaged_store_that_is_built_again_or_merged_is_an_error(videos, store_path, tmp_path, page):
    content = bytearray(store_path.read_bytes())
    content[page * 8192 : (page + 1) * 8192] = b"\xff" * 8192
    store_path.write_bytes(content)
    other = tmp_path / "other.db"
    build_store(videos[:1], other, workers=1)
    told = "cannot be written|damaged|is not an index store"
    for write in (lambda: build_store(videos, store_path, workers=1), lambda: merge_stores([other], store_path)):
        with pytest.raises(VideoLoaderError, match=told):
            write()


def test_a_store_is_built_from_a_folder_that_was_deleted(videos, tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    build_store(videos, tmp_path / "index.db", workers=1)
    assert len(IndexStore(tmp_path / "index.db")) == len(videos)


def test_nothing_that_goes_wrong_in_here_stops_a_build(videos, monkeypatch):
    from videoloader.indexing.store import tasks

    def fail(path):
        raise RecursionError("too deep")

    monkeypatch.setattr(tasks, "build_index", fail)
    row = tasks.answer_task(Task("a", str(videos[0]), None)).row
    assert (row.error_type, row.error) == ("IndexingError", "the indexer failed (RecursionError: too deep)")


def test_a_store_at_a_url_is_refused_before_anything_is_written(videos, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(ConfigurationError, match=r"http://127\.0\.0\.1/a\.db: a store and its root are paths of"):
        build_store(videos, "http://127.0.0.1/a.db")
    assert sorted(tmp_path.iterdir()) == before
