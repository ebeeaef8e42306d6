"""Constant rates from any video: each output time shows the frame that is on screen then."""

from fractions import Fraction
from math import floor

import numpy as np
import pytest
from corpus_files import VFR_FILES
from hypothesis import given
from hypothesis import strategies as st
from sampled_videos import counts_agree, mask_of, only_clip, video
from truth import full_decode

from videoloader.errors import ConfigurationError
from videoloader.indexing import build_index
from videoloader.padding import CONSTANT_FRAME
from videoloader.sampling.at_rate import AtRate
from videoloader.sampling.exact_time import exact_span, screen_time
from videoloader.sampling.mode import clip_frames, clip_rng
from videoloader.sampling.sampled_video import AllFrames

# What each rate of the list means.
RATES = {rate: Fraction(rate) for rate in (1, 2, 5, 12.5, 24, 25, 30, 50, 60, 120)} | {29.97: Fraction(30000, 1001)}


def early(base):
    """How much before its time a frame counts, units: containers round times to units."""
    return min(Fraction(1, 2), Fraction(1, 2000) / base)


def on_screen(pts, times):
    """For each of rising times the last frame that has appeared by then."""
    frames, frame = [], 0
    for time in times:
        while frame + 1 < len(pts) and pts[frame + 1] <= time:
            frame += 1
        frames.append(frame)
    return frames


