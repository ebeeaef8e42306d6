"""MixUp, CutMix, VideoMix and MixChoice: pixels and labels against their plain definitions."""

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from example_count import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from videoloader.errors import ConfigurationError, NoMemoryError
from videoloader.transforms import mixing
from videoloader.transforms.mixing import CutMix, Layout, MixChoice, Mixing, MixUp, VideoMix

LAYOUTS: list[Layout] = ["TCHW", "CTHW", "THWC"]
DTYPES = [torch.uint8, torch.float16, torch.bfloat16, torch.float32]
CUTS = ["spatial", "temporal", "spatio_temporal"]
SIZES = {"T": 6, "C": 3, "H": 14, "W": 11}
LABELS = np.array([4, 0, 4, 2])
EVERY_KIND: list[Mixing] = [MixUp(1.0, 5), CutMix(1.0, 5), *(VideoMix(1.0, 5, cut=cut) for cut in CUTS)]  # type: ignore[arg-type]


def clips(layout: Layout, dtype: torch.dtype, count: int = 4) -> torch.Tensor:
    shape = (count, *(SIZES[axis] for axis in layout))
    values = torch.randint(0, 256, shape, generator=torch.Generator().manual_seed(1), dtype=torch.uint8)
    return values if dtype == torch.uint8 else (values / 255).to(dtype)


def as_tchw(frames: torch.Tensor, layout: Layout) -> torch.Tensor:
    return frames.permute(0, *(1 + layout.index(axis) for axis in "TCHW"))


def expected_labels(labels: npt.NDArray[np.int64], share: float, classes: int, smoothing: float) -> Any:
    hot = np.eye(classes)[labels] * (1 - smoothing) + smoothing / classes
    return share * hot + (1 - share) * np.roll(hot, 1, axis=0)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_mixup_blends_each_clip_with_the_one_before(layout: Layout, dtype: torch.dtype, smoothing: float) -> None:
    frames = clips(layout, dtype)
    mixed, soft = MixUp(0.8, 5, label_smoothing=smoothing).mix(frames.clone(), LABELS, layout, np.random.default_rng(3))
    rng = np.random.default_rng(3)
    rng.random()
    share = rng.beta(0.8, 0.8)
    expected = share * frames.double() + (1 - share) * frames.double().roll(1, 0)
    assert mixed.dtype == dtype
    if dtype == torch.uint8:
        assert (mixed.double() - expected).abs().max() <= 0.5 + 1e-4
    else:
        assert (mixed.double() - expected).abs().max() <= torch.finfo(dtype).eps
    assert soft.dtype == torch.float32
    assert np.abs(soft.numpy() - expected_labels(LABELS, share, 5, smoothing)).max() < 1e-6


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("cut", CUTS)
def test_a_cut_shows_the_clip_before_in_one_box_and_labels_follow_its_volume(
    layout: Layout, dtype: torch.dtype, cut: Any
) -> None:
    frames = clips(layout, dtype)
    # Values that tell which clip they are of, whatever their type.
    frames.copy_(torch.arange(4).view(-1, 1, 1, 1, 1).expand_as(frames))
    seen = set()
    for seed in range(30):
        mixed, soft = VideoMix(1.0, 5, cut=cut).mix(frames.clone(), LABELS, layout, np.random.default_rng(seed))
        whose = as_tchw(mixed, layout)
        other = whose != as_tchw(frames, layout)
        if other.any():
            assert (whose.roll(-1, 0)[other.roll(-1, 0)] == as_tchw(frames, layout)[other.roll(-1, 0)]).all()
            spans = [other.any(dim=tuple({0, 1, 2, 3, 4} - {axis})).nonzero().ravel() for axis in range(5)]
            box = torch.zeros_like(other)
            first, last = ([int(span[end]) for span in spans] for end in (0, -1))
            box[tuple(slice(a, b + 1) for a, b in zip(first, last, strict=True))] = True
            assert torch.equal(box, other)  # a cuboid, in all clips and channels the same
            whole = [last[axis] - first[axis] + 1 == other.shape[axis] for axis in range(5)]
            assert whole[0]
            assert whole[2]
            assert whole[1] or cut != "spatial"
            assert (whole[3] and whole[4]) or cut != "temporal"
            seen.add(tuple(whole))
        share = 1 - other.double().mean().item()
        assert np.abs(soft.numpy() - expected_labels(LABELS, share, 5, 0)).max() < 1e-6
    assert len(seen) > 1


