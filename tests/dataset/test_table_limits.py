"""What a table may cost: a small file that unpacks to much more is refused by a message that names the limit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

import videoloader as vl
from videoloader.errors import ConfigurationError
from videoloader.indexing import set_limits

MAP = pyarrow.map_(pyarrow.string(), pyarrow.string())


@pytest.fixture(autouse=True)
def _limits_of_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIDEOLOADER_LIMITS", "")


def test_long_texts_in_parquet_are_refused(tmp_path: Path) -> None:
    for column in (["é" * 50], [["é" * 50]], [{"x": "é" * 50}], pyarrow.array([[("k", "é" * 50)]], MAP)):
        pyarrow.parquet.write_table(pyarrow.table({"path": ["a.mp4"], "note": column}), tmp_path / "a.parquet")
        set_limits(cell_characters=50)
        assert len(vl.VideoDataset.from_csv(tmp_path / "a.parquet")) == 1
        set_limits(cell_characters=49)
        with pytest.raises(ConfigurationError, match="a value of more than 49 characters, the limit cell_ch"):
            vl.VideoDataset.from_csv(tmp_path / "a.parquet")


@pytest.mark.parametrize("delta", [False, True])
@pytest.mark.parametrize(
    "column", [["y" * 1000] * 1000, [["y" * 1000] * 10] * 100, pyarrow.array([[1] * 1000] * 200), [0] * 100_000]
)
def test_parquet_that_unpacks_to_much_more_is_refused(tmp_path: Path, column: Any, delta: bool) -> None:
    table = pyarrow.table({"path": ["a.mp4"] * len(column), "x": column})
    is_text = delta and isinstance(column[0], str)
    how: Any = {"use_dictionary": False, "column_encoding": {"x": "DELTA_BYTE_ARRAY"}} if is_text else {}
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet", **how)
    assert len(vl.VideoDataset.from_csv(tmp_path / "a.parquet")) == len(column)
    set_limits(table_bytes=700_000)
    with pytest.raises(ConfigurationError, match=r"more than 700000 bytes in memory, the limit table_bytes: .*set_"):
        vl.VideoDataset.from_csv(tmp_path / "a.parquet")


def test_a_new_name_in_each_line_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({"path": "a.mp4", f"k{row}": 1}) + "\n" for row in range(600)))
    assert vl.VideoDataset.from_csv(path)[599].columns == {"k599": 1}
    set_limits(table_bytes=1_000_000)
    with pytest.raises(ConfigurationError, match="more than 1000000 bytes in memory, the limit table_bytes"):
        vl.VideoDataset.from_csv(path)


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.parquet"])
def test_too_many_columns_are_refused(tmp_path: Path, name: str) -> None:
    row = {"path": "a.mp4", "b": 1, "c": 2}
    if name == "a.parquet":
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist([row]), tmp_path / name)
    else:
        (tmp_path / name).write_text(json.dumps(row) if name == "a.jsonl" else "path,b,c\na.mp4,1,2\n")
    set_limits(table_columns=3)
    assert len(vl.VideoDataset.from_csv(tmp_path / name)) == 1
    set_limits(table_columns=2)
    with pytest.raises(ConfigurationError, match=r"rows of more than 2 columns, the limit table_columns: .*set_"):
        vl.VideoDataset.from_csv(tmp_path / name)


def test_a_table_beyond_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pyarrow.parquet.write_table(pyarrow.table({"path": ["a.mp4"]}), tmp_path / "a.parquet")

    def fails(*values: object) -> None:
        raise pyarrow.ArrowMemoryError("malloc failed")

    monkeypatch.setattr("videoloader.dataset.parquet.arrow_column", fails)
    with pytest.raises(vl.NoMemoryError, match=r"a\.parquet: there is not enough memory for the table: leave out"):
        vl.VideoDataset.from_csv(tmp_path / "a.parquet")
