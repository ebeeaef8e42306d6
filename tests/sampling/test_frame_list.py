"""Clips of listed frames, against Python's own lists."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sampled_videos import counts_agree, only_clip, video

from videoloader.errors import ConfigurationError, FrameRangeError
from videoloader.sampling.frame_list import FrameList
from videoloader.sampling.mode import clip_frames, clip_rng

firsts = st.integers(0, 50)


def test_order_and_repeats_are_kept_and_negatives_count_from_the_end_of_the_range():
    assert only_clip(FrameList([0, 5, -1, 5, -10]), video(10, first=20, after=5)) == [20, 25, 29, 25, 20]


@given(size=st.integers(1, 30), first=firsts, frames=st.lists(st.integers(-60, 60), min_size=1, max_size=9))
def test_it_is_python_indexing(size, first, frames):
    numbers, of = range(first, first + size), video(size, first, after=40)
    try:
        expected = [numbers[frame] for frame in frames]
    except IndexError:
        bad = next(frame for frame in frames if not -size <= frame < size)
        with pytest.raises(FrameRangeError, match=rf"talk.mp4: frame {bad} is outside the {size} frames"):
            only_clip(FrameList(frames), of)
    else:
        assert only_clip(FrameList(frames), of) == expected


def test_padding_on_both_sides():
    frames, mask = clip_frames(FrameList([-5, -4, 3, 4], pad="edge"), video(4, first=10, after=9), 0, clip_rng(0, 0, 0))
    assert frames.tolist() == [10, 10, 13, 13]
    assert mask.tolist() == [False, True, True, False]


def test_lists_are_equal_by_value_and_hashable():
    assert FrameList([1, 2]) == FrameList(np.array([1, 2])) == FrameList((1, 2))
    assert len({FrameList([1, 2]), FrameList(range(1, 3))}) == 1


@pytest.mark.parametrize("listed", [[3, 0, -1], (3, 0, -1), np.array([3, 0, -1]), "3 0 -1", "[3, 0, -1]", "3;0;-1 "])
def test_each_row_may_list_its_own(listed):
    assert only_clip(FrameList("frames"), video(10, first=5, columns={"frames": listed})) == [8, 5, 14]


@pytest.mark.parametrize("listed", ["", "[]", "3 x", "1_0", "0.5", [0.5], [], None, 7, [[1], [2, 3]]])
def test_a_row_that_lists_no_frames_is_an_error_that_names_it(listed):
    with pytest.raises(ConfigurationError, match=r"talk.mp4: column 'frames' must be a list of integers, got"):
        only_clip(FrameList("frames"), video(10, columns={"frames": listed}))


def test_a_missing_column_is_an_error_that_names_those_there_are():
    with pytest.raises(ConfigurationError, match=r"talk.mp4: has no column 'frames'; its columns are 'a', 'b'"):
        only_clip(FrameList("frames"), video(10, columns={"a": 1, "b": 2}))
    with pytest.raises(ConfigurationError, match="its columns are none"):
        only_clip(FrameList("frames"), video(10))


def test_clips_are_counted_at_once_as_one_by_one():
    assert counts_agree(FrameList([0]), range(1, 9))


@pytest.mark.parametrize("bad", [[], [0.5], 3, [2**63], [True], [[1], [2, 3]]])
def test_what_is_no_list_of_integers_is_an_error(bad):
    with pytest.raises(ConfigurationError, match=r"frames must be a list of one or more integers, got"):
        FrameList(bad)
    with pytest.raises(ConfigurationError, match="got 'mirror'"):
        FrameList([0], pad="mirror")
