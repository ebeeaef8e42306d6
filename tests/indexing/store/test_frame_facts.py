"""Numbers that stand for the frames of a video: the same answers as its index gives."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic_index import indexes, make_index

from videoloader.indexing.store.frame_facts import (
    NO_RULE,
    TimeRules,
    first_key_frame,
    frames_without_key,
    is_even,
    time_rule,
)
from videoloader.sampling.exact_time import first_at_or_after
from videoloader.sampling.frame_tuples import Triplets
from videoloader.sampling.sampled_video import AllFrames

NTSC = Fraction(30000, 1001)


def rules_of(*videos):
    numbers = np.array([np.fromstring(time_rule(video), np.int64, sep=" ") for video in videos])
    return TimeRules(np.array([len(video) for video in videos]), numbers)


def rounded(rate, time_base, frames, first=0):
    """Times as muxers round them, halves up."""
    return [int((number / rate / time_base + Fraction(1, 2)) // 1) + first for number in range(frames)]


@pytest.mark.parametrize("rate", [Fraction(n) for n in (12, 15, 25, 30, 50, 60, 90)] + [NTSC, NTSC * 2, NTSC * 4 / 5])
@pytest.mark.parametrize(
    "time_base", [Fraction(1, 1000), Fraction(1, 90000), Fraction(1, 12800), Fraction(1001, 30000)]
)
@pytest.mark.parametrize("frames", [2, 7, 300, 5000])
def test_times_at_a_constant_rate_follow_a_rule_however_they_were_rounded(rate, time_base, frames):
    times = rounded(rate, time_base, frames, first=-77)
    video = make_index(times, {0}, time_base=time_base)
    rules = rules_of(video)
    assert rules.known().all() == (times[0] < times[-1])
    if not rules.known().all():
        return
    assert (rules.first[0], rules.last[0], Fraction(*rules.time_base[:, 0].tolist())) == (
        times[0],
        times[-1],
        time_base,
    )
    asked = np.add.outer(times, [-1, 0, 1]).ravel()
    found = rules.take(np.zeros(len(asked), np.int64)).first_at_or_after(asked)
    np.testing.assert_array_equal(found, first_at_or_after(video, asked))


def test_times_that_were_rounded_twice_follow_one_too():
    """Milliseconds of Matroska, in a transport stream's units of 1/90000 s."""
    video = make_index([90 * time for time in rounded(Fraction(30), Fraction(1, 1000), 300)], {0})
    assert time_rule(video) == "0 0 90 1 100 3 1 12800"


@pytest.mark.parametrize("times", [[0], [5, 5, 5], [0, 1, 5, 6, 9, 20], [0, 2**60]])
def test_other_times_follow_none(times):
    assert time_rule(make_index(times, {0})) == NO_RULE
    assert not rules_of(make_index(times, {0})).known().any()


@given(st.lists(st.integers(0, 4), min_size=1, max_size=40), st.lists(st.integers(-9, 200)))
def test_whatever_the_times_a_rule_finds_the_frames_that_the_index_finds(steps, asked):
    video = make_index(np.cumsum(steps).tolist(), {0}, frames=list(range(len(steps))))
    rules = rules_of(video)
    if rules.known().all() and asked:
        found = rules.take(np.zeros(len(asked), np.int64)).first_at_or_after(np.array(asked))
        np.testing.assert_array_equal(found, first_at_or_after(video, asked))


def test_units_far_outside_find_the_ends():
    rules = rules_of(*[make_index(list(range(0, 5120, 512)), {0})] * 2)
    assert rules.first_at_or_after(np.array([-(2**62), 2**62])).tolist() == [0, 10]


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=9, max_size=9))
def test_numbers_that_make_no_sense_are_no_rule(numbers):
    rules = TimeRules(np.array(numbers[:1]), np.array([numbers[1:]]))
    if rules.known().all():
        assert 0 <= rules.first_at_or_after(np.array([numbers[0]]))[0] <= rules.frames[0]


@given(st.lists(st.integers(0, 60), min_size=1, max_size=30), st.integers(1, 5))
def test_where_a_video_is_even_no_placement_in_it_is_left_out(steps, gap):
    video = make_index(np.cumsum(steps).tolist(), {0}, frames=list(range(len(steps))))
    if is_even(video):
        assert Triplets(gap, even=True).num_clips(AllFrames(video)) == Triplets(gap).num_clips(AllFrames(video))


@given(indexes())
def test_keyframes_are_where_the_index_has_them(video):
    keys = video.packet_key[video.frame_packet]
    runs = "".join(" " if key else "x" for key in keys).split(" ")
    assert first_key_frame(video) == (int(keys.argmax()) if keys.any() else len(video))
    assert frames_without_key(video) == max(map(len, runs))