@pytest.mark.parametrize("seed", range(10))
def test_cutmix_is_videomix_in_space(seed: int) -> None:
    results = [
        step.mix(clips("CTHW", torch.float32), LABELS, "CTHW", np.random.default_rng(seed))
        for step in (CutMix(0.7, 9, 0.8, label_smoothing=0.2), VideoMix(0.7, 9, 0.8, "spatial", label_smoothing=0.2))
    ]
    assert torch.equal(results[0][0], results[1][0])
    assert torch.equal(results[0][1], results[1][1])


@pytest.mark.parametrize("cut", CUTS)
def test_a_cut_away_from_the_borders_has_the_drawn_volume(cut: Any) -> None:
    frames = torch.arange(2, dtype=torch.uint8).view(-1, 1, 1, 1, 1).repeat(1, 41, 1, 43, 47)
    cut_axes = {"spatial": (1, 2), "temporal": (0,), "spatio_temporal": (0, 1, 2)}[cut]
    for seed in range(200):
        share, mixed = np.random.default_rng(seed).random(), frames.clone()
        kept = mixing._cut_in(mixed, "TCHW", np.random.default_rng(seed + 1000), share, cut)
        other = (mixed != frames)[0, :, 0]
        assert kept == pytest.approx(1 - other.double().mean().item())
        for axis, size in enumerate(other.shape if other.any() else ()):
            shown = other.any(dim=tuple({0, 1, 2} - {axis})).nonzero().ravel().tolist()
            start, stop = shown[0], shown[-1] + 1
            if axis not in cut_axes:
                assert (start, stop) == (0, size)
            elif start > 0 and stop < size:
                assert abs((stop - start) - size * (1 - share) ** (1 / len(cut_axes))) <= 0.5


@settings(max_examples=examples(40))
@given(
    st.sampled_from(["mixup", "cutmix", *CUTS]),
    st.floats(0.05, 5),
    st.floats(0, 1),
    st.floats(0, 0.9),
    st.lists(st.integers(0, 6), min_size=1, max_size=5),
    st.integers(0, 2**32),
)
def test_labels_sum_to_one_and_frames_stay_in_range(
    kind: str, alpha: float, p: float, smoothing: float, labels: list[int], seed: int
) -> None:
    makers: dict[str, Any] = {"mixup": MixUp, "cutmix": CutMix}
    step = (
        makers[kind](alpha, 7, p, label_smoothing=smoothing)
        if kind in makers
        else VideoMix(alpha, 7, p, kind, label_smoothing=smoothing)  # type: ignore[arg-type]
    )
    frames = clips("TCHW", torch.float32, len(labels))
    mixed, soft = step.mix(frames.clone(), labels, "TCHW", np.random.default_rng(seed))
    assert soft.shape == (len(labels), 7)
    assert (soft >= 0).all()
    assert torch.allclose(soft.sum(1), torch.ones(len(labels)), atol=1e-5)
    assert mixed.min() >= 0
    assert mixed.max() <= 1 + 1e-6
    if len(labels) == 1:
        assert torch.allclose(mixed, frames)


@pytest.mark.parametrize("step", EVERY_KIND)
def test_frames_are_changed_in_place_and_depend_on_the_seed_alone(step: Mixing) -> None:
    frames = clips("THWC", torch.uint8)
    before = frames.clone()
    mixed, soft = step.mix(frames, LABELS, "THWC", np.random.default_rng(8))
    assert mixed is frames
    assert not torch.equal(mixed, before)
    again = pickle.loads(pickle.dumps(step))
    assert again == step
    other, labels = again.mix(before, LABELS, "THWC", np.random.default_rng(8))
    assert torch.equal(other, mixed)
    assert torch.equal(labels, soft)


@pytest.mark.parametrize("step", EVERY_KIND)
def test_a_static_clip_stays_static_but_for_cuts_in_time(step: Mixing) -> None:
    frames = clips("TCHW", torch.uint8)[:, :1].expand(-1, 6, -1, -1, -1).clone()
    mixed, _ = step.mix(frames, LABELS, "TCHW", np.random.default_rng(0))
    in_time = isinstance(step, VideoMix) and step.cut != "spatial"
    assert torch.equal(mixed, mixed[:, :1].expand_as(mixed)) != in_time


