"""Random triplets and other tuples: which may occur, how often, and how many are counted."""

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from chi_square import fits
from hypothesis import given
from hypothesis import strategies as st
from sampled_videos import all_clips, counts_agree, mask_of, video

import videoloader as vl
from videoloader.errors import ConfigurationError
from videoloader.sampling.frame_tuples import FrameTuples, Triplets
from videoloader.sampling.mode import clip_frames, clip_rng
from videoloader.sampling.near_keyframes import NearKeyframes
from videoloader.sampling.roles import Roles


def draws(mode, of, count):
    """The frames of so many clips, each with a generator of its own."""
    return [tuple(clip_frames(mode, of, 0, clip_rng(1, 0, clip))[0].tolist()) for clip in range(count)]


@given(
    first=st.integers(0, 5),
    least=st.integers(1, 3),
    more=st.integers(0, 3),
    step=st.integers(1, 4),
    distances=st.lists(st.sampled_from([33, 34, 40, 67]), min_size=6, max_size=40),
    even=st.booleans(),
    cuts=st.none() | st.lists(st.integers(0, 50), max_size=4),
    seed=st.integers(0, 9),
)
def test_each_is_one_of_all_and_there_are_as_many_as_asked_for(first, least, more, step, distances, even, cuts, seed):
    pts = np.cumsum([0, *distances]).tolist()
    inside = cuts and [cut for cut in cuts if cut <= len(pts)]
    of = video(len(pts) - first, first, pts=pts, time_base=Fraction(1, 1000), columns={"cuts": inside})
    left_out = {"step": step, "even": even, "cuts": None if cuts is None else "cuts"}
    for tuples in (Triplets, lambda **more: FrameTuples((-1, 3), (0, 4), **more)):
        of_gap = [all_clips(tuples(gap=gap, **left_out), of) for gap in range(least, least + more + 1)]
        drawn = all_clips(tuples(gap=(least, least + more), clips=3, **left_out), of, seed)
        assert len(drawn) == (3 if of_gap[0] else 0)
        assert all(any(clip in clips for clips in of_gap) for clip in drawn)


def test_gaps_with_a_placement_come_equally_often_and_so_do_their_placements():
    of = video(14, columns={"cuts": [2, 9]})  # scenes of 2, 7 and 5 frames
    possible = {(start, start + gap, start + 2 * gap) for gap, starts in
                {1: [2, 3, 4, 5, 6, 9, 10, 11], 2: [2, 3, 4, 9], 3: [2]}.items() for start in starts}  # fmt: skip
    found = Counter(draws(Triplets(gap=(1, 6), clips=1, cuts="cuts"), of, 6000))
    assert set(found) == possible
    share = {1: 1 / 8, 2: 1 / 4, 3: 1}
    ordered = sorted(possible)
    assert fits([found[clip] for clip in ordered], [share[clip[1] - clip[0]] for clip in ordered])


def test_the_few_places_of_a_long_video_are_found():
    cuts = [cut for cut in range(3000) if cut not in (1001, 1002, 2001, 2002)]
    found = Counter(draws(Triplets(clips=1, cuts="cuts"), video(3000, columns={"cuts": cuts}), 300))
    assert set(found) == {(1000, 1001, 1002), (2000, 2001, 2002)}
    assert fits([*found.values()], [1, 1])


def test_random_ones_begin_at_multiples_of_the_step():
    starts = {clip[0] for clip in draws(Triplets(step=5, clips=1), video(20, first=3), 200)}
    assert starts == {3, 8, 13, 18}


def test_only_a_video_that_is_too_short_for_one_is_padded():
    padded = Triplets(gap=(2, 4), clips=2, pad="edge")
    assert all_clips(padded, video(4, first=6)) == [[6, 8, 9], [6, 8, 9]]
    assert mask_of(padded, video(4, first=6)) == [True, True, False]
    assert all_clips(padded, video(5, first=6)) == [[6, 8, 10], [6, 8, 10]]
    assert all(max(clip) < 15 for clip in draws(padded, video(15), 200))
    assert all_clips(padded, video(0)) == []


