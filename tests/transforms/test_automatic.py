"""Automatic policies: magnitudes by the published formulas, frequencies, pixels, and what is refused."""

from __future__ import annotations

import math
import pickle
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chi_square import fits
from plain_operations import Frames, carry_out

from videoloader.errors import ConfigurationError
from videoloader.transforms.augmentation import augmentation
from videoloader.transforms.automatic import AutoAugment, RandAugment, TrivialAugmentWide
from videoloader.transforms.automatic_operations import GEOMETRIC, warps
from videoloader.transforms.operations import (
    ClipInfo,
    ColorMatrix,
    Operation,
    PixelTransform,
    Sharpen,
    StatisticTable,
    Table,
    Warp,
)
from videoloader.transforms.policies import DEFAULT_OPERATIONS, POLICIES, RAND_AUGMENT

REFERENCES: Mapping[str, Frames] = np.load(Path(__file__).with_name("references") / "color.npz")
WARPED = [name for name in REFERENCES if name != "picture" and name.split()[1] in GEOMETRIC]
CLIP = ClipInfo(4, 112, 224)
LEVELS = np.arange(256)


def parameters(name: str, operation: Operation) -> Any:
    """The number with which an operation of that name was made, read from what it does."""
    if isinstance(operation, Warp):
        matrix = operation.matrix[0]
        if name == "rotate":
            assert matrix @ (112, 56, 1) == pytest.approx([112, 56, 1])  # about the middle
            return math.degrees(math.atan2(matrix[1, 0], matrix[0, 0]))
        row, column = {"shear_x": (0, 1), "shear_y": (1, 0), "translate_x": (0, 2), "translate_y": (1, 2)}[name]
        expected = np.eye(3)
        expected[row, column] = matrix[row, column]
        assert (matrix == expected).all()  # shears about the corner, and nothing else
        return matrix[row, column] if name.startswith("shear") else -matrix[row, column]
    if isinstance(operation, StatisticTable):
        assert operation.statistic == name
        assert not operation.per_frame
        return float(operation.factor[0]) - 1 if name == "contrast" else None
    if isinstance(operation, Sharpen):
        assert name == "sharpness"
        return float(operation.factor[0]) - 1
    if isinstance(operation, ColorMatrix):
        assert name == "color"
        return float(operation.matrix[0, 0, 0] - operation.matrix[0, 1, 0]) - 1
    assert isinstance(operation, Table)
    table = operation.values[0, 0].astype(int)
    assert (operation.values == operation.values[0, 0]).all()
    if name == "brightness":
        return table[100] / 100 - 1
    if name == "posterize":
        return math.log2(len(np.unique(table)))
    if name == "solarize":
        same = table == LEVELS
        assert (table == np.where(same, LEVELS, 255 - LEVELS)).all()
        return int(same.sum())  # values below the threshold stay
    if name == "solarize_add":
        return table[0]
    assert name == "invert"
    assert (table == 255 - LEVELS).all()
    return None


def magnitudes(transform: PixelTransform, name: str, seeds: int = 12) -> set[Any]:
    """All magnitudes that come up in some clips."""
    found = set()
    for seed in range(seeds):
        for operation in transform.draw(np.random.default_rng(seed), CLIP):
            value = parameters(name, operation)
            found.add(value if value is None else round(float(value), 5))
    return found


SIGNED = {
    "shear_x": 0.3,
    "shear_y": 0.3,
    "rotate": 30,
    "translate_x": 100 / 224 * 224,
    "translate_y": 100 / 224 * 112,
    "color": 0.9,
    "contrast": 0.9,
    "sharpness": 0.9,
}
WIDE = {
    **dict.fromkeys(("shear_x", "shear_y", "color", "contrast", "sharpness"), 0.99),
    "rotate": 135,
    "translate_x": 32,
    "translate_y": 32,
}


@pytest.mark.parametrize("m", [1, 9, 15, 30])
def test_rand_augment_has_the_published_magnitudes(m: int) -> None:
    def at(name: str) -> set[Any]:
        return magnitudes(RandAugment(2, m, operations=[name]), name)

    share = m / 30
    for name, largest in SIGNED.items():
        expected = largest * share
        assert sorted(at(name)) == pytest.approx([-expected, expected], abs=1e-4), name
    assert sorted(at("brightness")) == pytest.approx([-0.9 * share, 0.9 * share], abs=0.005)
    assert at("posterize") == {round(8 - 4 * share)}
    assert at("solarize") == {math.ceil(256 - 256 * share)}
    assert at("solarize_add") == {math.floor(110 * share + 0.5)}


