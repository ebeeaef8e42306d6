"""Parameters drawn once for a clip, or varying over its frames."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from videoloader.errors import ConfigurationError
from videoloader.transforms.curves import Curve, Linear, RandomWalk, Range, Uniform, check_range, draw_range
from videoloader.transforms.noise import GaussianNoise
from videoloader.transforms.tone import Solarize

numbers = st.floats(-1e6, 1e6)
bounds = st.tuples(numbers, numbers).map(sorted)


@given(bounds, st.floats(0, 1e7), st.integers(1, 100), st.integers(0, 2**32))
def test_values_stay_within_the_bounds(pair: list[float], step: float, frames: int, seed: int) -> None:
    low, high = pair
    for curve, count in ((Uniform(low, high), 1), (Linear(low, high), frames), (RandomWalk(low, high, step), frames)):
        values = curve.values(np.random.default_rng(seed), frames)
        assert values.shape == (count,)
        assert values.dtype == np.float64
        slack = 1e-9 * max(abs(low), abs(high), step)
        assert (values >= low - slack).all()
        assert (values <= high + slack).all()


@given(bounds, st.floats(0, 1e6), st.integers(0, 2**32))
def test_a_walk_takes_no_step_longer_than_allowed(pair: list[float], step: float, seed: int) -> None:
    values = RandomWalk(*pair, step).values(np.random.default_rng(seed), 50)
    assert np.abs(np.diff(values)).max() <= step + 1e-6


def test_a_walk_that_hits_an_end_turns_back() -> None:
    values = RandomWalk(0, 1, 0.4).values(np.random.default_rng(3), 2000)
    assert np.histogram(values, 10, (0, 1))[0].min() > 120  # it does not stick to the ends, nor keeps off them


def test_a_line_is_straight_and_its_ends_differ() -> None:
    values = Linear(2, 5).values(np.random.default_rng(0), 9)
    assert np.diff(values) == pytest.approx(np.full(8, (values[-1] - values[0]) / 8))
    assert values[0] != values[-1]


@pytest.mark.parametrize("curve", [Uniform(3, 7), Linear(3, 7), RandomWalk(3, 7, 1)])
def test_the_first_value_is_drawn_evenly(curve: Curve) -> None:
    rng = np.random.default_rng(1)
    first = [curve.values(rng, 4)[0] for _ in range(2000)]
    assert np.histogram(first, 4, (3, 7))[0] == pytest.approx(np.full(4, 500), abs=70)


def test_a_number_is_itself_and_takes_nothing_from_the_generator() -> None:
    rng, other = np.random.default_rng(5), np.random.default_rng(5)
    assert draw_range(1.5, rng, 8).tolist() == [1.5]
    assert rng.random() == other.random()


def test_a_pair_is_one_value_for_the_clip() -> None:
    drawn = draw_range((2, 3), np.random.default_rng(7), 8)
    assert drawn.tolist() == draw_range(Uniform(2, 3), np.random.default_rng(7), 8).tolist()
    assert 2 <= drawn[0] <= 3


def test_equal_seeds_draw_equal_values_and_curves_can_be_pickled() -> None:
    for curve in (Uniform(0, 1), Linear(0, 1), RandomWalk(0, 1, 0.1)):
        copy = pickle.loads(pickle.dumps(curve))
        assert copy == curve
        drawn, again = (each.values(np.random.default_rng(2), 16) for each in (curve, copy))
        assert drawn.tolist() == again.tolist()


def test_a_curve_of_ones_own_is_a_range() -> None:
    class Flash:
        low, high = 0.0, 2.0

        def values(self, rng: np.random.Generator, frames: int) -> Any:
            return np.eye(1, frames)[0] * 2

    check_range("Brightness's factor", Flash(), 0, 2)
    assert draw_range(Flash(), np.random.default_rng(0), 3).tolist() == [2, 0, 0]
    with pytest.raises(ConfigurationError):
        check_range("Brightness's factor", Flash(), 0, 1)


@pytest.mark.parametrize(
    "value", [-0.1, 2.1, (1, 0.5), (-1, 1), (0, 3), (1,), (1, 1, 1), "1", None, float("nan"), (0, float("nan"))]
)
def test_values_outside_are_refused_by_name_and_range(value: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"Gamma's gamma must be in \[0, 2\]"):
        check_range("Gamma's gamma", value, 0, 2)


@pytest.mark.parametrize("value", [0, 2, 1.5, (0, 2), [0.5, 0.5], Linear(0, 2)])
def test_values_inside_pass(value: Range) -> None:
    check_range("Gamma's gamma", value, 0, 2)


@pytest.mark.parametrize(
    "make", [lambda: GaussianNoise(std=0.1), lambda: GaussianNoise(std=(0, 0.1)), lambda: Solarize(0.5)]
)
def test_pixel_values_that_look_like_shares_of_1_are_warned_of(make: Any) -> None:
    with pytest.warns(UserWarning, match=r"(std|threshold) is in pixel values of 0 … 255, got .*: multiply it by 255"):
        make()


@pytest.mark.parametrize("make", [lambda: GaussianNoise(std=1), lambda: GaussianNoise(std=1.5), lambda: Solarize(0)])
@pytest.mark.filterwarnings("error")
def test_whole_and_larger_pixel_values_are_not(make: Any) -> None:
    make()


@pytest.mark.parametrize(
    "make",
    [
        lambda: Uniform(1, 0),
        lambda: Linear(float("nan"), 0),
        lambda: RandomWalk(0, float("inf"), 1),
        lambda: RandomWalk(0, 1, -1),
    ],
)
def test_curves_of_nothing_are_refused(make: Any) -> None:
    with pytest.raises(ConfigurationError):
        make()
