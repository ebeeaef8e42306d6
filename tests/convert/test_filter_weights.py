"""The filters that interpolations stand for."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
import pytest
import torch

from videoloader.convert.filters import FILTERS
from videoloader.convert.resize import filter_weights, needed_part
from videoloader.convert.spec import Interpolation
from videoloader.transforms.backends import cuda
from videoloader.transforms.geometry import warping
from videoloader.transforms.operations import Warp

UNKNOWN: Any = "lanczos"


def test_each_interpolation_has_a_filter() -> None:
    assert set(FILTERS) == set(warping._FILTERS) == set(cuda._INTERPOLATION_NUMBERS) == set(get_args(Interpolation))


def test_an_interpolation_without_a_filter_is_no_other_one() -> None:
    with pytest.raises(KeyError, match=UNKNOWN):
        filter_weights(8, 4, UNKNOWN, True)
    with pytest.raises(KeyError, match=UNKNOWN):
        needed_part((0, 0, 8, 8), (4, 4), (0, 0, 2, 2), UNKNOWN)
    with pytest.raises(KeyError, match=UNKNOWN):
        warping.warp_tensor(torch.zeros(1, 3, 8, 8), Warp(np.eye(3)[None], (8, 8), UNKNOWN, (0, 0, 0), (1, 1)))
