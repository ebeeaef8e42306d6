"""What users' statements may do to a store: read it, for so long, and nothing else."""

from __future__ import annotations

import os
import sqlite3
import sys
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import numpy as np
import pytest
from example_count import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from store_contents import make_store

from videoloader import VideoDataset
from videoloader.errors import ConfigurationError
from videoloader.indexing import IndexStore
from videoloader.indexing.store import read_only


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> IndexStore:
    """A store alone in the working directory."""
    monkeypatch.chdir(tmp_path)
    return make_store(tmp_path / "index.db", {f"{name}.mp4": 24 for name in "abc"})


WRITING = [
    "ATTACH 'new.db' AS other",
    "ATTACH DATABASE ':memory:' AS other",
    "VACUUM INTO 'new.db'",
    "VACUUM",
    "INSERT INTO videos (source) VALUES ('x')",
    "UPDATE videos SET frames = 1",
    "DELETE FROM videos",
    "REPLACE INTO settings VALUES ('root', '/')",
    "WITH few AS (SELECT 1) DELETE FROM videos",
    "WITH few AS (SELECT 1) UPDATE videos SET frames = 1",
    "WITH few AS (SELECT 'x') INSERT INTO videos (source) SELECT * FROM few",
    "DELETE FROM videos RETURNING source",
    "EXPLAIN DELETE FROM videos",
    "CREATE TABLE other (x)",
    "CREATE TEMP TABLE other (x)",
    "CREATE TEMP VIEW other AS SELECT 1",
    "CREATE TEMP TRIGGER other AFTER INSERT ON videos BEGIN SELECT 1; END",
    "CREATE VIRTUAL TABLE temp.other USING fts5(text)",
    "CREATE INDEX other ON videos (frames)",
    "DROP TABLE videos",
    "ALTER TABLE videos RENAME TO other",
    "ANALYZE",
    "REINDEX",
    "BEGIN IMMEDIATE",
    "SAVEPOINT here",
    "PRAGMA writable_schema = 1",
    "PRAGMA journal_mode = wal",
    "PRAGMA journal_mode",
    "PRAGMA user_version = 3",
    "PRAGMA trusted_schema = 1",
    "PRAGMA temp_store_directory = '.'",
    "PRAGMA wal_checkpoint(TRUNCATE)",
    "PRAGMA mmap_size = 1000000000",
    "PRAGMA hard_heap_limit = 1",
    "SELECT load_extension('libm.so.6')",
    "SELECT readfile('index.db')",
    "SELECT writefile('new.db', 'x')",
    "SELECT edit('x', 'touch new.db')",
    "SELECT fts3_tokenizer('simple', x'00')",
    "SELECT * FROM json_each('[1]')",
    "SELECT * FROM pragma_journal_mode('wal')",
    "SELECT 1; ATTACH 'new.db' AS other",
    "SELECT 1; DROP TABLE videos",
]


@pytest.mark.parametrize("statement", WRITING)
def test_what_is_no_reading_of_this_store_is_refused(store: IndexStore, statement: str) -> None:
    before = Path(store.path).read_bytes()
    with pytest.raises(ConfigurationError, match="query fails"):
        store.query(statement)
    assert os.listdir() == ["index.db"]
    assert Path(store.path).read_bytes() == before
    assert store.query("SELECT count(*) FROM videos") == [(3,)]


@pytest.mark.parametrize(
    "statement",
    ["VACUUM INTO 'new.db'", "ATTACH 'new.db' AS other", "PRAGMA journal_mode", "SELECT load_extension('x')"],
)
def test_errors_say_what_is_not_allowed(store: IndexStore, statement: str) -> None:
    with pytest.raises(
        ConfigurationError, match=r"(ATTACH|journal_mode|load_extension).* is not allowed: .* only read"
    ):
        store.query(statement)


