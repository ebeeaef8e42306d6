"""Which frames each mode chooses, against definitions in plain Python."""

from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from videoloader import padding
from videoloader.errors import ConfigurationError, FrameRangeError
from videoloader.indexing.index import StreamInfo, VideoIndex
from videoloader.sampling import EveryWindow, FrameList, RandomWindow, clip_frames, clip_rng

PADS = [mode for mode in padding.MODES if mode != "none"]

firsts = st.integers(0, 50)
sizes = st.integers(0, 40)
lengths = st.integers(1, 12)
strides = st.integers(1, 6)
steps = st.none() | st.integers(1, 20)


def video(size, first=0):
    count = first + size
    index = VideoIndex(
        source="talk.mp4",
        container="mp4",
        method="tables",
        packet_offset=np.arange(count, dtype=np.int64),
        packet_size=np.ones(count, np.int32),
        packet_pts=np.arange(count, dtype=np.int64),
        packet_key=np.ones(count, bool),
        packet_disposable=np.zeros(count, np.uint8),
        packet_config=np.zeros(count, np.uint8),
        frame_packet=np.arange(count, dtype=np.int32),
        frame_pts=np.arange(count, dtype=np.int64),
        byte_ranges=True,
        stream=StreamInfo("h264", (b"",), Fraction(1, 25), 64, 48),
    )
    return SimpleNamespace(first=first, stop=count, index=index)


def all_clips(mode, of, seed=0):
    return [clip_frames(mode, of, clip, clip_rng(seed, 0, clip))[0].tolist() for clip in range(mode.num_clips(of))]


def test_every_window_of_ten_frames_length_3_stride_2_step_1_starts_at_0_to_5():
    assert all_clips(EveryWindow(3, stride=2, step=1), video(10)) == [[s, s + 2, s + 4] for s in range(6)]


def test_every_window_does_not_overlap_unless_told_to():
    assert all_clips(EveryWindow(4), video(10)) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert all_clips(EveryWindow(2, stride=2), video(8)) == [[0, 2], [4, 6]]


def test_every_window_with_padding_adds_the_tail():
    assert all_clips(EveryWindow(4, pad="edge"), video(10))[-1] == [8, 9, 9, 9]
    assert all_clips(EveryWindow(3, stride=2, step=1, pad="edge"), video(10))[-1] == [9, 9, 9]


@given(size=sizes, first=firsts, length=lengths, stride=strides, step=steps)
def test_every_window_without_padding_gives_all_that_fit(size, first, length, stride, step):
    of = video(size, first)
    grid = range(first, first + size, step or length * stride)
    windows = [[start + i * stride for i in range(length)] for start in grid]
    assert all_clips(EveryWindow(length, stride=stride, step=step), of) == [
        window for window in windows if window[-1] < of.stop
    ]


@pytest.mark.parametrize("pad", PADS)
@given(size=sizes, first=firsts, length=lengths, stride=strides, step=steps)
def test_every_window_with_padding_gives_all_that_hold_a_real_frame(pad, size, first, length, stride, step):
    of = video(size, first)
    mode = EveryWindow(length, stride=stride, step=step, pad=pad)
    grid = range(first, first + size, step or length * stride)
    assert all_clips(mode, of) == [
        padding.pad([start + i * stride for i in range(length)], of.first, of.stop, pad)[0].tolist() for start in grid
    ]


@given(size=st.integers(1, 40), first=firsts, length=lengths, stride=strides, seed=st.integers(0, 99))
def test_random_window_is_a_window_that_fits_where_one_does(size, first, length, stride, seed):
    of, span = video(size, first), (length - 1) * stride + 1
    (window,) = all_clips(RandomWindow(length, stride=stride, pad="constant"), of, seed)
    if span <= size:
        assert first <= window[0] <= of.stop - span
        assert window == [window[0] + i * stride for i in range(length)]
    else:
        expected = [first + i * stride for i in range(length)]
        assert window == [number if number < of.stop else padding.CONSTANT_FRAME for number in expected]


def test_random_window_draws_all_starts_that_fit_equally_often():
    mode, of = RandomWindow(3, stride=2), video(10, first=5)
    starts = [clip_frames(mode, of, 0, clip_rng(7, 0, clip))[0][0] for clip in range(6000)]
    counts = np.bincount(starts, minlength=15)
    assert counts.nonzero()[0].tolist() == [5, 6, 7, 8, 9, 10]
    assert abs(counts[5:11] - 1000).max() < 150  # five standard deviations


def test_random_window_gives_as_many_clips_as_asked_for():
    assert RandomWindow(3, clips=5).num_clips(video(10)) == 5
    assert len({tuple(clip) for clip in all_clips(RandomWindow(3, clips=5), video(1000))}) == 5


@given(size=sizes, length=lengths, stride=strides)
def test_random_window_without_padding_gives_no_clip_of_a_video_that_is_too_short(size, length, stride):
    fits = (length - 1) * stride < size
    assert RandomWindow(length, stride=stride, clips=3, pad="none").num_clips(video(size)) == 3 * fits


@pytest.mark.parametrize("mode", [EveryWindow(1, pad="edge"), RandomWindow(1), RandomWindow(1, pad="none")])
def test_an_empty_range_has_no_windows(mode):
    assert mode.num_clips(video(0, first=3)) == 0


