"""All frames and all keyframes of a video."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sampled_videos import all_clips, counts_agree, only_clip, video

from videoloader import padding
from videoloader.errors import ConfigurationError
from videoloader.sampling.whole import Keyframes, WholeVideo

sizes = st.integers(1, 40)
firsts = st.integers(0, 20)
limits = st.none() | st.integers(1, 50)


def padded(frames, of, pad):
    return padding.pad(frames, of.first, of.stop, pad)[0].tolist()


@given(size=sizes, first=firsts, stride=st.integers(1, 9), most=limits)
def test_whole_videos_are_slices(size, first, stride, most):
    of = video(size, first, after=3)
    assert only_clip(WholeVideo(stride=stride, max_frames=most), of) == list(range(first, of.stop, stride))[:most]


@pytest.mark.parametrize("pad", [mode for mode in padding.MODES if mode != "none"])
@given(size=sizes, first=firsts, stride=st.integers(1, 9), most=st.integers(1, 50))
def test_whole_videos_of_the_same_length_are_padded(pad, size, first, stride, most):
    of = video(size, first, after=3)
    expected = padded([first + stride * number for number in range(most)], of, pad)
    assert only_clip(WholeVideo(stride=stride, max_frames=most, pad=pad), of) == expected


def test_without_a_length_there_is_nothing_to_pad():
    assert only_clip(WholeVideo(stride=3, pad="edge"), video(7)) == [0, 3, 6]


@given(size=sizes, first=firsts, limit=limits, keys=st.sets(st.integers(0, 60)))
def test_keyframes_of_the_range(size, first, limit, keys):
    of = video(size, first, after=3, keys=keys)
    expected = sorted(key for key in keys if first <= key < of.stop)[:limit]
    assert all_clips(Keyframes(limit), of) == ([expected] if expected else [])
    if expected and limit:
        filled = expected + [of.stop + number for number in range(limit - len(expected))]
        assert only_clip(Keyframes(limit, pad="constant"), of) == padded(filled, of, "constant")


def test_clips_are_counted_at_once_as_one_by_one():
    assert counts_agree(WholeVideo(), range(5))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: WholeVideo(stride=0), "stride must be a positive integer, got 0"),
        (lambda: WholeVideo(max_frames=0), "max_frames must be a positive integer, got 0"),
        (lambda: WholeVideo(pad="mirror"), "got 'mirror'"),
        (lambda: Keyframes(0), "limit must be a positive integer, got 0"),
        (lambda: Keyframes(pad="mirror"), "got 'mirror'"),
    ],
)
def test_a_bad_argument_is_named_when_the_mode_is_made(make, message):
    with pytest.raises(ConfigurationError, match=message):
        make()
