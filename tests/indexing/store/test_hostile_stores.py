"""Stores that somebody else wrote: what no build of ours writes is refused, and never run or trusted."""

from __future__ import annotations

import json
import os
import sqlite3
import struct
import zlib
from contextlib import suppress
from pathlib import Path

import pytest
from example_count import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from store_contents import change, make_store

import videoloader as vl
from videoloader.errors import (
    ConfigurationError,
    IndexingError,
    SourceError,
    StaleIndexError,
    UnsupportedError,
    VideoLoaderError,
)
from videoloader.indexing import IndexStore, build_store

FRAMES = {f"{name}.mp4": 24 for name in "abcde"}
ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    make_store(tmp_path / "index.db", FRAMES)
    return tmp_path / "index.db"


def use(path: Path) -> None:
    """Whatever a store is used for."""
    store = IndexStore(path, verify=False)
    videos = [str(path.parent / name) for name in FRAMES]
    counts, errors = store.frame_counts(videos)
    assert all(counts[row] == 24 for row in range(5) if row not in errors)
    store.frame_counts(videos[:1])
    list(store.errors())
    store.query("SELECT * FROM videos")
    store.to_csv(path.with_suffix(".csv"))
    for video in videos:
        try:
            store.get(video)
        except VideoLoaderError:
            continue


@pytest.mark.parametrize(
    "statements",
    [
        ("CREATE VIEW other AS SELECT 1",),
        ("ALTER TABLE videos RENAME TO hidden", f"CREATE VIEW videos AS {ENDLESS} x AS source FROM n"),
        ("CREATE TRIGGER other AFTER INSERT ON videos BEGIN DELETE FROM records; END",),
        ("CREATE TABLE other (x)",),
        ("CREATE INDEX other ON videos (abs(frames))",),
        ("CREATE VIRTUAL TABLE other USING fts5(text)",),
        ("ALTER TABLE videos ADD COLUMN other AS (zeroblob(1000000000))",),
        ("ALTER TABLE videos DROP COLUMN codec",),
        ("DROP TABLE records",),
        ("DROP TABLE settings", "CREATE TABLE settings (name TEXT PRIMARY KEY, value)"),
        ("PRAGMA user_version = 0",),
        ("PRAGMA user_version = -1",),
        ("PRAGMA user_version = 1",),
        ("PRAGMA user_version = 2",),
        ("PRAGMA application_id = 7",),
        (
            "PRAGMA writable_schema = 1",
            "UPDATE sqlite_master SET sql = 'CREATE VIEW x AS SELECT' WHERE name = 'records'",
        ),
        ("PRAGMA writable_schema = 1", "UPDATE sqlite_master SET rootpage = 99999 WHERE name = 'videos'"),
        (
            "PRAGMA writable_schema = 1",
            "UPDATE sqlite_master SET sql = 'CREATE ' || CAST(x'80' AS TEXT) WHERE rowid = 2",
        ),
    ],
)
def test_stores_that_no_build_writes_are_refused(path: Path, statements: tuple[str, ...]) -> None:
    change(path, *statements)
    before = path.read_bytes()
    for open_it in (use, lambda store: build_store([], store, workers=1)):
        with pytest.raises(IndexingError, match=r"index\.db: .*index store"):
            open_it(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("value", ["NULL", "''", "7", "'relative'", "'/a' || char(0) || 'b'", "1e999"])
def test_roots_are_folders(path: Path, value: str) -> None:
    change(path, f"UPDATE settings SET value = {value} WHERE name = 'root'")
    with pytest.raises(IndexingError, match="damaged: it records no root"):
        IndexStore(path)


@pytest.mark.parametrize("version", ["6", "99", "NULL", "'7x'", "x'07'"])
def test_rows_of_other_versions_of_the_indexer_are_to_be_built_again(path: Path, version: str) -> None:
    change(path, f"UPDATE videos SET indexer = {version} WHERE source < 'c'")
    store = IndexStore(path, verify=False)
    videos = [str(path.parent / name) for name in FRAMES]
    for asked in (videos, videos[:1] * 2, videos[:1]):
        counts, errors = store.frame_counts(asked)
        assert [24 if row not in errors else 0 for row in range(len(asked))] == counts.tolist()
        assert {row for row, video in enumerate(asked) if os.path.basename(video) < "c"} == errors.keys()
        assert {type(error) for error in errors.values()} == {StaleIndexError}
    with pytest.raises(StaleIndexError, match=r"a\.mp4: was indexed by version .*: build the index store again$"):
        store.get(videos[0])
    assert len(store.get(videos[2])) == 24


ANYTHING = ["NULL", "-1", "1 << 62", "1e999", "''", "'text'", "x'ff00'", "CAST(x'ff' AS TEXT)", "'a' || char(0) || 'b'"]
COLUMNS = ["source", "fingerprint", "error_type", "error", "indexer", "frames", "codec", "width", "id"]
COLUMNS += ["keyframes", "duration_s", "byte_offset", "method"]


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("value", ANYTHING)
def test_values_of_any_type_are_an_error_of_their_row(path: Path, column: str, value: str) -> None:
    try:
        change(path, f"UPDATE videos SET {column} = {value} WHERE source = 'b.mp4'")
    except sqlite3.Error:
        return  # SQLite keeps such a value out
    store = IndexStore(path, verify=False)
    others = [str(path.parent / name) for name in FRAMES if name != "b.mp4"]
    assert [len(store.get(video)) for video in others] == [24] * 4
    with suppress(IndexingError, ConfigurationError):  # a text that is no UTF-8 is damage of the whole file
        use(path)
    data = vl.VideoDataset.from_paths([path.parent / name for name in FRAMES])
    uses = (
        lambda: store.to_jsonl(path.with_suffix(".jsonl")),
        lambda: store.to_parquet(path.with_suffix(".parquet")),
        lambda: str(data.describe(store=store)),
        lambda: data.where(min_frames=1, store=store),
    )
    for each in uses:
        with suppress(VideoLoaderError):
            each()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 70), 1 << 70) | st.floats() | st.text(max_size=5),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.text(max_size=5), inside, max_size=3),
    max_leaves=5,
)


