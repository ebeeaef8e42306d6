"""The sizes that Resize gives equal torchvision's."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from planned_geometry import plan_geometry
from transforms.geometry_references import ARRAYS

from videoloader.errors import ConfigurationError
from videoloader.transforms import CenterCrop, Resize


def test_edges_are_torchvisions() -> None:
    for rows, columns, size, longest, *expected in ARRAYS["sizes"].tolist():
        resize = Resize(size or None, max_size=longest or None)
        geometry = plan_geometry([resize], (rows, columns), np.random.default_rng(0))
        assert geometry.output_size == tuple(expected), (resize, rows, columns)


def test_something_is_left_of_the_shorter_edge() -> None:
    assert plan_geometry([Resize(None, max_size=8)], (3, 900), np.random.default_rng(0)).output_size == (1, 8)


def test_a_resize_of_a_crop_has_its_size() -> None:
    steps = [Resize(90), CenterCrop((60, 80)), Resize(30, max_size=35)]
    assert plan_geometry(steps, (180, 320), np.random.default_rng(0)).output_size == (26, 35)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Resize(None), "needs a size, a max_size, or both"),
        (lambda: Resize(0), "positive integer"),
        (lambda: Resize(50, max_size=50), "max_size must be an integer of at least 51, got 50"),
        (lambda: Resize(None, max_size=0), "max_size must be a positive integer, got 0"),
        (lambda: Resize((5, 6), max_size=9), "not for"),
    ],
)
def test_bad_sizes_are_refused_when_the_transform_is_made(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        make()