def test_magnitudes_in_the_first_bin_change_nothing() -> None:
    picture = REFERENCES["picture"][None]
    for name in RAND_AUGMENT:
        if name in ("auto_contrast", "equalize", "invert"):
            continue
        for seed in range(2):
            operations = RandAugment(1, 0, operations=[name]).draw(np.random.default_rng(seed), ClipInfo(1, 16, 22))
            assert (carry_out(operations, picture) == picture).all(), name


@pytest.mark.parametrize("m", [0, 4, 15, 26, 30])
def test_rand_augment_that_is_not_monotonic_has_the_magnitudes_of_the_authors_code(m: int) -> None:
    def at(name: str) -> set[Any]:
        return magnitudes(RandAugment(2, m, monotonic=False, operations=[name]), name)

    for name in ("color", "contrast", "sharpness"):
        assert list(at(name)) == pytest.approx([0.1 + 1.8 * m / 30 - 1], abs=1e-4), name
    assert list(at("brightness")) == pytest.approx([0.1 + 1.8 * m / 30 - 1], abs=0.005)
    assert at("posterize") == {max(round(4 * m / 30), 1)}
    assert at("solarize") == {math.ceil(256 * m / 30)}
    assert sorted(at("rotate")) == pytest.approx(sorted({-30 * m / 30, 30 * m / 30}))


def test_trivial_augment_draws_all_published_magnitudes() -> None:
    def at(name: str) -> list[Any]:
        return sorted(magnitudes(TrivialAugmentWide(bins=4, operations=[name]), name, 150))

    for name, largest in WIDE.items():
        shares = np.array([-1, -2 / 3, -1 / 3, 0, 1 / 3, 2 / 3, 1])
        assert at(name) == pytest.approx(largest * shares, abs=1e-4), name
    assert at("posterize") == [2, 4, 6, 8]
    assert at("solarize") == [0, 86, 171, 256]
    assert at("solarize_add") == [0, 37, 73, 110]


def named(operations: Sequence[Operation]) -> str:
    """The name of the one operation of ``RandAugment(1, 15)``; all of them differ there."""
    if not operations:
        return "identity"
    (operation,) = operations
    for name in RAND_AUGMENT:
        for seed in range(8):
            drawn = RandAugment(1, 15, operations=[name]).draw(np.random.default_rng(seed), CLIP)
            if drawn and pickle.dumps(drawn[0]) == pickle.dumps(operation):
                return name
    raise AssertionError(operation)


def test_rand_augment_draws_the_14_operations_of_the_paper_evenly() -> None:
    assert len(DEFAULT_OPERATIONS) == 14
    rng = np.random.default_rng(1)
    names: dict[bytes, str] = {}
    counts: Counter[str] = Counter()
    for _ in range(2800):
        operations = RandAugment(1, 15).draw(rng, CLIP)
        key = pickle.dumps(operations)
        names.setdefault(key, "")
        names[key] = names[key] or named(operations)
        counts[names[key]] += 1
    assert set(counts) == set(DEFAULT_OPERATIONS)
    assert fits(list(counts.values()), [1] * 14)


def test_the_operations_of_a_clip_are_drawn_independently() -> None:
    rng = np.random.default_rng(2)
    pairs: Counter[tuple[type, ...]] = Counter()
    transform = RandAugment(2, 15, operations=["invert", "equalize", "color"])
    for _ in range(1800):
        pairs[tuple(type(each) for each in transform.draw(rng, CLIP))] += 1
    assert len(pairs) == 9
    assert fits(list(pairs.values()), [1] * 9)


@pytest.mark.parametrize("name", ["rotate", "shear_x", "shear_y", "translate_x", "translate_y", "color", "contrast"])
def test_signs_are_drawn_evenly(name: str) -> None:
    rng = np.random.default_rng(3)
    transform = RandAugment(1, 15, operations=[name])
    positive = sum(parameters(name, transform.draw(rng, CLIP)[0]) > 0 for _ in range(1000))
    assert fits([positive, 1000 - positive], [1, 1])