@pytest.mark.parametrize("value", ["NULL", "7"])
def test_a_name_that_is_not_text_is_an_error(path: Path, value: str) -> None:
    """The schema is as it should be, but the row was written under another one."""
    connection = sqlite3.connect(path)
    (schema,) = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'videos'").fetchone()
    connection.close()
    other = schema.replace("source TEXT NOT NULL UNIQUE", "source UNIQUE")
    assert other != schema
    for sql, statements in [(other, ()), (schema, (f"UPDATE videos SET source = {value} WHERE source = 'b.mp4'",))]:
        quoted = sql.replace("'", "''")
        set_schema = f"UPDATE sqlite_master SET sql = '{quoted}' WHERE name = 'videos'"
        change(path, *statements, "PRAGMA writable_schema = ON", set_schema)
    store = IndexStore(path, verify=False)
    for look in (
        lambda: store.frame_counts(["a.mp4", "b.mp4"] * 3000),
        lambda: [*store.to_csv(path.with_suffix(".csv"))],
    ):
        with pytest.raises(
            IndexingError, match=f"damaged: it has a video with the name {value.replace('NULL', 'None')}: delete it"
        ):
            look()


def places(value: object, at: tuple[object, ...] = ()) -> list[tuple[object, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [at, *(place for key, each in items for place in places(each, (*at, key)))]


@given(st.data())
@settings(max_examples=examples(60))
def test_records_with_anything_in_them_are_an_index_or_an_error(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Whoever writes a store can make its checksums fit."""
    path = tmp_path_factory.mktemp("store") / "index.db"
    make_store(path, {"a.mp4": 24})
    connection = sqlite3.connect(path)
    ((record,),) = connection.execute("SELECT record FROM records").fetchall()
    content = json.loads(record)
    *way, last = data.draw(st.sampled_from(places(content)[1:]))
    at = content
    for step in way:
        at = at[step]
    at[last] = data.draw(JSON)
    changed = json.dumps(content).encode()
    ((blob,),) = connection.execute("SELECT blob FROM frame_tables").fetchall()
    check = zlib.crc32(blob[5:], zlib.crc32(changed)).to_bytes(4, "little")
    with connection:
        connection.execute("UPDATE records SET record = ?", (changed,))
        connection.execute("UPDATE frame_tables SET blob = ?", (blob[:1] + check + blob[5:],))
    connection.close()
    try:
        index = IndexStore(path, verify=False).get(str(path.parent / "a.mp4"))
    except (IndexingError, UnsupportedError):  # the latter for pictures beyond the limit
        return
    assert len(index.timestamps) == len(index) == 24
    assert isinstance(index.stream.display_size[0], int)


@given(st.data())
@settings(max_examples=examples(50))
def test_pages_with_anything_in_them_are_a_store_or_an_error(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("store") / "index.db"
    make_store(path, FRAMES)
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 6))):
        place = data.draw(st.integers(0, len(content) - 1))
        put = data.draw(st.binary(min_size=1, max_size=8))
        content[place : place + len(put)] = put
    path.write_bytes(content)
    before = sorted(os.listdir(path.parent))
    with suppress(VideoLoaderError):
        use(path)
    assert sorted({*os.listdir(path.parent)} - {"index.csv"}) == before


def test_recursion_in_a_record_is_an_error(path: Path) -> None:
    for depth in (1, 100_000):
        record = b'{"columns":' + b"[" * depth + b"]" * depth + b',"index":{}}'
        with sqlite3.connect(path) as connection:
            ((blob,),) = connection.execute("SELECT blob FROM frame_tables LIMIT 1").fetchall()
            check = zlib.crc32(blob[5:], zlib.crc32(record)).to_bytes(4, "little")
            connection.execute("UPDATE records SET record = ?", (record,))
            connection.execute("UPDATE frame_tables SET blob = ?", (blob[:1] + check + blob[5:],))
        connection.close()
        with pytest.raises(IndexingError, match="is not valid"):
            IndexStore(path, verify=False).get(str(path.parent / "a.mp4"))


def test_a_journal_beside_a_store_deletes_no_other_file(path: Path) -> None:
    """SQLite deletes the file that is named as the journal of several databases."""
    other = path.with_name("other.txt")
    other.write_text("precious")
    magic, name, page = b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7", bytes(other), 8192
    head = magic + struct.pack(">5I", 0, 0, path.stat().st_size // page, 512, page)
    end = struct.pack(">I", (1 << 30) // page + 1) + name + struct.pack(">2I", len(name), sum(name)) + magic
    Path(f"{path}-journal").write_bytes(head.ljust(512, b"\0") + end)
    for touch in (IndexStore, lambda path: build_store([], path)):
        with pytest.raises(
            SourceError, match=r"index\.db-journal beside the index store names another file: delete it"
        ):
            touch(path)
    assert other.read_text() == "precious"


@pytest.mark.parametrize("ending", ["-journal", "-wal", "-shm"])
def test_a_log_that_is_another_file_by_a_hard_link_is_left_alone(path: Path, ending: str) -> None:
    other = path.with_name("other.txt")
    other.write_text("precious " * 2000 if ending != "-journal" else "")
    os.link(other, f"{path}{ending}")
    before = other.read_bytes()
    with pytest.raises(SourceError, match=rf"index\.db{ending} beside the index store has other names"):
        build_store([], path)
    assert other.read_bytes() == before


@pytest.mark.parametrize("ending", ["-journal", "-wal", "-shm"])
def test_a_log_beside_a_store_that_is_no_file_is_an_error(path: Path, ending: str) -> None:
    Path(f"{path}-wal").touch()
    Path(f"{path}{ending}").unlink(missing_ok=True)
    os.mkfifo(f"{path}{ending}")
    for touch in (IndexStore, lambda path: build_store([], path)):
        with pytest.raises(SourceError, match=rf"cannot be read .*Is a FIFO, not a file.*index\.db{ending}"):
            touch(path)
