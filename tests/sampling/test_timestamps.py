"""Frames at given times, against definitions in plain Python over fractions."""

from fractions import Fraction
from math import floor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sampled_videos import counts_agree, mask_of, only_clip, video

from videoloader.errors import ConfigurationError, FrameRangeError
from videoloader.padding import CONSTANT_FRAME
from videoloader.sampling.exact_time import screen_time
from videoloader.sampling.timestamps import Timestamps

bases = st.builds(Fraction, st.integers(1, 1001), st.sampled_from([24, 25, 30, 1000, 12800, 30000, 90000]))
ordered_pts = st.lists(st.integers(-50, 300), min_size=1, max_size=30).map(sorted)


def nearest(times, time):
    return min(times, key=lambda frame: (abs(times[frame] - time), times[frame]))


def before(times, time):
    return max((frame for frame in times if times[frame] <= time), default=CONSTANT_FRAME)


def after(times, time):
    return min((frame for frame in times if times[frame] >= time), default=CONSTANT_FRAME)


DEFINITIONS = {"nearest": nearest, "before": before, "after": after}


def rounded(time, base):
    """The nearest whole unit, halves up, where that is half a millisecond away at most."""
    unit = (time / base + Fraction(1, 2)) // 1 * base
    return unit if abs(unit - time) <= Fraction(1, 2000) else time


@st.composite
def videos_and_times(draw):
    """A part of a video with any timestamps; and times on them, halfway between two, or anywhere."""
    pts, base = draw(ordered_pts), draw(bases)
    first = draw(st.integers(0, len(pts) - 1))
    stop = draw(st.integers(first + 1, len(pts)))
    of = video(stop - first, first, after=len(pts) - stop, pts=pts, time_base=base)
    on = st.sampled_from(pts).map(Fraction)
    between = st.tuples(on, on).map(lambda pair: sum(pair) / 2)
    times = draw(st.lists(on | between | st.fractions(-60, 310, max_denominator=50), min_size=1, max_size=9))
    return of, [time * base for time in times]


@pytest.mark.parametrize("at", DEFINITIONS)
@given(videos_and_times())
def test_exact_times_find_the_frames_of_the_definition(at, given_video):
    of, times = given_video
    base = of.index.stream.time_base
    meant = [rounded(time, base) for time in times]
    stamps = {frame: int(of.index.frame_pts[frame]) * base for frame in range(of.first, of.stop)}
    start, end = (edge * base for edge in screen_time(of))
    slack = (end - start) / (of.stop - of.first)
    expected = [DEFINITIONS[at](stamps, time) if start - slack <= time <= end else CONSTANT_FRAME for time in meant]
    found = only_clip(Timestamps(times, at=at, pad="constant"), of)
    if at == "nearest":
        # Of frames with the same timestamp any one will do.
        assert [stamps.get(frame) for frame in found] == [stamps.get(frame) for frame in expected]
    else:
        assert found == expected
    if CONSTANT_FRAME in expected:
        where = "near" if at == "nearest" else at
        with pytest.raises(
            FrameRangeError, match=rf"talk.mp4: no frame of {of.first} to {of.stop - 1} is at or {where}"
        ):
            only_clip(Timestamps(times, at=at), of)
    else:
        assert only_clip(Timestamps(times, at=at), of) == found


@pytest.mark.parametrize("at", DEFINITIONS)
@pytest.mark.parametrize("fps", [24, 25, 30, 50, 60, Fraction(30000, 1001), Fraction(24000, 1001)])
def test_the_decimals_of_a_constant_rate_do_not_drift(at, fps):
    of = video(3000, time_base=1 / Fraction(fps))
    assert only_clip(Timestamps([0.12], at=at), video(10)) == [3]
    # The floats that the index tells, and those that people compute.
    assert only_clip(Timestamps(of.index.timestamps, at=at), of) == list(range(3000))
    assert only_clip(Timestamps([float(frame / Fraction(fps)) for frame in range(3000)], at=at), of) == list(
        range(3000)
    )


@pytest.mark.parametrize("at", DEFINITIONS)
@given(pts=st.lists(st.integers(0, 10**9), min_size=1, max_size=30, unique=True).map(sorted), base=bases)
def test_every_frame_is_found_by_its_own_timestamp(at, pts, base):
    of = video(len(pts), pts=pts, time_base=base)
    frames = range(len(pts))
    assert only_clip(Timestamps(of.index.timestamps, at=at), of) == list(frames)


