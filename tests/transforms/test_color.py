"""Colours and tones: the pixels of torchvision and Pillow, what is drawn, and what is refused."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from plain_operations import Frames, carry_out

from videoloader.errors import ConfigurationError
from videoloader.transforms import color_operations
from videoloader.transforms.color import Brightness, ColorJitter, Contrast, Grayscale, Hue, RandomGrayscale, Saturation
from videoloader.transforms.curves import Linear, RandomWalk
from videoloader.transforms.operations import (
    ClipInfo,
    ColorMatrix,
    HueShift,
    PixelTransform,
    Sharpen,
    StatisticTable,
    Table,
)
from videoloader.transforms.tone import (
    AutoContrast,
    Equalize,
    Gamma,
    Invert,
    Posterize,
    Sharpness,
    Solarize,
    SolarizeAdd,
)

REFERENCES: Mapping[str, Frames] = np.load(Path(__file__).with_name("references") / "color.npz")
GEOMETRIC = ("rotate", "shear_x", "shear_y", "translate_x", "translate_y")

MAKERS: Mapping[str, Any] = {
    "brightness": Brightness,
    "contrast": Contrast,
    "saturation": Saturation,
    "hue": Hue,
    "gamma": lambda gamma, gain: Gamma(gamma, gain=gain),
    "posterize": Posterize,
    "solarize": Solarize,
    "sharpness": Sharpness,
    "grayscale": Grayscale,
    "invert": Invert,
    "auto_contrast": AutoContrast,
    "equalize": Equalize,
}

# One of each, with whatever is random.
TRANSFORMS: list[PixelTransform] = [
    Brightness((0.5, 1.5)),
    Contrast((0.5, 1.5)),
    Contrast((0.5, 1.5), per_frame=True),
    Saturation((0, 2)),
    Hue((-0.5, 0.5)),
    ColorJitter(0.4, 0.4, 0.4, 0.1),
    Grayscale(),
    RandomGrayscale(0.5),
    Gamma((0.5, 2), gain=(0.8, 1.2)),
    Invert(),
    Posterize((1, 8)),
    Solarize((0, 256)),
    SolarizeAdd((0, 110)),
    AutoContrast(),
    AutoContrast(per_frame=True),
    Equalize(),
    Equalize(per_frame=True),
    Sharpness((0, 3)),
]


def drawn(transform: PixelTransform, seed: int = 0, length: int = 1) -> list[Any]:
    return list(transform.draw(np.random.default_rng(seed), ClipInfo(length, 16, 22)))


@pytest.mark.parametrize(
    "name", [name for name in REFERENCES if name != "picture" and name.split()[1] not in GEOMETRIC]
)
def test_pixels_are_those_of_torchvision_and_pillow(name: str) -> None:
    _, kind, *numbers = name.split()
    transform = MAKERS[kind](*(float(number) for number in numbers))
    got = carry_out(drawn(transform), REFERENCES["picture"][None])[0]
    difference = np.abs(got.astype(int) - REFERENCES[name])
    assert difference.max() <= 1
    if kind in ("invert", "posterize", "solarize", "equalize"):
        assert difference.max() == 0


@pytest.mark.parametrize(
    "transform",
    [Brightness(1), Contrast(1), Saturation(1), Hue(0), Gamma(1), Posterize(8), Solarize(256), Sharpness(1)],
)
def test_what_should_change_nothing_changes_nothing(transform: PixelTransform) -> None:
    picture = REFERENCES["picture"][None]
    assert (carry_out(drawn(transform), picture) == picture).all()


def test_solarize_add_lifts_dark_values() -> None:
    (table,) = drawn(SolarizeAdd(50))
    values = np.arange(256)
    assert (table.values[0] == np.where(values < 128, values + 50, values)).all()
    (table,) = drawn(SolarizeAdd(-50, threshold=200))
    assert (table.values[0] == np.where(values < 200, np.maximum(values - 50, 0), values)).all()


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_a_static_clip_stays_static(transform: PixelTransform) -> None:
    clip = np.repeat(REFERENCES["picture"][None], 4, axis=0)
    for seed in range(3):
        after = carry_out(drawn(transform, seed, 4), clip)
        assert (after == after[:1]).all()


@pytest.mark.parametrize("kind", [Contrast, AutoContrast, Equalize])
def test_statistics_are_the_clips_unless_asked_otherwise(kind: Any) -> None:
    picture = REFERENCES["picture"]
    clip = np.stack([picture // 2, picture // 2 + 40])
    args = (1.5,) if kind is Contrast else ()
    whole, each = (carry_out(drawn(kind(*args, per_frame=each), length=2), clip) for each in (False, True))
    for channel in range(3):
        values = len(np.unique(clip[:, channel]))
        pairs = [set(zip(clip[:, channel].flat, after[:, channel].flat, strict=True)) for after in (whole, each)]
        assert len(pairs[0]) == values  # what was equal stays equal
        assert len(pairs[1]) > values
    for t in range(2):
        alone = carry_out(drawn(kind(*args)), clip[t : t + 1])
        assert (each[t] == alone[0]).all()


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_equal_seeds_draw_equal_operations_and_transforms_can_be_pickled(transform: PixelTransform) -> None:
    copy = pickle.loads(pickle.dumps(transform))
    assert copy == transform
    for seed in range(4):
        assert pickle.dumps(drawn(transform, seed)) == pickle.dumps(drawn(copy, seed))


@pytest.mark.parametrize(
    ("make", "values"),
    [
        (Brightness, lambda operation: operation.values),
        (Contrast, lambda operation: operation.factor),
        (Saturation, lambda operation: operation.matrix),
        (lambda curve: Hue(Linear(-0.2, 0.2)), lambda operation: operation.turns),
        (Gamma, lambda operation: operation.values),
        (lambda curve: Gamma(1, gain=curve), lambda operation: operation.values),
        (lambda curve: Posterize(Linear(1, 8)), lambda operation: operation.values),
        (lambda curve: Solarize(Linear(0, 256)), lambda operation: operation.values),
        (lambda curve: SolarizeAdd(Linear(0, 110)), lambda operation: operation.values),
        (lambda curve: SolarizeAdd(50, threshold=Linear(0, 256)), lambda operation: operation.values),
        (Sharpness, lambda operation: operation.factor),
    ],
)
def test_a_curve_gives_each_frame_its_own_value(make: Any, values: Any) -> None:
    for seed in range(5):
        (operation,) = drawn(make(Linear(0.5, 1.5)), seed, 6)
        rows = values(operation)
        assert len(rows) == 6
        if len(np.unique(rows, axis=0)) > 1:
            return
    pytest.fail("all frames got the same")


def test_brightness_follows_a_walk_frame_by_frame() -> None:
    walk = RandomWalk(0.5, 1.5, step=0.1)
    (operation,) = drawn(Brightness(walk), 3, 8)
    factors = walk.values(np.random.default_rng(3), 8)
    assert (operation.values[:, 0, 100] == np.floor(100 * factors + 0.5)).all()


def parameter(operation: Any) -> tuple[str, float]:
    """Which of the four of a ColorJitter an operation is, and its factor or turns."""
    if isinstance(operation, Table):
        return "brightness", operation.values[0, 0, 100] / 100
    if isinstance(operation, StatisticTable):
        return "contrast", float(operation.factor[0])
    if isinstance(operation, ColorMatrix):
        # What red gives to red beyond what it gives to green.
        return "saturation", float(operation.matrix[0, 0, 0] - operation.matrix[0, 1, 0])
    assert isinstance(operation, HueShift)
    return "hue", float(operation.turns[0])


def test_color_jitter_draws_torchvisions_ranges_in_all_orders() -> None:
    jitter = ColorJitter(0.4, 1.5, (0.9, 1.8), 0.2)
    rng = np.random.default_rng(11)
    values: dict[str, list[float]] = {}
    orders: dict[tuple[str, ...], int] = {}
    for _ in range(2400):
        parts = [parameter(operation) for operation in jitter.draw(rng, ClipInfo(1, 16, 22))]
        for name, value in parts:
            values.setdefault(name, []).append(value)
        order = tuple(name for name, _ in parts)
        orders[order] = orders.get(order, 0) + 1
    bounds = {"brightness": (0.6, 1.4), "contrast": (0, 2.5), "saturation": (0.9, 1.8), "hue": (-0.2, 0.2)}
    for name, (low, high) in bounds.items():
        counts, _ = np.histogram(values[name], 4, (low - 0.006, high + 0.006))  # brightness is known to 0.005
        assert counts.sum() == 2400, name
        assert counts == pytest.approx(np.full(4, 600), abs=90), name
    assert len(orders) == 24
    assert list(orders.values()) == pytest.approx([100] * 24, abs=40)


def test_color_jitter_leaves_out_what_is_0() -> None:
    assert drawn(ColorJitter()) == []
    assert [parameter(operation)[0] for operation in drawn(ColorJitter(hue=0.1))] == ["hue"]


def test_clips_are_gray_as_often_as_asked() -> None:
    rng = np.random.default_rng(0)
    gray = [len(RandomGrayscale(0.3).draw(rng, ClipInfo(1, 4, 4))) for _ in range(2000)]
    assert np.mean(gray) == pytest.approx(0.3, abs=0.04)
    after = carry_out(drawn(Grayscale()), REFERENCES["picture"][None])[0]
    assert (after[0] == after[1]).all()
    assert (after[0] == after[2]).all()


def test_bits_between_two_are_drawn_equally_often() -> None:
    rng = np.random.default_rng(0)
    levels = [
        len(np.unique(Posterize((2, 5)).draw(rng, ClipInfo(1, 4, 4))[0].values[0, 0]))  # type: ignore[union-attr]
        for _ in range(2000)
    ]
    counts = np.bincount(levels, minlength=33)
    assert counts[[4, 8, 16, 32]] == pytest.approx(np.full(4, 500), abs=80)
    assert counts.sum() == counts[[4, 8, 16, 32]].sum()


def test_operations_have_the_types_of_the_contract() -> None:
    one = np.ones(1)
    assert color_operations.sharpness(one).factor.dtype == np.float32
    assert isinstance(color_operations.sharpness(one), Sharpen)
    assert color_operations.hue(one).turns.dtype == np.float32
    assert color_operations.contrast(one, per_frame=False).factor.dtype == np.float32
    matrix: npt.NDArray[Any] = color_operations.grayscale().matrix
    assert (matrix.dtype, matrix.shape) == (np.float32, (1, 3, 4))
    table: npt.NDArray[Any] = color_operations.invert().values
    assert (table.dtype, table.shape) == (np.uint8, (1, 3, 256))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Brightness(-0.1), r"Brightness's factor must be at least 0, .*got -0.1"),
        (lambda: Brightness((1.2, 0.8)), r"Brightness's factor"),
        (lambda: Contrast(float("nan")), r"Contrast's factor"),
        (lambda: Saturation((-1, 1)), r"Saturation's factor"),
        (lambda: Hue(0.6), r"Hue's turns must be in \[-0.5, 0.5\], .*got 0.6"),
        (lambda: ColorJitter(brightness=-1), r"ColorJitter's brightness"),
        (lambda: ColorJitter(contrast=(-0.1, 1)), r"ColorJitter's contrast"),
        (lambda: ColorJitter(saturation=(2, 1)), r"ColorJitter's saturation"),
        (lambda: ColorJitter(hue=0.7), r"ColorJitter's hue must be in \[0, 0.5\], .*got 0.7"),
        (lambda: ColorJitter(hue=-0.1), r"ColorJitter's hue"),
        (lambda: ColorJitter(hue=(-0.6, 0)), r"ColorJitter's hue"),
        (lambda: RandomGrayscale(1.1), r"RandomGrayscale's p must be a number in \[0, 1\], got 1.1"),
        (lambda: Gamma(-1), r"Gamma's gamma"),
        (lambda: Gamma(1, gain=-1), r"Gamma's gain"),
        (lambda: Posterize(9), r"Posterize's bits must be in \[0, 8\], .*got 9"),
        (lambda: Posterize((-1, 4)), r"Posterize's bits"),
        (lambda: Solarize(257), r"Solarize's threshold"),
        (lambda: SolarizeAdd(300), r"SolarizeAdd's addend"),
        (lambda: SolarizeAdd(10, threshold=-1), r"SolarizeAdd's threshold"),
        (lambda: Sharpness(RandomWalk(-1, 1, 0.1)), r"Sharpness's factor"),
    ],
)
def test_bad_parameters_are_refused_by_name_and_range(make: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        make()
