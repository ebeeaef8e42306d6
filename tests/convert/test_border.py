"""Borders agree with numpy.pad, and leave the picture unchanged."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from videoloader.convert.border import Border, extend_picture, fill_border
from videoloader.errors import ConfigurationError

NUMPY = {"edge": "edge", "reflect_101": "reflect", "reflect_1001": "symmetric", "wrap": "wrap"}
margins = st.integers(0, 20)


@st.composite
def surrounded(draw: st.DrawFn) -> tuple[torch.Tensor, torch.Tensor, list[int]]:
    """A picture in a poisoned slot of any strides, and the picture alone."""
    top, bottom, left, right = (draw(margins) for _ in range(4))
    height, width = draw(st.integers(1, 9)), draw(st.integers(1, 9))
    dtype = draw(st.sampled_from([torch.uint8, torch.float16, torch.float32]))
    order = draw(st.permutations(range(3)))
    shape = (3, top + height + bottom, left + width + right)
    slot = torch.full([shape[axis] for axis in order], 251, dtype=dtype)
    slot = slot.permute([order.index(axis) for axis in range(3)])
    picture = torch.from_numpy(np.random.default_rng(0).integers(0, 200, (3, height, width))).to(dtype)
    slot[:, top : top + height, left : left + width] = picture
    return slot, picture, [top, bottom, left, right]


@given(surrounded(), st.sampled_from(sorted(NUMPY)))
def test_the_picture_goes_on_as_numpy_pads_it(given: tuple[torch.Tensor, torch.Tensor, list[int]], mode: str) -> None:
    slot, picture, (top, bottom, left, right) = given
    extend_picture(slot, Border(top, bottom, left, right, mode))
    expected = np.pad(picture.numpy(), ((0, 0), (top, bottom), (left, right)), NUMPY[mode])
    assert np.array_equal(slot.numpy(), expected)


@given(surrounded())
def test_a_constant_border_has_its_colour_and_leaves_the_picture(
    given: tuple[torch.Tensor, torch.Tensor, list[int]],
) -> None:
    slot, picture, (top, bottom, left, right) = given
    border = Border(top, bottom, left, right)
    fill_border(slot, border, slot.new_tensor([1, 20, 150]))
    expected = [
        np.pad(plane, ((top, bottom), (left, right)), constant_values=value)
        for plane, value in zip(picture.numpy(), (1, 20, 150), strict=True)
    ]
    assert np.array_equal(slot.numpy(), np.stack(expected))
    assert torch.equal(border.picture(slot), picture)
    assert torch.equal(border.mirrored().picture(slot.flip(2)), picture.flip(2))
    assert torch.equal(border.upside_down().picture(slot.flip(1)), picture.flip(1))


def test_a_border_of_less_than_nothing_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="negative"):
        Border(0, 0, -1, 1)