def test_trivial_augment_draws_operations_and_magnitudes_evenly() -> None:
    rng = np.random.default_rng(4)
    transform = TrivialAugmentWide(bins=10, operations=["solarize_add"])
    counts = Counter(pickle.dumps(transform.draw(rng, CLIP)) for _ in range(3000))
    assert len(counts) == 10
    assert fits(list(counts.values()), [1] * 10)
    identities = sum(not TrivialAugmentWide().draw(rng, CLIP) for _ in range(2800))
    assert fits([identities, 2800 - identities], [1, 13])


@pytest.mark.parametrize("policy", POLICIES)
def test_sub_policies_are_drawn_evenly_with_their_probabilities(policy: str) -> None:
    marks: list[Any] = []

    def mark(p: float) -> tuple[Any, float, None]:
        marks.append(augmentation()(lambda frames, params: frames))
        return marks[-1], p, None

    marked = [[mark(p) for _, p, _ in row] for row in POLICIES[policy]]
    expected = {}
    for row in marked:
        for carried_out in product((True, False), repeat=len(row)):
            chance = math.prod(p if done else 1 - p for (_, p, _), done in zip(row, carried_out, strict=True))
            names = tuple(marks.index(each) for (each, _, _), done in zip(row, carried_out, strict=True) if done)
            if chance:
                expected[names] = expected.get(names, 0) + chance / 25
    transform, rng = AutoAugment(marked), np.random.default_rng(5)
    counts = Counter(tuple(marks.index(each.function) for each in transform.draw(rng, CLIP)) for _ in range(20000))  # type: ignore[union-attr]
    assert set(counts) <= set(expected)
    assert fits([counts[names] for names in expected], list(expected.values()))


@pytest.mark.parametrize("policy", POLICIES)
def test_a_named_policy_is_its_table(policy: str) -> None:
    assert len(POLICIES[policy]) == 25
    for seed in range(100):
        by_name, by_table = (
            AutoAugment(each).draw(np.random.default_rng(seed), CLIP) for each in (policy, POLICIES[policy])
        )
        assert pickle.dumps(by_name) == pickle.dumps(by_table)


def test_auto_augment_has_11_magnitudes_of_the_authors_ranges() -> None:
    def at(name: str, place: int, monotonic: bool = False) -> list[Any]:
        return sorted(magnitudes(AutoAugment([[(name, 1, place)]], monotonic=monotonic), name))

    assert at("rotate", 9) == pytest.approx([-27, 27])
    assert at("shear_x", 4) == pytest.approx([-0.12, 0.12])
    assert at("translate_y", 9) == pytest.approx([-45, 45])
    assert at("color", 0) == pytest.approx([-0.9])
    assert at("color", 9) == pytest.approx([0.72])
    assert at("posterize", 6) == [2]
    assert at("posterize", 0) == [1]  # and not 0, which would be black
    assert at("solarize", 3) == [77]
    assert at("solarize_add", 7) == [77]
    assert at("color", 9, monotonic=True) == pytest.approx([-0.81, 0.81])
    assert at("posterize", 5, monotonic=True) == [6]
    assert at("solarize", 10, monotonic=True) == [0]


@pytest.mark.parametrize("name", WARPED)
def test_warps_are_torchvisions(name: str) -> None:
    _, kind, number = name.split()
    (operation,) = warps(kind, float(number), (16, 22), "bilinear", (0, 0, 0))
    got = carry_out([operation], REFERENCES["picture"][None])[0]
    assert np.abs(got.astype(int) - REFERENCES[name]).max() <= 1


@pytest.mark.parametrize(
    "transform",
    [RandAugment(3, 20), RandAugment(2, 25, monotonic=False), TrivialAugmentWide(), *map(AutoAugment, POLICIES)],
)
def test_a_static_clip_stays_static_and_keeps_its_shape(transform: PixelTransform) -> None:
    clip = np.repeat(REFERENCES["picture"][None], 3, axis=0)
    changed = 0
    for seed in range(12):
        after = carry_out(transform.draw(np.random.default_rng(seed), ClipInfo(3, 16, 22)), clip)
        assert after.shape == clip.shape
        assert (after == after[:1]).all()
        changed += bool((after != clip).any())
    assert changed > 6


