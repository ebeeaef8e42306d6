"""Triplets and other tuples of frame interpolation, against definitions in plain Python."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from sampled_videos import all_clips, counts_agree, video

from videoloader import padding
from videoloader.errors import ConfigurationError
from videoloader.sampling.frame_tuples import FrameTuples, Triplets

sizes = st.integers(0, 40)
firsts = st.integers(0, 30)
gaps = st.integers(1, 4)
steps = st.integers(1, 9)


def test_the_drawn_examples():
    cut = video(8, columns={"cuts": [4]})
    assert all_clips(Triplets(cuts="cuts"), cut) == [[0, 1, 2], [1, 2, 3], [4, 5, 6], [5, 6, 7]]
    assert all_clips(FrameTuples((0, 2), 1), video(5)) == [[0, 2, 1], [1, 3, 2], [2, 4, 3]]


def test_septuplets():
    septuplets = FrameTuples((0, 2, 4, 6), (1, 3, 5), step=7)
    assert all_clips(septuplets, video(20)) == [[0, 2, 4, 6, 1, 3, 5], [7, 9, 11, 13, 8, 10, 12]]


@given(size=sizes, first=firsts, gap=gaps, step=steps)
def test_triplets_are_all_that_fit(size, first, gap, step):
    of = video(size, first, after=9)
    starts = [start for start in range(first, of.stop, step) if start + 2 * gap < of.stop]
    assert all_clips(Triplets(gap, step=step), of) == [[start, start + gap, start + 2 * gap] for start in starts]


@given(size=sizes, first=firsts, gap=gaps, step=steps)
def test_padding_adds_those_that_begin_in_the_range(size, first, gap, step):
    of = video(size, first, after=9)
    assert all_clips(Triplets(gap, step=step, pad="reflect"), of) == [
        padding.pad([start, start + gap, start + 2 * gap], first, of.stop, "reflect")[0].tolist()
        for start in range(first, of.stop, step)
    ]


places = st.lists(st.integers(-5, 8), min_size=1, max_size=4)


@given(size=sizes, first=firsts, gap=gaps, step=steps, inputs=places, targets=places)
def test_tuples_are_inputs_then_targets_wherever_they_fit(size, first, gap, step, inputs, targets):
    assume(not set(inputs) & set(targets))
    of, offsets = video(size, first, after=9), [gap * place for place in (*inputs, *targets)]
    expected = []
    for start in range(first, of.stop, step):
        frames = [start - min(offsets) + offset for offset in offsets]
        if max(frames) < of.stop:
            expected.append(frames)
    assert all_clips(FrameTuples(inputs, targets, gap=gap, step=step), of) == expected


@given(size=sizes, first=firsts, gap=gaps, step=steps, cuts=st.lists(st.integers(0, 70), max_size=5))
def test_none_lies_across_a_cut(size, first, gap, step, cuts):
    starts, cuts = range(first, first + size - 2 * gap, step), [cut for cut in cuts if cut <= first + size + 9]
    kept = [start for start in starts if not any(start < cut <= start + 2 * gap for cut in cuts)]
    for listed in (cuts, " ".join(map(str, cuts)), np.array(cuts, np.int64)):
        of = video(size, first, after=9, columns={"cuts": listed})
        assert [clip[0] for clip in all_clips(Triplets(gap, step=step, cuts="cuts"), of)] == kept


@given(
    first=st.integers(0, 5),
    step=steps,
    gap=gaps,
    distances=st.lists(st.sampled_from([0, 1, 2, 33, 34, 40, 67, 120]), min_size=6, max_size=30),
    pad=st.sampled_from(["none", "edge"]),
)
def test_even_ones_have_the_same_time_from_frame_to_frame(first, step, gap, distances, pad):
    pts = np.cumsum([0, *distances]).tolist()
    of = video(len(pts) - first, first, pts=pts, time_base=Fraction(1, 1000))
    kept = []
    for start in range(first, len(pts), step):
        last = min(start + 2 * gap, len(pts) - 1)
        between = distances[start:last]
        even = not between or (min(between) > 0 and max(between) - min(between) <= min(1, min(between) / 4))
        if even and (pad != "none" or start + 2 * gap < len(pts)):
            kept.append(start)
    assert [clip[0] for clip in all_clips(Triplets(gap, step=step, even=True, pad=pad), of)] == kept


def test_a_hole_is_left_out_and_rounding_to_milliseconds_is_none():
    pts = [0, 33, 67, 100, 133, 267, 300, 333, 367]
    of = video(9, pts=pts, time_base=Fraction(1, 1000))
    assert [clip[0] for clip in all_clips(Triplets(even=True), of)] == [0, 1, 2, 5, 6]
    fine = video(9, pts=[90 * time for time in pts], time_base=Fraction(1, 90000))
    assert [clip[0] for clip in all_clips(Triplets(even=True), fine)] == [0, 1, 2, 5, 6]


def test_a_hole_of_one_frame_shows_in_coarse_timestamps_too():
    assert [clip[0] for clip in all_clips(Triplets(even=True), video(7, pts=[0, 1, 2, 4, 5, 6, 7]))] == [0, 3, 4]


def test_even_tuples_look_at_all_frames_they_span():
    of = video(7, pts=[0, 40, 80, 160, 200, 240, 280], time_base=Fraction(1, 1000))
    assert all_clips(FrameTuples((0, 3), 1, even=True), of) == [[3, 6, 4]]


def test_clips_are_counted_at_once_where_nothing_else_is_asked():
    assert counts_agree(Triplets(2, step=3), range(25))
    assert counts_agree(FrameTuples((0, 4), 2, pad="edge"), range(12))
    for mode in (Triplets(even=True), Triplets(cuts="cuts"), FrameTuples((0, 2), 1, even=True)):
        assert mode.clips_by_length(np.arange(5)) is None


def test_a_missing_column_of_cuts_is_an_error():
    with pytest.raises(ConfigurationError, match=r"talk.mp4: has no column 'cuts'"):
        Triplets(cuts="cuts").num_clips(video(10))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Triplets(0), "gap must be a positive integer, got 0"),
        (lambda: Triplets(step=0), "step must be a positive integer, got 0"),
        (lambda: Triplets(even=1), "even must be True or False, got 1"),
        (lambda: Triplets(cuts=""), "cuts must be the name of a column, got ''"),
        (lambda: Triplets(pad="mirror"), "got 'mirror'"),
        (lambda: FrameTuples([], 1), r"inputs must be a list of one or more integers, got \[\]"),
        (lambda: FrameTuples((0, 2), 0.5), r"targets must be a list of one or more integers, got \[0.5\]"),
        (lambda: FrameTuples((0, 2), (1, 2)), "position 2 is both an input and a target: remove it from one"),
        (lambda: FrameTuples((0, 2), 1, gap=0), "gap must be a positive integer, got 0"),
    ],
)
def test_a_bad_argument_is_named_when_the_mode_is_made(make, message):
    with pytest.raises(ConfigurationError, match=message):
        make()
