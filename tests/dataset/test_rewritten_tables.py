"""Tables and archives that are overwritten while their rows are read give those of one version, or an error."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from archive_writing import example, recordio_bytes, tar_bytes, tfrecord_bytes, zip_bytes

import videoloader as vl
from videoloader.indexing.sources import regular_file, text_lines

_LARGE = os.urandom(300_000)  # so that each is read by itself


def _members(label: int) -> dict[str, bytes]:
    return {name: data for n in range(6) for name, data in ((f"{n}.mp4", _LARGE), (f"{n}.cls", b"%d" % label))}


def _examples(label: int) -> bytes:
    return tfrecord_bytes([example({"video": _LARGE, "label": label})] * 6)


def _records(label: int) -> bytes:
    return recordio_bytes([struct.pack("<IfQQ", 0, label, n, 0) + _LARGE for n in range(6)])[0]


@pytest.mark.parametrize(
    ("write", "settings"),
    [
        (lambda label: tar_bytes(_members(label)), {}),
        (lambda label: zip_bytes(_members(label)), {}),
        (_examples, {"video": "video", "label": "label"}),
        (_records, {}),
    ],
    ids=["tar", "zip", "TFRecord", "RecordIO"],
)
def test_an_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[int], bytes], settings: dict[str, Any]
) -> None:
    path, old, new = tmp_path / "a", write(1), write(2)
    assert len(old) == len(new)
    plain, reads, overwritten_at = os.pread, 0, 0

    def overwrite_once(*arguments: Any) -> bytes:
        nonlocal reads
        reads += 1
        if reads == overwritten_at:
            with path.open("r+b") as file:
                file.write(new)
            os.utime(path, (1000, 1000))
        return plain(*arguments)

    monkeypatch.setattr(os, "pread", overwrite_once)
    errors = 0
    while overwritten_at <= reads:
        reads, overwritten_at = 0, overwritten_at + 1
        path.write_bytes(old)
        os.utime(path, (overwritten_at, overwritten_at))
        try:
            labels = {entry.label for entry in vl.VideoDataset.from_archives(path, **settings)}
        except vl.VideoLoaderError:  # that it has changed, or that a zip archive's checksums do not fit
            errors += 1
        else:
            assert overwritten_at > reads
            assert len(labels) == 1
    assert errors == overwritten_at - 1 >= 3


def test_a_table_is_of_one_version_whenever_another_is_renamed_to_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, other = tmp_path / "table.csv", tmp_path / "new.csv"
    old, new = "a.mp4;3\n", "x,y.mp4;1\n"
    plain, opened, replaced_at = regular_file.open_with_status, 0, 0

    def replace_once(*arguments: Any) -> Any:
        nonlocal opened
        opened += 1
        if opened == replaced_at:
            other.write_text(new)
            other.replace(path)
        return plain(*arguments)

    monkeypatch.setattr(regular_file, "open_with_status", replace_once)
    while replaced_at <= opened:
        opened, replaced_at = 0, replaced_at + 1
        path.write_text(old)
        rows = vl.VideoDataset.from_csv(path, header=["path", "label"])
        found = [(Path(row.path).name, row.label) for row in rows]
        assert found == [("a.mp4", 3)] or (found[0][0], rows.class_names) == ("x", ("y.mp4;1",))
    assert replaced_at > 1


@pytest.mark.parametrize(("name", "rows"), [("b", 99_999), ("a", 60_000), ("a", 1000)])
@pytest.mark.parametrize("line", ["{}.mp4\n", '{{"path": "{}.mp4"}}\n'])
def test_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, rows: int, line: str) -> None:
    path = tmp_path / ("table.jsonl" if "{{" in line else "table.csv")
    header = "" if "{{" in line else "path\n"
    path.write_text(header + line.format("a") * 99_999)
    os.utime(path, (1, 1))
    plain = text_lines.lines

    def rewritten(*arguments: Any) -> Any:
        for number, text in enumerate(plain(*arguments)):
            if number == 50_000:
                path.write_text(header + line.format(name) * rows)
            yield text

    monkeypatch.setattr("videoloader.dataset.text_tables.lines", rewritten)
    # Or half a line of one and half of the other are no row.
    with pytest.raises(vl.VideoLoaderError, match=r"cannot be read \(Has changed while it was read\)|is not JSON"):
        vl.VideoDataset.from_csv(path)