@pytest.mark.parametrize("p", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("make", [MixUp, CutMix, VideoMix])
def test_batches_are_mixed_with_that_probability(make: Any, p: float) -> None:
    rng, step = np.random.default_rng(0), make(1.0, 5, p)
    soft = [step.mix(torch.zeros(2, 1, 3, 9, 9), [0, 1], "TCHW", rng)[1] for _ in range(600)]
    left = sum(torch.equal(each, torch.eye(2, 5)) for each in soft)
    assert abs(left - 600 * (1 - p)) < 60


def test_lambda_is_beta_distributed() -> None:
    rng, step = np.random.default_rng(0), MixUp(0.4, 2)
    shares = np.array([step.mix(torch.zeros(2, 1), [0, 1], "TCHW", rng)[1][0, 0].item() for _ in range(2000)])
    assert abs(shares.mean() - 0.5) < 0.03
    assert abs(shares.var() - 1 / (4 * (2 * 0.4 + 1))) < 0.01


def test_batches_in_parts_are_mixed_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    frames = clips("TCHW", torch.uint8)
    whole, _ = MixUp(1.0, 5).mix(frames.clone(), LABELS, "TCHW", np.random.default_rng(1))
    monkeypatch.setattr(mixing, "_PART", 3 * frames[0].numel())
    assert torch.equal(MixUp(1.0, 5).mix(frames, LABELS, "TCHW", np.random.default_rng(1))[0], whole)


def test_one_of_several_ways_is_chosen_by_weight() -> None:
    def blended(weights: Any) -> int:
        choice, rng = MixChoice([MixUp(50.0, 2), CutMix(1.0, 2)], weights), np.random.default_rng(0)
        frames = [
            choice.mix(torch.tensor([[0.0], [1.0]]).expand(2, 8).reshape(2, 1, 1, 2, 4).clone(), [0, 1], "TCHW", rng)[0]
            for _ in range(400)
        ]
        return sum(not set(each.unique().tolist()) <= {0.0, 1.0} for each in frames)

    assert abs(blended(None) - 200) < 50
    assert abs(blended([3, 1]) - 300) < 50
    assert blended([0, 1]) == 0


@pytest.mark.parametrize("step", [*EVERY_KIND, MixChoice(EVERY_KIND)])
@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([1, 2, -1, 0], "clip 2 of the batch has no label"),
        ([1, 5, 0, 0], "labels must be below num_classes=5, got 5"),
        ([0.5, 1, 2, 3], "labels must be a row of integers, got float64"),
        ([[1, 2, 3, 4]], r"labels must be a row of integers, got int64 of shape \(1, 4\)"),
    ],
)
def test_labels_that_cannot_be_mixed_are_refused(step: Mixing, labels: Any, message: str) -> None:
    frames = clips("TCHW", torch.uint8)
    before = frames.clone()
    with pytest.raises(ConfigurationError, match=message):
        step.mix(frames, labels, "TCHW", np.random.default_rng(0))
    assert torch.equal(frames, before)


def test_labels_of_more_classes_than_memory_holds_are_an_error() -> None:
    with pytest.raises(NoMemoryError, match=r"soft labels.*lower num_classes"):
        MixUp(1.0, 1 << 48).mix(clips("TCHW", torch.uint8), [0, 1, 2, 3], "TCHW", np.random.default_rng(0))


@pytest.mark.parametrize("make", [MixUp, CutMix, VideoMix])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"alpha": 0}, "alpha must be a number above 0, got 0"),
        ({"alpha": math.nan}, "alpha must be .*, got nan"),
        ({"num_classes": 0}, "num_classes must be a positive integer, got 0"),
        ({"num_classes": "ten"}, "num_classes must be a positive integer, got 'ten'"),
        ({"p": 1.1}, r"p must be a number in \[0, 1\], got 1.1"),
        ({"label_smoothing": 1.0}, r"label_smoothing must be a number in \[0, 1\), got 1.0"),
    ],
)
def test_bad_parameters_are_refused(make: Any, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{make.__name__}'s {message}"):
        make(**{"alpha": 1.0, "num_classes": 3, **arguments})


def test_bad_choices_are_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"VideoMix's cut must be one of spatial.*, got 'diagonal'"):
        VideoMix(1.0, 3, cut="diagonal")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="MixChoice's choices must be a list of ways to mix, got"):
        MixChoice([])
    with pytest.raises(ConfigurationError, match=r"num_classes of MixChoice's choices must be .*, got \[3, 4\]"):
        MixChoice([MixUp(1.0, 3), MixUp(1.0, 4)])
    for weights in ([1], [1, -1], [0, 0], [1, math.inf]):
        with pytest.raises(ConfigurationError, match="MixChoice's weights must be"):
            MixChoice([MixUp(1.0, 3), CutMix(1.0, 3)], weights)
