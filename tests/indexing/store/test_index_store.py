"""Reading a store: what is found, what is refused, by whom it may be read."""

import csv
import json
import multiprocessing
import os
import pickle
import shutil
import sqlite3
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from any_index import assert_same_index
from store_contents import build_here

from videoloader.dataset import VideoDataset
from videoloader.errors import (
    ConfigurationError,
    IndexingError,
    NotIndexedError,
    SourceError,
    StaleIndexError,
)
from videoloader.indexing import IndexStore, build_index, build_store, merge_stores, torchcodec_frame_mappings
from videoloader.indexing.store import reader
from videoloader.indexing.store.opening import needs_rollback
from videoloader.indexing.store.schema import COLUMNS


@pytest.fixture
def store(store_path):
    return IndexStore(store_path)


def test_a_connection_is_closed_after_the_names_of_its_module_are_gone(monkeypatch):
    """As when the interpreter ends with a store in a global variable."""
    opened = reader.OpenedStore(sqlite3.connect(":memory:"), None)
    monkeypatch.setattr(reader, "os", None)
    opened.__del__()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        opened.connection.execute("SELECT 1")


def test_indexes_are_those_that_were_built(store, videos):
    assert len(store) == 6
    for path in videos[:-1]:
        assert_same_index(store.get(path), build_index(path))
        assert store.get(path).source == str(path)


def test_any_spelling_of_a_path_will_do(store, videos, monkeypatch):
    monkeypatch.chdir(videos[0].parent)
    twisted = os.path.join("..", videos[0].parent.name, ".", videos[0].name)
    assert_same_index(store.get(videos[0].name), build_index(videos[0].name))
    assert len(store.get(twisted)) == 60


def test_the_error_of_an_unreadable_file_is_raised_again(store, videos):
    with pytest.raises(IndexingError) as before:
        build_index(videos[-1])
    with pytest.raises(IndexingError) as after:
        store.get(videos[-1])
    assert str(after.value) == str(before.value)
    assert list(store.errors()) == [(str(videos[-1]), str(after.value).removeprefix(f"{videos[-1]}: "))]


def test_a_video_that_was_never_indexed_is_an_error_that_says_what_to_do(store):
    with pytest.raises(NotIndexedError, match=r"^/some/where.mp4: is not in the index store .*build_store"):
        store.get("/some/where.mp4")


def test_frame_counts_are_had_without_the_indexes(store, videos):
    counts, errors = store.frame_counts([*map(str, videos), "missing.mp4"])
    assert counts.tolist() == [60] * 5 + [0] * 2
    assert {row: type(error) for row, error in errors.items()} == {5: IndexingError, 6: NotIndexedError}
    counts, errors = store.frame_counts([])
    assert (counts.tolist(), errors) == ([], {})


@pytest.mark.parametrize("part", [0.0, 2.0])
def test_frame_counts_are_the_same_from_one_pass_and_one_by_one(store, videos, monkeypatch, part):
    monkeypatch.setattr("videoloader.indexing.store.store._WORTH_A_PASS", part)
    folder, name = os.path.split(videos[0])
    asked = [str(videos[1]), "no.mp4", str(videos[5]), f"{folder}/./{name}", str(videos[1]), os.path.relpath(videos[0])]
    counts, errors = store.frame_counts(asked)
    assert counts.tolist() == [60, 0, 0, 60, 60, 60]
    assert {row: (type(error), error.source) for row, error in errors.items()} == {
        1: (NotIndexedError, "no.mp4"),
        2: (IndexingError, str(videos[5])),
    }


class TestStaleRows:
    @pytest.fixture(params=["longer", "touched", "gone"])
    def change(self, request, videos, store_path):
        if request.param == "longer":
            with videos[0].open("ab") as file:
                file.write(b"\0")
        elif request.param == "touched":
            os.utime(videos[0], (1, 1))
        else:
            videos[0].unlink()

    @pytest.mark.usefixtures("change")
    def test_a_changed_file_is_an_error(self, store, videos):
        with pytest.raises(StaleIndexError, match=str(videos[0])):
            store.get(videos[0])
        counts, errors = store.frame_counts([str(path) for path in videos[:-1]])
        assert {row: type(error) for row, error in errors.items()} == {0: StaleIndexError}
        assert counts.tolist() == [0] + [60] * 4

    @pytest.mark.usefixtures("change")
    def test_unless_nobody_looks(self, store_path, store, videos):
        for trusting in (IndexStore(store_path, verify=False), store.unverified()):
            assert len(trusting.get(videos[0])) == 60
            assert trusting.frame_counts([str(videos[0])])[0].tolist() == [60]


