"""Frames of a video requested by number or time, and what is refused."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch
from synthetic_index import make_index

from videoloader import AtRate, ConfigurationError, FrameList, FrameRangeError
from videoloader.sampling.asked_frames import asked_frames, frame_on_screen, frames_between

# In hundredths of a second: frame 3 comes late.
INDEX = make_index([100, 104, 108, 120, 124], {0}, time_base=Fraction(1, 100))


@pytest.mark.parametrize("one", [3, -7, np.int64(3), np.uint8(3), np.array(3), torch.tensor(3), torch.tensor(-7)])
def test_an_integer_of_any_library_is_one_frame(one: object) -> None:
    numbers, is_one = asked_frames(one, 10, "a.mp4")
    assert numbers.tolist() == [3]
    assert is_one


@pytest.mark.parametrize(
    ("several", "expected"),
    [
        ([0, 5, -1, 5], [0, 5, 9, 5]),
        (np.array([0, 5, -1], np.int16), [0, 5, 9]),
        (torch.tensor([3]), [3]),
        (range(0, 9, 4), [0, 4, 8]),
        ([np.int64(1), torch.tensor(2)], [1, 2]),
        (np.arange(10) > 7, [8, 9]),
        (torch.arange(10) == 3, [3]),
        (slice(8, None, -3), [8, 5, 2]),
        (slice(20, 30), []),
        ([], []),
    ],
)
def test_slices_lists_arrays_and_tensors_are_several(several: object, expected: list[int]) -> None:
    numbers, is_one = asked_frames(several, 10, "a.mp4")
    assert numbers.tolist() == expected
    assert not is_one


@pytest.mark.parametrize(
    ("other", "told"),
    [
        (1.5, "1.5"),
        (True, "True"),
        ("0", "'0'"),
        (None, "None"),
        ((0, 1), r"\(0, 1\)"),
        ([0, True], r"\[0, True\]"),
        ([1.0], r"\[1.0\]"),
        (b"1", "b'1'"),
        ({1}, r"\{1\}"),
        (np.bool_(True), "True"),
        (torch.tensor(True), r"tensor\(True\)"),
        (torch.ones(3), r"torch.float32 of shape \(3,\)"),
        (np.zeros((2, 2), int), r"int64 of shape \(2, 2\)"),
        (int, "the class int"),
    ],
)
def test_all_else_is_a_type_error_that_says_what_an_index_may_be(other: object, told: str) -> None:
    with pytest.raises(TypeError, match=f"must be an integer, a slice, or a list.*got .*{told}"):
        asked_frames(other, 10, "a.mp4")


@pytest.mark.parametrize("number", [10, -11, 10**30])
@pytest.mark.parametrize("asked", [lambda number: number, lambda number: [0, number]])
def test_a_frame_outside_the_video_is_an_index_error(number: int, asked) -> None:
    with pytest.raises(FrameRangeError, match=f"a.mp4: frame {number} is outside the video's 10 frames"):
        asked_frames(asked(number), 10, "a.mp4")


def test_a_mask_has_a_value_for_each_frame() -> None:
    with pytest.raises(FrameRangeError, match="one value for each of the video's 10 frames, got 2"):
        asked_frames([True, False], 10, "a.mp4")


@pytest.mark.parametrize(
    ("seconds", "frame"),
    [
        (1, 0),
        (1.039, 0),
        (1.0399, 1),
        (1.04, 1),
        (Fraction(107, 100), 1),
        (1.19, 2),
        (1.2, 3),
        (np.float32(1.24), 4),
        (1.299, 4),
    ],
)
def test_a_frame_is_on_screen_until_the_next(seconds: float, frame: int) -> None:
    assert frame_on_screen(INDEX, seconds) == frame


@pytest.mark.parametrize("seconds", [0.99, 1.3, 100.0, -1])
def test_no_frame_is_on_screen_before_the_first_or_after_the_last(seconds: float) -> None:
    beyond = {0.99: ": its first frame comes later", 1.3: ": its end shows no frame"}.get(seconds, "")
    with pytest.raises(FrameRangeError, match=rf"asked for {seconds} s, but the video lasts 1–1.3 s{beyond}"):
        frame_on_screen(INDEX, seconds)


@pytest.mark.parametrize("seconds", ["1", None, True, float("nan"), [1.0]])
def test_a_time_is_a_finite_number(seconds: object) -> None:
    with pytest.raises(ConfigurationError, match="seconds must be a finite number"):
        frame_on_screen(INDEX, seconds)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("start", "stop", "frames"),
    [(1, 1.3, [0, 1, 2, 3, 4]), (0, 1.04, [0]), (1.04, 1.2, [1, 2]), (1.05, 1.24, [2, 3]), (1.2, 1.21, [3])],
)
def test_frames_between_two_times_are_those_whose_times_lie_there(start: float, stop: float, frames: list[int]) -> None:
    assert frames_between(INDEX, start, stop) == FrameList(frames)


def test_frames_between_two_times_at_a_constant_rate() -> None:
    mode = frames_between(INDEX, 1.04, 1.3, fps=25)
    assert mode == AtRate(25, 7, start=Fraction(4, 100))


def test_the_end_may_be_what_floats_make_of_it() -> None:
    third = make_index([0, 1, 2], {0}, time_base=Fraction(1, 3))
    assert frames_between(third, 0, 1 + 1e-12) == FrameList([0, 1, 2])


@pytest.mark.parametrize("fps", [None, 100])
def test_an_end_behind_the_video_is_an_error_also_where_units_are_frames(fps: int | None) -> None:
    coarse = make_index(list(range(10)), {0}, time_base=Fraction(1, 25))
    for stop in (0.401, 0.42, 0.43, 0.44):
        with pytest.raises(FrameRangeError, match=r"the video lasts 0–0\.4 s"):
            frames_between(coarse, 0.3, stop, fps)


@pytest.mark.parametrize(
    ("start", "stop", "told"),
    [
        (-0.5, 1.2, "asked for -0.5–1.2 s, but the video lasts 1–1.3 s"),
        (1.0, 1.5, "asked for 1.0–1.5 s, but the video lasts 1–1.3 s"),
        (1.13, 1.19, "no frame's time lies in"),
    ],
)
def test_times_beyond_the_video_or_without_frames_are_range_errors(start: float, stop: float, told: str) -> None:
    with pytest.raises(FrameRangeError, match=told):
        frames_between(INDEX, start, stop)


@pytest.mark.parametrize(("start", "stop"), [(1.1, 1.1), (1.2, 1.1)])
def test_an_end_comes_after_its_start(start: float, stop: float) -> None:
    with pytest.raises(ConfigurationError, match="stop must be after start"):
        frames_between(INDEX, start, stop)
