"""Temporal transforms: which frames a clip shows, in which order."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from videoloader.errors import ConfigurationError
from videoloader.transforms.time import (
    DropFrames,
    RepeatFrames,
    Reverse,
    SpeedChange,
    TemporalJitter,
    TimeTransform,
    apply_to_positions,
)

shares = st.floats(0, 1)
transforms: st.SearchStrategy[TimeTransform] = st.one_of(
    st.builds(Reverse, shares),
    st.builds(DropFrames, share=shares),
    st.builds(DropFrames, count=st.integers(0, 20)),
    st.builds(RepeatFrames, share=shares),
    st.builds(RepeatFrames, count=st.integers(0, 20)),
    st.builds(TemporalJitter, st.integers(0, 20)),
    st.builds(SpeedChange, st.floats(0.01, 1e300), st.sampled_from(["edge", "reflect", "symmetric", "loop"])),
)
lengths, seeds = st.integers(1, 40), st.integers(0, 2**32)


@given(st.lists(transforms, max_size=4), lengths, seeds)
def test_every_position_shows_a_frame_of_the_clip(steps: list[TimeTransform], length: int, seed: int) -> None:
    shown = apply_to_positions(steps, np.random.default_rng(seed), length)
    assert shown.shape == (length,)
    assert shown.dtype == np.int64
    assert shown.min() >= 0
    assert shown.max() < length


@given(st.lists(transforms, max_size=4), lengths, seeds)
def test_positions_depend_on_the_seed_alone(steps: list[TimeTransform], length: int, seed: int) -> None:
    again = pickle.loads(pickle.dumps(steps))
    assert again == steps
    first, second = (apply_to_positions(each, np.random.default_rng(seed), length) for each in (steps, again))
    assert first.tolist() == second.tolist()


@given(lengths)
def test_transforms_apply_to_what_the_one_before_shows(length: int) -> None:
    rng = np.random.default_rng(0)
    assert apply_to_positions([Reverse(1), Reverse(1)], rng, length).tolist() == list(range(length))
    fast_then_back = apply_to_positions([SpeedChange(2), Reverse(1)], rng, length)
    assert fast_then_back.tolist() == [min(2 * i, length - 1) for i in range(length)][::-1]


@pytest.mark.parametrize("p", [0.0, 0.3, 1.0])
def test_clips_are_reversed_with_that_probability(p: float) -> None:
    rng = np.random.default_rng(0)
    backwards = sum(Reverse(p).positions(rng, 2)[0] == 1 for _ in range(2000))
    assert abs(backwards - 2000 * p) < 80


@given(lengths, st.integers(0, 20), seeds)
def test_a_dropped_frame_shows_its_predecessor(length: int, count: int, seed: int) -> None:
    shown = DropFrames(count=count).positions(np.random.default_rng(seed), length)
    assert shown[0] == 0
    kept = shown == np.arange(length)
    assert (~kept).sum() == min(count, length - 1)
    for position in np.flatnonzero(~kept):
        assert shown[position] == shown[position - 1]


@given(lengths, st.integers(0, 20), seeds)
def test_a_repeated_frame_delays_those_after_it(length: int, count: int, seed: int) -> None:
    shown = RepeatFrames(count=count).positions(np.random.default_rng(seed), length)
    steps = np.diff(shown)
    assert shown[0] == 0
    assert set(steps.tolist()) <= {0, 1}
    assert (steps == 0).sum() == min(count, length - 1)


@pytest.mark.parametrize("transform", [DropFrames, RepeatFrames])
def test_a_share_of_frames_is_dropped_or_repeated(transform: Any) -> None:
    shown = transform(share=0.2).positions(np.random.default_rng(0), 10_001)
    assert abs((np.diff(shown) == 0).sum() - 2000) < 150
    # Any position but the first may be the one.
    first = [
        np.flatnonzero(np.diff(transform(count=1).positions(np.random.default_rng(s), 6)) == 0)[0] for s in range(500)
    ]
    assert (np.bincount(first, minlength=5) > 60).all()


@given(lengths, st.integers(0, 5), seeds)
def test_jitter_shows_frames_nearby(length: int, most: int, seed: int) -> None:
    shown = TemporalJitter(most).positions(np.random.default_rng(seed), length)
    assert np.abs(shown - np.arange(length)).max() <= most


def test_jitter_draws_all_offsets_evenly() -> None:
    shown = TemporalJitter(2).positions(np.random.default_rng(0), 5000)
    offsets = np.bincount((shown - np.arange(5000))[2:-2] + 2, minlength=5)
    assert (np.abs(offsets - 1000) < 120).all()


@pytest.mark.parametrize(
    ("factor", "beyond", "expected"),
    [
        (1, "edge", [0, 1, 2, 3, 4, 5]),
        (2, "edge", [0, 2, 4, 5, 5, 5]),
        (2, "wrap", [0, 2, 4, 0, 2, 4]),
        (2, "reflect_101", [0, 2, 4, 4, 2, 0]),
        (2, "symmetric", [0, 2, 4, 5, 3, 1]),
        (0.5, "edge", [0, 1, 1, 2, 2, 3]),
        ((1.5, 1.5), "edge", [0, 2, 3, 5, 5, 5]),
    ],
)
def test_speed(factor: Any, beyond: str, expected: list[int]) -> None:
    assert SpeedChange(factor, beyond).positions(np.random.default_rng(0), 6).tolist() == expected


def test_a_range_of_speeds_is_drawn_evenly_in_the_logarithm() -> None:
    rng = np.random.default_rng(0)
    shown = [SpeedChange((0.5, 2)).positions(rng, 1001)[400] for _ in range(1000)]
    assert min(shown) >= 200
    assert max(shown) <= 800
    assert abs(sum(frame < 400 for frame in shown) - 500) < 60


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Reverse(1.1), r"Reverse's p must be a number in \[0, 1\], got 1.1"),
        (lambda: DropFrames(), "DropFrames needs either share or count"),
        (lambda: DropFrames(share=0.1, count=1), "DropFrames needs either share or count"),
        (lambda: DropFrames(share=-0.1), r"DropFrames's share must be a number in \[0, 1\], got -0.1"),
        (lambda: RepeatFrames(count=-1), "RepeatFrames's count must be an integer of at least 0, got -1"),
        (lambda: DropFrames(count=1.5), "DropFrames's count must be an integer of at least 0, got 1.5"),  # type: ignore[arg-type]
        (lambda: TemporalJitter(-1), "TemporalJitter's max_offset must be an integer of at least 0, got -1"),
        (lambda: SpeedChange(0), "SpeedChange's factor must be .*, got 0"),
        (lambda: SpeedChange((2, 1)), r"SpeedChange's factor must be .*, got \(2, 1\)"),
        (lambda: SpeedChange(float("inf")), "SpeedChange's factor must be .*, got inf"),
        (lambda: SpeedChange(2, "constant"), "SpeedChange's beyond must be edge, .*, got 'constant'"),
        (lambda: SpeedChange(2, "bounce"), "pad must be one of"),
    ],
)
def test_bad_parameters_are_refused(make: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        make()
