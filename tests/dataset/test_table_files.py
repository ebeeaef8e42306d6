"""JSON lines and Parquet tables give the same rows as CSV, with types."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
from forked_programs import run_program
from hypothesis import given
from hypothesis import strategies as st

from videoloader.dataset import VideoDataset, VideoEntry
from videoloader.errors import ConfigurationError, SourceError

ROWS = [
    {"video": "a.mp4", "label": "run", "start": 1.5, "end": 3, "take": 7, "frames": [0, 4, 8], "good": True},
    {"video": "/b.mp4", "label": "fall", "start": None, "end": 2.25, "take": 8, "frames": [], "good": False},
]


def json_lines(path: Path, rows: list[Any]) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def parquet(path: Path, rows: list[Any]) -> Path:
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    return path


@dataclass(frozen=True)
class Writer:
    """Writes rows to a table of some kind; ``unit`` is what its errors count."""

    path: Path
    write: Callable[[Path, list[Any]], Path]
    unit: str

    def __call__(self, rows: list[Any]) -> Path:
        return self.write(self.path, rows)


@pytest.fixture(params=["rows.jsonl", "rows.ndjson", "rows.json", "rows.parquet", "rows.PQ"])
def written(request: pytest.FixtureRequest, tmp_path: Path) -> Writer:
    """Tables of every kind."""
    is_json = "json" in request.param
    return Writer(tmp_path / request.param, json_lines if is_json else parquet, "line" if is_json else "row")


def test_values_have_the_types_of_the_file(written: Writer, tmp_path: Path) -> None:
    data = VideoDataset.from_csv(written(ROWS))
    assert data.class_names == ("fall", "run")
    assert list(data) == [
        VideoEntry(
            str(tmp_path / "a.mp4"),
            1,
            start_seconds=1.5,
            stop_seconds=3.0,
            columns={"take": 7, "frames": [0, 4, 8], "good": True},
        ),
        VideoEntry("/b.mp4", 0, stop_seconds=2.25, columns={"take": 8, "frames": [], "good": False}),
    ]
    assert type(data[0].columns["take"]) is int


def test_numbers_are_labels_also_where_pandas_has_made_them_floats(written: Writer) -> None:
    data = VideoDataset.from_csv(written([{"path": "a", "label": 3.0}, {"path": "b", "label": 0.0}]))
    assert [entry.label for entry in data] == [3, 0]
    data = VideoDataset.from_csv(
        written([{"path": "a", "label": 1}, {"path": "b", "label": 0}]), class_names=["x", "y"]
    )
    assert ([entry.label for entry in data], data.class_names) == ([1, 0], ("x", "y"))


def test_frames_are_whole_numbers_of_any_type(written: Writer) -> None:
    data = VideoDataset.from_csv(written([{"path": "a", "start_frame": 3.0, "end_frame": "9"}]))
    assert (data[0].start, data[0].stop) == (3, 9)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"path": "a"}, {"path": None}], "{0} 2: path must be a non-empty string, got nothing"),
        ([{"path": "a"}, {"path": ""}], "{0} 2: path must be a non-empty string, got ''"),
        ([{"path": 5}], "{0} 1: path must be a non-empty string, got 5"),
        ([{"path": "a", "label": 0.5}], "{0} 1: label must be a number or a name, got 0.5"),
        ([{"path": "a", "label": [1]}], r"{0} 1: label must be a number or a name, got \[1\]"),
        ([{"path": "a", "label": "x"}, {"path": "b", "label": None}], "{0} 2: the label is missing"),
        ([{"path": "a", "start_frame": 1.5}], "{0} 1: start 1.5 is not a whole number"),
        ([{"path": "/a", "start_frame": -1}], "{0} 1: /a: start must be at least 0"),
        ([{"path": "a", "end": [1]}], r"{0} 1: stop_seconds \[1\] is not a number of seconds"),
        ([{"path": "a", "start": 2, "end": 1}], "{0} 1: .*start_seconds=2.0, stop_seconds=1.0"),
        ([{"name": "a"}], "give columns="),
    ],
)
def test_nonsense_is_an_error_that_names_file_and_row(written: Writer, rows: list[Any], message: str) -> None:
    file = written(rows)
    with pytest.raises(ConfigurationError, match=f"^{file}: {message.format(written.unit)}"):
        VideoDataset.from_csv(file)


def test_a_json_line_may_lack_what_others_have(tmp_path: Path) -> None:
    rows = [{"path": "/a", "end": 1}, {"path": "/b", "note": "x"}, {"path": "/c", "note": None}]
    data = VideoDataset.from_csv(json_lines(tmp_path / "rows.jsonl", rows))
    assert [dict(entry.columns) for entry in data] == [{}, {"note": "x"}, {"note": None}]
    assert [entry.stop_seconds for entry in data] == [1.0, None, None]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the table has no rows"),
        ('{"path": "a"}\n\n[1]\n', "line 3 is a list, not a JSON object"),
        ('{"path": "a"}\n{"path": \n', "line 2 is not JSON"),
        ("[" * 100_000, "line 1 is not JSON"),
        ('{"path": "a"}\n{"path": "a", "b": {"c": 1, "d": 2, "c": 3}}\n', r"line 2 is not JSON \(it has 'c' twice\)"),
        ('{"path": "a", "start": true}\n', "line 1: start_seconds True is not a number of seconds"),
        # Looking for the name must not take the square of their number.
        pytest.param(
            '{"path": "a", ' + "".join(f'"{number}": 0, ' for number in range(100_000)) + '"99999": 1}\n',
            r"line 1 is not JSON \(it has '99999' twice\)",
            id="100,000 names",
        ),
        ('[{"path": "a"}]', "line 1 is a list, not a JSON object: a table of JSON has an object in each line"),
        ('{"path": "a", "start_frame": 1e400}\n', "line 1: start inf is not a whole number"),
        ('{"path": "a", "start_frame": ' + "9" * 30 + "}\n", "line 1: start 9+ is not a whole number of 64 bits"),
        ('{"path": "a", "label": ' + "9" * 30 + '}\n{"path": "b", "label": -' + "9" * 30 + "}\n", None),
    ],
)
def test_lines_that_are_no_rows(tmp_path: Path, text: str, message: str | None) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text(text)
    if message is None:  # longer than any number of a class: a name
        assert set(VideoDataset.from_csv(file).class_names) == {"-" + "9" * 30, "9" * 30}
        return
    with pytest.raises(ConfigurationError, match=f"^{file}: {message}"):
        VideoDataset.from_csv(file)


@pytest.mark.parametrize("name", ["rows.csv", "rows.jsonl"])
def test_a_line_without_end_is_no_table(tmp_path: Path, name: str) -> None:
    with (tmp_path / name).open("wb") as file:
        file.truncate(300 << 20)  # zeros, which take no room on the disk
    with pytest.raises(ConfigurationError, match="line 1 is longer than 16777216 characters"):
        VideoDataset.from_csv(tmp_path / name)


@given(st.binary(max_size=200))
def test_noise_is_no_parquet(tmp_path_factory: pytest.TempPathFactory, noise: bytes) -> None:
    file = tmp_path_factory.mktemp("noise") / "rows.parquet"
    file.write_bytes(b"PAR1" + noise + b"PAR1")
    with pytest.raises(ConfigurationError, match=f"^{file}: cannot be read as a Parquet table"):
        VideoDataset.from_csv(file)


@pytest.mark.parametrize("rows_of_a_group", [1, 3, 4])
def test_nested_texts_of_a_parquet_may_lie_in_several_groups(tmp_path: Path, rows_of_a_group: int) -> None:
    rows = [
        {"path": f"{row}.mp4", "tags": ["a", f"b{row}"], "about": {"place": f"p{row}"}, "more": [{"x": ["y"]}]}
        for row in range(7)
    ]
    path = tmp_path / "rows.parquet"
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path, row_group_size=rows_of_a_group)
    data = VideoDataset.from_csv(path)
    assert [entry.columns for entry in data] == [
        {name: row[name] for name in ("tags", "about", "more")} for row in rows
    ]


def test_bytes_of_a_parquet_are_no_times(tmp_path: Path) -> None:
    path = parquet(tmp_path / "rows.parquet", [{"path": "a.mp4", "end": b"1_0"}])
    with pytest.raises(ConfigurationError, match=r"row 1: stop_seconds b'1_0' is not a number of seconds"):
        VideoDataset.from_csv(path)


def test_a_parquet_without_columns_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    pyarrow.parquet.write_table(pyarrow.table({}), path)
    with pytest.raises(ConfigurationError, match="the table has no rows"):
        VideoDataset.from_csv(path)


def test_any_changed_byte_of_a_parquet_gives_rows_or_an_error(tmp_path: Path) -> None:
    sound = parquet(tmp_path / "sound.parquet", [{"path": "a.mp4", "label": 1}, {"path": "b.mp4", "label": 2}])
    content, file = sound.read_bytes(), tmp_path / "rows.parquet"
    refused = 0
    for place in range(4, len(content)):
        for bit in (1, 2, 4, 64):
            file.write_bytes(content[:place] + bytes([content[place] ^ bit]) + content[place + 1 :])
            try:
                VideoDataset.from_csv(file)
            except ConfigurationError:
                refused += 1
    assert 100 < refused < 4 * len(content)


def test_rows_that_name_no_text_of_a_damaged_parquet_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = parquet(tmp_path / "rows.parquet", [{"path": "a.mp4"}])
    names = pyarrow.DictionaryArray.from_arrays(pyarrow.array([7]), pyarrow.array(["a.mp4"]), safe=False)
    batch = pyarrow.RecordBatch.from_arrays([names], ["path"])
    monkeypatch.setattr(pyarrow.parquet.ParquetFile, "iter_batches", lambda *_, **__: iter([batch]))
    with pytest.raises(ConfigurationError, match=r"rows\.parquet: cannot be read as a Parquet table"):
        VideoDataset.from_csv(path)


def test_parquet_of_every_kind_of_column(tmp_path: Path) -> None:
    table = pyarrow.table(
        {
            "path": pyarrow.array(["/a", "/b"]).dictionary_encode(),
            "start_time": pyarrow.array([Decimal("0.12"), None]),
            "small": pyarrow.array([-1, 2], pyarrow.int8()),
            "large": pyarrow.array([2**64 - 1, 0], pyarrow.uint64()),
            "half": pyarrow.array([0.5, 0.25], pyarrow.float32()),
            "gap": pyarrow.array([None, "x"]),
        }
    )
    pyarrow.parquet.write_table(table.slice(0, 2), tmp_path / "rows.parquet")
    first, second = VideoDataset.from_csv(tmp_path / "rows.parquet")
    assert (first.path, first.start_seconds, second.start_seconds) == ("/a", 0.12, None)
    assert first.columns == {"small": -1, "large": 2**64 - 1, "half": 0.5, "gap": None}


@pytest.mark.parametrize("kind", ["date32", "timestamp[us]", "timestamp[ms]", "duration[s]", "time64[us]"])
def test_dates_that_python_cannot_hold(tmp_path: Path, kind: str) -> None:
    beyond = pyarrow.array([2**31 - 1], "int32").cast(kind) if kind == "date32" else pyarrow.array([2**60]).cast(kind)
    pyarrow.parquet.write_table(pyarrow.table({"path": ["a.mp4"], "when": beyond}), tmp_path / "rows.parquet")
    with pytest.raises(ConfigurationError, match=r"rows\.parquet: column 'when' has a .* that Python cannot hold"):
        VideoDataset.from_csv(tmp_path / "rows.parquet")


def test_rows_in_several_groups_come_in_order(tmp_path: Path) -> None:
    table = pyarrow.table({"path": [f"/é{i}" for i in range(50)], "n": list(range(50))})
    pyarrow.parquet.write_table(table, tmp_path / "rows.parquet", row_group_size=7)
    data = VideoDataset.from_csv(tmp_path / "rows.parquet")
    assert [(entry.path, entry.columns["n"]) for entry in data] == [(f"/é{i}", i) for i in range(50)]


class TestMissingFiles:
    def write(self, root: Path) -> Path:
        (root / "a.mp4").touch()
        (root / "rows.csv").write_text("path\na.mp4\ngone.mp4\nlost.mp4\ns3://b/c.mp4\nshard.tar::d.mp4\n")
        return root / "rows.csv"

    def test_are_not_looked_for_unless_asked(self, tmp_path: Path) -> None:
        assert len(VideoDataset.from_csv(self.write(tmp_path))) == 5

    def test_are_an_error_that_names_the_first_and_their_number(self, tmp_path: Path) -> None:
        with pytest.raises(SourceError, match=r"gone.mp4: this video and 1 more of 5 in .*rows.csv"):
            VideoDataset.from_csv(self.write(tmp_path), missing="raise")

    def test_are_left_out_with_an_account(self, tmp_path: Path) -> None:
        data = VideoDataset.from_csv(self.write(tmp_path), missing="skip")
        assert len(data) == 3
        assert data.left_out == tuple(
            (str(tmp_path / name), "there is no such file") for name in ("gone.mp4", "lost.mp4")
        )
        assert data[:1].left_out == data.left_out

    def test_other_words_are_refused(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigurationError, match=r"missing must be 'raise', 'skip' or, .*, got 'drop'"):
            VideoDataset.from_csv(self.write(tmp_path), missing="drop")


def test_a_parquet_table_is_read_without_threads(tmp_path: Path) -> None:
    """Where the system allows no more of them, Arrow ends the process."""
    table = pyarrow.table({"path": [f"{number}.mp4" for number in range(5000)], "label": list(range(5000))})
    pyarrow.parquet.write_table(table, tmp_path / "rows.parquet", row_group_size=1000)
    done = run_program(
        "import os, sys, pyarrow.parquet, videoloader as vl\n"
        "read, before = vl.VideoDataset.from_csv, len(os.listdir('/proc/self/task'))\n"
        "print(len(read(sys.argv[1])), len(os.listdir('/proc/self/task')) - before)",
        tmp_path / "rows.parquet",
    )
    assert done.stdout.split() == ["5000", "0"], done.stderr
