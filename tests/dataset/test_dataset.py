"""Tables of videos, and the range of frames of each entry."""

import pickle
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from videoloader.dataset import VideoDataset, VideoEntry, entry_range
from videoloader.errors import ArgumentError, ConfigurationError, FrameRangeError, RowRangeError
from videoloader.indexing.index import VideoIndex
from videoloader.indexing.stream_info import StreamInfo


def index_of(pts, time_base=Fraction(1, 25)):
    count = len(pts)
    return VideoIndex(
        source="talk.mp4",
        container="mp4",
        method="tables",
        packet_offset=np.arange(count, dtype=np.int64),
        packet_size=np.ones(count, np.int32),
        packet_pts=np.array(pts, np.int64),
        packet_key=np.ones(count, bool),
        packet_disposable=np.zeros(count, np.uint8),
        packet_config=np.zeros(count, np.uint8),
        frame_packet=np.arange(count, dtype=np.int32),
        frame_pts=np.array(pts, np.int64),
        byte_ranges=True,
        stream=StreamInfo("h264", (b"",), time_base, 64, 48),
    )


class TestEntries:
    def test_a_dataset_is_a_sequence_of_entries(self):
        entries = [VideoEntry("a.mp4", 1), VideoEntry("b.mp4", 0, start=3, stop=9, columns={"take": 2})]
        data = VideoDataset(entries, ["walk", "run"])
        assert len(data) == 2
        assert list(data) == entries
        assert data[-1] == entries[1]
        assert data.class_names == ("walk", "run")
        with pytest.raises(RowRangeError):
            data[2]

    @pytest.mark.parametrize("label", [np.int64(3), np.uint8(3), torch.tensor(3), np.array(3)])
    def test_paths_and_integers_of_any_kind_become_plain_ones(self, label):
        entry = VideoEntry(Path("clips/a.mp4"), label)
        assert entry == VideoEntry(str(Path("clips/a.mp4")), 3)
        assert (type(entry.path), type(entry.label)) == (str, int)

    def test_it_prints_on_one_line(self):
        entries = [VideoEntry("a.mp4", 1), VideoEntry("b.mp4", 0), VideoEntry("c.mp4")]
        data = VideoDataset(entries, ["walk", "run"], [("d.mp4", "there is no such file")])
        assert repr(data) == "VideoDataset(3 rows, 2 classes, 66.7 % labelled, 1 left out, from 'a.mp4')"
        assert str(VideoDataset(entries[2:])) == "VideoDataset(1 row, 0 classes, 0 % labelled, from 'c.mp4')"

    def test_what_is_no_entry_is_not_in_it(self):
        data = VideoDataset([VideoEntry("a.mp4")])
        assert np.array([1, 2]) not in data
        assert data.count(np.array([1, 2])) == 0
        with pytest.raises(ArgumentError, match="not in this sequence"):
            data.index(np.array([1, 2]))

    def test_neither_changes_after_it_is_made(self):
        entries = [VideoEntry("a.mp4")]
        data = VideoDataset(entries)
        entries.append(VideoEntry("b.mp4"))
        assert len(data) == 1
        for thing, name in ((data, "entries"), (data[0], "path")):
            with pytest.raises(AttributeError):
                setattr(thing, name, None)

    def test_a_dataset_travels_to_another_process(self):
        data = VideoDataset([VideoEntry("a.mp4", 0, start_seconds=1.5, columns={"take": "2"})], ["walk"])
        assert pickle.loads(pickle.dumps(data)) == data

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"path": ""}, "path must be a non-empty string, got ''"),
            ({"path": b"a.mp4"}, "path must be a non-empty string, got b'a.mp4'"),
            ({"label": "run"}, "label must be the number of a class.* from_paths .* names, got 'run'"),
            ({"label": -2}, "label must be the number of a class, counted from 0, or None; .*, got -2"),
            ({"label": torch.tensor(0.5)}, r"label must be .*, got tensor\(0.5000\)"),
            ({"start": 1.5}, "start must be the number of a frame.* start_seconds takes seconds, got 1.5"),
            ({"stop": "9"}, "stop must be .*, got '9'"),
            ({"start_seconds": float("nan")}, "start_seconds must be .*, got nan"),
            ({"stop_seconds": float("inf")}, "stop_seconds must be .*, got inf"),
            ({"start": 1, "start_seconds": 1.0}, "frames or in seconds, got start=1, .*start_seconds=1.0"),
            ({"stop": 1, "stop_seconds": 1.0}, "frames or in seconds, got .*stop=1, .*stop_seconds=1.0"),
            ({"start": -1}, "got start=-1"),
            ({"stop": 0}, "got stop=0"),
            ({"start": 5, "stop": 5}, "got start=5, stop=5"),
            ({"start_seconds": 2.0, "stop_seconds": 1.0}, "got .*start_seconds=2.0, stop_seconds=1.0$"),
            (
                {"start_seconds": 2.0, "stop_seconds": -1.0},
                "stop_seconds=-1.0; no number counts from the end.*stop out",
            ),
            ({"start": 2, "stop": -1}, "stop=-1; no number counts from the end.*leave stop out"),
        ],
    )
    def test_a_bad_entry_is_refused_when_made(self, arguments, message):
        with pytest.raises(ConfigurationError, match=message):
            VideoEntry(**{"path": "a.mp4", **arguments})

    def test_no_number_of_seconds_means_that_there_is_none(self):
        """In integer columns, −2⁶³ does."""
        lowest = -(2.0**63)
        (entry,) = VideoDataset([VideoEntry("a.mp4", start_seconds=lowest, stop_seconds=-5.0, times="pts")])
        assert (entry.start_seconds, entry.stop_seconds) == (lowest, -5)
        assert VideoDataset([VideoEntry("a.mp4", stop_seconds=lowest)])[0].stop_seconds == lowest

    @pytest.mark.parametrize(
        ("entries", "names", "message"),
        [
            ([], (), "there is no video: check what"),
            ([VideoEntry("a.mp4", 2)], ["x", "y"], "a.mp4: label 2 has no name in class_names"),
            ("videos", (), "entries must be a list of VideoEntry, got 'videos': .*from_folder takes a folder"),
            (Path("videos"), (), "entries must be a list of VideoEntry, got .*Path.*from_folder takes a folder"),
            (5, (), "entries must be a list of VideoEntry, got 5"),
            (["a.mp4"], (), r"entries\[0\] must be a VideoEntry, got 'a.mp4': VideoDataset.from_paths"),
            ([VideoEntry("a.mp4"), ("b.mp4", 1)], (), r"entries\[1\] must be a VideoEntry, got \('b.mp4', 1\)"),
            ([VideoEntry("a.mp4", 0)], ["x", "x"], r"class_names must be different names .*, got \['x', 'x'\]"),
            ([VideoEntry("a.mp4", 0)], "xy", "class_names must be different names .*, got 'xy'"),
        ],
    )
    def test_a_bad_dataset_is_refused_when_made(self, entries, names, message):
        with pytest.raises(ConfigurationError, match=message):
            VideoDataset(entries, names)


