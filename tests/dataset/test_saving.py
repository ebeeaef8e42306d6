"""Saved data sets load unchanged, and open without looking anything up."""

from __future__ import annotations

import json
import multiprocessing
import os
import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
from image_files import write_frames
from store_contents import make_store

import videoloader as vl
from videoloader.indexing import build_store
from videoloader.order.clip_table import ClipTable, build_clip_table, video_ranges
from videoloader.sampling.mode import FrameMode

FRAMES = {"a.mp4": 60, "b.mp4": 1, "c.mp4": 300, "caf\udce9.mp4": 24}
MODES = [vl.EveryWindow(4), vl.Keyframes(), vl.Triplets(even=True), vl.RandomWindow(8)]


def data_of(folder: Path) -> vl.VideoDataset:
    entries = [
        vl.VideoEntry(f"{folder}/a.mp4", 2, columns={"night": True, "json": {"a": [1, 2.5, None, "ü"], "b": {}}}),
        vl.VideoEntry(f"{folder}/b.mp4", columns={"night": "x", "raw": b"\0\xff", "n": 3}),
        vl.VideoEntry(f"{folder}/c.mp4", 0, start_seconds=0.01, stop_seconds=0.02, columns={"raw": b"", "n": 2**70}),
        vl.VideoEntry(f"{folder}/c.mp4", 1, start=7, stop=30, columns={"json": float("inf")}),
        vl.VideoEntry(f"{folder}/caf\udce9.mp4", 1, start=3, times="pts", columns={"json": ""}),
    ]
    rows = [vl.VideoEntry(each.path, each.label, start=each.start, stop=each.stop, start_seconds=each.start_seconds,
                          stop_seconds=each.stop_seconds, times=each.times,
                          columns={**each.columns, "text": f"{row}ä", "x": row / 3, "i": row})
            for row, each in enumerate(entries)]  # fmt: skip
    return vl.VideoDataset(rows, ("run", "sit", "walk"), [("gone.mp4", "is not there")])


@pytest.fixture
def store(tmp_path: Path) -> vl.IndexStore:
    return make_store(tmp_path / "index.db", FRAMES)


def saved(data: vl.VideoDataset, folder: Path, **store: Any) -> vl.VideoDataset:
    data.save(folder / "rows.arrow", **store)
    return vl.VideoDataset.load(folder / "rows.arrow")


def table_of(data: vl.VideoDataset, mode: FrameMode, store: vl.IndexStore) -> ClipTable:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*gives no clip")
        return build_clip_table(data, mode, store=store, workers=1, skip_unreadable=True)


def edit(path: Path, columns: dict[str, Any], **facts: Any) -> None:
    """Give a saved data set other columns, and other facts about it."""
    with pyarrow.ipc.open_file(path) as file:
        table = file.read_all()
    about = json.loads(table.schema.metadata[b"videoloader.VideoDataset"]) | facts
    for name, column in columns.items():
        about["constants"].pop(name, None)
        table = table.select([each for each in table.column_names if each != name]).append_column(name, [column])
    table = table.replace_schema_metadata({b"videoloader.VideoDataset": json.dumps(about)})
    with pyarrow.ipc.new_file(path, table.schema) as file:
        file.write_table(table)


def same(one: ClipTable, other: ClipTable) -> bool:
    return (one.fingerprint(), one.unreadable, len(one)) == (other.fingerprint(), other.unreadable, len(other))


def test_everything_comes_back(tmp_path: Path, store: vl.IndexStore) -> None:
    data = data_of(tmp_path)
    for loaded in (saved(data, tmp_path), saved(data, tmp_path, store=store), saved(data[[1]], tmp_path)):
        expected = data if len(loaded) > 1 else data[[1]]
        assert list(loaded) == list(expected)
        assert (loaded.class_names, loaded.left_out) == (expected.class_names, expected.left_out)
        assert [type(entry.columns.get("n")) for entry in loaded] == [type(e.columns.get("n")) for e in expected]
    paths = vl.VideoDataset.from_paths(["a.mp4", "b.mp4"])
    assert list(saved(paths, tmp_path)) == list(paths)
    with pytest.raises(ValueError, match="read-only"):
        loaded.table.label[0] = 1