def test_translations_follow_the_size_of_the_frames() -> None:
    for clip, expected in ((ClipInfo(1, 100, 300), 300), (ClipInfo(1, 50, 30), 30)):
        (warp,) = RandAugment(1, 30, operations=["translate_x"]).draw(np.random.default_rng(0), clip)
        assert isinstance(warp, Warp)
        assert abs(warp.matrix[0, 0, 2]) == pytest.approx(expected * 100 / 224)
        assert warp.size == (clip.height, clip.width)


def test_warps_have_the_interpolation_and_fill_asked_for() -> None:
    transform = RandAugment(1, 9, operations=["rotate"], interpolation="bicubic", fill=(1, 2, 3))
    (warp,) = transform.draw(np.random.default_rng(0), CLIP)
    assert isinstance(warp, Warp)
    assert (warp.interpolation, warp.fill) == ("bicubic", (1, 2, 3))
    (warp,) = AutoAugment([[("shear_x", 1, 5)]], fill=7).draw(np.random.default_rng(0), CLIP)
    assert isinstance(warp, Warp)
    assert (warp.interpolation, warp.fill) == ("bilinear", (7, 7, 7))


def test_auto_augment_leaves_out_operations_that_are_not_allowed() -> None:
    transform = AutoAugment("image_net", operations=["equalize", "auto_contrast"])
    drawn = [each for seed in range(200) for each in transform.draw(np.random.default_rng(seed), CLIP)]
    assert {each.statistic for each in drawn if isinstance(each, StatisticTable)} == {"equalize", "auto_contrast"}
    assert all(isinstance(each, StatisticTable) for each in drawn)


def test_operations_may_have_magnitudes_of_their_own() -> None:
    own = {"rotate": (-10, 10), "posterize": [8, 6], "solarize": None}
    assert RandAugment(operations=own) == RandAugment(
        operations=[("rotate", (-10, 10)), ("posterize", (8, 6)), "solarize"]
    )
    assert hash(RandAugment(operations=own)) is not None
    assert magnitudes(RandAugment(2, 30, operations={"rotate": (-10, 10)}), "rotate") == {-10, 10}
    assert magnitudes(RandAugment(2, 15, operations={"rotate": (0, 10)}), "rotate") == {-5, 5}
    assert magnitudes(RandAugment(2, 15, operations={"rotate": (-10, 20)}), "rotate") == {5}
    assert magnitudes(RandAugment(2, 30, operations={"posterize": (8, 6)}), "posterize") == {6}
    wide = TrivialAugmentWide(bins=3, operations={"rotate": (-10, 20)})
    assert magnitudes(wide, "rotate", 100) == {-10, 5, 20}
    assert magnitudes(RandAugment(2, 30, operations={"solarize": None}), "solarize") == {0}


def test_a_policy_may_have_magnitudes_of_its_own() -> None:
    policy = [[("rotate", 1.0, 10), ("invert", 1.0, None), ("solarize", 1.0, 10)]]
    transform = AutoAugment(policy, operations={"rotate": (0, 5), "solarize": None})
    clip = ClipInfo(1, 20, 30)
    for seed in range(9):
        turn, table = transform.draw(np.random.default_rng(seed), clip)
        (default, _, _) = AutoAugment(policy).draw(np.random.default_rng(seed), clip)
        angle, whole = (float(np.degrees(np.arcsin(each.matrix[0, 1, 0]))) for each in (turn, default))
        assert angle == pytest.approx(whole / 6)
        assert isinstance(table, Table)


def test_no_operations_are_no_operations() -> None:
    assert RandAugment(0).draw(np.random.default_rng(0), CLIP) == []


