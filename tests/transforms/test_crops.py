"""RandomCrop: boxes anywhere in the frames, or in the padding around them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from planned_geometry import plan_geometry

from videoloader.convert.border import extend_picture, fill_border
from videoloader.convert.spec import Geometry
from videoloader.errors import ConfigurationError
from videoloader.transforms import HorizontalFlip, RandomCrop, RandomResizedCrop, Resize, VerticalFlip

NUMPY = {"constant": "constant", "edge": "edge", "reflect_101": "reflect", "loop": "wrap"}


def shown(geometry: Geometry, picture: torch.Tensor) -> torch.Tensor:
    """What a geometry without a resize makes of [C, H, W]."""
    top, left, height, width = geometry.crop
    part = picture[:, top : top + height, left : left + width]
    part = part.flip([axis for axis, flip in ((1, geometry.flip_vertical), (2, geometry.flip)) if flip])
    border = geometry.border
    if border is None:
        return part
    slot = torch.empty(len(picture), *geometry.output_size, dtype=picture.dtype)
    border.picture(slot).copy_(part)
    if border.mode == "constant":
        fill_border(slot, border, torch.tensor(border.fill[: len(picture)], dtype=picture.dtype))
    else:
        extend_picture(slot, border)
    return slot


@given(st.integers(1, 12), st.integers(1, 12), st.integers(1, 15), st.integers(1, 15), st.data())
def test_a_crop_is_a_part_of_the_padded_frames(
    rows: int, columns: int, height: int, width: int, data: st.DataObject
) -> None:
    seed = data.draw(st.integers(0, 2**32))
    flips = data.draw(st.lists(st.sampled_from([HorizontalFlip(), VerticalFlip()]), max_size=2))
    mode = data.draw(st.sampled_from(sorted(NUMPY)))
    most = min(height, width) - 1 if mode in ("constant", "edge") else 0
    step = RandomCrop(
        (height, width), padding=data.draw(st.integers(0, most)), pad_if_needed=True, mode=mode, fill=999 % 256
    )
    numbers = np.arange(rows * columns).reshape(1, rows, columns) + 1000
    geometry = plan_geometry([*flips, step], (rows, columns), np.random.default_rng(seed))
    got = shown(geometry, torch.from_numpy(numbers)).numpy()
    assert got.shape == (1, height, width)
    flipped = numbers[:, :: -1 if geometry.flip_vertical else 1, :: -1 if geometry.flip else 1]
    margins = [
        step.padding + max(size - length - 2 * step.padding, 0) for size, length in ((height, rows), (width, columns))
    ]
    values: dict[str, Any] = {"constant_values": 999 % 256} if mode == "constant" else {}
    whole = np.pad(flipped, [(0, 0), *((margin, margin) for margin in margins)], NUMPY[mode], **values)
    places = np.lib.stride_tricks.sliding_window_view(whole, (1, height, width))
    assert (places == got).all((-3, -2, -1)).any()


def test_every_place_comes_as_often() -> None:
    rng = np.random.default_rng(0)
    crops = [plan_geometry([RandomCrop((4, 5), padding=1)], (5, 5), rng) for _ in range(8000)]
    tops = Counter(crop.crop[0] - (crop.border.top if crop.border else 0) for crop in crops)
    lefts = Counter(crop.crop[1] - (crop.border.left if crop.border else 0) for crop in crops)
    assert sorted(tops) == [-1, 0, 1, 2]
    assert sorted(lefts) == [-1, 0, 1]
    # Chi-square: 3 and 2 degrees of freedom, one in a thousand above 16.3 and 13.8.
    for counts, limit in ((tops, 16.3), (lefts, 13.8)):
        expected = 8000 / len(counts)
        assert sum((count - expected) ** 2 / expected for count in counts.values()) < limit


def test_after_a_resize_it_is_a_window() -> None:
    geometry = plan_geometry([Resize((30, 40)), RandomCrop((9, 11))], (300, 400), np.random.default_rng(1))
    assert geometry.crop == (0, 0, 300, 400)
    assert geometry.window is not None
    assert geometry.window[2:] == (9, 11)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RandomCrop(0), "RandomCrop's size must be a positive integer"),
        (lambda: RandomCrop(4, padding=4), r"RandomCrop's padding must be an integer in \[0, 3\], got 4"),
        (lambda: RandomCrop(4, padding=-1), r"RandomCrop's padding must be .*, got -1"),
        (lambda: RandomCrop(4, padding=1, mode="wrap"), "'constant' or 'edge'"),
        (lambda: RandomCrop(4, mode="mirror"), "RandomCrop's mode: .*mirror"),
        (lambda: RandomCrop(4, mode="none"), "RandomCrop's mode must be a mode that pads frames, got 'none'"),
        (lambda: RandomCrop(4, fill=-1), r"\[0, 255\]"),
    ],
)
def test_bad_parameters_are_refused_when_the_transform_is_made(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        make()


@pytest.mark.parametrize("ratio", [1e-320, 1e300])
def test_extreme_ratios_give_boxes(ratio: float) -> None:
    transform = RandomResizedCrop((16, 16), ratio=(ratio, ratio))
    geometry = plan_geometry([transform], (40, 60), np.random.default_rng(0))
    assert geometry.size == (16, 16)


def test_frames_that_are_too_small_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="a RandomCrop of 20 pixels does not fit into 10"):
        plan_geometry([RandomCrop(20)], (30, 10), np.random.default_rng(0))
