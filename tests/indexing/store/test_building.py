"""Building a store: once, again, at once, interrupted, killed."""

import errno
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tarfile
import threading
import time
from contextlib import ExitStack, closing
from unittest.mock import Mock

import av
import numpy as np
import pytest
from PIL import Image
from store_contents import build_here, change, contents, kill_build, make_store, start_build
from waiting import becomes

from videoloader.errors import (
    ConfigurationError,
    IndexingError,
    NoMemoryError,
    SourceError,
    StaleIndexError,
    VideoLoaderError,
    VideoLoaderWarning,
)
from videoloader.indexing import IndexStore, build_store, merge_stores
from videoloader.indexing.store import building, schema, tasks
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


def test_a_pass_beside_builds_gives_each_row_that_they_keep_once(tmp_path):
    old, new = ([str(tmp_path / f"{name * 60}{number:04}.mp4") for number in range(2000)] for name in "xy")
    build_store(old, tmp_path / "a.db", workers=1)
    store = IndexStore(tmp_path / "a.db")
    passes = [store.errors(), store.stored_rows(), store._rows(tmp_path / "rows.csv", "")]
    given = [[next(each)[0]] for each in passes]
    kept = random.Random(0).sample(old, 200)
    for paths in kept, kept + new:  # pages that the first frees are written by the second
        build_store(paths, tmp_path / "a.db", workers=1, prune=paths is kept)
    for rows, each in zip(given, passes, strict=True):
        rows += [row[0] for row in each]
        names = [os.path.basename(name) for name in rows]
        assert len(set(names)) == len(names)
        assert set(map(os.path.basename, kept)) <= set(names)


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


def test_a_statement_during_which_a_build_ends_is_repeated(tmp_path):
    build_store([tmp_path / "a.mp4"], tmp_path / "a.db", workers=1)
    store, missing = IndexStore(tmp_path / "a.db"), iter(range(5))

    def count(connection):
        for number in missing:
            build_store([tmp_path / f"{number}.mp4"], tmp_path / "a.db", workers=1)
            break
        return connection.execute("SELECT count(*) FROM videos").fetchall()

    assert store._reader.with_connection(count) == [
        (5,)
    ]  # at last with locks, which a build cannot change the file under
    assert store._reader.with_connection(count) == [(6,)]
    assert len(store) == 6


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
    monkeypatch.setattr(schema.time, "sleep", lambda seconds: pytest.fail("waited"))
    connection = sqlite3.connect(f"file:{store_path}?mode=ro", uri=True, isolation_level=None)
    with closing(connection), pytest.raises(sqlite3.OperationalError, match="readonly"):
        schema._set_journal_mode(connection, "wal", 30)


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


def test_killed_builds_leave_whole_rows_and_are_gone_on_with(many, tmp_path):
    build_here(many, tmp_path / "clean.db")
    clean, rng, rows = contents(tmp_path / "clean.db"), random.Random(), 0
    for _ in range(4):
        left = kill_build(many, tmp_path / "killed.db", rng.uniform(0, 0.6))
        assert left >= rows
        rows = left
    assert build_store(many, tmp_path / "killed.db", workers=1).unchanged == rows
    assert contents(tmp_path / "killed.db") == clean
    assert not (tmp_path / "killed.db-wal").exists()


def test_a_store_that_stays_locked_is_an_error_that_says_what_to_do(store_path, monkeypatch):
    monkeypatch.setattr(schema, "BUSY_TIMEOUT", 0.1)
    told = r"\(database is locked; if no other program uses it, its file system has no locks, as some of NFS"
    with closing(sqlite3.connect(store_path, isolation_level=None)) as writer:
        writer.execute("BEGIN EXCLUSIVE")
        with pytest.raises(SourceError, match=f"the index store cannot be written {told}"):
            build_store([], store_path, workers=1)
        (store_path.parent / f"{store_path.name}-wal").touch()
        with pytest.raises(SourceError, match=f"the index store cannot be read {told}"):
            len(IndexStore(store_path))


