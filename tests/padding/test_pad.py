"""The frames that a clip shows outside its range, mode by mode."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from videoloader.errors import ArgumentError, ConfigurationError
from videoloader.padding import CONSTANT_FRAME, MODES, check_mode, pad

ALIASES = {"repeat": "edge", "reflect": "reflect_101", "symmetric": "reflect_1001", "loop": "wrap"}
FILLING = [mode for mode in MODES if mode != "none"]
MAPPING = [mode for mode in FILLING if mode != "constant"]
PERIODS = {"reflect_101": lambda n: max(2 * (n - 1), 1), "reflect_1001": lambda n: 2 * n, "wrap": lambda n: n}
NUMPY_MODES = {
    "edge": {"mode": "edge"},
    "constant": {"mode": "constant", "constant_values": CONSTANT_FRAME},
    "reflect_101": {"mode": "reflect"},
    "reflect_1001": {"mode": "symmetric"},
    "wrap": {"mode": "wrap"},
}

numbers = st.lists(st.integers(-300, 300), max_size=30)
firsts = st.integers(0, 50)
sizes = st.integers(1, 40)


def digits(table: str) -> list[int]:
    return [int(digit) for digit in table.replace(" ", "")]


@pytest.mark.parametrize(
    ("mode", "table"),
    [
        ("reflect_1001", "01234 43210 01234 43210 012"),
        ("reflect_101", "01234 3210 1234 3210 1234 32"),
        ("edge", "01234 444444444444444444"),
        ("wrap", "01234 01234 01234 01234 012"),
    ],
)
def test_five_frames_asked_for_23(mode, table):
    assert pad(range(23), 0, 5, mode)[0].tolist() == digits(table)


@pytest.mark.parametrize(
    ("mode", "table"),
    [
        ("reflect_1001", "6 8 9 7 5 3 1 0 2"),
        ("reflect_101", "6 8 8 6 4 2 0 2 4"),
        ("edge", "6 8 9 9 9 9 9 9 9"),
        ("wrap", "6 8 0 2 4 6 8 0 2"),
    ],
)
def test_ten_frames_from_6_in_steps_of_2(mode, table):
    frame_numbers, mask = pad(6 + 2 * np.arange(9), 0, 10, mode)
    assert frame_numbers.tolist() == digits(table)
    assert mask.tolist() == [True] * 2 + [False] * 7


def test_none_drops_what_is_outside_and_keeps_the_order():
    frame_numbers, mask = pad([9, 2, -1, 4, 5, 2], 2, 5, "none")
    assert frame_numbers.tolist() == [2, 4, 2]
    assert mask.tolist() == [True] * 3


def test_constant_marks_what_is_outside():
    frame_numbers, mask = pad([1, 2, 4, 5], 2, 5, "constant")
    assert frame_numbers.tolist() == [CONSTANT_FRAME, 2, 4, CONSTANT_FRAME]
    assert mask.tolist() == [False, True, True, False]


@pytest.mark.parametrize("mode", FILLING)
@given(first=firsts, size=sizes, before=st.integers(0, 200), after=st.integers(0, 200))
def test_equals_numpy_pad_on_both_sides(mode, first, size, before, after):
    inside = np.arange(first, first + size)
    asked = np.arange(first - before, first + size + after)
    expected = np.pad(inside, (before, after), **NUMPY_MODES[mode])
    np.testing.assert_array_equal(pad(asked, first, first + size, mode)[0], expected)


@pytest.mark.parametrize("mode", [*MODES, *ALIASES])
@given(asked=numbers, first=firsts, size=sizes)
def test_results_are_int64_in_range_with_a_mask_of_the_same_length(mode, asked, first, size):
    frame_numbers, mask = pad(asked, first, first + size, mode)
    assert (frame_numbers.dtype, mask.dtype) == (np.int64, np.bool_)
    assert frame_numbers.shape == mask.shape
    made_up = ~mask if mode == "constant" else np.zeros_like(mask)
    assert ((frame_numbers >= first) & (frame_numbers < first + size) | made_up).all()


@pytest.mark.parametrize("mode", FILLING)
@given(asked=numbers, first=firsts, size=sizes)
def test_mask_is_true_exactly_inside_where_numbers_stay_as_they_are(mode, asked, first, size):
    frame_numbers, mask = pad(asked, first, first + size, mode)
    assert mask.tolist() == [first <= number < first + size for number in asked]
    assert frame_numbers[mask].tolist() == [number for number in asked if first <= number < first + size]


@given(asked=numbers, first=firsts, size=sizes)
def test_none_is_a_filter(asked, first, size):
    assert pad(asked, first, first + size, "none")[0].tolist() == [
        number for number in asked if first <= number < first + size
    ]


@pytest.mark.parametrize("mode", PERIODS)
@given(asked=numbers, first=firsts, size=sizes, turns=st.integers(-5, 5))
def test_period(mode, asked, first, size, turns):
    shifted = np.array(asked, np.int64) + turns * PERIODS[mode](size)
    once, again = (pad(row, first, first + size, mode)[0] for row in (asked, shifted))
    np.testing.assert_array_equal(once, again)


@pytest.mark.parametrize("mode", MAPPING)
@given(asked=numbers, first=firsts, size=sizes)
def test_a_range_elsewhere_gives_the_same_picture_shifted(mode, asked, first, size):
    here, here_mask = pad(asked, 0, size, mode)
    there, there_mask = pad(np.array(asked, np.int64) + first, first, first + size, mode)
    np.testing.assert_array_equal(here + first, there)
    np.testing.assert_array_equal(here_mask, there_mask)


@pytest.mark.parametrize("mode", MAPPING)
@given(asked=numbers, first=firsts)
def test_one_frame_is_all_there_is_to_show(mode, asked, first):
    assert pad(asked, first, first + 1, mode)[0].tolist() == [first] * len(asked)


@pytest.mark.parametrize(("alias", "mode"), ALIASES.items())
def test_aliases_name_the_same_mode(alias, mode):
    assert check_mode(alias) == check_mode(mode) == mode
    np.testing.assert_array_equal(pad(range(-9, 9), 0, 4, alias), pad(range(-9, 9), 0, 4, mode))


def test_what_was_given_is_not_changed():
    given_numbers = np.array([-1, 0, 7])
    pad(given_numbers, 0, 3, "wrap")
    assert given_numbers.tolist() == [-1, 0, 7]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("first", "stop"), [(3, 3), (4, 3), (-1, 3)])
def test_an_empty_or_negative_range_is_an_error_that_names_it(mode, first, stop):
    with pytest.raises(ConfigurationError, match=f"first={first}, stop={stop}"):
        pad([0], first, stop, mode)


@pytest.mark.parametrize(("first", "stop"), [(0, "5"), (0, 5.5), (0.5, 3), (0, float("inf")), (0, 2**62 + 1)])
def test_a_range_of_no_integers_or_of_too_many_is_an_error(first, stop):
    with pytest.raises(ConfigurationError, match="the range must be integers"):
        pad([0], first, stop, "edge")


extremes = st.sampled_from([-(2**63), -(2**63) + 1, 2**63 - 1]) | st.integers(-(2**63), 2**63 - 1)


@pytest.mark.parametrize("mode", ["edge", *PERIODS])
@given(asked=extremes, first=firsts | st.integers(0, 2**61), size=sizes | st.integers(1, 2**61))
def test_any_integers_of_64_bits_are_exact(mode, asked, first, size):
    (frame,), (inside,) = pad([asked], first, first + size, mode)
    if mode == "edge":
        expected = min(max(asked, first), first + size - 1)
    else:
        period = PERIODS[mode](size)
        offset = (asked - first) % period
        mirrored = {"wrap": offset, "reflect_101": period - offset, "reflect_1001": period - 1 - offset}[mode]
        expected = first + min(offset, mirrored)
    assert (frame, inside) == (expected, first <= asked < first + size)


def test_a_mode_that_cannot_be_written_is_an_error_of_the_library():
    with pytest.raises(ConfigurationError, match=r"reflect_101.*, got a Tensor without a shape"):
        check_mode(NESTED)
    with pytest.raises(ConfigurationError, match=r"reflect_101.*, got .an integer of 16610 bits"):
        check_mode([10**5000])
    with pytest.raises(ConfigurationError, match=r"reflect_101.*, got np.void"):
        check_mode(np.void(b"a"))


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: pad([1], 0, 5), "pad needs the argument mode"),
        (lambda: pad([1], 0, 5, pad="edge"), "pad has no argument pad"),
        (lambda: check_mode(), "check_mode needs the argument mode"),
    ],
)
def test_missing_and_unknown_arguments_are_named(call, told):
    with pytest.raises(ArgumentError, match=f"^{told}"):
        call()


@pytest.mark.parametrize("mode", ["mirror", "", None, ["edge"]])
def test_an_unknown_mode_is_an_error_that_names_it_and_the_choice(mode):
    with pytest.raises(ConfigurationError, match=r"reflect_101.*got") as error:
        check_mode(mode)
    assert repr(mode) in str(error.value)


# Without sizes, PyTorch neither converts it nor tells its shape.
NESTED = torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)])


@pytest.mark.parametrize("bad", [[0.5], [True, False], [[1, 2]], 3, [2**63], [2**64], [[1], [2, 3]], NESTED])
def test_numbers_that_are_not_a_row_of_integers_are_an_error(bad):
    with pytest.raises(ConfigurationError, match="frame_numbers"):
        pad(bad, 0, 5, "edge")
