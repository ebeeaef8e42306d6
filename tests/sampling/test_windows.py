"""Windows, against definitions in plain Python."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sampled_videos import all_clips, counts_agree, mask_of, only_clip, video

from videoloader import padding
from videoloader.errors import ConfigurationError
from videoloader.sampling.mode import clip_frames, clip_rng
from videoloader.sampling.windows import EvenWindows, EveryWindow, RandomWindow

PADS = [mode for mode in padding.MODES if mode != "none"]

firsts = st.integers(0, 50)
sizes = st.integers(0, 40)
lengths = st.integers(1, 12)
strides = st.integers(1, 6)
steps = st.none() | st.integers(1, 20)


def window(start, length, stride):
    return [start + i * stride for i in range(length)]


class TestEveryWindow:
    def test_ten_frames_length_3_stride_2_step_1_starts_at_0_to_5(self):
        assert all_clips(EveryWindow(3, stride=2, step=1), video(10)) == [[s, s + 2, s + 4] for s in range(6)]

    def test_windows_do_not_overlap_unless_told_to(self):
        assert all_clips(EveryWindow(4), video(10)) == [[0, 1, 2, 3], [4, 5, 6, 7]]
        assert all_clips(EveryWindow(2, stride=2), video(8)) == [[0, 2], [4, 6]]

    def test_padding_adds_the_tail(self):
        assert all_clips(EveryWindow(4, pad="edge"), video(10))[-1] == [8, 9, 9, 9]
        assert all_clips(EveryWindow(3, stride=2, step=1, pad="edge"), video(10))[-1] == [9, 9, 9]

    @given(size=sizes, first=firsts, length=lengths, stride=strides, step=steps)
    def test_without_padding_all_that_fit(self, size, first, length, stride, step):
        of = video(size, first, after=3)
        windows = [window(start, length, stride) for start in range(first, first + size, step or length * stride)]
        assert all_clips(EveryWindow(length, stride=stride, step=step), of) == [
            each for each in windows if each[-1] < of.stop
        ]

    @pytest.mark.parametrize("pad", PADS)
    @given(size=sizes, first=firsts, length=lengths, stride=strides, step=steps)
    def test_with_padding_all_that_hold_a_real_frame(self, pad, size, first, length, stride, step):
        of = video(size, first, after=3)
        mode = EveryWindow(length, stride=stride, step=step, pad=pad)
        assert all_clips(mode, of) == [
            padding.pad(window(start, length, stride), of.first, of.stop, pad)[0].tolist()
            for start in range(first, first + size, step or length * stride)
        ]


class TestRandomWindow:
    @given(size=st.integers(1, 40), first=firsts, length=lengths, stride=strides, seed=st.integers(0, 99))
    def test_it_is_a_window_that_fits_where_one_does(self, size, first, length, stride, seed):
        of, span = video(size, first, after=3), (length - 1) * stride + 1
        drawn = only_clip(RandomWindow(length, stride=stride, pad="constant"), of, seed)
        if span <= size:
            assert first <= drawn[0] <= of.stop - span
            assert drawn == window(drawn[0], length, stride)
        else:
            expected = window(first, length, stride)
            assert drawn == [number if number < of.stop else padding.CONSTANT_FRAME for number in expected]

    def test_all_starts_that_fit_are_drawn_equally_often(self):
        mode, of = RandomWindow(3, stride=2), video(10, first=5)
        starts = [clip_frames(mode, of, 0, clip_rng(7, 0, clip))[0][0] for clip in range(6000)]
        counts = np.bincount(starts, minlength=15)
        assert counts.nonzero()[0].tolist() == [5, 6, 7, 8, 9, 10]
        assert abs(counts[5:11] - 1000).max() < 150  # five standard deviations

    def test_as_many_clips_as_asked_for(self):
        assert RandomWindow(3, clips=5).num_clips(video(10)) == 5
        assert len({tuple(clip) for clip in all_clips(RandomWindow(3, clips=5), video(1000))}) == 5

    @given(size=sizes, length=lengths, stride=strides)
    def test_no_clip_of_a_video_that_is_too_short_without_padding(self, size, length, stride):
        fits = (length - 1) * stride < size
        assert RandomWindow(length, stride=stride, clips=3, pad="none").num_clips(video(size)) == 3 * fits

    @given(size=st.integers(1, 60), first=firsts, length=lengths, low=strides, more=st.integers(0, 5))
    def test_a_drawn_stride_is_one_that_fits_or_the_least(self, size, first, length, low, more):
        of = video(size, first, after=3)
        fitting = [stride for stride in range(low, low + more + 1) if (length - 1) * stride < size] or [low]
        mode = RandomWindow(length, stride=(low, low + more), pad="constant")
        for seed in range(5):
            drawn = only_clip(mode, of, seed)
            windows = [
                padding.pad(window(start, length, stride), of.first, of.stop, "constant")[0].tolist()
                for stride in fitting
                for start in range(first, max(of.stop - (length - 1) * stride, first + 1))
            ]
            assert drawn in windows
            assert mode.num_clips(of) == 1
        assert RandomWindow(length, stride=(low, low + more), pad="none").num_clips(of) == ((length - 1) * low < size)

    def test_all_strides_are_drawn_equally_often(self):
        mode, of = RandomWindow(4, stride=(1, 5)), video(100)
        drawn = [np.diff(clip_frames(mode, of, 0, clip_rng(7, 0, clip))[0]).tolist() for clip in range(5000)]
        assert all(len(set(steps)) == 1 for steps in drawn)
        counts = np.bincount([steps[0] for steps in drawn])
        assert abs(counts[1:] - 1000).max() < 150
        assert len(counts) == 6

    def test_a_part_of_the_clips_runs_backwards(self):
        of, forward = video(50), RandomWindow(4, stride=2)
        always, often = RandomWindow(4, stride=2, reverse=1), RandomWindow(4, stride=2, reverse=0.3)
        assert all(only_clip(always, of, seed) == only_clip(forward, of, seed)[::-1] for seed in range(20))
        backwards = [only_clip(often, of, seed) == only_clip(forward, of, seed)[::-1] for seed in range(2000)]
        assert abs(sum(backwards) - 600) < 110

    def test_a_clip_that_runs_backwards_is_padded_where_it_begins(self):
        assert mask_of(RandomWindow(4, reverse=1), video(3)) == [False, True, True, True]


class TestEvenWindows:
    def test_ten_frames_three_windows(self):
        assert all_clips(EvenWindows(3, clips=3), video(10)) == [[0, 1, 2], [4, 5, 6], [7, 8, 9]]

    def test_ten_by_default(self):
        assert len(all_clips(EvenWindows(16, stride=4), video(300))) == 10

    @given(size=st.integers(1, 200), first=firsts, length=lengths, stride=strides, clips=st.integers(1, 12))
    def test_starts_are_rounded_from_even_ones_and_touch_both_ends(self, size, first, length, stride, clips):
        of, span = video(size, first, after=3), (length - 1) * stride + 1
        room = max(size - span, 0)
        exact = [Fraction(room * clip, clips - 1) for clip in range(clips)] if clips > 1 else [Fraction(room // 2)]
        starts = [first + int(start + Fraction(1, 2)) for start in exact]
        made = all_clips(EvenWindows(length, stride=stride, clips=clips, pad="constant"), of)
        assert made == [
            padding.pad(window(start, length, stride), of.first, of.stop, "constant")[0].tolist() for start in starts
        ]
        if clips > 1 and span <= size:
            assert (made[0][0], made[-1][-1]) == (first, of.stop - 1)
        assert EvenWindows(length, stride=stride, clips=clips, pad="none").num_clips(of) == clips * (span <= size)


MODES = [
    EveryWindow(3, stride=2),
    EveryWindow(3, step=2, pad="edge"),
    RandomWindow(5, clips=2),
    RandomWindow(5, stride=(2, 3), clips=2, pad="none"),
    EvenWindows(4),
    EvenWindows(4, stride=3, clips=2, pad="none"),
]


@pytest.mark.parametrize("mode", MODES)
def test_clips_are_counted_at_once_as_one_by_one(mode):
    assert counts_agree(mode, range(25))


@pytest.mark.parametrize("mode", [EveryWindow(1, pad="edge"), RandomWindow(1), RandomWindow(1, pad="none"), *MODES])
def test_an_empty_range_has_no_windows(mode):
    assert mode.num_clips(video(0, first=3, after=3)) == 0


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
        (lambda: RandomWindow(2, stride=(0, 3)), "stride must be a positive integer, got 0"),
        (lambda: RandomWindow(2, stride=(3, 2)), r"stride must be \(least, largest\), got \(3, 2\)"),
        (lambda: RandomWindow(2, stride=(1, 2, 3)), r"stride must be .*, got \(1, 2, 3\)"),
        (lambda: RandomWindow(2, reverse=1.5), r"reverse must be a number in \[0, 1\], got 1.5"),
        (lambda: RandomWindow(2, reverse=True), r"reverse must be .*, got True"),
        (lambda: RandomWindow(2, pad="mirror"), "got 'mirror'"),
        (lambda: EvenWindows(2, clips=0), "clips must be a positive integer, got 0"),
        (lambda: EvenWindows(2, pad=None), "got None"),
    ],
)
def test_a_bad_argument_is_named_when_the_mode_is_made(make, message):
    with pytest.raises(ConfigurationError, match=message):
        make()
