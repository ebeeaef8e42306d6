"""A video at its own rate gives each frame once, wherever a clip begins, though its container rounds times."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic_index import make_index

from videoloader.indexing import VideoIndex
from videoloader.sampling.asked_frames import frames_between
from videoloader.sampling.at_rate import AtRate
from videoloader.sampling.mode import clip_frames, clip_rng
from videoloader.sampling.sampled_video import AllFrames, VideoPart

MILLISECOND = Fraction(1, 1000)
RATES = [Fraction(rate) for rate in (10, 12, 15, 24, 25, 30, 48, 50, 60, 90, 120)]
RATES += [Fraction(rate * 1000, 1001) for rate in (24, 30, 60)]

rates = st.sampled_from(RATES)
begins = st.integers(0, 3000)


def rounded(rate: Fraction, begin: int = 0, count: int = 90, base: Fraction = MILLISECOND) -> VideoIndex:
    """The index of even frames whose times are rounded to units; the first one's time need not be whole, either.

    The container names the rate only if the frames are too few to tell.
    """
    times = [round((Fraction(begin, 7) + number) / rate / base) for number in range(count)]
    index = make_index(times, {0}, time_base=base)
    return index if count >= 90 else replace(index, stream=replace(index.stream, frame_rate=rate))


@given(rates, begins, st.integers(0, 60), st.integers(1, 30), st.integers(0, 30))
def test_a_range_at_its_own_rate_is_its_frames(rate: Fraction, begin: int, first: int, length: int, after: int) -> None:
    part = VideoPart(first, first + length, rounded(rate, begin, max(first + length + after, 3)))
    mode = AtRate(rate, length, start=0)
    frames, mask = clip_frames(mode, part, 0, clip_rng(0, 0, 0))
    assert frames.tolist() == list(range(first, first + length))
    assert mask.all()
    assert mode.num_clips(part) == 1
    alone = AtRate(rate, 1, start=0, step=1 / rate, pad="none")
    assert alone.num_clips(part) == length
    assert [int(clip_frames(alone, part, clip, clip_rng(0, 0, 0))[0][0]) for clip in range(length)] == frames.tolist()


@pytest.mark.parametrize("rate", RATES)
def test_the_nominal_rate_tells_where_few_frames_do_not(rate: Fraction) -> None:
    index = rounded(rate, count=3)
    assert index.even_times is None or index.even_times[1] == 1 / (rate * MILLISECOND)


@given(rates, begins, st.integers(1, 80), st.integers(0, 2**32))
def test_a_clip_from_a_random_start_skips_and_repeats_nothing(
    rate: Fraction, begin: int, length: int, seed: int
) -> None:
    video = AllFrames(rounded(rate, begin))
    for mode in (AtRate(rate, length), AtRate(rate, length, start="even", clips=3)):
        frames, mask = clip_frames(mode, video, 0, clip_rng(seed, 0, 0))
        assert (np.diff(frames) == 1).all()
        assert mask.all()


@given(rates, begins, st.integers(0, 40), st.integers(1, 40), st.booleans())
def test_spans_between_frames_at_the_own_rate_hold_each_frame_once(
    rate: Fraction, begin: int, first: int, length: int, as_floats: bool
) -> None:
    index = rounded(rate, begin)
    times = index.timestamps.tolist() if as_floats else [Fraction(int(each)) * MILLISECOND for each in index.clock]
    times = [*times, times[-1] + 1 / rate] if not as_floats else times
    stop = min(first + length, len(times) - 1)
    if stop > first:
        mode = frames_between(index, times[first], times[stop], fps=rate)
        frames, _ = clip_frames(mode, AllFrames(index), 0, clip_rng(0, 0, 0))
        assert frames.tolist() == list(range(first, stop))


@given(rates, begins, st.floats(1, 200), st.integers(0, 30), st.integers(1, 20))
def test_at_another_rate_no_frame_is_further_away_than_the_rounding(
    rate: Fraction, begin: int, fps: float, first: int, length: int
) -> None:
    index = rounded(rate, begin)
    mode = AtRate(Fraction(fps).limit_denominator(100), length, start=0)
    frames, mask = clip_frames(mode, VideoPart(first, len(index), index), 0, clip_rng(0, 0, 0))
    start = Fraction(int(index.clock[first]))
    for number, (frame, real) in enumerate(zip(frames.tolist(), mask.tolist(), strict=True)):
        time = start + number / (mode.fps * MILLISECOND)
        if real:
            assert index.clock[frame] <= time + Fraction(3, 2)
            assert frame + 1 == len(index) or index.clock[frame + 1] > time - 1


@pytest.mark.parametrize("base", [MILLISECOND, Fraction(1, 90000), Fraction(1, 1000000)])
def test_what_is_known_of_even_times(base: Fraction) -> None:
    for rate in RATES:
        even = rounded(rate, base=base).even_times
        step = 1 / (rate * base)
        if step.denominator == 1:
            assert even is None, "nothing was rounded"
        else:
            assert even is not None
            assert even[1] == step
            assert abs(even[0]) <= Fraction(1, 2)


def test_two_frames_in_a_unit_are_half_a_unit_apart_if_no_rate_is_known() -> None:
    assert make_index([0, 0, 1], {0}, time_base=MILLISECOND).even_times == (Fraction(-1, 4), Fraction(1, 2))


def test_nothing_is_known_where_a_frame_is_missing_or_late_or_units_are_long() -> None:
    times = rounded(Fraction(30)).clock.tolist()
    assert make_index(times, {0}, time_base=MILLISECOND).even_times is not None
    assert make_index(times[:40] + times[41:], {0}, time_base=MILLISECOND).even_times is None
    assert make_index([*times[:40], times[40] + 2, *times[41:]], {0}, time_base=MILLISECOND).even_times is None
    assert make_index(times[:2], {0}, time_base=MILLISECOND).even_times is None
    assert make_index([0, 3, 7, 10, 13], {0}, time_base=Fraction(1, 100)).even_times is None
    assert make_index([0, 0, 0], {0}, time_base=MILLISECOND).even_times is None


@given(
    rates,
    st.sampled_from([MILLISECOND, Fraction(1, 12800), Fraction(1, 90000)]),
    st.sampled_from([7, 12, 24, 30, 60, Fraction(30000, 1001)]),
    st.integers(0, 20),
    st.integers(1, 20),
    st.sampled_from([Fraction, float]),
)
def test_ranges_that_follow_one_another_share_no_output_time(
    rate: Fraction, base: Fraction, fps: Fraction, start: int, length: int, kind: type[Fraction] | type[float]
) -> None:
    """``stop`` is the start of the next range, also where the unit to which it is rounded lies behind it."""
    index = rounded(rate, count=600, base=base)
    zero = Fraction(int(index.clock[0] - index.zero)) * base
    times = [kind(zero + Fraction(each) / fps) for each in (start, start + length)]
    mode = frames_between(index, times[0], times[1], fps=fps)
    assert isinstance(mode, AtRate)
    assert mode.length == length
