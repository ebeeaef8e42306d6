"""Clips counted, and seconds resolved, from a store's columns agree with the indexes."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from store_contents import make_store_of
from synthetic_index import make_index

import videoloader as vl
from videoloader.dataset import entry_range
from videoloader.indexing import VideoIndex
from videoloader.order.clip_table import ClipTable, build_clip_table
from videoloader.sampling.mode import FrameMode
from videoloader.sampling.sampled_video import VideoPart

MILLISECONDS = Fraction(1, 1000)
KEYS = set(range(0, 60, 12))


def keyed(index: VideoIndex, *keys: int) -> VideoIndex:
    return index.with_keyframes(np.isin(np.arange(60), keys))


EVEN = {
    "even": make_index(list(range(0, 60 * 512, 512)), KEYS),
    "rounded": make_index([round(1000 * frame / 30) for frame in range(60)], KEYS, time_base=MILLISECONDS),
    "late": replace(make_index(list(range(900, 60 * 512 + 900, 512)), KEYS), start_time=20_000),
    "two": make_index([0, 512], {0}),
}
INDEXES = EVEN | {
    "jitter": make_index([40 * frame + frame % 3 for frame in range(60)], KEYS, time_base=MILLISECONDS),
    "hole": make_index([512 * (frame + 30 * (frame > 40)) for frame in range(60)], KEYS),
    "one": make_index([7], {0}),
    "same": make_index([0] * 60, KEYS, frames=list(range(60))),
    "no keys": keyed(EVEN["even"]),
    "one key": keyed(make_index(list(range(60)), {0}), 17),
}
PARTS: list[dict[str, Any]] = [
    {},
    {"start": 5, "stop": 11},
    {"start": 13, "stop": 24},
    {"start": 20},
    {"start_seconds": 0.5},
    {"start_seconds": 0.1, "stop_seconds": 0.2},
    {"start_seconds": 0.12, "stop": 55},
    {"start_seconds": 1 / 3, "stop_seconds": 2 / 3},
    {"start_seconds": -0.5, "stop_seconds": 1.0},
    {"start_seconds": -4.0, "stop_seconds": 1.0, "times": "pts"},
    {"stop_seconds": 1e300},
    {"start_seconds": 5e-324, "stop_seconds": 1.5 - 1e-9},
    {"start_seconds": 0.033, "times": "pts"},
    {"start_seconds": 0.0195, "stop_seconds": 0.0205},
    {"start_seconds": 9e9},
]


@pytest.fixture
def store(tmp_path: Path) -> vl.IndexStore:
    return make_store_of(tmp_path / "index.db", INDEXES)


def rows_of(folder: Path, parts: list[dict[str, Any]], names: list[str] | None = None) -> list[vl.VideoEntry]:
    return [vl.VideoEntry(str(folder / name), **part) for name in names or list(INDEXES) for part in parts]


def table_of(rows: list[vl.VideoEntry], mode: FrameMode, store: vl.IndexStore) -> ClipTable:
    return build_clip_table(vl.VideoDataset(rows), mode, store=store, workers=1, skip_unreadable=True)


@pytest.mark.filterwarnings("ignore:.*(are left out|after the video)")
def test_seconds_find_the_frames_that_the_index_finds(store: vl.IndexStore, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    ends = [{"start_seconds": a, "stop_seconds": a + b} for a, b in rng.random((40, 2)).round(3).tolist() if b]
    rows = rows_of(tmp_path, PARTS + ends)
    expected = {}
    for row, entry in enumerate(rows):
        with suppress(vl.FrameRangeError):
            expected[row] = entry_range(entry, store.get(entry.path))
    ranges = table_of(rows, vl.WholeVideo(), store).ranges
    found = zip(ranges.rows.tolist(), ranges.first.tolist(), ranges.stop.tolist(), strict=True)
    assert {row: (first, stop) for row, first, stop in found} == expected


@pytest.mark.parametrize(
    "mode",
    [
        vl.Keyframes(),
        vl.NearKeyframes(vl.Keyframes(), within=1),
        vl.Triplets(even=True),
        vl.Triplets(3, even=True, step=2, pad="edge"),
        vl.Triplets((1, 40), even=True, clips=3),
        vl.FrameTuples((0, 2), 1, even=True, clips=2, pad="edge"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*(gives no clip|are left out|after the video)")
def test_clips_are_as_many_as_the_index_has(mode: FrameMode, store: vl.IndexStore, tmp_path: Path) -> None:
    rows = rows_of(tmp_path, PARTS)
    table = table_of(rows, mode, store)
    expected = []
    for row, first, stop in zip(table.ranges.rows, table.ranges.first, table.ranges.stop, strict=True):
        entry = rows[row]
        index = store.get(entry.path).with_times(entry.times)
        expected.append(mode.num_clips(VideoPart(int(first), int(stop), index)))
    assert np.diff(table.clip_ends, prepend=0).tolist() == expected


@pytest.mark.parametrize("mode", [vl.Keyframes(), vl.Triplets(even=True), vl.WholeVideo()])
def test_videos_whose_frames_come_evenly_are_not_looked_at(
    mode: FrameMode, store: vl.IndexStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts: list[dict[str, Any]] = [{}, {"start_seconds": 0.02, "stop_seconds": 1.5}, {"stop": 2}]
    monkeypatch.setattr(vl.IndexStore, "get", None)
    table = table_of(rows_of(tmp_path, parts, ["even", "rounded", "late"]), mode, store)
    assert len(table.ranges.rows) == 9


def test_only_the_first_of_the_rows_that_end_late_is_looked_at(store: vl.IndexStore, tmp_path: Path) -> None:
    rows = rows_of(tmp_path, [{"stop_seconds": 3.3}, {"stop_seconds": 3.5}, {"stop_seconds": 50}], ["even"])
    with pytest.warns(UserWarning, match=r"^2 of 3 rows end after the video .*even to 3.5 s of 0–2.4 s\)"):
        assert table_of(rows, vl.WholeVideo(), store).ranges.stop.tolist() == [60] * 3