@pytest.mark.parametrize(
    "transform",
    [
        RandAugment(2, 9, operations=["rotate", "invert"], fill=(1, 2, 3)),
        TrivialAugmentWide(bins=7),
        AutoAugment("svhn", monotonic=True),
        AutoAugment([[("rotate", 0.5, 3)], [("invert", 1, None), ("equalize", 0.2, None)]]),
    ],
)
def test_policies_can_be_pickled_compared_and_hashed_and_repeat_what_they_draw(transform: PixelTransform) -> None:
    copy = pickle.loads(pickle.dumps(transform))
    assert copy == transform
    assert hash(copy) == hash(transform)
    for seed in range(10):
        first, again = (pickle.dumps(each.draw(np.random.default_rng(seed), CLIP)) for each in (transform, copy))
        assert first == again


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RandAugment(-1), r"RandAugment's n must be an integer of at least 0, got -1"),
        (lambda: RandAugment(1.5), r"RandAugment's n"),  # type: ignore[arg-type]
        (lambda: RandAugment(2, 31), r"RandAugment's m must be an integer in \[0, 30\], got 31"),
        (lambda: RandAugment(2, 5, bins=5), r"RandAugment's m"),
        (lambda: RandAugment(2, True), r"RandAugment's m"),
        (lambda: RandAugment(2, 0, bins=0), r"RandAugment's bins"),
        (
            lambda: RandAugment(operations=["rotate", "blur"]),
            r"one of RandAugment's operations must be one of auto.*, got 'blur'",
        ),
        (lambda: RandAugment(operations=[]), r"RandAugment's operations"),
        (lambda: RandAugment(operations={}), r"RandAugment's operations must be a list of at least one, got \{\}"),
        (lambda: RandAugment(operations=3), r"RandAugment's operations must be a list of at least one, got 3"),  # type: ignore[arg-type]
        (
            lambda: RandAugment(operations={"rotate": 10}),  # type: ignore[dict-item]
            r"RandAugment's rotate must be two numbers in \[-360, 360\], degrees, got 10",
        ),
        (
            lambda: RandAugment(operations={"brightness": (0.5, 1.5)}),
            r"RandAugment's brightness must be two numbers in \[-1, 1\], added to the factor 1, got \(0.5, 1.5\)",
        ),
        (
            lambda: RandAugment(operations={"translate_x": (0, 32)}),
            r"translate_x must be two numbers in \[-1, 1\], shares of the width, got \(0, 32\)",
        ),
        (lambda: RandAugment(operations={"posterize": (9, 4)}), r"posterize must be two numbers in \[0, 8\], bits"),
        (
            lambda: TrivialAugmentWide(operations={"equalize": (0, 1)}),
            r"TrivialAugmentWide's equalize has no magnitudes, so it cannot have \(0, 1\): write None",
        ),
        (lambda: RandAugment(operations="rotate"), r"RandAugment's operations must be a list .*, got 'rotate'"),
        (lambda: RandAugment(interpolation="lanczos"), r"interpolation"),  # type: ignore[arg-type]
        (lambda: RandAugment(fill=300), r"fill"),
        (lambda: TrivialAugmentWide(bins=0), r"TrivialAugmentWide's bins"),
        (lambda: TrivialAugmentWide(operations=[3]), r"TrivialAugmentWide's operations must be .*, got 3"),  # type: ignore[list-item]
        (
            lambda: AutoAugment("imagenet"),
            r"AutoAugment's policy must be one of image_net, reduced_image_net.*, got 'imagenet'",
        ),
        (lambda: AutoAugment([]), r"AutoAugment's policy"),
        (lambda: AutoAugment([["rotate"]]), r"AutoAugment's policy"),  # type: ignore[list-item]
        (lambda: AutoAugment(None), r"AutoAugment's policy"),  # type: ignore[arg-type]
        (lambda: AutoAugment([[("rotate", 1.5, 3)]]), r"the probability of rotate .* must be .* \[0, 1\], got 1.5"),
        (lambda: AutoAugment([[("rotate", 0.5, 11)]]), r"the bin of rotate .* must be an integer in \[0, 10\], got 11"),
        (lambda: AutoAugment([[("rotate", 0.5, None)]]), r"the bin of rotate .* must be an integer .*, got None"),
        (lambda: AutoAugment([[("invert", 0.5, 3)]]), r"invert .* has no magnitude"),
        (lambda: AutoAugment([[("blur", 0.5, 3)]]), r"must be one of .*, got 'blur'"),
    ],
)
def test_bad_parameters_are_refused_by_name_and_range(make: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        make()
