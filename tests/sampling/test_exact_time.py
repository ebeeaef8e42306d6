"""The meaning of numbers given as times and rates."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from synthetic_index import make_index

from videoloader.errors import ConfigurationError
from videoloader.indexing.exact_numbers import exact, exact_rate
from videoloader.sampling.exact_time import as_times, in_units, on_clock
from videoloader.sampling.integers import several_integers


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_float_is_the_decimal_it_prints_as(number):
    assert exact("x", number) == Fraction(Decimal(repr(number)))


@pytest.mark.parametrize(
    "number",
    [0.12, np.float64(0.12), np.float32(0.12), np.float16(0.12), Fraction(3, 25), Decimal("0.12")],
)
def test_numbers_of_all_types(number):
    assert exact("x", number) == Fraction(3, 25)
    (time,) = as_times("x", [number])
    assert type(time) in (float, Fraction)
    assert in_units(time, Fraction(1, 25)) == 3


@pytest.mark.parametrize("number", [2, np.int16(2), Fraction(2), 2.0])
def test_whole_numbers(number):
    assert exact("x", number) == 2


def test_tensors_of_all_types():
    for of in (torch.float64, torch.float32, torch.bfloat16):
        given = torch.tensor([0.125, 2.5], dtype=of, requires_grad=True)
        assert as_times("x", given) == (0.125, 2.5)


@pytest.mark.parametrize(
    "bad",
    [
        torch.empty(2, device="meta"),
        torch.tensor([1.0, 2.0]).to_sparse(),
        torch.eye(2).to_sparse_csr(),
        torch.tensor([1j]).conj(),
    ],
)
def test_tensors_that_are_no_list_of_seconds(bad):
    with pytest.raises(ConfigurationError, match="x must be a list of seconds, got"):
        as_times("x", bad)
    assert several_integers(bad.long() if not bad.is_complex() else bad) is None


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), np.float32("inf"), "1", None, True, 1j, Decimal("nan")])
def test_what_is_no_finite_number_is_an_error(bad):
    with pytest.raises(ConfigurationError, match="x must be a finite number, got"):
        exact("x", bad)
    with pytest.raises(ConfigurationError, match="x must be a finite number, got"):
        as_times("x", [1, bad])


@pytest.mark.parametrize("bad", ["0 1", b"01", 3, None, []])
def test_what_is_no_list_of_times_is_an_error(bad):
    with pytest.raises(ConfigurationError, match=r"x must be a list of .*seconds, got"):
        as_times("x", bad)


def test_a_float_that_is_several_units_means_the_one_that_a_frame_has():
    """As where recorders write nanoseconds since 1970: a float next to them is 240 of them."""
    times = [1_764_300_000 * 10**9 + 33_366_701 * number + number**2 * 7919 % 100_000 for number in range(50)]
    index = make_index(times, {0}, time_base=Fraction(1, 10**9)).with_times("pts")
    for number, seconds in enumerate(index.timestamps.tolist()):
        assert on_clock(index, seconds) == times[number]
        assert on_clock(index, Fraction(times[number], 10**9)) == times[number]
    between = (index.timestamps[3] + index.timestamps[4]) / 2
    assert times[3] < on_clock(index, float(between)) < times[4]


@given(
    unit=st.integers(0, 10**12),
    base=st.builds(
        Fraction, st.integers(1, 1001), st.sampled_from([24, 25, 30, 600, 1000, 12800, 30000, 90000, 10**9])
    ),
)
def test_a_timestamp_written_as_a_float_means_that_timestamp(unit, base):
    seconds = unit * base.numerator / base.denominator
    assert in_units(seconds, base) == unit
    assert in_units(unit * base, base) == unit


def test_a_float_between_timestamps_stays_there():
    assert in_units(0.1, Fraction(1, 25)) == Fraction(5, 2)
    assert in_units(0.0333, Fraction(1, 30)) == Fraction(999, 1000)


@pytest.mark.parametrize("nominal", [15, 24, 30, 48, 60, 90, 120, 240])
@pytest.mark.parametrize("places", [2, 3, 5, 12])
def test_decimals_of_ntsc_rates_mean_these_rates(nominal, places):
    rate = Fraction(nominal * 1000, 1001)
    assert exact_rate(round(float(rate), places)) == rate
    assert exact_rate(float(rate)) == rate


@pytest.mark.parametrize(
    ("given_rate", "meant"),
    [
        (29.97, Fraction(30000, 1001)),
        (23.98, Fraction(24000, 1001)),
        (23.976, Fraction(24000, 1001)),
        (Fraction(2997, 100), Fraction(2997, 100)),
        (24.0, 24),
        (30.0, 30),
        (12.5, Fraction(25, 2)),
        (29.96, Fraction(2996, 100)),
        (29.971, Fraction(29971, 1000)),
        (60, 60),
        (np.float32(59.94), Fraction(60000, 1001)),
    ],
)
def test_all_other_rates_are_what_is_written(given_rate, meant):
    assert exact_rate(given_rate) == meant


@pytest.mark.parametrize("bad", [0, -1, 0.0, -29.97])
def test_a_rate_is_positive(bad):
    with pytest.raises(ConfigurationError, match="fps must be positive, got"):
        exact_rate(bad)