class TestEntryRange:
    @pytest.mark.parametrize(
        ("ends", "expected"),
        [
            ({}, (0, 100)),
            ({"start": 7}, (7, 100)),
            ({"stop": 7}, (0, 7)),
            ({"start": 7, "stop": 100}, (7, 100)),
            ({"start_seconds": 1.0, "stop_seconds": 2.0}, (25, 50)),
            ({"start_seconds": 0.99, "stop_seconds": 2.01}, (25, 51)),
            ({"start_seconds": 0.97, "stop_seconds": 1.97}, (25, 50)),
            ({"start": 3, "stop_seconds": 2.0}, (3, 50)),
            ({"start_seconds": -0.5, "stop_seconds": 60.0}, (0, 100)),
            ({"start_seconds": -5.0, "stop_seconds": 60.0, "times": "pts"}, (0, 100)),
        ],
    )
    def test_frames_seconds_or_the_whole_video(self, ends, expected):
        assert entry_range(VideoEntry("a.mp4", **ends), index_of(range(100))) == expected

    @given(
        pts=st.lists(st.integers(-500, 5000), min_size=1, max_size=40, unique=True).map(sorted),
        cuts=st.lists(st.integers(-600, 5100), min_size=2, max_size=6, unique=True).map(sorted),
    )
    def test_seconds_choose_the_frames_whose_time_lies_between(self, pts, cuts):
        index = index_of(pts, Fraction(1, 600))
        for begin, end in pairwise(cuts):
            entry = VideoEntry("a.mp4", start_seconds=begin / 600, stop_seconds=end / 600, times="pts")
            expected = [i for i, time in enumerate(pts) if begin <= time < end]
            if expected:
                assert entry_range(entry, index) == (expected[0], expected[-1] + 1)
            else:
                with pytest.raises(FrameRangeError):
                    entry_range(entry, index)

    def test_times_rounded_to_the_containers_milliseconds_find_their_frame(self):
        index = index_of(np.round(np.arange(300) * 1000 / 30), Fraction(1, 1000))
        for frame in range(1, 300):
            assert entry_range(VideoEntry("a.mkv", start_seconds=frame / 30), index) == (frame, 300)
            assert entry_range(VideoEntry("a.mkv", stop_seconds=frame / 30), index) == (0, frame)

    def test_a_frames_own_timestamp_finds_it_despite_rounding(self):
        index = index_of(np.arange(3000) * 1001, Fraction(1, 30000))
        for frame in range(1, 3000, 7):
            entry = VideoEntry("a.mp4", start_seconds=float(index.timestamps[frame]))
            assert entry_range(entry, index) == (frame, 3000)

    @pytest.mark.parametrize(
        "ends",
        [
            {"start": 100},
            {"stop": 101},
            {"start_seconds": 4.0},
            {"stop_seconds": -1.0},
            {"start_seconds": 1.1, "stop_seconds": 1.11},
        ],
    )
    def test_missing_frames_are_an_error_that_names_video_and_entry(self, ends):
        hints = (
            ": stop is beyond them|; no number counts from the end, .*|: start, end and stop of a table are seconds, .*"
        )
        message = rf"^talk.mp4: no frames for .*; the video lasts 0–4 s, 100 frames({hints})?$"
        with pytest.raises(FrameRangeError, match=message) as error:
            entry_range(VideoEntry("a.mp4", **ends), index_of(range(100)))
        assert all(f"{name}={value}" in str(error.value) for name, value in ends.items())
