"""Mixes the clips of a finished batch, and their labels, with one another.

Each clip is mixed with the one before it, and the first with the last, as in torchvision. So no row is mixed with
itself unless it is alone, and since the loader shuffles clips, any two are equally likely to be mixed. Rows that show
the same clip, as with ``repeats``, lie side by side and are mixed with one another. All clips of a batch are mixed in
the same proportions, as in the papers.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
import torch

from videoloader.convert.spec import Layout
from videoloader.errors import ConfigurationError, enough_memory, no_method, wrong_result
from videoloader.errors.checks import (
    check,
    check_choice,
    check_integer,
    check_numbers,
    check_probability,
    check_weights,
)
from videoloader.errors.notes import note
from videoloader.transforms.operations import IN_TRANSFORM, Transform, checked

Cut: TypeAlias = Literal["spatial", "temporal", "spatio_temporal"]
_AXES = {"spatial": "HW", "temporal": "T", "spatio_temporal": "THW"}
_SMOOTHING = checked(check_numbers, None, "a number in [0, 1)", lambda share: 0 <= share < 1)
# Numbers mixed at a time, in float32.
_PART = 1 << 24


class Mixing(Transform):
    """Base of all ways to mix the clips of a batch.

    Attributes:
        num_classes: int. K, the number of classes that labels may name.

    Examples:
        A complete custom mixing:

            class Half(vl.Mixing):
                num_classes = 400

                def mix(self, frames, labels, layout, rng):
                    return vl.MixUp(0.8, self.num_classes, p=0.5).mix(frames, labels, layout, rng)
    """

    num_classes: int

    @abstractmethod
    def mix(
        self, frames: torch.Tensor, labels: npt.ArrayLike, layout: Layout, rng: np.random.Generator
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Mix a batch.

        Args:
            frames: tensor of floats or uint8, [B, ...]. The clips' dimensions have the order of the layout; any device.
                They are changed in place.
            labels: array, int64[B]. The labels, on the host, so that they can be checked without waiting for a GPU.
            layout: str. ``"TCHW"``, ``"CTHW"`` or ``"THWC"``.
            rng: generator. The batch's own generator.

        Returns:
            The frames, and the labels as float32[B, K] on the frames' device: the share of each class, 1 in total.

        Raises:
            ConfigurationError: a clip has no label, or one that is not below ``num_classes``.
        """
        raise no_method(self, "mix(self, frames, labels, layout, rng), which gives frames and float32[B, K]")


def mixed(
    mixing: Mixing, frames: torch.Tensor, labels: npt.ArrayLike, layout: Layout, rng: np.random.Generator
) -> tuple[torch.Tensor, torch.Tensor]:
    """``mixing.mix(frames, labels, layout, rng)``, with errors that name the transform.

    Raises:
        ConfigurationError: it returns anything but the frames of as many clips and their labels.
    """
    with note(IN_TRANSFORM, mixing):
        result = mixing.mix(frames, labels, layout, rng)
    parts = result if isinstance(result, tuple | list) else ()
    if [len(each) for each in parts if isinstance(each, torch.Tensor)] != [len(frames)] * 2:
        raise wrong_result(mixing, "mix", f"two tensors for {len(frames)} clips: frames and labels", result)
    return result[0], result[1]


