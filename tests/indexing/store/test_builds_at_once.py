"""Building a store beside other programs, interrupted, killed."""

import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, closing

import numpy as np
import pytest
from store_contents import build_here, contents, kill_build, start_build
from waiting import becomes

from videoloader.errors import SourceError
from videoloader.indexing import IndexStore, build_store
from videoloader.indexing.store import connection


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
    monkeypatch.setattr(connection, "BUSY_TIMEOUT", 0.1)
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
    monkeypatch.setattr(connection, "BUSY_TIMEOUT", 620)  # seconds
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