def test_the_same_denial_is_explained_each_time(store: IndexStore) -> None:
    for _ in range(3):
        with pytest.raises(ConfigurationError, match="ATTACH, as VACUUM does, is not allowed"):
            store.query("VACUUM INTO 'new.db'")
        with pytest.raises(ConfigurationError, match="no such column: unheard_of"):
            store.query("SELECT unheard_of FROM videos")


@contextmanager
def a_raise_at_a_permission(calls: list[str]) -> Iterator[None]:
    """Raise an error once where Python runs a signal's handler: before the first line of ``_allow``."""

    def profile(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_name == "_allow":
            calls.append("_allow")
            raise RuntimeError("stop")  # which also ends the profiling

    read_only._allow.cache_clear()
    sys.setprofile(profile)
    try:
        yield
    finally:
        sys.setprofile(None)


def test_a_statement_is_repeated_if_a_signal_s_handler_denies_it(store: IndexStore) -> None:
    calls: list[str] = []
    with a_raise_at_a_permission(calls):
        assert store.query("SELECT max(frames) FROM videos") == [(24,)]
    assert calls


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python takes no authorizer back")
def test_the_library_s_own_statements_need_no_permission(store: IndexStore) -> None:
    calls: list[str] = []
    with a_raise_at_a_permission(calls):
        assert IndexStore(store.path).frame_counts(["a.mp4"])[0].tolist() == [24]
    assert not calls


def test_permission_for_known_actions_is_given_without_python_code(store: IndexStore) -> None:
    """SQLite would drop what a signal's handler raises there, and blame the store."""
    statement = "SELECT max(frames), count(*) FROM videos WHERE codec = 'h264'"
    store.query(statement)
    called: list[str] = []
    sys.setprofile(lambda frame, event, argument: called.append(frame.f_code.co_name) if event == "call" else None)
    try:
        IndexStore(store.path).query(statement)
    finally:
        sys.setprofile(None)
    assert "_fetch" in called
    assert "_allow" not in called


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT source FROM videos WHERE frames BETWEEN 1 AND 100 ORDER BY source",
        "WITH some AS (SELECT source FROM videos) SELECT max(source), group_concat(source) FROM some",
        "SELECT source, row_number() OVER (ORDER BY source) FROM videos",
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT 9) SELECT sum(x) FROM n",
        "EXPLAIN QUERY PLAN SELECT * FROM videos",
        "PRAGMA table_info(videos)",
        "PRAGMA integrity_check",
        "SELECT json_extract('{\"a\": 1}', '$.a'), printf('%03d', frames), upper(codec) FROM videos",
    ],
)
def test_what_reads_is_not(store: IndexStore, statement: str) -> None:
    with sqlite3.connect(store.path) as connection:
        assert store.query(statement) == connection.execute(statement).fetchall() != []
    connection.close()


ENDLESS = [
    "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT max(x) FROM n",
    "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n WHERE x < 0",
    "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT 5000) SELECT count(*) FROM n a, n b, n c",
]


@pytest.mark.parametrize("statement", ENDLESS)
def test_statements_end(store: IndexStore, statement: str) -> None:
    with pytest.raises(ConfigurationError, match=r"takes longer than timeout=0\.2 seconds"):
        store.query(statement, timeout=0.2)
    assert len(store) == 3  # which has no such bound, and is not ended by that of before


@pytest.mark.skipif(sys.version_info < (3, 11), reason="sqlite3 sets no limits")
@pytest.mark.parametrize(
    "value",
    [
        "zeroblob(100000000)",
        "randomblob(100000000)",
        "hex(zeroblob(999999))",
        "instr(zeroblob(900000), zeroblob(450000) || x'01')",
        "replace(hex(zeroblob(400000)), '0', 'long')",
        "(WITH RECURSIVE n(x) AS (SELECT 'x' UNION ALL SELECT x || x FROM n) SELECT max(x) FROM n)",
        "(SELECT group_concat(a.source || b.source || printf('%60000d', 1)) FROM videos a, videos b)",
    ],
)
def test_values_are_short(store: IndexStore, value: str) -> None:
    with pytest.raises(ConfigurationError, match=r"too big|too long|too large"):
        store.query(f"SELECT {value}")