class TestMoving:
    def test_a_data_set_moves_with_its_store(self, videos, tmp_path):
        build_store(videos, tmp_path / "data" / "index.db", workers=1)
        (tmp_path / "data").rename(tmp_path / "moved")
        store = IndexStore(tmp_path / "moved" / "index.db")
        assert len(store.get(tmp_path / "moved" / "h264_mp4" / videos[0].name)) == 60
        assert next(store.errors())[0] == str(tmp_path / "moved" / "text.mp4")

    def test_the_copy_is_meant_where_a_data_set_was_copied_with_its_store(self, videos, tmp_path):
        build_store(videos, tmp_path / "data" / "index.db", workers=1)
        shutil.copytree(tmp_path / "data", tmp_path / "copy")
        store = IndexStore(tmp_path / "copy" / "index.db")
        assert next(store.errors())[0] == str(tmp_path / "copy" / "text.mp4")
        merge_stores([tmp_path / name / "index.db" for name in ("data", "copy")], tmp_path / "all.db")
        assert len(IndexStore(tmp_path / "all.db")) == 2 * len(videos)

    def test_the_copy_is_meant_even_if_its_first_videos_are_elsewhere_or_gone(self, videos, tmp_path):
        outside = shutil.copy(videos[0], tmp_path / "outside.mp4")
        build_store([outside, *videos], tmp_path / "data" / "index.db", workers=1)
        copied = tmp_path / "copy"
        shutil.copytree(tmp_path / "data", copied)
        gone = [copied / path.relative_to(tmp_path / "data") for path in videos[:4]]
        for path in gone:
            path.unlink()
        inside = [str(copied / path.relative_to(tmp_path / "data")) for path in videos[:-1]]
        assert sorted(VideoDataset.from_store(copied / "index.db").paths) == sorted([str(outside), *inside])
        report = build_store([], copied / "index.db", workers=1, prune=True)
        assert sorted(report.vanished) == sorted(map(str, gone))
        merge_stores([tmp_path / name / "index.db" for name in ("data", "copy")], tmp_path / "all.db")
        assert len(IndexStore(tmp_path / "all.db")) == 2 * len(videos) + 1 - len(gone)

    def test_a_store_moves_alone(self, store_path, videos, tmp_path):
        (tmp_path / "else").mkdir()
        store = IndexStore(shutil.copy(store_path, tmp_path / "else" / "copy.db"))
        assert len(store.get(videos[0])) == 60

    def test_a_data_set_mounted_elsewhere_is_found_below_the_given_root(self, store_path, videos, tmp_path):
        (tmp_path / "else").mkdir()
        shutil.move(tmp_path / "data", tmp_path / "else" / "data")
        store = IndexStore(store_path, root=tmp_path / "else")
        assert len(store.get(tmp_path / "else" / videos[0].relative_to(tmp_path))) == 60
        assert next(store.errors())[0] == str(tmp_path / "else" / "data" / "text.mp4")

    def test_videos_outside_the_root_are_known_by_their_absolute_path(self, videos, tmp_path):
        build_here(videos[:2], tmp_path / "index.db", root=videos[0].parent)
        store = IndexStore(tmp_path / "index.db")
        assert store.query("SELECT source FROM videos ORDER BY id") == [(videos[0].name,), (str(videos[1]),)]
        assert [len(store.get(path)) for path in videos[:2]] == [60, 60]

    def test_names_that_are_not_utf8_are_kept(self, videos, tmp_path):
        odd = os.path.join(os.fsencode(tmp_path), b"caf\xe9.mp4")
        shutil.copy(videos[0], odd)
        report = build_store([os.fsdecode(odd), tmp_path / "n\udcffo.mp4"], tmp_path / "index.db", workers=1)
        store = IndexStore(tmp_path / "index.db")
        assert len(store.get(os.fsdecode(odd))) == 60
        assert report.unreadable[0][0] == str(tmp_path / "n\udcffo.mp4")
        store.to_csv(tmp_path / "rows.csv")
        assert "caf" in (tmp_path / "rows.csv").read_text()

    def test_a_link_before_two_dots_leads_where_the_system_goes(self, tmp_path, videos, monkeypatch):
        monkeypatch.chdir(tmp_path)
        os.makedirs("a/b")
        os.symlink("a/b", "link")
        shutil.copy(videos[0], "v.mp4")
        shutil.copy(videos[1], "a/v.mp4")
        names = ["v.mp4", "link/../v.mp4", str(tmp_path / "a/b/../../v.mp4")]
        assert build_store(names, "link/../index.db", workers=1).indexed == 2
        store = IndexStore("a/index.db")
        for name in (*names, "a/v.mp4"):
            assert_same_index(store.get(name), build_index(name))
        assert len(store.frame_counts(names)[1]) == 0


