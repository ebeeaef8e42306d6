"""Random clips near keyframes: cheaper, biased as documented, otherwise like their mode."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sampled_videos import all_clips, counts_agree, only_clip, video
from synthetic_index import indexes

from videoloader.errors import ConfigurationError
from videoloader.sampling.at_rate import AtRate
from videoloader.sampling.columns import PadColumn
from videoloader.sampling.mode import clip_frames, clip_rng
from videoloader.sampling.near_keyframes import NearKeyframes
from videoloader.sampling.sampled_video import AllFrames
from videoloader.sampling.spread import Segments
from videoloader.sampling.windows import EveryWindow, RandomWindow

LONG_GOPS = set(range(0, 1000, 100))


@given(index=indexes(), within=st.integers(0, 5), length=st.integers(1, 4), seed=st.integers(0, 9))
def test_a_clip_is_one_of_the_modes_first_draws(index, within, length, seed):
    of, mode = AllFrames(index), RandomWindow(length, pad="constant")
    rng = clip_rng(seed, 0, 0)
    draws = [mode.frame_numbers(of, 0, rng) for _ in range(64)]
    before = [int(index.frame_packet[draw[0]] - index.start_packet(draw[0])) for draw in draws]
    expected = next((number for number, packets in enumerate(before) if packets <= within), int(np.argmin(before)))
    found = NearKeyframes(mode, within=within).frame_numbers(of, 0, clip_rng(seed, 0, 0))
    assert found.tolist() == draws[expected].tolist()


def test_starts_are_near_keyframes_and_all_of_these_are_drawn():
    of = video(1000, keys=LONG_GOPS)
    mode = NearKeyframes(RandomWindow(8), within=9)
    starts = [int(clip_frames(mode, of, 0, clip_rng(0, 0, clip))[0][0]) for clip in range(3000)]
    near = np.isin(np.array(starts) % 100, range(10))
    assert near.mean() > 0.99  # 64 draws miss one in a thousand times
    assert len(np.unique(np.array(starts)[near])) == 100


def test_short_gops_change_nothing():
    of, mode = video(200, keys=set(range(0, 200, 8))), RandomWindow(8, stride=2, clips=5)
    assert all_clips(NearKeyframes(mode, within=7), of) == all_clips(mode, of)


@pytest.mark.parametrize("mode", [AtRate(10, 6), Segments(3, jitter=True), RandomWindow(4, reverse=1)])
def test_any_random_mode_stays_what_it_is(mode):
    of = video(1000, keys=LONG_GOPS)
    frames = only_clip(NearKeyframes(mode, within=20), of)
    assert min(frames) % 100 <= 20
    if isinstance(mode, AtRate):
        assert set(np.diff(frames)) == {2, 3}


def test_the_cost_it_saves():
    of = video(1000, keys=LONG_GOPS)
    cost = NearKeyframes(RandomWindow(8), within=0).decode_cost(of.index)
    # A clip begins 50 packets after its keyframe on average, or on it.
    assert cost.plain == pytest.approx((50 + 8) / 8, rel=0.15)
    assert cost.near < 1.5
    assert cost.saved == pytest.approx(1 - cost.near / cost.plain)
    assert NearKeyframes(RandomWindow(8), within=99).decode_cost(of.index).saved == 0


def test_the_cost_of_padded_clips_counts_real_frames():
    cost = NearKeyframes(RandomWindow(8, pad="constant"), within=0).decode_cost(video(4, keys={0}).index)
    assert cost == (1, 1)


def test_count_and_padding_are_those_of_the_mode():
    assert counts_agree(NearKeyframes(RandomWindow(4, clips=3, pad="none"), within=2), range(9))
    assert NearKeyframes(RandomWindow(4, pad=PadColumn("p")), within=2).pad == PadColumn("p")
    assert NearKeyframes(RandomWindow(4, pad=PadColumn("p")), within=2).clips_by_length(np.arange(3)) is None
    assert NearKeyframes(EveryWindow(4), within=2).num_clips(video(12)) == 3


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: NearKeyframes(RandomWindow(4), within=-1), "within must be an integer of at least 0, got -1"),
        (lambda: NearKeyframes(RandomWindow(4), within=True), "within must be .*, got True"),
        (lambda: NearKeyframes([0, 1], within=1), r"mode must be a frame mode, got \[0, 1\]"),
    ],
)
def test_a_bad_argument_is_named_when_the_mode_is_made(make, message):
    with pytest.raises(ConfigurationError, match=message):
        make()