@pytest.mark.parametrize("opened", ["before", "meanwhile", "afterwards"])
def test_a_write_that_was_killed_half_way_is_undone_by_readers(store_path, opened):
    """Pages of it are in the file, and the journal beside it, which a reader may not play back."""
    before, store = contents(store_path), IndexStore(store_path)
    script = """
import os, signal, sqlite3, sys
writer = sqlite3.connect(sys.argv[1], isolation_level=None)
writer.execute("PRAGMA cache_size = 1")
writer.execute("BEGIN IMMEDIATE")
writer.execute("UPDATE videos SET codec = 'half'")
print("begun", flush=True)
sys.stdin.readline()
writer.execute("CREATE TABLE large AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 100) "
    "SELECT zeroblob(5000) FROM n")
os.kill(os.getpid(), signal.SIGKILL)
"""
    command = [sys.executable, "-c", script, str(store_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        process.stdout.readline()
        if opened == "meanwhile":
            store = IndexStore(store_path)
        process.stdin.write("\n")
    assert b"half" in store_path.read_bytes()
    if opened == "afterwards":
        store = IndexStore(store_path)
    assert len(store) == 6
    assert contents(store_path) == before
    assert not (store_path.parent / f"{store_path.name}-journal").exists()


def test_processes_build_one_store_at_once_while_others_read(many, tmp_path):
    build_here(many, tmp_path / "clean.db")
    store = tmp_path / "index.db"
    builds = [start_build(many[:100], store), start_build(many[50:], store)]
    reader, seen = None, []
    while any(build.poll() is None for build in builds):
        if store.exists() and store.stat().st_size > 100:
            reader = IndexStore(store)
            seen.append(len(reader))
            counts, errors = reader.frame_counts([str(path) for path in many])
            assert set(np.delete(counts, list(errors)).tolist()) <= {60}
        time.sleep(0.01)
    for build in builds:
        build.stdout.close()
    assert [build.returncode for build in builds] == [0, 0]
    assert seen == sorted(seen)
    del reader  # while somebody reads the log, it stays
    assert contents(store) == contents(tmp_path / "clean.db")
    assert build_store(many, store, workers=1).unchanged == 150
    assert not (tmp_path / "index.db-wal").exists()


def test_one_reader_sees_a_build_from_before_its_start_to_after_its_end(many, tmp_path):
    store = tmp_path / "index.db"
    build_here(many[:1], store)
    reader, stop, seen = IndexStore(store), threading.Event(), []

    def read():
        while not stop.is_set():
            seen.append((reader.frame_counts([str(path) for path in many])[0] == 60).sum())
            assert len(reader.get(many[0])) == 60

    thread = threading.Thread(target=read)
    thread.start()
    build = start_build(many, store)
    build.wait()
    build.stdout.close()
    stop.set()
    thread.join()
    assert seen == sorted(seen)
    assert (reader.frame_counts([str(path) for path in many])[0] == 60).sum() == 125
    assert seen[0] == 1


def test_a_build_does_not_wait_for_a_reader_when_it_ends(many, tmp_path, monkeypatch):
    """The time limit of the tests ends one that waits as long as for other writers."""
    monkeypatch.setattr(schema, "BUSY_TIMEOUT", 620)  # seconds
    store = tmp_path / "index.db"
    readers = []
    with ExitStack() as closed:

        def read(done: int, total: int) -> None:
            if not readers and done > 1:
                readers.append(closed.enter_context(closing(sqlite3.connect(store))))
                readers[0].execute("BEGIN")
                assert readers[0].execute("SELECT COUNT(*) FROM videos").fetchone() < (total,)

        assert build_store(many, store, workers=1, progress=read).indexed
        assert readers
    build_store(many, tmp_path / "clean.db", workers=1)
    assert contents(store) == contents(tmp_path / "clean.db")


def test_ctrl_c_keeps_what_was_done(many, tmp_path):
    build = start_build(many, tmp_path / "index.db")
    while not (tmp_path / "index.db").exists() or not contents_or_none(tmp_path / "index.db"):
        time.sleep(0.01)
    build.send_signal(signal.SIGINT)
    build.wait()
    build.stdout.close()
    rows = len(contents(tmp_path / "index.db"))
    assert rows > 0
    assert build_store(many, tmp_path / "index.db", workers=1).unchanged == rows
    assert not (tmp_path / "index.db-wal").exists()


def contents_or_none(store):
    return contents(store) if store.stat().st_size else None


def test_no_process_is_left_when_a_build_is_killed(many, tmp_path):
    kill_build(many, tmp_path / "index.db", 0.3)
    assert becomes(lambda: not workers_running())


def workers_running():
    """Command lines of worker processes whose parent has died."""
    found = []
    for entry in os.listdir("/proc"):
        try:
            with open(f"/proc/{entry}/cmdline", "rb") as file, open(f"/proc/{entry}/status") as status:
                orphan = "\nPPid:\t1\n" in status.read()
                found += [entry] if orphan and b"videoloader.indexing.store.processes" in file.read() else []
        except OSError:
            continue
    return found


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