@dataclass(frozen=True)
class _WithNext(Mixing):
    """Base of mixings of each clip with its neighbour in the batch; ``MixUp`` explains the fields."""

    alpha: float = field(metadata=checked(check_numbers, None, "a number above 0", lambda alpha: alpha > 0))
    num_classes: int = field(metadata=checked(check_integer))
    p: float = field(default=1.0, metadata=checked(check_probability))
    label_smoothing: float = field(default=0.0, kw_only=True, metadata=_SMOOTHING)

    def mix(
        self, frames: torch.Tensor, labels: npt.ArrayLike, layout: Layout, rng: np.random.Generator
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """See ``Mixing.mix``."""
        soft = soft_labels(labels, self.num_classes, self.label_smoothing, frames.device)
        if rng.random() >= self.p:
            return frames, soft
        share = self._blend(frames, layout, rng, float(rng.beta(self.alpha, self.alpha)))
        return frames, soft * share + soft.roll(1, 0) * (1 - share)

    @abstractmethod
    def _blend(self, frames: torch.Tensor, layout: Layout, rng: np.random.Generator, share: float) -> float:
        """Mix the frames so that about ``share`` of each clip remains; return the share that does."""


@dataclass(frozen=True)
class MixUp(_WithNext):
    """Blend each clip with another one (Zhang et al., "mixup: Beyond Empirical Risk Minimization", arXiv 1710.09412).

    Frames and labels become ``λ · clip + (1 − λ) · other``. λ is drawn from Beta(alpha, alpha) for the batch.

    Args:
        alpha: float. Above 0: small values leave most clips almost unchanged, 1 draws λ uniformly.
        num_classes: int. K, the number of classes, at least 1; labels are 0 … K − 1.
        p: float, default 1. The probability that a batch is mixed.
        label_smoothing: float, default 0. The share of each label that is spread evenly over all classes, in [0, 1).

    Raises:
        ConfigurationError: an argument is out of its range.

    Examples:
        >>> mixup = MixUp(alpha=0.8, num_classes=400)
        >>> frames, labels = torch.rand(2, 16, 3, 8, 8), np.array([3, 257])
        >>> frames, soft = mixup.mix(frames, labels, "TCHW", np.random.default_rng(0))
        >>> soft.shape
        torch.Size([2, 400])
    """

    def _blend(self, frames: torch.Tensor, layout: Layout, rng: np.random.Generator, share: float) -> float:
        others = frames.roll(1, 0)
        at_once = max(_PART // max(frames[0].numel(), 1), 1)
        for start in range(0, len(frames), at_once):
            part = slice(start, start + at_once)
            mixed = frames[part].float() * share
            mixed += others[part].float().mul_(1 - share)
            frames[part] = mixed if frames.is_floating_point() else mixed.add_(0.5).floor_()
        return share


@dataclass(frozen=True)
class CutMix(_WithNext):
    """Show another clip in a random box of each clip (Yun et al., "CutMix", ICCV 2019, arXiv 1905.04899).

    The box is the same in all frames and clips of a batch. It has 1 − λ of the frame's area and its aspect ratio, is
    centred on a point drawn uniformly, and is clipped at the borders. λ is drawn from Beta(alpha, alpha). Labels are
    mixed by visible area.

    Args:
        alpha, num_classes, p, label_smoothing: default 1 for ``p``, 0 for ``label_smoothing``. See ``MixUp``.

    Raises:
        ConfigurationError: an argument is out of its range.
    """

    def _blend(self, frames: torch.Tensor, layout: Layout, rng: np.random.Generator, share: float) -> float:
        return _cut_in(frames, layout, rng, share, "spatial")


@dataclass(frozen=True)
class VideoMix(_WithNext):
    """Show another clip in a random part of each clip (Yun et al., "VideoMix: Rethinking Data Augmentation for Video
    Classification", arXiv 2012.03457).

    The part has 1 − λ of the clip's volume, with every cut side shortened by the same factor. It is centred on a point
    drawn uniformly, and is clipped at the borders. λ is drawn from Beta(alpha, alpha). Labels are mixed by visible
    volume.

    Args:
        alpha, num_classes, p, label_smoothing: default 1 for ``p``, 0 for ``label_smoothing``. See ``MixUp``.
        cut: str, default ``"spatial"``. ``"spatial"`` is a box in all frames, as in ``CutMix``, ``"temporal"`` is some
            consecutive frames, and ``"spatio_temporal"`` is a box in some frames. The paper found the first to help
            most.

    Raises:
        ConfigurationError: an argument is out of its range.
    """

    cut: Cut = field(default="spatial", metadata=checked(check_choice, get_args(Cut)))

    def _blend(self, frames: torch.Tensor, layout: Layout, rng: np.random.Generator, share: float) -> float:
        return _cut_in(frames, layout, rng, share, self.cut)


@dataclass(frozen=True)
class MixChoice(Mixing):
    """Mix each batch by one of several mixings, drawn at random.

    Args:
        choices: sequence of ``Mixing``. The mixings to draw from.
        weights: sequence of float, default all equal. The relative weight of each choice.

    Raises:
        ConfigurationError: there is nothing to choose from, the number of weights differs, a weight is negative or all
            are 0, or the choices differ in their number of classes.

    Examples:
        >>> mixing = MixChoice([MixUp(0.8, num_classes=400), CutMix(1.0, num_classes=400)])
    """

    choices: Sequence[Mixing]
    weights: Sequence[float] | None = None
    num_classes: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        are_mixings = isinstance(self.choices, tuple) and all(isinstance(each, Mixing) for each in self.choices)
        check("MixChoice's choices", self.choices, are_mixings and self.choices, "a list of ways to mix")
        numbers = [choice.num_classes for choice in self.choices]
        check("num_classes of MixChoice's choices", numbers, len(set(numbers)) == 1, "the same in all")
        if self.weights is not None:
            check_weights("MixChoice's weights", self.weights, len(self.choices))
        object.__setattr__(self, "num_classes", self.choices[0].num_classes)

    def mix(
        self, frames: torch.Tensor, labels: npt.ArrayLike, layout: Layout, rng: np.random.Generator
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """See ``Mixing.mix``."""
        weights = np.ones(len(self.choices)) if self.weights is None else np.array(self.weights, np.float64)
        chosen = self.choices[int(rng.choice(len(self.choices), p=weights / weights.sum()))]
        return chosen.mix(frames, labels, layout, rng)


def soft_labels(labels: npt.ArrayLike, num_classes: int, label_smoothing: float, device: torch.device) -> torch.Tensor:
    """Labels as shares of each class: 1 for the clip's own, minus what ``label_smoothing`` spreads over all.

    Args:
        labels: int64[B] on the host.
        num_classes: K.
        label_smoothing: share in [0, 1) (Szegedy et al., "Rethinking the Inception Architecture", arXiv 1512.00567).
        device: device of the result.

    Returns:
        float32[B, K].

    Raises:
        ConfigurationError: a clip has no label, or one that is not below ``num_classes``.
    """
    numbers = np.asarray(labels)
    check("labels", numbers, numbers.ndim == 1 and np.issubdtype(numbers.dtype, np.integer), "a row of integers")
    if (numbers < 0).any():
        clip = int(np.flatnonzero(numbers < 0)[0])
        raise ConfigurationError(f"clip {clip} of the batch has no label, but mixing clips mixes their labels")
    check("labels", int(numbers.max(initial=0)), (numbers < num_classes).all(), f"below num_classes={num_classes}")
    spread = label_smoothing / num_classes
    with enough_memory("soft labels", advice="lower num_classes"):
        soft = torch.full((len(numbers), num_classes), spread, dtype=torch.float32, device=device)
    index = torch.from_numpy(numbers.astype(np.int64)).to(device, non_blocking=True)
    return soft.scatter_(1, index[:, None], 1 - label_smoothing + spread)


def _cut_in(frames: torch.Tensor, layout: Layout, rng: np.random.Generator, share: float, cut: Cut) -> float:
    """Show the neighbouring clip in a box of each, so that about ``share`` remains; return the share that does."""
    shown, side = frames, (1 - share) ** (1 / len(_AXES[cut]))
    for axis in _AXES[cut]:
        dimension = 1 + layout.index(axis)
        size = frames.shape[dimension]
        whole = math.floor(side * size + 0.5)
        start = int(rng.integers(size)) - whole // 2
        first = max(start, 0)
        shown = shown.narrow(dimension, first, min(start + whole, size) - first)
    shown.copy_(shown.roll(1, 0))
    return 1 - math.prod(shown.shape[1:]) / math.prod(frames.shape[1:])