def test_drawn_targets_are_in_order_and_all_equally_likely():
    mode = FrameTuples((0, 6), range(1, 6), random_targets=2, clips=1, gap=2)
    found = Counter(draws(mode, video(13, first=4), 5000))
    pairs = [(one, other) for one in range(1, 6) for other in range(one + 1, 6)]
    assert set(found) == {(4, 16, 4 + 2 * one, 4 + 2 * other) for one, other in pairs}
    assert fits([*found.values()], [1] * 10)


def test_targets_are_drawn_in_every_placement_too():
    mode, of = FrameTuples((0, 6), (5, 2, 1), random_targets=1, step=7), video(30)
    assert mode.num_clips(of) == 4
    for clip in range(4):
        drawn = {clip_frames(mode, of, clip, clip_rng(0, epoch, clip))[0][2] - 7 * clip for epoch in range(40)}
        assert drawn == {1, 2, 5}
    assert all_clips(FrameTuples((0, 6), (5, 2, 1), random_targets=3), video(7)) == [[0, 6, 5, 2, 1]]


def test_a_clip_is_drawn_from_its_seed_and_epoch_alone():
    mode, of = Triplets(gap=(1, 9), clips=4, even=True), video(500)

    def clips(seed, epoch):
        return [clip_frames(mode, of, clip, clip_rng(seed, epoch, clip))[0].tolist() for clip in range(4)]

    assert clips(1, 2) == clips(1, 2)
    different = [*clips(1, 2), *clips(1, 3), *clips(2, 2)]
    assert len({tuple(clip) for clip in different}) == 12


def test_clips_are_counted_at_once_where_nothing_else_is_asked():
    for pad in ("none", "edge"):
        assert counts_agree(Triplets((2, 5), clips=3, pad=pad), range(12))
        assert counts_agree(FrameTuples((0, 4), 2, random_targets=1, clips=2, gap=2, pad=pad), range(15))
    assert counts_agree(FrameTuples((0, 4), (1, 2), random_targets=1), range(15))
    for mode in (Triplets(even=True, clips=2), Triplets(cuts="cuts", clips=2)):
        assert mode.clips_by_length(np.arange(5)) is None


def test_roles_count_the_targets_that_are_shown():
    assert Triplets((1, 4), clips=1).roles == Roles((0, 2), (1,))
    assert FrameTuples((0, 2), 1).roles == Roles((0, 1), (2,))
    drawn = FrameTuples((0, 3, 6), (1, 2, 4, 5), random_targets=2)
    assert drawn.roles == Roles((0, 1, 2), (3, 4))
    assert NearKeyframes(drawn, within=2).roles == drawn.roles
    assert NearKeyframes(vl.RandomWindow(3), within=2).roles is None


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Triplets((1, 4)), r"gap=\(1, 4\) is drawn for each clip: give clips=, their number per video"),
        (lambda: Triplets((4, 1), clips=1), r"gap must be \(least, largest\), got \(4, 1\)"),
        (lambda: Triplets((1, 2, 3), clips=1), r"gap must be a number or \(least, largest\), got \(1, 2, 3\)"),
        (lambda: Triplets((0, 2), clips=1), "gap must be a positive integer, got 0"),
        (lambda: Triplets(clips=0), "clips must be a positive integer, got 0"),
        (lambda: FrameTuples((0, 2), 1, random_targets=2), r"random_targets must be an integer in \[1, 1\], got 2"),
        (lambda: FrameTuples((0, 2), 1, random_targets=True), r"random_targets must be an integer in \[1, 1\], got T"),
    ],
)
def test_a_bad_argument_is_named_when_the_mode_is_made(make, message):
    with pytest.raises(ConfigurationError, match=message):
        make()


def test_lists_stand_for_ranges_of_gaps():
    assert Triplets([1, 4], clips=1) == Triplets((1, 4), clips=1)
    assert hash(Triplets([1, 4], clips=1)) == hash(Triplets((1, 4), clips=1))
