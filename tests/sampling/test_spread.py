"""Frames spread over the whole video, against definitions in plain Python."""

from fractions import Fraction
from math import floor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sampled_videos import counts_agree, mask_of, only_clip, video

from videoloader.errors import ConfigurationError
from videoloader.sampling.mode import clip_frames, clip_rng
from videoloader.sampling.spread import Segments, UniformFrames

firsts = st.integers(0, 50)
sizes = st.integers(1, 60)
parts = st.integers(1, 12)


class TestSegments:
    def test_ten_frames_three_segments(self):
        assert only_clip(Segments(3), video(10)) == [1, 5, 8]

    def test_two_halves_of_four_frames_each(self):
        assert only_clip(Segments(2, frames_per_segment=4), video(8)) == list(range(8))

    @given(size=sizes, first=firsts, segments=parts, each=st.integers(1, 6))
    def test_frames_lie_around_the_centres(self, size, first, segments, each):
        of, expected = video(size, first, after=3), []
        for part in range(segments):
            centre = Fraction((2 * part + 1) * size, 2 * segments)
            start = min(max(floor(centre - Fraction(each - 1, 2)), 0), max(size - each, 0))
            expected += [first + min(start + number, size - 1) for number in range(each)]
        assert only_clip(Segments(segments, frames_per_segment=each), of) == expected

    @given(size=sizes, first=firsts, segments=parts, each=st.integers(1, 6), seed=st.integers(0, 99))
    def test_jitter_keeps_frames_in_their_part_or_goes_to_its_centre(self, size, first, segments, each, seed):
        of = video(size, first, after=3)
        made = only_clip(Segments(segments, frames_per_segment=each, jitter=True), of, seed)
        if size <= (each - 1) * segments:
            assert made == only_clip(Segments(segments, frames_per_segment=each), of)
            return
        for part, frames in enumerate(np.reshape(made, (segments, each)).tolist()):
            assert frames == list(range(frames[0], frames[0] + each))
            # The time that the first frame covers lies, at least with its end, in the part, and so does the last one's.
            assert frames[0] - first + 1 > Fraction(part * size, segments)
            assert frames[-1] - first < Fraction((part + 1) * size, segments)
            assert first <= frames[0] <= frames[-1] < of.stop

    def test_all_places_in_a_part_are_drawn_equally_often(self):
        mode, of = Segments(2, frames_per_segment=3, jitter=True), video(20)
        drawn = np.array([clip_frames(mode, of, 0, clip_rng(7, 0, clip))[0] for clip in range(8000)])
        for column, starts in ((0, range(8)), (3, range(10, 18))):
            counts = np.bincount(drawn[:, column])
            assert np.flatnonzero(counts).tolist() == list(starts)
            assert abs(counts[starts] - 1000).max() < 150

    def test_a_video_shorter_than_a_segments_frames_is_padded_or_gives_no_clip(self):
        assert only_clip(Segments(2, frames_per_segment=3, pad="edge"), video(2)) == [0, 1, 1] * 2
        assert mask_of(Segments(2, frames_per_segment=3), video(2)) == [True, True, False] * 2
        assert Segments(2, frames_per_segment=3, pad="none").num_clips(video(2)) == 0


class TestUniformFrames:
    def test_ten_frames_three_of_them(self):
        assert only_clip(UniformFrames(3), video(10)) == [0, 5, 9]

    @given(size=sizes, first=firsts, count=st.integers(1, 100))
    def test_linspace_from_the_first_to_the_last_rounded_half_up(self, size, first, count):
        exact = [first + Fraction((size - 1) * number, max(count - 1, 1)) for number in range(count)]
        made = only_clip(UniformFrames(count), video(size, first, after=3))
        assert made == [floor(place + Fraction(1, 2)) for place in exact]
        assert np.abs(np.linspace(first, first + size - 1, count) - made).max() <= 0.5 + 1e-9


@pytest.mark.parametrize(
    "mode", [Segments(3), Segments(3, frames_per_segment=4, pad="none", jitter=True), UniformFrames(4)]
)
def test_clips_are_counted_at_once_as_one_by_one(mode):
    assert counts_agree(mode, range(12))
    assert mode.num_clips(video(0, first=3, after=3)) == 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Segments(0), "segments must be a positive integer, got 0"),
        (lambda: Segments(2, frames_per_segment=0), "frames_per_segment must be a positive integer, got 0"),
        (lambda: Segments(2, jitter=0.5), "jitter must be True or False, got 0.5"),
        (lambda: Segments(2, pad="mirror"), "got 'mirror'"),
        (lambda: UniformFrames(-1), "count must be a positive integer, got -1"),
        (lambda: UniformFrames(2, pad="mirror"), "got 'mirror'"),
    ],
)
def test_a_bad_argument_is_named_when_the_mode_is_made(make, message):
    with pytest.raises(ConfigurationError, match=message):
        make()
