"""The clock: frames' times, made to rise where a stream starts anew and where some of them are wrong."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic_index import make_index

from videoloader.indexing.clock import rising_clock
from videoloader.indexing.index import VideoIndex

steps = st.lists(st.integers(0, 3000), max_size=60)


def clock(pts: list[int]) -> list[int]:
    return rising_clock(np.array(pts, np.int64), 1).tolist()


def video(pts: list[int]) -> VideoIndex:
    """An index of frames with these times, in this order."""
    rising = make_index(list(range(len(pts))), {0})
    return VideoIndex(**{**vars(rising), "frame_pts": np.array(pts, np.int64)})


@given(st.integers(-1000, 1000), steps)
def test_times_that_never_fall_are_the_clock(first, durations):
    pts = np.cumsum([first, *durations])
    assert rising_clock(pts, 1) is pts


@given(st.lists(st.integers(-5000, 5000), min_size=1, max_size=80))
def test_the_clock_never_falls(pts):
    assert (np.diff(clock(pts)) >= 0).all()


@given(st.lists(st.tuples(st.integers(0, 500), st.integers(17, 40)), min_size=1, max_size=5), st.integers(1, 50))
def test_parts_that_start_anew_follow_each_other(parts, step):
    pts: list[int] = []
    for first, count in parts:
        start = min(first, pts[-1] - 17 * step) if pts else first
        pts += range(start, start + count * step, step)
    assert clock(pts) == list(range(pts[0], pts[0] + len(pts) * step, step))


def test_a_part_keeps_the_distances_of_its_own_frames():
    one, other = list(range(0, 40, 2)), [0, *range(3, 45, 2)]
    assert clock(one + other) == one + [40 + time for time in other]


@pytest.mark.parametrize(
    ("pts", "expected"),
    [
        ([0, 2, 1, 3, 4, 5], [0, 2, 2, 3, 4, 5]),
        ([0, 3, 1, 2, 4, 5, 6], [0, 3, 3, 3, 4, 5, 6]),
        ([0, 3, 2, 4, 1, 7, 6, 8, 5, 9], [0, 3, 3, 4, 4, 7, 7, 8, 8, 9]),
        ([0, 1, 2, 3, 4, 3], [0, 1, 2, 3, 4, 4]),
        # The clock of a recording jumps between a picture and one that is decoded later, but shown before it.
        ([0, 1, 2, 33, 4, 35, 36, 37], [0, 1, 2, 33, 33, 35, 36, 37]),
    ],
)
def test_frames_that_only_come_late_count_as_shown_with_the_latest_before_them(pts, expected):
    assert clock(pts) == expected


def test_one_short_part_after_another():
    assert clock([0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 5, 6, 7]) == list(range(13))


def test_a_clock_without_a_step_counts_the_usual_duration():
    assert rising_clock(np.array([900] * 20 + [0] * 20), 40).tolist() == [900] * 20 + [940] * 20


def test_seconds_go_by_the_clock_and_pts_stay_the_frames_own():
    index = video([*range(0, 30 * 512, 512), *range(0, 30 * 512, 512)])
    assert index.frame_pts[30] == 0
    assert index.with_times("pts").timestamps[30] == 0
    assert index.clock.tolist() == list(range(0, 60 * 512, 512))
    assert index.timestamps.tolist() == (index.clock / 12800).tolist()
    for counted in (index, index.with_times("pts")):
        assert counted.frame_at(index.timestamps).tolist() == list(range(60))
    assert index.average_fps == 25
    assert not index.is_vfr
