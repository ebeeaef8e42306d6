"""The times of targets between inputs, against fractions of the timestamps."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sampled_videos import video

from videoloader.errors import ConfigurationError
from videoloader.sampling.roles import Roles, target_times

distances = st.lists(st.integers(1, 10**6), min_size=8, max_size=8)


@given(distances=distances, start=st.integers(-(10**6), 10**12), order=st.permutations(range(9)))
def test_times_are_shares_of_the_time_between_the_inputs(distances, start, order):
    pts = [start, *(start + np.cumsum(distances)).tolist()]
    index = video(9, pts=pts, time_base=Fraction(1, 90000)).index
    numbers = np.array(order[:5], np.int64)
    times = target_times(index, numbers, Roles((0, 2, 4), (3, 1)))
    first, last = pts[order[0]], pts[order[4]]
    expected = [float(Fraction(pts[order[place]] - first, last - first)) for place in (3, 1)]
    assert times.dtype == np.float32
    np.testing.assert_allclose(times, expected, rtol=1e-6)


def test_time_goes_on_where_a_stream_starts_anew():
    index = replace(video(8).index, frame_pts=np.array([1000, 1001, 1002, 1003, 0, 1, 2, 3]))
    assert target_times(index, np.array([2, 6, 3, 4, 5]), Roles((0, 1), (2, 3, 4))).tolist() == [0.25, 0.5, 0.75]


@pytest.mark.parametrize("numbers", [[4, 4, 4], [4, -1, 5], [-1, 4, 5], [4, 6, -1]])
def test_there_is_no_time_without_two_times_of_inputs(numbers):
    assert np.isnan(target_times(video(9).index, np.array(numbers), Roles((0, 1), (2,)))).all()


def test_one_input_has_no_time_to_measure_by():
    assert np.isnan(target_times(video(9).index, np.array([3, 4]), Roles((0,), (1,)))).all()


@pytest.mark.parametrize("roles", [Roles((0, 3), (1,)), Roles((0, -1), (1,)), Roles((), (1,))])
def test_places_that_a_clip_lacks_are_an_error(roles):
    with pytest.raises(ConfigurationError, match="do not name places of clips of 3 frames"):
        target_times(video(9).index, np.array([3, 4, 5]), roles)