@pytest.mark.parametrize("at", DEFINITIONS)
@pytest.mark.parametrize("fps", [24, 25, 30, 50, 60, Fraction(30000, 1001)])
def test_times_that_a_container_rounds_to_milliseconds_are_found(at, fps):
    pts = [floor(Fraction(frame * 1000, fps) + Fraction(1, 2)) for frame in range(300)]
    of = video(300, pts=pts, time_base=Fraction(1, 1000))
    assert only_clip(Timestamps([frame / float(fps) for frame in range(300)], at=at), of) == list(range(300))


@pytest.mark.parametrize("at", DEFINITIONS)
@pytest.mark.parametrize("base", [Fraction(1, 25), Fraction(1, 1000), Fraction(1, 12800)])
def test_single_precision_finds_its_frames(at, base):
    of = video(1000, pts=[int(frame / base / 25) for frame in range(1000)], time_base=base)
    times = np.arange(1000, dtype=np.float32) * np.float32(0.04)
    assert only_clip(Timestamps(times, at=at), of) == list(range(1000))


def test_halfway_is_nearer_to_the_earlier_frame():
    assert only_clip(Timestamps([0.02, 0.0201, Fraction(1, 50)]), video(10)) == [0, 1, 0]


def test_times_are_those_of_the_whole_video():
    of = video(10, first=25, after=25)
    assert only_clip(Timestamps([1.0, 1.36]), of) == [25, 34]
    assert mask_of(Timestamps([0, 0.96, 1.0, 1.4, 5], pad="edge"), of) == [False, True, True, True, False]
    assert mask_of(Timestamps([0.96, 1.0], at="before", pad="edge"), of) == [False, True]
    assert mask_of(Timestamps([1.36, 1.4], at="after", pad="edge"), of) == [True, False]


@pytest.mark.parametrize("at", DEFINITIONS)
@pytest.mark.parametrize("time", [-(10**30), -0.05, 0.41, 100.0, 1e300])
def test_a_time_outside_of_the_video_finds_no_frame(at, time):
    padded = Timestamps([0, time], at=at, pad="edge")
    assert only_clip(padded, video(10)) == [0, 0 if time < 0 else 9]
    assert mask_of(padded, video(10)) == [True, False]
    assert only_clip(Timestamps([time], at=at, pad="constant"), video(10)) == [CONSTANT_FRAME]
    with pytest.raises(FrameRangeError, match=r"no frame of 0 to 9 is at or .* s: they last 0–0.4 s"):
        only_clip(Timestamps([time], at=at), video(10))


def test_the_end_of_the_video_and_a_frame_before_its_start_are_still_near():
    assert only_clip(Timestamps([0.4, -0.04]), video(10)) == [9, 0]


@pytest.mark.parametrize(
    "listed", [[0.12, 0, 0.2], np.array([0.12, 0, 0.2], np.float32), "0.12 0 0.2", "[0.12, 0, .2]"]
)
def test_each_row_may_list_its_own(listed):
    assert only_clip(Timestamps("times", at="before"), video(10, columns={"times": listed})) == [3, 0, 5]


@pytest.mark.parametrize("listed", ["", "1 x", "1_0", "nan", [float("inf")], [], None, 7, [[1], [2, 3]]])
def test_a_row_that_lists_no_times_is_an_error_that_names_it(listed):
    with pytest.raises(ConfigurationError, match=r"talk.mp4: column 'times' must be a list of seconds, got"):
        only_clip(Timestamps("times"), video(10, columns={"times": listed}))


def test_clips_are_counted_at_once_as_one_by_one():
    assert counts_agree(Timestamps([0]), range(1, 5))


def test_equal_times_make_equal_modes():
    assert Timestamps([0.5, 1]) == Timestamps(np.array([0.5, 1.0])) == Timestamps((Fraction(1, 2), 1))
    assert len({Timestamps([0.5]), Timestamps((0.5,))}) == 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Timestamps([]), "seconds must be a list of one or more seconds"),
        (lambda: Timestamps(3), "seconds must be a list of seconds, got 3"),
        (lambda: Timestamps([float("nan")]), "seconds must be a finite number, got nan"),
        (lambda: Timestamps([0], at="around"), "at must be one of nearest, before, after, got 'around'"),
        (lambda: Timestamps([0], pad="mirror"), "got 'mirror'"),
    ],
)
def test_a_bad_argument_is_named_when_the_mode_is_made(make, message):
    with pytest.raises(ConfigurationError, match=message):
        make()