class TestReaders:
    def test_threads_read_at_once(self, store, videos):
        with ThreadPoolExecutor(8) as pool:
            indexes = list(pool.map(store.get, videos[:-1] * 20))
        assert [len(index) for index in indexes] == [60] * 100

    def test_a_store_may_be_pickled(self, store, store_path, videos):
        again = pickle.loads(pickle.dumps(IndexStore(store_path, root="/elsewhere", verify=False)))
        assert (again.path, again.verify, again.keys.roots) == (store.path, False, ("/elsewhere",))
        assert len(pickle.loads(pickle.dumps(store)).get(videos[0])) == 60

    def test_a_fork_reads_with_connections_of_its_own(self, store, videos):
        assert len(store.get(videos[0])) == 60
        with multiprocessing.get_context("fork").Pool(2) as pool:
            assert [len(index) for index in pool.map(store.get, videos[:2] * 5)] == [60] * 10
        assert len(store.get(videos[1])) == 60

    def test_a_finished_store_is_one_file_that_needs_no_writing(self, store_path, videos):
        assert [path.name for path in store_path.parent.iterdir() if path.name.startswith("index")] == ["index.db"]
        folder = store_path.parent
        before = store_path.read_bytes()
        try:
            store_path.chmod(stat.S_IRUSR)
            folder.chmod(stat.S_IRUSR | stat.S_IXUSR)
            assert len(IndexStore(store_path).get(videos[0])) == 60
        finally:
            folder.chmod(0o755)
        assert [path.name for path in folder.iterdir() if path.name.startswith("index")] == ["index.db"]
        assert store_path.read_bytes() == before

    def test_a_reader_sees_what_later_builds_add(self, store, store_path, videos, tmp_path):
        assert len(store) == 6
        another = Path(shutil.copy(videos[0], tmp_path / "another.mp4"))
        build_here([another], store_path)
        assert len(store) == 7
        assert len(store.get(another)) == 60

    def test_nothing_is_written_through_a_query(self, store):
        assert store.query("SELECT count(*) FROM videos WHERE frames > ? AND codec = 'h264'", (10,)) == [(3,)]
        for statement in ("DELETE FROM videos", "SELECT nothing FROM videos"):
            with pytest.raises(ConfigurationError, match="query fails"):
                store.query(statement)

    @pytest.mark.parametrize(("code", "undo"), [(None, True), (776, True), (8, False)])
    def test_a_store_with_a_transaction_to_undo_is_known_where_python_tells_no_codes(self, code, undo):
        error = sqlite3.OperationalError("attempt to write a readonly database")
        if code is not None:  # from Python 3.11 on
            error.sqlite_errorcode = code
        assert needs_rollback(error) == undo
        assert not needs_rollback(sqlite3.OperationalError("disk I/O error"))


def test_facts_are_those_of_the_index(store, videos):
    row = dict(zip(COLUMNS, store.query(f"SELECT {', '.join(COLUMNS)} FROM videos WHERE id = 5")[0], strict=True))
    index = build_index(videos[4])
    assert row["source"] == str(videos[4].relative_to(videos[4].parents[2]))
    assert (row["frames"], row["packets"], row["keyframes"], row["longest_gop"]) == (60, 60, 5, 12)
    assert (row["width"], row["height"], row["codec"], row["is_vfr"]) == (160, 128, "h264", 1)
    assert row["fps"] == index.average_fps
    assert row["duration_s"] == pytest.approx((index.timestamps[-1] - index.timestamps[0]) * 60 / 59)


