"""The clips of a data set by number, as in a list of them that is never made."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from store_contents import make_store

import videoloader as vl
from videoloader.order.clip_table import ClipTable, build_clip_table
from videoloader.sampling.mode import FrameMode

FRAMES = [60, 1, 7, 30, 300, 60]
# Rows of the data set: a video each, or a part of one; some the same video again.
ROWS = [
    (0, {}),
    (3, {"start": 2}),
    (0, {"start": 10, "stop": 20}),
    (4, {"stop": 5}),
    (1, {}),
    (3, {"stop": 30}),
    (2, {}),
]


@dataclass(frozen=True)
class Halves:
    """A mode that cannot be counted by length at once."""

    pad: str = "none"

    def num_clips(self, video: object) -> int:
        return video.columns["count"]  # type: ignore[attr-defined, no-any-return]

    def frame_numbers(self, video: object, clip: int, rng: object) -> object:
        raise NotImplementedError


@pytest.fixture
def store(tmp_path: Path) -> vl.IndexStore:
    return make_store(tmp_path / "index.db", {f"video{number}.mp4": size for number, size in enumerate(FRAMES)})


def data_of(folder: Path, rows: list[tuple[int, dict[str, int]]] = ROWS) -> vl.VideoDataset:
    return vl.VideoDataset(
        [
            vl.VideoEntry(
                str(folder / f"video{video}.mp4"),
                row,
                **ends,
                columns={"count": row % 3, "pad": ("none", "edge")[row % 2]},
            )
            for row, (video, ends) in enumerate(rows)
        ]
    )


def table_of(data: vl.VideoDataset, mode: FrameMode, store: vl.IndexStore, **settings: bool) -> ClipTable:
    return build_clip_table(data, mode, store=store, workers=1, **({"skip_unreadable": False} | settings))


def clips_of(table: ClipTable) -> list[tuple[int, int, int, int]]:
    """(label, first, stop, clip) of each clip; labels number the rows."""
    found = [table[clip] for clip in range(len(table))]
    return [(video.entry.label, video.first, video.stop, clip) for video, clip in found]


MODES = [
    vl.EveryWindow(4, step=3),
    vl.RandomWindow(10, clips=2, pad="none"),
    vl.RandomWindow(10, clips=2, pad=vl.PadColumn("pad")),
    vl.Triplets(2, step=9),
    vl.AtRate(30, 10),
    vl.NearKeyframes(vl.RandomWindow(4, clips=3), within=2),
    Halves(),
]


@pytest.mark.parametrize("mode", MODES)
def test_clips_are_those_of_each_row_in_turn(mode: FrameMode, store: vl.IndexStore, tmp_path: Path) -> None:
    data = data_of(tmp_path)
    table = table_of(data, mode, store)
    expected = []
    for row, (video, ends) in enumerate(ROWS):
        first, stop = ends.get("start", 0), ends.get("stop", FRAMES[video])
        with suppress(vl.ConfigurationError):  # some rows give no clip
            alone = table_of(vl.VideoDataset([data[row]]), mode, store)
            expected += [(row, first, stop, clip) for clip in range(len(alone))]
    assert clips_of(table) == expected


def test_many_clips_are_counted_without_looking_at_an_index(
    store: vl.IndexStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vl.IndexStore, "get", None)
    for mode in MODES[:2] + MODES[3:6]:
        assert len(table_of(data_of(tmp_path), mode, store))


@pytest.mark.parametrize("rows", [[(0, {"start": 60})], [(0, {"stop": 61})], [(1, {"start": 1, "stop": 2})]])
def test_frames_that_a_video_does_not_have_are_an_error(
    rows: list[tuple[int, dict[str, int]]], store: vl.IndexStore, tmp_path: Path
) -> None:
    data = data_of(tmp_path, [(3, {}), *rows, (2, {})])
    with pytest.raises(vl.FrameRangeError, match=data[1].path):
        table_of(data, vl.EveryWindow(1), store)
    table = table_of(data, vl.EveryWindow(1), store, skip_unreadable=True)
    assert sorted({clip[0] for clip in clips_of(table)}) == [0, 2]
    assert [path for path, _ in table.unreadable] == [data[1].path]


def test_a_warning_tells_of_seconds_that_end_long_after_their_video(store: vl.IndexStore, tmp_path: Path) -> None:
    video = data_of(tmp_path, [(0, {})])
    lasts = store.get(video[0].path).timestamps[-1]

    def ranges(*ends: float) -> list[int]:
        rows = [vl.VideoEntry(video[0].path, stop_seconds=lasts + end) for end in ends]
        return table_of(vl.VideoDataset(rows), vl.EveryWindow(1), store).ranges.stop.tolist()

    with warnings.catch_warnings(action="error"):
        assert ranges(0.5, 1.0) == [60, 60]
    with pytest.warns(UserWarning, match=r"^2 of 3 rows end after the video .*video0.mp4 to .* end_frame are"):
        assert ranges(0.5, 60, 70) == [60, 60, 60]


@pytest.mark.parametrize("mode", [vl.EveryWindow(50), vl.RandomWindow(50, pad="none"), vl.Triplets(25)])
def test_a_warning_counts_the_rows_that_are_too_short(mode: FrameMode, store: vl.IndexStore, tmp_path: Path) -> None:
    data = data_of(tmp_path)
    says = (
        r"gives no clip of 6 of the data set's 7 rows; the longest of them has 30 frames \(pad='edge' makes up those "
        r"that are missing\); the first is row 1, .*video3.mp4"
    )
    with pytest.warns(UserWarning, match=says) as told:
        table_of(data, mode, store)
    assert len(told) == 1
    with warnings.catch_warnings(action="error"):
        table_of(data[[0]], mode, store)
        table_of(data, vl.EveryWindow(50, pad="edge"), store)


def test_fingerprints_tell_tables_and_settings_apart(store: vl.IndexStore, tmp_path: Path) -> None:
    mode = vl.EveryWindow(4)
    names = {
        table_of(data_of(tmp_path, rows), each, store).fingerprint(*settings)
        for rows in (ROWS, ROWS[::-1], ROWS[1:], [(5, {}), *ROWS[1:]], [(0, {"stop": 59}), *ROWS[1:]])
        for each in (mode, vl.EveryWindow(5))
        for settings in ((mode,), (mode, 1))
    }
    assert len(names) == 20
    table = table_of(data_of(tmp_path), mode, store)
    assert (
        table.fingerprint(mode) == table.fingerprint(mode) == table_of(data_of(tmp_path), mode, store).fingerprint(mode)
    )


def test_a_data_set_that_was_moved_keeps_its_fingerprint(tmp_path: Path) -> None:
    names = set()
    for folder in ("here", "there/again"):
        (tmp_path / folder).mkdir(parents=True)
        store = make_store(
            tmp_path / folder / "index.db", {f"video{number}.mp4": size for number, size in enumerate(FRAMES)}
        )
        names.add(table_of(data_of(tmp_path / folder), vl.EveryWindow(4), store).fingerprint())
    assert len(names) == 1


def test_with_and_without_a_store_it_is_the_same(sample: Callable[[str], Path], tmp_path: Path) -> None:
    paths = [str(sample(name)) for name in ("h264_mp4", "vp9_webm")]
    (tmp_path / "broken.mp4").write_text("no video")
    rows = [(paths[0], {"start": 5}), (str(tmp_path / "broken.mp4"), {}), (paths[1], {"stop_seconds": 1.0})]
    data = vl.VideoDataset([vl.VideoEntry(path, row, **ends) for row, (path, ends) in enumerate(rows)])
    data.build_store(tmp_path / "index.db", workers=1)
    store = vl.IndexStore(tmp_path / "index.db")
    settings = {"workers": 1, "skip_unreadable": True}
    stored, indexed = (build_clip_table(data, vl.EveryWindow(8), store=each, **settings) for each in (store, None))
    assert clips_of(stored) == clips_of(indexed)
    assert stored.unreadable == indexed.unreadable
    assert stored.fingerprint() == indexed.fingerprint()


def test_a_table_keeps_numbers_and_no_rows(tmp_path: Path) -> None:
    videos = 20_000
    store = make_store(tmp_path / "index.db", {f"{number}.mp4": 300 for number in range(videos)})
    data = vl.VideoDataset.from_paths([str(tmp_path / f"{number}.mp4") for number in range(videos)])
    table = table_of(data, vl.RandomWindow(16, stride=4), store)
    arrays = [array for array in vars(table.ranges).values() if isinstance(array, np.ndarray)]
    assert len(table) == videos
    assert sum(array.nbytes for array in (*arrays, table.clip_ends)) == (5 * 8 + 1) * videos
    video, clip = table[videos - 1]
    assert (video.entry, video.stop, clip) == (data[videos - 1], 300, 0)
