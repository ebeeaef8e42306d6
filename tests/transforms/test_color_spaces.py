"""ConvertColor between all spaces, against their definitions."""

from __future__ import annotations

import colorsys
import itertools
import pickle
from typing import Any, get_args

import numpy as np
import pytest
import torch
from PIL import Image
from transforms.applying import apply, painted

from videoloader.errors import ConfigurationError
from videoloader.transforms.color_spaces import ConvertColor, Space

SPACES = get_args(Space)
COLORS = np.array([*itertools.product([0, 1, 60, 127, 128, 254, 255], repeat=3)], np.uint8)  # [n, 3]


def converted(colors: Any, source: Any, target: Any) -> Any:
    """float64[n, 3] of uint8[n, 3]."""
    frames = torch.from_numpy(np.ascontiguousarray(colors.T))[None, None, :, None]
    return apply(ConvertColor(source, target), frames)[0, 0, :, 0].numpy().T.astype(float)


def test_bgr_is_the_other_order() -> None:
    assert np.array_equal(converted(COLORS, "rgb", "bgr"), COLORS[:, ::-1])
    assert np.array_equal(converted(COLORS, "bgr", "rgb"), COLORS[:, ::-1])


def test_gray_is_luma_three_times() -> None:
    gray = converted(COLORS, "rgb", "gray")
    assert (gray == gray[:, :1]).all()
    assert np.abs(gray[:, 0] - COLORS @ [0.299, 0.587, 0.114]).max() <= 0.501
    assert np.array_equal(converted(gray.astype(np.uint8), "gray", "rgb"), gray)


def test_ycbcr_601_is_that_of_jpeg() -> None:
    expected = np.array(Image.fromarray(COLORS[None]).convert("YCbCr"))[0].astype(float)
    assert np.abs(converted(COLORS, "rgb", "ycbcr_601") - expected).max() <= 1


def test_ycbcr_709_is_its_definition() -> None:
    red, green, blue = COLORS.T / 255
    luma = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    expected = np.stack([luma, (blue - luma) / 1.8556 + 128 / 255, (red - luma) / 1.5748 + 128 / 255], 1) * 255
    assert np.abs(converted(COLORS, "rgb", "ycbcr_709") - expected.clip(0, 255)).max() <= 0.501


def test_hsv_is_that_of_colorsys() -> None:
    expected = np.array([colorsys.rgb_to_hsv(*(color / 255)) for color in COLORS]) * [256, 255, 255]
    difference = np.abs(converted(COLORS, "rgb", "hsv") - expected)
    difference[:, 0] = np.minimum(difference[:, 0], 256 - difference[:, 0])
    assert difference.max() <= 0.5001


def test_rgb_from_hsv_is_that_of_colorsys() -> None:
    expected = np.array([colorsys.hsv_to_rgb(h / 256, s / 255, v / 255) for h, s, v in COLORS.astype(float)]) * 255
    assert np.abs(converted(COLORS, "hsv", "rgb") - expected).max() <= 0.5001


@pytest.mark.parametrize(("space", "error"), [("bgr", 0), ("ycbcr_601", 2), ("ycbcr_709", 2), ("hsv", 4)])
def test_there_and_back_is_nearly_the_same(space: Any, error: int) -> None:
    # Colours inside the cube only: others are clamped on the way.
    there = converted(COLORS, "rgb", space).astype(np.uint8)
    assert np.abs(converted(there, space, "rgb") - COLORS).max() <= error


@pytest.mark.parametrize(("source", "target"), [*itertools.product(SPACES, SPACES)])
def test_any_space_becomes_any_other_by_way_of_rgb(source: Any, target: Any) -> None:
    colors = painted(height=9, width=9)[0, 0].flatten(1).numpy().T
    given = converted(colors, "rgb", source).astype(np.uint8)
    by_way_of_rgb = converted(converted(given, source, "rgb").astype(np.uint8), "rgb", target)
    difference = np.abs(converted(given, source, target) - by_way_of_rgb)
    if target == "hsv":
        difference = np.minimum(difference, 256 - difference)[:, 2]  # hue and saturation of dark colours may jump
    assert difference.max() <= 2


def test_a_conversion_to_the_same_space_is_none() -> None:
    for space in SPACES:
        step = ConvertColor(space, space)
        assert pickle.loads(pickle.dumps(step)) == step
        assert torch.equal(apply(step, painted()), painted())


def test_spaces_that_there_are_not_are_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"ConvertColor's source must be one of rgb, bgr.*, got 'cmyk'"):
        ConvertColor("cmyk", "rgb")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match=r"ConvertColor's target must be one of rgb, bgr.*, got 'lab'"):
        ConvertColor("rgb", "lab")  # type: ignore[arg-type]
