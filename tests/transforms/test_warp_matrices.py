"""The matrices of warps move points as documented."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from videoloader.transforms.geometry.warp_matrices import rotation, scaling, shear, translation


def moved(matrices: npt.NDArray[np.float64], x: float, y: float) -> npt.NDArray[np.float64]:
    """Where the input's point (x, y) is seen in the first frame of the output."""
    return (np.linalg.inv(matrices[0]) @ (x, y, 1))[:2]


def test_a_rotation_is_counter_clockwise_and_keeps_the_centre() -> None:
    matrices = rotation(90, (50, 40))
    assert moved(matrices, 60, 40) == pytest.approx([50, 30])  # what was to the right is above
    assert moved(matrices, 50, 40) == pytest.approx([50, 40])


def test_a_translation_moves_right_and_down() -> None:
    assert moved(translation(3, 5), 1, 1) == pytest.approx([4, 6])


def test_scaling_grows_about_the_centre() -> None:
    assert moved(scaling(2, 3, (10, 10)), 11, 11) == pytest.approx([12, 13])


def test_shear_moves_what_is_below_and_to_the_right_of_the_centre() -> None:
    assert moved(shear(0.5, 0, (0, 0)), 10, 4) == pytest.approx([8, 4])
    assert moved(shear(0, 0.5, (0, 0)), 10, 4) == pytest.approx([10, -1])
    assert moved(shear(0.3, 0.2, (7, 9)), 7, 9) == pytest.approx([7, 9])
    once, again = moved(shear(0.3, 0, (1, 2)), 10, 4), shear(0, 0.2, (1, 2))
    assert moved(shear(0.3, 0.2, (1, 2)), 10, 4) == pytest.approx(moved(again, *once))


def test_products_apply_from_left_to_right() -> None:
    first, then = rotation(30, (5, 5)), translation(7, 0)
    assert moved(first @ then, 9, 2) == pytest.approx(moved(then, *moved(first, 9, 2)))


def test_each_frame_may_have_its_own() -> None:
    degrees = np.array([0.0, 45, 90])
    matrices = rotation(degrees, (np.array([1.0, 2, 3]), 8.0))
    assert matrices.shape == (3, 3, 3)
    assert matrices.dtype == np.float64
    assert matrices[1] == pytest.approx(rotation(45, (2, 8))[0])
    assert shear(degrees, 0, (1, 2)).shape == translation(degrees, 0).shape == (3, 3, 3)