class TestDamage:
    def test_a_file_that_is_no_store_is_refused(self, tmp_path):
        text = b"not a database, but long enough for a header" * 9
        for content, what in {
            b"": ", but empty, as until the first build has",
            text: r" \(file is not a database",
        }.items():
            (tmp_path / "a.db").write_bytes(content)
            with pytest.raises(IndexingError, match=rf"a\.db: is not an index store{what}"):
                IndexStore(tmp_path / "a.db")
        with pytest.raises(SourceError, match="No such file"):
            IndexStore(tmp_path / "none.db")

    def test_a_damaged_store_is_not_called_another_file(self, tmp_path, videos):
        path = tmp_path / "a.db"
        build_store(videos, path, workers=1)
        content = bytearray(path.read_bytes())
        content[100:110] = b"\xff" * 10  # the head of the first page, behind that of the file
        path.write_bytes(content)
        with pytest.raises(IndexingError, match=r"a\.db: the index store is damaged, or .*malformed.* delete it"):
            IndexStore(path)

    def test_another_applications_database_is_refused_and_left_alone(self, tmp_path, videos):
        path = tmp_path / "other.db"
        with sqlite3.connect(path) as connection:
            connection.execute("CREATE TABLE videos (source TEXT)")
        connection.close()
        before = path.read_bytes()
        with pytest.raises(IndexingError, match="is not an index store, but another application's database"):
            IndexStore(path)
        with pytest.raises(IndexingError, match="is not an index store, but another application's database"):
            build_store(videos, path, workers=1)
        assert path.read_bytes() == before
        text = tmp_path / "notes.txt"
        text.write_text("do not overwrite me " * 100)
        with pytest.raises(IndexingError, match="not an index store"):
            build_store(videos, text, workers=1)
        assert text.read_text().startswith("do not overwrite me")

    @pytest.mark.parametrize("version", [1, 2, 4])
    def test_another_version_is_refused(self, store_path, videos, version):
        with sqlite3.connect(store_path) as connection:
            connection.execute(f"PRAGMA user_version = {version}")
        connection.close()
        for use in (IndexStore, lambda path: build_store(videos, path, workers=1)):
            with pytest.raises(IndexingError, match=rf"version {version}; this videoloader reads version 3: build"):
                use(store_path)

    @pytest.mark.parametrize(
        "change",
        [
            "UPDATE frame_tables SET blob = substr(blob, 1, 20)",
            "UPDATE frame_tables SET blob = CAST(substr(blob, 1, 30) || x'aa' || substr(blob, 32) AS BLOB)",
            "UPDATE frame_tables SET blob = 7",
            "UPDATE videos SET frames = frames + 1",
            "DELETE FROM frame_tables",
            "DELETE FROM records",
            "UPDATE records SET record = (SELECT max(record) || ' ' FROM records)",
        ],
    )
    def test_a_damaged_row_is_an_error_that_names_the_video(self, store_path, videos, change):
        with sqlite3.connect(store_path) as connection:
            connection.execute(change)
        connection.close()
        with pytest.raises(IndexingError, match=f"^{videos[0]}: its "):
            IndexStore(store_path).get(videos[0])

    def test_a_damaged_file_gives_the_right_index_or_an_error(self, store_path, videos):
        """Every 89th byte of the file, wherever it falls."""
        content = store_path.read_bytes()
        right = {path: build_index(path) for path in videos[:2]}
        for place in range(0, len(content), 89):
            store_path.write_bytes(content[:place] + bytes([content[place] ^ 0x55]) + content[place + 1 :])
            for path, index in right.items():
                try:
                    found = IndexStore(store_path).get(path)
                except (IndexingError, NotIndexedError, StaleIndexError):
                    continue
                assert_same_index(found, index)