def test_results_are_bounded(store: IndexStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("videoloader.indexing.store.read_only._LARGEST_RESULT", 1 << 20)
    tracemalloc.start()
    with pytest.raises(ConfigurationError, match="rows take more than 1 MiB"):
        store.query("WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3 << 20


@pytest.mark.parametrize(
    ("sql", "parameters"),
    [
        (5, ()),
        ("SELECT ?", (object(),)),
        ("SELECT ?", (1 << 70,)),
        ("SELECT ?", 3),
        ("SELECT '\ud800'", ()),
        ("SELECT ?", ()),
    ],
)
def test_nonsense_is_an_error_of_ours(store: IndexStore, sql: str, parameters: tuple[object, ...]) -> None:
    with pytest.raises(ConfigurationError, match="query fails"):
        store.query(sql, parameters)


@pytest.mark.parametrize("value", [np.int64(24), np.int8(24), np.float32(24), np.uint64(24)])
def test_numbers_of_numpy_are_numbers(store: IndexStore, value: np.generic) -> None:
    assert store.query("SELECT count(*) FROM videos WHERE frames = ?", (value,)) == [(3,)]
    assert store.query("SELECT count(*) FROM videos WHERE frames < :most", {"most": value}) == [(0,)]


@pytest.mark.parametrize("value", [np.array(24), np.array([24]), bytearray(b"24"), [24], object()])
def test_other_values_are_refused(store: IndexStore, value: object) -> None:
    with pytest.raises(ConfigurationError, match=r"parameters\[0\] must be a number, a text, bytes or None, got "):
        store.query("SELECT count(*) FROM videos WHERE frames = ?", (value,))


@pytest.mark.parametrize("timeout", [0, -1, "5", float("inf"), True])
def test_timeouts_are_seconds(store: IndexStore, timeout: float) -> None:
    with pytest.raises(ConfigurationError, match="timeout must be a positive number of seconds"):
        store.query("SELECT 1", timeout=timeout)


@pytest.mark.parametrize(
    "condition",
    [
        "1) FROM videos /*",
        "1)) FROM videos; ATTACH 'new.db' AS x /*",
        "1), (2",
        "load_extension('x')",
        "(SELECT count(*) FROM (ATTACH 'new.db' AS x))",
        "frames > (DELETE FROM videos RETURNING 1)",
    ],
)
def test_conditions_of_where_are_statements_too(store: IndexStore, condition: str) -> None:
    data = VideoDataset.from_paths([str(Path(store.path).parent / "a.mp4")])
    with pytest.raises(ConfigurationError):
        data.where(condition, store=store)
    assert os.listdir() == ["index.db"]


WORDS = st.sampled_from(
    [
        *{word for statement in (*WRITING, *ENDLESS) for word in statement.replace(",", " , ").split()},
        "'x'",
        "1",
        "*",
        "(",
    ]
)


@given(st.lists(WORDS, max_size=8).map(" ".join))
@settings(max_examples=examples(400))
def test_no_statement_writes_or_raises_anything_else(tmp_path_factory: pytest.TempPathFactory, statement: str) -> None:
    folder = tmp_path_factory.getbasetemp() / "any_statement"
    if not folder.exists():
        folder.mkdir()
        make_store(folder / "index.db", {"a.mp4": 24})
    before = (folder / "index.db").read_bytes()
    here = os.getcwd()
    os.chdir(folder)
    try:
        IndexStore("index.db").query(statement, timeout=0.5)
    except ConfigurationError:
        pass
    finally:
        os.chdir(here)
    assert os.listdir(folder) == ["index.db"]
    assert (folder / "index.db").read_bytes() == before