@pytest.mark.parametrize("name", VFR_FILES)
def test_real_videos_of_variable_rate(name, corpus):
    truth, index = full_decode(corpus / name), build_index(corpus / name)
    # Where libavcodec tells no time, as of most frames of an MPEG program stream, there is only the index's.
    pts = [known if told is None else told for told, known in zip(truth.pts, index.frame_pts.tolist(), strict=True)]
    base = index.stream.time_base
    for fps, rate in RATES.items():
        length = floor((pts[-1] - pts[0]) * base * rate) + 1
        times = [pts[0] + number / (rate * base) for number in range(length)]
        frames, mask = clip_frames(AtRate(fps, length, start=0), AllFrames(index), 0, clip_rng(0, 0, 0))
        assert frames.tolist() == on_screen(pts, [time + early(base) for time in times])
        assert mask.all()
        half = AtRate(Fraction(rate), max(length // 2, 1), pad="none")
        if half.num_clips(AllFrames(index)):
            assert_is_a_span_of(half, rate, AllFrames(index), seed=3)


def assert_is_a_span_of(mode, rate, of, seed):
    """A clip from a random start: that of some start at which it fits."""
    pts, base = of.index.frame_pts.tolist()[of.first : of.stop], of.index.stream.time_base
    found, mask = clip_frames(mode, of, 0, clip_rng(seed, 0, 0))
    assert mask.all()
    assert len(found) == mode.length
    # Each frame bounds the start: frame n is on screen at its output time.
    earliest = max(pts[frame - of.first] - number / (rate * base) for number, frame in enumerate(found.tolist()))
    following = [*pts[1:], None]
    latest = min(
        (following[frame - of.first] - number / (rate * base) for number, frame in enumerate(found.tolist())
         if following[frame - of.first] is not None), default=None
    )  # fmt: skip
    assert latest is None or earliest < latest
    assert latest is None or latest > pts[0]


@st.composite
def videos(draw):
    pts = draw(st.lists(st.integers(0, 400), min_size=2, max_size=30).map(sorted).filter(lambda pts: pts[0] < pts[-1]))
    first = draw(st.integers(0, len(pts) - 1))
    stop = draw(st.integers(first + 1, len(pts)))
    base = draw(st.sampled_from([Fraction(1, 25), Fraction(1, 1000), Fraction(1, 90000), Fraction(1001, 30000)]))
    return video(stop - first, first, after=len(pts) - stop, pts=pts, time_base=base)


@given(of=videos(), length=st.integers(1, 40), units=st.fractions(Fraction(1, 20), 50), offset=st.integers(-50, 100))
def test_a_fixed_start_and_what_is_beyond_the_ends(of, length, units, offset):
    base = of.index.stream.time_base
    mode = AtRate(1 / (units * base), length, start=offset * base, pad="constant")
    pts = of.index.frame_pts.tolist()
    average = max(round(Fraction(pts[-1] - pts[0], len(pts) - 1)), 1)
    begin, end = pts[of.first], pts[of.stop] if of.stop < len(pts) else pts[-1] + average
    end = max(end, begin + 1)
    expected = []
    for number in range(length):
        time = begin + offset + number * units
        shown = [frame for frame in range(of.first, of.stop) if pts[frame] <= time + early(base)]
        expected.append(shown[-1] if begin <= time < end else CONSTANT_FRAME)
    assert only_clip(mode, of) == expected
    fits = CONSTANT_FRAME not in expected
    assert AtRate(1 / (units * base), length, start=offset * base, pad="none").num_clips(of) == fits


@given(of=videos(), length=st.integers(1, 12), units=st.fractions(Fraction(1, 20), 50), seed=st.integers(0, 9))
def test_a_random_start_is_one_at_which_the_clip_fits(of, length, units, seed):
    rate = 1 / (units * of.index.stream.time_base)
    mode = AtRate(rate, length, pad="none")
    if mode.num_clips(of):
        assert_is_a_span_of(mode, rate, of, seed)
    else:
        padded = AtRate(rate, length, pad="constant")
        assert only_clip(padded, of, seed)[0] >= of.first
        assert not all(mask_of(padded, of))


def test_all_starts_are_drawn_equally_often():
    of, mode = video(10), AtRate(25, 3)
    starts = [clip_frames(mode, of, 0, clip_rng(7, 0, clip))[0][0] for clip in range(8000)]
    counts = np.bincount(starts)
    assert len(counts) == 8
    assert abs(counts - 1000).max() < 150


@given(of=videos(), length=st.integers(1, 12), units=st.fractions(Fraction(1, 20), 50), clips=st.integers(1, 5))
def test_even_clips_reach_from_the_first_start_that_fits_to_the_last(of, length, units, clips):
    base = of.index.stream.time_base
    rate = 1 / (units * base)
    mode = AtRate(rate, length, start="even", clips=clips, pad="constant")
    assert mode.num_clips(of) == clips
    begin, stop = screen_time(of)
    fitting = [start for start in range(stop - begin) if start + (length - 1) * units < stop - begin] or [0]
    chosen = [fitting[-1] // 2] if clips == 1 else np.floor(np.linspace(0, fitting[-1], clips) + 0.5).astype(int)
    for clip, start in enumerate(chosen):
        alone = AtRate(rate, length, start=Fraction(int(start)) * base, pad="constant")
        assert frames_of(mode, of, clip) == only_clip(alone, of)


@given(of=videos(), length=st.integers(1, 8), units=st.fractions(Fraction(1, 4), 50), offset=st.integers(0, 50),
       apart=st.fractions(Fraction(1, 2), 100))  # fmt: skip
def test_clips_a_step_apart_are_those_that_start_there(of, length, units, offset, apart):
    base = of.index.stream.time_base
    begin, stop = exact_span(of)
    for pad, reach in (("none", (length - 1) * units), ("constant", 0)):
        mode = AtRate(1 / (units * base), length, start=offset * base, step=apart * base, pad=pad)
        starts = [start for k in range(2000) if (start := offset + k * apart) + reach < stop - begin]
        assert mode.num_clips(of) == len(starts)
        for clip, start in enumerate(starts[:20]):
            alone = AtRate(1 / (units * base), length, start=start * base, pad=pad)
            assert frames_of(mode, of, clip) == only_clip(alone, of)


def test_random_clips_of_one_video_are_drawn_independently():
    mode, of = AtRate(25, 3, clips=4), video(100)
    assert mode.num_clips(of) == 4
    assert mode.clips_by_length(np.array([0, 1, 100])).tolist() == [0, 4, 4]
    assert len({tuple(clip_frames(mode, of, clip, clip_rng(0, 0, clip))[0]) for clip in range(4)}) > 1


def frames_of(mode, of, clip):
    return clip_frames(mode, of, clip, clip_rng(0, 0, 0))[0].tolist()


@pytest.mark.parametrize("fps", RATES)
def test_videos_of_any_rate_come_out_in_equal_spans(fps):
    length, rate = 16, RATES[fps]
    for source in (Fraction(24000, 1001), 25, Fraction(30000, 1001), 50, 60, 240):
        of = video(int(20 * source), time_base=1 / Fraction(source))
        frames = only_clip(AtRate(fps, length, start=2), of)
        assert frames == [floor((2 + number / Fraction(rate)) * source) for number in range(length)]


def test_a_slower_source_shows_frames_several_times_and_a_faster_one_loses_some():
    assert only_clip(AtRate(50, 6, start=0), video(10)) == [0, 0, 1, 1, 2, 2]
    assert only_clip(AtRate(10, 4, start=0), video(10)) == [0, 2, 5, 7]


@pytest.mark.parametrize("fps", [24, 30, 48, 60, 120])
def test_each_frame_comes_once_at_its_own_rate_though_its_time_was_rounded_to_milliseconds(fps):
    of = video(
        90,
        pts=[floor(frame * Fraction(1000, fps) + Fraction(1, 2)) for frame in range(90)],
        time_base=Fraction(1, 1000),
    )
    assert only_clip(AtRate(fps, 90, start=0), of) == list(range(90))


def test_coarse_units_are_not_rounded_to():
    of = video(5, pts=[0, 1, 2, 3, 4], time_base=Fraction(1, 10))
    assert only_clip(AtRate(15, 6, start=0), of) == [0, 0, 1, 2, 2, 3]


def test_the_drawn_example():
    of = video(5, pts=[0, 10, 20, 45, 55], time_base=Fraction(1, 100))
    assert only_clip(AtRate(10, 6, start=0), of) == [0, 1, 2, 2, 2, 3]


def test_padding_goes_on_at_the_average_rate():
    assert only_clip(AtRate(25, 8, start=0, pad="reflect_101"), video(5, first=10, after=9)) == [
        10, 11, 12, 13, 14, 13, 12, 11,
    ]  # fmt: skip
    assert only_clip(AtRate(50, 12, start=0, pad="wrap"), video(5)) == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 0, 0]
    assert only_clip(AtRate(25, 4, start=-0.08, pad="reflect_101"), video(5)) == [2, 1, 0, 1]


def test_a_single_frame_is_shown_for_a_unit_where_nobody_tells_its_rate():
    assert mask_of(AtRate(25, 2, start=0), video(1)) == [True, False]


def test_clips_are_counted_at_once_unless_that_takes_timestamps():
    assert counts_agree(AtRate(30, 400), range(5))
    assert AtRate(30, 4, pad="none").clips_by_length(np.arange(3)) is None


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: AtRate(0, 4), "fps must be positive, got 0"),
        (lambda: AtRate("25", 4), "fps must be a finite number, got '25'"),
        (lambda: AtRate(25, 0), "length must be a positive integer, got 0"),
        (lambda: AtRate(25, 4, start="middle"), "start must be 'random', 'even' or a number of seconds, got 'middle'"),
        (lambda: AtRate(25, 4, start=0, clips=3), "clips=3 needs start='random' or 'even', got start=0"),
        (lambda: AtRate(25, 4, step=2), "step needs a start of 0 s or more, got start='random': write start=0"),
        (lambda: AtRate(25, 4, start=-1, step=2), "step needs a start of 0 s or more, got start=-1: write start=0"),
        (lambda: AtRate(25, 4, start=0, step=0), "step must be a positive number of seconds, got 0"),
        (lambda: AtRate(25, 4, clips=0), "clips must be a positive integer, got 0"),
        (lambda: AtRate(25, 4, start=float("nan")), "start must be a finite number, got nan"),
        (lambda: AtRate(25, 4, pad="mirror"), "got 'mirror'"),
    ],
)
def test_a_bad_argument_is_named_when_the_mode_is_made(make, message):
    with pytest.raises(ConfigurationError, match=message):
        make()