def test_frame_list_keeps_order_and_repeats_and_counts_negatives_from_the_end_of_the_range():
    assert all_clips(FrameList([0, 5, -1, 5, -10]), video(10, first=20)) == [[20, 25, 29, 25, 20]]


@given(size=st.integers(1, 30), first=firsts, frames=st.lists(st.integers(-60, 60), min_size=1, max_size=9))
def test_frame_list_is_python_indexing(size, first, frames):
    numbers = range(first, first + size)
    try:
        expected = [numbers[frame] for frame in frames]
    except IndexError:
        bad = next(frame for frame in frames if not -size <= frame < size)
        with pytest.raises(FrameRangeError, match=rf"talk.mp4: frame {bad} is outside the {size} frames"):
            all_clips(FrameList(frames), video(size, first))
    else:
        assert all_clips(FrameList(frames), video(size, first)) == [expected]


def test_frame_list_with_padding_pads_on_both_sides():
    mode = FrameList([-5, -4, 3, 4], pad="edge")
    frames, mask = clip_frames(mode, video(4, first=10), 0, clip_rng(0, 0, 0))
    assert frames.tolist() == [10, 10, 13, 13]
    assert mask.tolist() == [False, True, True, False]


def test_frame_lists_are_equal_by_value_and_hashable():
    assert FrameList([1, 2]) == FrameList(np.array([1, 2])) == FrameList((1, 2))
    assert len({FrameList([1, 2]), FrameList(range(1, 3))}) == 1


@pytest.mark.parametrize("mode", [EveryWindow(4), RandomWindow(4), FrameList([0, 1, 2, 3])])
def test_frame_numbers_are_int64_with_a_mask_of_the_same_length(mode):
    frames, mask = clip_frames(mode, video(9), 0, clip_rng(0, 0, 0))
    assert (frames.dtype, frames.shape) == (np.int64, (4,))
    assert (mask.dtype, mask.shape) == (np.bool_, (4,))


@pytest.mark.parametrize("alias", ["repeat", "loop", "reflect", "symmetric"])
def test_padding_aliases_work_in_every_mode(alias):
    mode = padding.check_mode(alias)
    for make in (EveryWindow, RandomWindow):
        assert all_clips(make(7, pad=alias), video(4)) == all_clips(make(7, pad=mode), video(4))
    assert all_clips(FrameList([9, -9], pad=alias), video(4)) == all_clips(FrameList([9, -9], pad=mode), video(4))


@pytest.mark.parametrize("clip", [-1, 2])
def test_a_clip_the_video_does_not_have_is_an_error_that_names_it(clip):
    with pytest.raises(FrameRangeError, match=rf"talk.mp4: clip {clip} of EveryWindow.* give 2 clips"):
        clip_frames(EveryWindow(4), video(10), clip, clip_rng(0, 0, 0))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: EveryWindow(0), "length must be a positive integer, got 0"),
        (lambda: EveryWindow(2, stride=-1), "stride must be a positive integer, got -1"),
        (lambda: EveryWindow(2, step=0), "step must be a positive integer, got 0"),
        (lambda: EveryWindow(2, pad="mirror"), "got 'mirror'"),
        (lambda: RandomWindow(1.5), "length must be a positive integer, got 1.5"),
        (lambda: RandomWindow(True), "length must be a positive integer, got True"),
        (lambda: RandomWindow(2, clips=0), "clips must be a positive integer, got 0"),
        (lambda: RandomWindow(2, pad="mirror"), "got 'mirror'"),
        (lambda: FrameList([]), r"frames must be .*, got \[\]"),
        (lambda: FrameList([0.5]), r"frames must be .*, got \[0.5\]"),
        (lambda: FrameList(3), "frames must be .*, got 3"),
        (lambda: FrameList([2**63]), r"frames must be .*, got \[9223372036854775808\]"),
        (lambda: FrameList([True]), r"frames must be .*, got \[True\]"),
        (lambda: FrameList([0], pad="mirror"), "got 'mirror'"),
        (lambda: clip_rng(-1, 0, 0), r"seed must be in .*, got -1"),
        (lambda: clip_rng(0, 2**64, 0), r"epoch must be in .*, got 18446744073709551616"),
        (lambda: clip_rng(0, 0, -3), r"clip must be in .*, got -3"),
    ],
)
def test_a_bad_argument_is_named_when_the_object_is_made(make, message):
    with pytest.raises(ConfigurationError, match=message):
        make()


ids = st.tuples(*[st.integers(0, 2**64 - 1) | st.integers(0, 2)] * 3)


@given(a=ids, b=ids)
def test_clip_rng_is_a_pure_function_of_seed_epoch_and_clip(a, b):
    first, again, other = clip_rng(*a).random(4), clip_rng(*a).random(4), clip_rng(*b).random(4)
    assert (first == again).all()
    assert (first == other).any() == (a == b)


def test_streams_of_neighbouring_clips_do_not_overlap():
    draws = [clip_rng(0, 0, clip).integers(2**62, size=50) for clip in range(20)]
    assert len(np.unique(draws)) == 20 * 50


def test_neighbouring_clips_have_unrelated_draws():
    draws = np.array([clip_rng(0, 0, clip).random() for clip in range(4000)])
    assert abs(draws.mean() - 0.5) < 0.025
    assert abs(np.corrcoef(draws[:-1], draws[1:])[0, 1]) < 0.08
