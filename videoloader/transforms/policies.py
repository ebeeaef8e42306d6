"""The published tables of automatic augmentation: magnitudes of operations, and sub-policies.

Sources: AutoAugment (Cubuk et al., arXiv 1805.09501) with the ImageNet policy and the ranges of the authors' TensorFlow
code; RandAugment (Cubuk et al., arXiv 1909.13719); TrivialAugment (Müller and Hutter, arXiv 2103.10158). torchvision
(``AutoAugmentPolicy.IMAGENET`` is the policy of reduced ImageNet here) and DALI have the same tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple, TypeAlias


class Strength(NamedTuple):
    """The magnitudes of an operation: ``low`` in the first bin, ``high`` in the last, evenly spaced between.

    Attributes:
        low, high: bounds in the operation's unit.
        signed: whether the magnitude is negated for half of the clips.
        share_of: the side of the frames that the magnitude is a share of; None if it is not a share.
    """

    low: float
    high: float
    signed: bool = False
    share_of: Literal["width", "height"] | None = None

    def at(self, place: int, bins: int, sign: float, size: tuple[int, int]) -> float:
        """The magnitude of a bin.

        Args:
            place: the bin's number, 0 to ``bins`` − 1.
            bins: number of bins.
            sign: a number in [0, 1). Below one half it negates a signed magnitude.
            size: (height, width) of the frames.
        """
        magnitude = self.low + (self.high - self.low) * place / max(bins - 1, 1)
        if self.signed and sign < 0.5:
            magnitude = -magnitude
        return magnitude * {None: 1, "width": size[1], "height": size[0]}[self.share_of]

    def within(self, low: float, high: float) -> Strength:
        """The same operation with other magnitudes.

        They keep the random sign unless they reach below zero, in which case they are used unchanged. Only -x to x
        means 0 to x with a random sign.
        """
        if self.signed and low == -high:
            return self._replace(low=0.0, high=abs(high))
        return self._replace(low=low, high=high, signed=self.signed and min(low, high) >= 0)


# None: the operation has no magnitude.
Strengths: TypeAlias = Mapping[str, "Strength | None"]

SubPolicy: TypeAlias = tuple[tuple[str, float, "int | None"], ...]

# Their magnitudes are added to the factor 1, which means no change.
_ENHANCEMENTS = ("brightness", "color", "contrast", "sharpness")

RAND_AUGMENT: Strengths = {
    **dict.fromkeys(("identity", "auto_contrast", "equalize", "invert")),
    **dict.fromkeys(("shear_x", "shear_y"), Strength(0, 0.3, signed=True)),
    "translate_x": Strength(0, 100 / 224, signed=True, share_of="width"),
    "translate_y": Strength(0, 100 / 224, signed=True, share_of="height"),
    "rotate": Strength(0, 30, signed=True),
    **dict.fromkeys(_ENHANCEMENTS, Strength(0, 0.9, signed=True)),
    "posterize": Strength(8, 4),
    "solarize": Strength(256, 0),
    "solarize_add": Strength(0, 110),
}

# The ranges with which AutoAugment's policies were searched: a larger bin is not always a stronger operation.
NOT_MONOTONIC: Strengths = {
    **RAND_AUGMENT,
    **dict.fromkeys(_ENHANCEMENTS, Strength(-0.9, 0.9)),
    "posterize": Strength(0, 4),
    "solarize": Strength(0, 256),
}

TRIVIAL_AUGMENT_WIDE: Strengths = {
    **RAND_AUGMENT,
    **dict.fromkeys(("shear_x", "shear_y"), Strength(0, 0.99, signed=True)),
    **dict.fromkeys(("translate_x", "translate_y"), Strength(0, 32, signed=True)),
    "rotate": Strength(0, 135, signed=True),
    **dict.fromkeys(_ENHANCEMENTS, Strength(0, 0.99, signed=True)),
    "posterize": Strength(8, 2),
}

# The units of operations' magnitudes, and the least and the largest that make sense. Translations are shares of a side
# or pixels; see ``Strength.share_of``.
UNITS: Mapping[str, tuple[str, float, float]] = {
    **dict.fromkeys(("shear_x", "shear_y"), ("tangents", -10, 10)),
    "rotate": ("degrees", -360, 360),
    **dict.fromkeys(_ENHANCEMENTS, ("added to the factor 1", -1, 1)),
    "posterize": ("bits", 0, 8),
    "solarize": ("thresholds", 0, 256),
    "solarize_add": ("added to dark values", -255, 255),
}

# The operations of RandAugment and of TrivialAugment's wide space.
DEFAULT_OPERATIONS = tuple(name for name in RAND_AUGMENT if name not in ("invert", "solarize_add"))

# Bins of the policies below.
AUTO_AUGMENT_BINS = 11


def _sub_policies(text: str) -> tuple[SubPolicy, ...]:
    """Read sub-policies, which end with semicolons; operations in them have a name, a probability and perhaps a bin."""

    def step(name: str, probability: str, place: str | None = None) -> tuple[str, float, int | None]:
        return name, float(probability), None if place is None else int(place)

    return tuple(tuple(step(*each.split()) for each in row.split(",")) for row in text.split(";"))


POLICIES: Mapping[str, tuple[SubPolicy, ...]] = {
    "image_net": _sub_policies("""
    equalize 0.8, shear_y 0.8 4;          color 0.4 9, equalize 0.6;            color 0.4 1, rotate 0.6 8;
    solarize 0.8 3, equalize 0.4;         solarize 0.4 2, solarize 0.6 2;       color 0.2 0, equalize 0.8;
    equalize 0.4, solarize_add 0.8 3;     shear_x 0.2 9, rotate 0.6 8;          color 0.6 1, equalize 1.0;
    invert 0.4, rotate 0.6 0;             equalize 1.0, shear_y 0.6 3;          color 0.4 7, equalize 0.6;
    posterize 0.4 6, auto_contrast 0.4;   solarize 0.6 8, color 0.6 9;          solarize 0.2 4, rotate 0.8 9;
    rotate 1.0 7, translate_y 0.8 9;      solarize 0.8 4;                       shear_y 0.8 0, color 0.6 4;
    color 1.0 0, rotate 0.6 2;            equalize 0.8;                         equalize 1.0, auto_contrast 0.6;
    shear_y 0.4 7, solarize_add 0.6 7;    posterize 0.8 2, solarize 0.6 10;     solarize 0.6 8, equalize 0.6;
    color 0.8 6, rotate 0.4 5"""),
    "reduced_image_net": _sub_policies("""
    posterize 0.4 8, rotate 0.6 9;        solarize 0.6 5, auto_contrast 0.6;    equalize 0.8, equalize 0.6;
    posterize 0.6 7, posterize 0.6 6;     equalize 0.4, solarize 0.2 4;         equalize 0.4, rotate 0.8 8;
    solarize 0.6 3, equalize 0.6;         posterize 0.8 5, equalize 1.0;        rotate 0.2 3, solarize 0.6 8;
    equalize 0.6, posterize 0.4 6;        rotate 0.8 8, color 0.4 0;            rotate 0.4 9, equalize 0.6;
    equalize 0.8;                         invert 0.6, equalize 1.0;             color 0.6 4, contrast 1.0 8;
    rotate 0.8 8, color 1.0 2;            color 0.8 8, solarize 0.8 7;          sharpness 0.4 7, invert 0.6;
    shear_x 0.6 5, equalize 1.0;          color 0.4 0, equalize 0.6;            equalize 0.4, solarize 0.2 4;
    solarize 0.6 5, auto_contrast 0.6;    invert 0.6, equalize 1.0;             color 0.6 4, contrast 1.0 8;
    equalize 0.8, equalize 0.6"""),
    "reduced_cifar10": _sub_policies("""
    invert 0.1, contrast 0.2 6;           rotate 0.7 2, translate_x 0.3 9;      sharpness 0.8 1, sharpness 0.9 3;
    shear_y 0.5 8, translate_y 0.7 9;     auto_contrast 0.5, equalize 0.9;      shear_y 0.2 7, posterize 0.3 7;
    color 0.4 3, brightness 0.6 7;        sharpness 0.3 9, brightness 0.7 9;    equalize 0.6, equalize 0.5;
    contrast 0.6 7, sharpness 0.6 5;      color 0.7 7, translate_x 0.5 8;       equalize 0.3, auto_contrast 0.4;
    translate_y 0.4 3, sharpness 0.2 6;   brightness 0.9 6, color 0.2 8;        solarize 0.5 2;
    equalize 0.2, auto_contrast 0.6;      equalize 0.2, equalize 0.6;           color 0.9 9, equalize 0.6;
    auto_contrast 0.8, solarize 0.2 8;    brightness 0.1 3, color 0.7 0;        solarize 0.4 5, auto_contrast 0.9;
    translate_y 0.9 9, translate_y 0.7 9; auto_contrast 0.9, solarize 0.8 3;    equalize 0.8, invert 0.1;
    translate_y 0.7 9, auto_contrast 0.9"""),
    "svhn": _sub_policies("""
    shear_x 0.9 4, invert 0.2;            shear_y 0.9 8, invert 0.7;            equalize 0.6, solarize 0.6 6;
    invert 0.9, equalize 0.6;             equalize 0.6, rotate 0.9 3;           shear_x 0.9 4, auto_contrast 0.8;
    shear_y 0.9 8, invert 0.4;            shear_y 0.9 5, solarize 0.2 6;        invert 0.9, auto_contrast 0.8;
    equalize 0.6, rotate 0.9 3;           shear_x 0.9 4, solarize 0.3 3;        shear_y 0.8 8, invert 0.7;
    equalize 0.9, translate_y 0.6 6;      invert 0.9, equalize 0.6;             contrast 0.3 3, rotate 0.8 4;
    invert 0.8;                           shear_y 0.7 6, solarize 0.4 8;        invert 0.6, rotate 0.8 4;
    shear_y 0.3 7, translate_x 0.9 3;     shear_x 0.1 6, invert 0.6;            solarize 0.7 2, translate_y 0.6 7;
    shear_y 0.8 4, invert 0.8;            shear_x 0.7 9, translate_y 0.8 3;     shear_y 0.8 5, auto_contrast 0.7;
    shear_x 0.7 2, invert 0.1"""),
}
