"""Which clips get which transforms, and in which order."""

from __future__ import annotations

import pickle
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from chi_square import fits

from videoloader.errors import ConfigurationError
from videoloader.transforms.choice import RandomApply, RandomChoice, RandomOrder, When, draw_all
from videoloader.transforms.color import Brightness, Contrast, Hue
from videoloader.transforms.geometry.warp_matrices import translation
from videoloader.transforms.operations import ClipInfo, HueShift, PixelTransform, StatisticTable, Table, Warp
from videoloader.transforms.tone import Invert, Solarize

CLIP = ClipInfo(4, 20, 30, label=3, columns={"night": True})
B, C, H = Brightness(0.5), Contrast(0.5), Hue(0.1)
LETTERS = {Table: "b", StatisticTable: "c", HueShift: "h"}


def words(transform: PixelTransform, times: int, seed: int = 0) -> list[str]:
    """What is drawn for many clips, a letter for each operation."""
    rng = np.random.default_rng(seed)
    return ["".join(LETTERS[type(each)] for each in transform.draw(rng, CLIP)) for _ in range(times)]  # type: ignore[index]


def counts(drawn: list[str], *possible: str) -> list[int]:
    assert set(drawn) <= set(possible)
    return [drawn.count(each) for each in possible]


@pytest.mark.parametrize("p", [0.2, 0.5, 0.9])
def test_transforms_are_applied_together_with_their_probability(p: float) -> None:
    drawn = words(RandomApply([B, C], p), 2000)
    assert fits(counts(drawn, "bc", ""), [p, 1 - p])


def test_certain_probabilities_are_certain() -> None:
    assert set(words(RandomApply(B, 1), 200)) == {"b"}
    assert set(words(RandomApply(B, 0), 200)) == {""}
    assert set(words(RandomChoice([B, C, H], p=[0, 1, 0]), 200)) == {"c"}


def test_choices_are_equally_likely_or_as_weighted() -> None:
    assert fits(counts(words(RandomChoice([B, C, []]), 3000), "b", "c", ""), [1, 1, 1])
    assert fits(counts(words(RandomChoice([B, [C, H], []], p=[1, 2, 5]), 3000), "b", "ch", ""), [1, 2, 5])


def test_all_orders_are_equally_likely() -> None:
    orders = ["".join(order) for order in permutations("bch")]
    assert fits(counts(words(RandomOrder([B, C, H]), 3000), *orders), [1] * 6)
    assert fits(counts(words(RandomOrder([[B, C], H]), 1000), "bch", "hbc"), [1, 1])


def test_nested_choices_multiply() -> None:
    inner = RandomChoice([B, RandomApply(C, 0.5)])
    drawn = words(RandomApply([inner, H], 0.8), 4000)
    assert fits(counts(drawn, "bh", "ch", "h", ""), [0.4, 0.2, 0.2, 0.2])


def test_a_predicate_decides_by_the_clip() -> None:
    rng = np.random.default_rng(0)
    transform = When(lambda clip: clip.height > 10 and clip.columns["night"], B, otherwise=[C, H])
    assert [type(each) for each in transform.draw(rng, CLIP)] == [Table]
    assert [type(each) for each in transform.draw(rng, CLIP._replace(height=5))] == [StatisticTable, HueShift]
    assert When(lambda clip: clip.label == 4, B).draw(rng, CLIP) == []
    with pytest.raises(ConfigurationError, match="When's predicate gives '0', which Python takes for True"):
        When(lambda clip: clip.columns["night"], B).draw(rng, CLIP._replace(columns={"night": "0"}))


class Halve(PixelTransform):
    """A warp to half the size."""

    def draw(self, rng: np.random.Generator, clip: ClipInfo) -> list[Warp]:
        return [Warp(translation(0, 0), (clip.height // 2, clip.width // 2), "nearest", (0, 0, 0))]


def test_transforms_see_the_size_that_the_ones_before_leave() -> None:
    seen: list[tuple[int, int]] = []

    def note(clip: ClipInfo) -> bool:
        seen.append((clip.height, clip.width))
        return True

    draw_all([Halve(), When(note, Halve()), When(note, B)], np.random.default_rng(0), CLIP)
    assert seen == [(10, 15), (5, 7)]


def test_a_clip_does_not_depend_on_others() -> None:
    transform = RandomOrder([RandomApply(B), RandomChoice([Brightness((0.5, 1.5)), C]), H])
    alone = pickle.dumps(transform.draw(np.random.default_rng(7), CLIP))
    for seed in range(5):
        transform.draw(np.random.default_rng(seed), CLIP)
    assert pickle.dumps(transform.draw(np.random.default_rng(7), CLIP)) == alone


def is_long(clip: ClipInfo) -> bool:
    return clip.length > 3


@pytest.mark.parametrize(
    "transform",
    [RandomApply([B, C], 0.3), RandomChoice([B, [C, H]], p=[1, 2]), RandomOrder([B, C]), When(is_long, [B], C)],
)
def test_choices_can_be_pickled_compared_and_hashed(transform: PixelTransform) -> None:
    copy = pickle.loads(pickle.dumps(transform))
    assert copy == transform
    assert hash(copy) == hash(transform)
    assert words(copy, 50, 3) == words(transform, 50, 3)


def test_lists_that_change_later_change_nothing() -> None:
    steps: list[PixelTransform] = [B]
    transform = RandomApply(steps, 1)
    steps.append(C)
    assert words(transform, 1) == ["b"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RandomApply(B, 1.5), r"RandomApply's p must be a number in \[0, 1\], got 1.5"),
        (lambda: RandomApply(B, float("nan")), r"RandomApply's p"),
        (lambda: RandomApply(B, "0.5"), r"RandomApply's p"),
        (lambda: RandomApply([B, "invert"]), r"each of RandomApply.s transforms must be .*, got 'invert'"),
        (lambda: RandomApply((B, 3)), r"each of RandomApply's transforms must be .*, got 3"),
        (lambda: RandomChoice([]), r"RandomChoice's transforms"),
        (lambda: RandomChoice(B), r"RandomChoice's transforms"),
        (lambda: RandomChoice([B, C], p=[1]), r"RandomChoice's p must be 2 finite weights .*, got \(1,\)"),
        (lambda: RandomChoice([B, C], p=[1, -1]), r"RandomChoice's p"),
        (lambda: RandomChoice([B, C], p=0.5), r"RandomChoice's p"),
        (lambda: RandomChoice([B, C], p=["1", 1]), r"RandomChoice's p"),
        (lambda: RandomChoice([B, C], p=[0, 0]), r"RandomChoice's p"),
        (lambda: RandomChoice([B, C], p=[1, float("inf")]), r"RandomChoice's p"),
        (lambda: RandomOrder([]), r"RandomOrder's transforms"),
        (lambda: RandomOrder([B, None]), r"each of RandomOrder.s transforms must be"),
        (lambda: When(True, B), r"When's predicate must be .*, got True"),
        (lambda: When(is_long, 3), r"each of When.s transforms must be"),
        (lambda: When(is_long, B, otherwise=[Solarize(), Invert]), r"each of When.s transforms must be"),
    ],
)
def test_bad_parameters_are_refused_by_name(make: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        make()
