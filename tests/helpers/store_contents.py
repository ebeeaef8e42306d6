"""Builds stores in processes that may be killed, and reads their whole contents for comparison."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from child_environment import SAFE_PATH
from synthetic_index import make_index

from videoloader.errors import IndexingError
from videoloader.indexing import IndexStore, VideoIndex
from videoloader.indexing.store import building
from videoloader.indexing.store.building import BuildReport, StoreBuild
from videoloader.indexing.store.frame_table import PackedIndex, pack_index, unpack_index
from videoloader.indexing.store.schema import COLUMNS, Row, facts_of
from videoloader.indexing.store.tasks import Answer, answer_task

# Rows are committed in tens, so that partial builds occur. There is no main guard, since none is needed.
SCRIPT = """
import sys
from videoloader.indexing.store import building
building._ROWS_AT_ONCE = 10
print("ready", flush=True)
building.build_store([line.rstrip("\\n") for line in sys.stdin], sys.argv[1], workers=2)
"""


def start_build(paths: list[Path], store: Path) -> subprocess.Popen[str]:
    """Start a process that builds, and return once it has begun."""
    command = [sys.executable, *SAFE_PATH, "-c", SCRIPT, str(store)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdout.readline()
    process.stdin.write("".join(f"{path}\n" for path in paths))
    process.stdin.close()
    return process


def kill_build(paths: list[Path], store: Path, seconds: float) -> int:
    """Start a build, kill it with SIGKILL after so many seconds, and return the number of rows that it leaves."""
    process = start_build(paths, store)
    time.sleep(seconds)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert process.stdout is not None
    process.stdout.close()
    try:
        return len(contents(store)) if store.exists() and store.stat().st_size else 0
    except IndexingError as error:
        if "but empty" not in str(error):
            raise
        return 0  # the transaction that creates its tables was rolled back


def change(path: Path, *statements: str) -> None:
    """Run statements on a store, as somebody else might."""
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()


def build_here(paths: Iterable[str | os.PathLike[str]], store: Path, **settings: Any) -> BuildReport:
    """``build_store`` without a process, which takes longer to start than to index small videos."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            building, "index_in_processes", lambda chunks, _: ([answer_task(task)] for some in chunks for task in some)
        )
        return building.build_store(paths, store, workers=1, **settings)


def contents(store: Path) -> dict[Any, tuple[Any, ...]]:
    """Everything in the store about each video, by key; a partial or damaged row is an error."""
    opened = IndexStore(store)
    assert opened.query("PRAGMA integrity_check") == [("ok",)]
    # A single statement sees one state, even while a build goes on.
    rows = opened.query(
        f"SELECT {', '.join(COLUMNS)}, records.record, blob, (SELECT count(*) FROM frame_tables) FROM videos "
        "LEFT JOIN frame_tables ON video = id LEFT JOIN records ON key = frame_tables.record"
    )
    for source, _, error_type, *_, record, blob, tables in rows:
        if error_type is None:
            unpack_index(PackedIndex(record, blob), source)
        else:
            assert record is blob is None
        assert tables == sum(row[2] is None for row in rows)
    return {row[0]: row[1:-1] for row in rows}


def make_store(path: Path, frames: dict[str, int]) -> IndexStore:
    """A store of videos next to it that need not exist, each with so many frames and a keyframe every twelve."""
    made = {size: make_index(list(range(size)), set(range(0, size, 12))) for size in set(frames.values())}
    return make_store_of(path, {name: made[size] for name, size in frames.items()})


def make_store_of(path: Path, indexes: dict[str, VideoIndex]) -> IndexStore:
    """A store of videos next to it that need not exist, with these indexes."""
    # Many videos may have the same index.
    different = {id(index): index for index in indexes.values()}
    packed = {number: (facts_of(index), pack_index(index)) for number, index in different.items()}
    with StoreBuild([], path, root=None) as build:
        for name, index in indexes.items():
            facts, columns = packed[id(index)]
            build.add([Answer(name, Row(name, None, facts=facts, packed=columns))])
    return IndexStore(path)