def test_what_is_made_of_it_is_as_if_it_had_not_been_saved(tmp_path: Path) -> None:
    data, loaded = data_of(tmp_path), saved(data_of(tmp_path), tmp_path)
    rows = [4, 0, 0, 2]
    assert list(loaded[rows]) == list(data[rows])
    assert list(loaded + data) == list(data + loaded) == list(data + data)
    assert list(pickle.loads(pickle.dumps(loaded))) == list(data)
    assert loaded.table.column("i") == data.table.column("i")
    assert saved(loaded, tmp_path / "..").table == data.table


def test_loaded_rows_may_be_used_in_another_process(tmp_path: Path) -> None:
    loaded = saved(data_of(tmp_path), tmp_path)
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply(len, (loaded.paths[4],)) == len(data_of(tmp_path).paths[4])


@pytest.mark.parametrize("mode", MODES)
def test_a_loader_finds_what_was_looked_up_before(
    mode: FrameMode, tmp_path: Path, store: vl.IndexStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = data_of(tmp_path)
    loaded, expected = saved(data, tmp_path, store=store), table_of(data, mode, store)
    some = [0, 3, 3, 2]
    expected_of_some = table_of(data[some], mode, store)
    monkeypatch.setattr(vl.IndexStore, "numbers", None)
    assert same(table_of(loaded, mode, store), expected)
    assert same(table_of(loaded[some], mode, store), expected_of_some)
    assert same(table_of(pickle.loads(pickle.dumps(loaded)), mode, store), expected)


def test_rows_that_cannot_be_used_are_told_of_again(tmp_path: Path, store: vl.IndexStore) -> None:
    data = vl.VideoDataset([*data_of(tmp_path), vl.VideoEntry(f"{tmp_path}/a.mp4", start=70)])
    loaded = saved(data, tmp_path, store=store)
    with pytest.warns(UserWarning, match="1 of 6 rows are left out"):
        table = table_of(loaded, vl.EveryWindow(1), store)
    assert table.unreadable == [
        (f"{tmp_path}/a.mp4", "no frames for start=70; the video lasts 0–0.005 s, 60 frames"),
    ]
    assert not table_of(loaded[:5], vl.EveryWindow(1), store).unreadable
    with pytest.raises(vl.FrameRangeError):
        build_clip_table(loaded, vl.EveryWindow(1), store=store, workers=1, skip_unreadable=False)
    with pytest.raises(vl.NotIndexedError):
        vl.VideoDataset.from_paths(["no.mp4"]).save(tmp_path / "x.arrow", store=store)


def test_where_the_store_was_built_anew_rows_are_looked_up_again(tmp_path: Path, store: vl.IndexStore) -> None:
    data = data_of(tmp_path)
    loaded = saved(data, tmp_path, store=store)
    before = store.content
    build_store([], store.path, workers=1)
    assert store.content == before
    (tmp_path / "text.mp4").write_text("no video")
    build_store([tmp_path / "text.mp4"], store.path, workers=1)
    with pytest.warns(UserWarning, match="has changed since the data set was saved.* save the data set again"):
        table = table_of(loaded, vl.EveryWindow(4), store)
    assert same(table, table_of(data, vl.EveryWindow(4), store))


def test_relative_paths_that_lead_to_other_files_are_looked_up_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder, length in (("a", 3), ("b", 5)):
        write_frames(tmp_path / folder / "x", [f"{number}.png" for number in range(length)])
    build_store([tmp_path / "a/x", tmp_path / "b/x"], tmp_path / "all.db", workers=1)
    store = vl.IndexStore(tmp_path / "all.db")
    monkeypatch.chdir(tmp_path / "a")
    vl.VideoDataset.from_paths(["x"]).save(tmp_path / "rows.arrow", store=store)
    loaded = vl.VideoDataset.load(tmp_path / "rows.arrow")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(table_of(loaded, vl.EveryWindow(1), store)) == 3
    monkeypatch.chdir(tmp_path / "b")
    with pytest.warns(UserWarning, match="its paths lead to other files: rows are looked up again"):
        assert len(table_of(loaded, vl.EveryWindow(1), store)) == 5


@pytest.mark.parametrize("name", ["{now}/../x", "http://x", "{here}//../x"])
def test_names_that_lead_to_other_files_are_looked_up_again(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A path with ".." behind a link, and a path that looks like a URL, as long as there is such a folder."""
    for folder, length in (("a", 3), ("b", 5)):
        for where in ("x", "http:/x"):
            write_frames(tmp_path / folder / where, [f"{number}.png" for number in range(length)])
        (tmp_path / folder / "below").mkdir()
    build_store([path for each in ("x", "http:/x") for path in tmp_path.glob(f"[ab]/{each}")], tmp_path / "all.db")
    store, now = vl.IndexStore(tmp_path / "all.db"), tmp_path / "now"

    def lead_to(folder: str) -> None:
        monkeypatch.chdir(tmp_path / folder)
        now.unlink(missing_ok=True)
        now.symlink_to(tmp_path / folder / "below")

    lead_to("a")
    path = name.format(now=now, here=now)
    vl.VideoDataset.from_paths([path]).save(tmp_path / "rows.arrow", store=store)
    loaded = vl.VideoDataset.load(tmp_path / "rows.arrow")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(table_of(loaded, vl.EveryWindow(1), store)) == 3
    lead_to("b")
    with pytest.warns(UserWarning, match="its paths lead to other files: rows are looked up again"):
        assert len(table_of(loaded, vl.EveryWindow(1), store)) == 5


def test_seconds_that_count_from_elsewhere_are_looked_up_again(tmp_path: Path, store: vl.IndexStore) -> None:
    loaded = saved(data_of(tmp_path), tmp_path, store=store).with_times("pts")
    assert loaded.table.frames is None


def test_what_json_would_change_is_refused(tmp_path: Path) -> None:
    deep: list[Any] = []
    for _ in range(100_000):  # deeper than any Python's recursion
        deep = [deep]
    for value in ((1, 2), {1: 2}, np.float32(3), {"a": b""}, object(), deep):
        data = vl.VideoDataset([vl.VideoEntry("a.mp4", columns={"odd": value})])
        with pytest.raises(vl.ConfigurationError, match=r"^a.mp4: column 'odd' cannot be saved .*: text, numbers"):
            data.save(tmp_path / "rows.arrow")
    assert not list(tmp_path.glob("rows*"))


def test_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(vl.SourceError, match="cannot be read"):
        vl.VideoDataset.load(tmp_path / "none.arrow")
    with pytest.raises(vl.SourceError, match="cannot be saved"):
        data_of(tmp_path).save(tmp_path / "no folder" / "rows.arrow")
    data_of(tmp_path).save(tmp_path / "rows.arrow")
    content = (tmp_path / "rows.arrow").read_bytes()
    for damaged in (b"", b"text", content[: len(content) // 2], content.replace(b'"version": 1', b'"version": 9')):
        (tmp_path / "rows.arrow").write_bytes(damaged)
        with pytest.raises(vl.ConfigurationError, match=r"rows.arrow: is (not )?a saved data set"):
            vl.VideoDataset.load(tmp_path / "rows.arrow")


def test_what_is_no_file_is_neither_opened_nor_replaced(tmp_path: Path) -> None:
    data, path = data_of(tmp_path), tmp_path / "rows.arrow"
    for make, kind in ((os.mkfifo, "a FIFO"), (lambda at: os.symlink("/dev/zero", at), "a device")):
        make(path)
        with pytest.raises(
            vl.SourceError, match=rf"rows\.arrow: the data set cannot be read \(Is {kind}, not a file\)"
        ):
            vl.VideoDataset.load(path)
        with pytest.raises(vl.SourceError, match=rf"rows\.arrow: the data set cannot be saved \(Is {kind}, not a file"):
            data.save(path)
        assert not path.is_file()
        path.unlink()
    os.mkfifo(tmp_path / "rows.arrow.lock")
    with pytest.raises(vl.SourceError, match=r"rows\.arrow\.lock: cannot be prepared"):
        vl.VideoDataset.load_or_make(path, lambda: data)


def test_a_link_at_the_name_of_the_new_file_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "other").write_text("kept")
    (tmp_path / "rows.arrow.0.part").symlink_to(tmp_path / "other")
    monkeypatch.setattr("videoloader.indexing.sources.regular_file.token_hex", lambda size: "0")
    with pytest.raises(vl.SourceError, match=r"cannot be saved .File exists"):
        data_of(tmp_path).save(tmp_path / "rows.arrow")
    assert (tmp_path / "other").read_text() == "kept"


@pytest.mark.parametrize("name", ["a\0.arrow", "\ud800.arrow"])
def test_names_that_no_file_can_have(tmp_path: Path, name: str) -> None:
    with pytest.raises(vl.SourceError, match="the data set cannot be saved"):
        data_of(tmp_path).save(f"{tmp_path}/{name}")
    with pytest.raises(vl.SourceError, match="cannot be prepared"):
        vl.VideoDataset.load_or_make(f"{tmp_path}/{name}", lambda: data_of(tmp_path))
    with pytest.raises(vl.SourceError, match="the index store cannot be opened"):
        data_of(tmp_path).build_store(f"{tmp_path}/{name}")


@pytest.mark.parametrize(
    ("name", "type_"), [("label", "date"), ("start", "float"), ("in_pts", "int32"), ("label", "text")]
)
def test_numbers_of_another_type_are_an_error(tmp_path: Path, name: str, type_: str) -> None:
    rows = vl.VideoDataset([vl.VideoEntry("a.mp4", label, start=0, stop=9) for label in (0, 1)])
    rows.save(tmp_path / "rows.arrow")
    wrong = {
        "date": pyarrow.array([0, 1], pyarrow.date64()),
        "float": pyarrow.array([0.0, 1.0]),
        "int32": pyarrow.array([0, 1], pyarrow.int32()),
        "text": pyarrow.array([b"0", b"1"], pyarrow.large_binary()),
    }
    edit(tmp_path / "rows.arrow", {name: wrong[type_]})
    with pytest.raises(vl.ConfigurationError, match="is not a saved data set, or is damaged"):
        vl.VideoDataset.load(tmp_path / "rows.arrow")


@pytest.mark.parametrize(
    ("columns", "facts"),
    [
        ({"columns.boxes": [1, 2]}, {}),
        ({"path": [1, 2]}, {}),
        ({}, {"errors": [[2, "SourceError", "is not there"]]}),
        ({"frames.first": [-(2**63)] * 2}, {}),
        ({"frames.first": [8] * 2}, {}),
        ({"frames.stop": [61, 0]}, {}),
        ({name: [2**62] * 2 for name in ("frames.stop", "frames.frames")}, {}),
    ],
)
def test_edited_files_are_an_error(
    tmp_path: Path, store: vl.IndexStore, columns: dict[str, list[int]], facts: dict[str, Any]
) -> None:
    entry = vl.VideoEntry(f"{tmp_path}/a.mp4", start=3, stop=7, columns={"boxes": [3]})
    vl.VideoDataset([entry, entry]).save(tmp_path / "rows.arrow", store=store)
    edit(tmp_path / "rows.arrow", {name: pyarrow.array(values) for name, values in columns.items()}, **facts)
    with pytest.raises(vl.ConfigurationError, match=r"rows\.arrow: is not a saved data set, or is damaged"):
        vl.VideoDataset.load(tmp_path / "rows.arrow")


@pytest.mark.parametrize("method", ["zstd", "lz4"])
def test_a_compressed_file_is_refused_before_it_is_unpacked(tmp_path: Path, method: str) -> None:
    path = tmp_path / "data.arrow"
    vl.VideoDataset.from_paths(["a.mp4"]).save(path)
    with pyarrow.ipc.open_file(path) as file:
        schema, batch = file.schema, file.get_batch(0)
    larger = pyarrow.array([bytes(200 << 20)], pyarrow.large_binary())
    schema = schema.append(pyarrow.field("columns.x", larger.type))
    batch = pyarrow.RecordBatch.from_arrays([*batch.columns, larger], schema=schema)
    for options in (pyarrow.ipc.IpcWriteOptions(compression=method), pyarrow.ipc.IpcWriteOptions()):
        with pyarrow.ipc.new_file(path, schema, options=options) as writer:
            writer.write_batch(batch)
        if options.compression:
            with pytest.raises(
                vl.ConfigurationError, match=r"is not a saved data set, or is damaged \(it is compressed"
            ):
                vl.VideoDataset.load(path)
    assert len(vl.VideoDataset.load(path)) == 1


def test_facts_nested_beyond_measure_are_an_error(tmp_path: Path) -> None:
    deep = pyarrow.table({"path": [b"a"]}).replace_schema_metadata({b"videoloader.VideoDataset": b"[" * 100_000})
    with pyarrow.ipc.new_file(tmp_path / "rows.arrow", deep.schema) as file:
        file.write_table(deep)
    with pytest.raises(vl.ConfigurationError, match="is not a saved data set, or is damaged"):
        vl.VideoDataset.load(tmp_path / "rows.arrow")


def test_a_range_beyond_its_video_is_an_error(tmp_path: Path, store: vl.IndexStore) -> None:
    vl.VideoDataset.from_paths([f"{tmp_path}/a.mp4"]).save(tmp_path / "rows.arrow", store=store)
    beyond = {"frames.first": 100, "frames.stop": 109, "frames.frames": 200}
    edit(tmp_path / "rows.arrow", {name: pyarrow.array([number]) for name, number in beyond.items()})
    loaded = vl.VideoDataset.load(tmp_path / "rows.arrow")
    (video,) = video_ranges(loaded, table_of(loaded, vl.EveryWindow(4), store).ranges, np.array([0]))
    with pytest.raises(
        vl.IndexingError, match=r"a\.mp4: .*ends at 109, but the video has 60 frames: save the data set"
    ):
        _ = video.index


@pytest.mark.parametrize("damage", [b"\xff", b"]", b"="])
def test_damaged_text_is_an_error_when_it_is_read(tmp_path: Path, damage: bytes) -> None:
    rows = vl.VideoDataset([vl.VideoEntry("a.mp4", columns={"boxes": ["of this row"]})])
    rows.save(tmp_path / "rows.arrow")
    content = (tmp_path / "rows.arrow").read_bytes()
    assert content.count(b'["of this row"]') == 1
    (tmp_path / "rows.arrow").write_bytes(content.replace(b'["of', damage + b'"of'))
    with pytest.raises(vl.SourceError, match="the saved data set is damaged"):
        list(vl.VideoDataset.load(tmp_path / "rows.arrow"))


def test_rows_of_a_store_come_in_parts(tmp_path: Path, store: vl.IndexStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("videoloader.indexing.store.store._KEYS_AT_ONCE", 2)
    assert list(vl.VideoDataset.from_store(store).paths) == [f"{tmp_path}/{name}" for name in FRAMES]
    assert len(vl.VideoDataset.from_store(store, where="frames > 20 -- long")) == 3


def test_rows_of_a_store(tmp_path: Path, store: vl.IndexStore) -> None:
    assert list(vl.VideoDataset.from_store(store).paths) == [f"{tmp_path}/{name}" for name in FRAMES]
    assert list(vl.VideoDataset.from_store(store.path, where="frames > 50 -- long").paths) == [
        f"{tmp_path}/a.mp4",
        f"{tmp_path}/c.mp4",
    ]
    with pytest.raises(vl.ConfigurationError, match="not SQL over the facts of videos"):
        vl.VideoDataset.from_store(store, where="framez > 50")
    with pytest.raises(vl.ConfigurationError, match="none of the 4 rows is left"):
        vl.VideoDataset.from_store(store, where="frames > 5000")
    (tmp_path / "text.mp4").write_text("no video")
    build_store([tmp_path / "text.mp4"], store.path, workers=1)
    with pytest.warns(UserWarning, match="1 of 5 videos are left out"):
        assert [path for path, _ in vl.VideoDataset.from_store(store).left_out] == [f"{tmp_path}/text.mp4"]


def test_a_column_whose_name_is_no_text_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text('{"path": "v.mp4", "a\\ud83d": 1}\n')
    with pytest.raises(vl.SourceError, match=r"the data set cannot be saved \('utf-8' codec can't encode"):
        vl.VideoDataset.from_csv(tmp_path / "x.jsonl").save(tmp_path / "x.arrow")