class TestExport:
    @pytest.mark.parametrize("write", ["to_csv", "to_jsonl"])
    def test_a_table_that_cannot_be_written_is_an_error_of_the_library(self, store, tmp_path, write):
        for path in ("", tmp_path, tmp_path / "no" / "rows"):
            with pytest.raises(SourceError, match="the table cannot be written"):
                getattr(store, write)(path)

    @pytest.mark.parametrize("write", ["to_csv", "to_jsonl", "to_parquet"])
    @pytest.mark.parametrize("spelling", ["{0}", "{0}/../{1}/index.db", "link.db"])
    def test_a_table_never_replaces_its_store(self, tmp_path, videos, write, spelling, monkeypatch):
        monkeypatch.chdir(tmp_path)
        build_store(videos, "index.db", workers=1)
        os.symlink("index.db", "link.db")
        store = IndexStore("index.db")
        path = spelling.format("index.db" if spelling == "{0}" else tmp_path, tmp_path.name)
        with pytest.raises(ConfigurationError, match=r"index\.db: is the store"):
            getattr(store, write)(path)
        assert len(IndexStore("index.db")) == len(videos)

    @pytest.mark.parametrize("write", ["to_csv", "to_jsonl", "to_parquet"])
    def test_a_table_is_replaced_as_a_whole(self, store, tmp_path, monkeypatch, write):
        """As when the disk is full, or with Ctrl-C, after some of its rows."""
        if write == "to_parquet":
            pytest.importorskip("pyarrow")
        table = tmp_path / "rows"
        getattr(store, write)(table)
        before, plain, rows = table.read_bytes(), store._row_as_exported, []

        def fail_at_last(row):
            rows.append(row)
            if len(rows) == len(store):
                raise KeyboardInterrupt
            return plain(row)

        monkeypatch.setattr(store, "_row_as_exported", fail_at_last)
        with pytest.raises(KeyboardInterrupt):
            getattr(store, write)(table)
        assert table.read_bytes() == before
        assert list(tmp_path.glob("rows*")) == [table]

    def test_a_table_keeps_its_permissions_and_links_to_it_stay(self, store, tmp_path):
        (tmp_path / "rows.csv").write_text("old")
        (tmp_path / "rows.csv").chmod(0o600)
        (tmp_path / "link.csv").symlink_to("rows.csv")
        store.to_csv(tmp_path / "link.csv")
        assert (tmp_path / "link.csv").is_symlink()
        assert (tmp_path / "rows.csv").read_text().startswith("source,")
        assert stat.S_IMODE((tmp_path / "rows.csv").stat().st_mode) == 0o600

    @pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
    def test_names_with_spaces_around_them_come_back(self, tmp_path, videos, ending):
        if ending == "parquet":
            pytest.importorskip("pyarrow")
        names = [str(tmp_path / name) for name in ("a.mp4", "a.mp4 ", " a.mp4", ' "a".mp4')]
        for name in names:
            shutil.copy(videos[0], name)
        build_store(names, tmp_path / "index.db", root=tmp_path, workers=1)
        store = IndexStore(tmp_path / "index.db")
        getattr(store, f"to_{ending}")(tmp_path / f"rows.{ending}")
        assert sorted(VideoDataset.from_csv(tmp_path / f"rows.{ending}").paths) == sorted(names)

    def test_csv_and_parquet_hold_the_same_rows(self, store, videos, tmp_path):
        store.to_csv(tmp_path / "rows.csv")
        with (tmp_path / "rows.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        assert [row["source"] for row in rows] == [str(path) for path in videos]
        assert [row["frames"] for row in rows] == ["60"] * 5 + [""]
        parquet = pytest.importorskip("pyarrow.parquet")
        store.to_parquet(tmp_path / "rows.parquet")
        table = parquet.read_table(tmp_path / "rows.parquet").to_pylist()
        for line, row in zip(rows, table, strict=True):
            assert line == {name: "" if value is None else str(value) for name, value in row.items()}

    def test_torchcodec_is_told_of_an_index_only(self, videos):
        with pytest.raises(ConfigurationError, match=r"index must be a VideoIndex, as Video\(path\)\.index, got 'x'"):
            torchcodec_frame_mappings("x")

    @pytest.mark.parametrize("number", range(5))
    def test_torchcodec_is_told_every_frame(self, store, videos, number):
        index = store.get(videos[number])
        frames = json.loads(torchcodec_frame_mappings(index))["frames"]
        assert [frame["pts"] for frame in frames] == index.frame_pts.tolist()
        assert [frame["key_frame"] for frame in frames] == index.packet_key[index.frame_packet].tolist()
        assert [frame["duration"] for frame in frames[:-1]] == np.diff(index.frame_pts).tolist()
        assert frames[-1]["duration"] == frames[-2]["duration"]
        assert {type(value) for frame in frames for value in frame.values()} == {int}
