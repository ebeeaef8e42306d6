"""videoloader query and export: rows of a store, printed or written."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from commands import run, run_json

from videoloader import VideoDataset
from videoloader.cli.query import split_columns
from videoloader.indexing import build_store
from videoloader.indexing.store import export as export_module


@pytest.fixture(scope="module")
def store(sample: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of two videos, and of a file that is none."""
    folder = tmp_path_factory.mktemp("videos")
    shutil.copy(sample("h264_mp4"), folder / "a[1].mp4")
    shutil.copy(sample("vp9_webm"), folder / "b.webm")
    (folder / "c.mp4").write_text("no video")
    build_store([folder / name for name in ("a[1].mp4", "b.webm", "c.mp4")], folder / "index.db", workers=1)
    return folder / "index.db"


def test_a_table_shows_rows_and_their_number(store: Path) -> None:
    told = run("query", store, "codec = 'h264'", "-c", "source, codec").stdout
    assert "a[1].mp4" in told
    assert told.endswith("1 row\n")


def test_json_has_an_object_for_each_row(store: Path) -> None:
    rows = run_json("query", store, "error IS NULL", "-c", "path, codec, round(duration_s, 1), frames")
    assert rows == [
        {"path": str(store.parent / "a[1].mp4"), "codec": "h264", "round(duration_s, 1)": 2.4, "frames": 60},
        {"path": str(store.parent / "b.webm"), "codec": "vp9", "round(duration_s, 1)": 2.4, "frames": 60},
    ]


def test_csv_has_a_header(store: Path) -> None:
    rows = list(csv.reader(io.StringIO(run("query", store, "-c", "source,error", "--csv").stdout)))
    assert rows[:2] == [["source", "error"], ["a[1].mp4", ""]]
    assert rows[3][0] == "c.mp4"
    assert "libavformat" in rows[3][1]


def test_csv_for_a_program_has_names_as_they_are(sample: Callable[[str], Path], tmp_path: Path) -> None:
    names = ["\u202eb.mp4", r"\u202eb.mp4", "\x1b[2J.mp4"]
    paths = [str(shutil.copy(sample("h264_mp4"), tmp_path / name)) for name in names]
    build_store(paths, tmp_path / "index.db", workers=1)
    told = run("query", tmp_path / "index.db", "-c", "path", "--csv").stdout
    assert [path for (path,) in csv.reader(io.StringIO(told))] == ["path", *paths]


def test_rows_are_grouped_ordered_and_limited(store: Path) -> None:
    grouped = run_json("query", store, "-c", "codec, count(*)", "--group-by", "codec", "--order-by", "codec DESC")
    assert grouped == [
        {"codec": "vp9", "count(*)": 1},
        {"codec": "h264", "count(*)": 1},
        {"codec": None, "count(*)": 1},
    ]
    assert run_json("query", store, "0", "-c", "path, max(frames)") == [{"path": None, "max(frames)": None}]
    assert run_json("query", store, "--order-by", "source DESC", "--limit", 1, "-c", "source") == [{"source": "c.mp4"}]
    assert run_json("query", store, "frames > 1000") == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nope = 1",), "no such column: nope"),
        (("1); DELETE FROM videos; --",), "the query fails"),
        (("-c", "path,,codec"), "must be different names"),
        (("--csv", "--json"), "exclude each other"),
    ],
)
def test_what_makes_no_sense_is_exit_code_2(store: Path, arguments: tuple[str, ...], message: str) -> None:
    done = run("query", store, *arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert message in done.stderr
    assert len(run_json("query", store)) == 3


def test_commas_in_brackets_and_quotes_do_not_separate_columns() -> None:
    assert split_columns("a, round(b, 2), ',', \"c,d\"") == ["a", "round(b, 2)", "','", '"c,d"']


def test_names_that_are_not_utf8_are_printed(sample: Callable[[str], Path], tmp_path: Path) -> None:
    odd = tmp_path / os.fsdecode(b"\xff.mp4")
    shutil.copy(sample("h264_mp4"), odd)
    build_store([odd], tmp_path / "index.db", workers=1)
    assert run_json("query", tmp_path / "index.db", "-c", "path") == [{"path": str(odd)}]
    assert r"\udcff.mp4" in run("query", tmp_path / "index.db", "--csv").stdout
    assert run("query", tmp_path / "index.db").exit_code == 0
    assert run("export", tmp_path / "index.db", tmp_path / "rows.jsonl").exit_code == 0
    assert json.loads((tmp_path / "rows.jsonl").read_text("utf-8"))["source"].endswith(r"\udcff.mp4")


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_what_is_exported_is_a_table_of_the_videos(store: Path, ending: str) -> None:
    table = store.parent / f"rows.{ending}"
    assert run("export", store, table, "--where", "error IS NULL").exit_code == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data = VideoDataset.from_csv(table)
    assert list(data.paths) == [str(store.parent / "a[1].mp4"), str(store.parent / "b.webm")]
    assert data[0].columns["codec"] == "h264"


def exported(path: Path) -> list[tuple[str, str | None]]:
    if path.suffix == ".csv":
        return [(row["source"], row["codec"] or None) for row in csv.DictReader(path.read_text().splitlines())]
    if path.suffix == ".jsonl":
        return [(row["source"], row["codec"]) for row in map(json.loads, path.read_text().splitlines())]
    parquet = pytest.importorskip("pyarrow.parquet")
    return [(row["source"], row["codec"]) for row in parquet.read_table(path).to_pylist()]


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_rows_are_written_in_each_format(
    store: Path, tmp_path: Path, ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export_module, "_ROW_GROUP", 1)
    file, names = tmp_path / f"rows.{ending}", [str(store.parent / name) for name in ("a[1].mp4", "b.webm", "c.mp4")]
    assert run_json("export", store, file) == {"output": str(file), "rows": 3}
    assert exported(file) == list(zip(names, ("h264", "vp9", None), strict=True))
    assert "2 rows written" in run("export", store, file, "--where", "error IS NULL").stdout
    assert exported(file) == list(zip(names[:2], ("h264", "vp9"), strict=True))


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [("rows.xlsx", (), "must end with .csv"), ("rows.csv", ("--where", "nope"), "no such column")],
)
def test_nothing_is_written_where_that_cannot_be(
    store: Path, tmp_path: Path, name: str, options: tuple[str, ...], message: str
) -> None:
    done = run("export", store, tmp_path / name, *options)
    assert done.exit_code == 2
    assert message in done.stderr
    assert not (tmp_path / name).exists()
