"""Rotations, affine maps and perspective, the same for all frames of a clip or varying over time.

Such a step and adjacent crops, resizes, flips and borders become one resampling; see ``composing``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field

import numpy as np
import numpy.typing as npt

from videoloader.convert.spec import Interpolation, fill_color
from videoloader.errors.checks import check, check_numbers, check_probability
from videoloader.transforms.curves import Curve, Range, Uniform, check_degrees, check_factor, check_range, draw_range
from videoloader.transforms.geometry import warp_matrices
from videoloader.transforms.geometry.resampling import Resampling
from videoloader.transforms.geometry.warp_matrices import Matrices, Number, Point
from videoloader.transforms.operations import ClipInfo, checked
from videoloader.transforms.planning.steps import WarpStep

Center = tuple[float, float]
# Degrees: at a right angle the picture would vanish.
_MOST_SHEAR = 89.0


def _check_center(name: str, center: Center | None) -> None:
    if center is not None:
        check_numbers(name, center, 2, "(x, y)", lambda x, y: True)


@dataclass(frozen=True)
class Rotate(WarpStep):
    """Rotate frames about a point; their size stays the same.

    Args:
        degrees: number, (low, high) or curve. The angle, counter-clockwise, as in torchvision's ``rotate``. A number is
            the angle of every clip; from (low, high) each clip draws its own; see ``curves``. torchvision's
            ``RandomRotation(10)`` is ``Rotate((-10, 10))``.
        center: (float, float), default the middle. The point (x, y) that stays in place, in pixels from the top left
            corner.
        interpolation: str, default ``"bilinear"``. ``"bilinear"``, ``"bicubic"`` or ``"nearest"``.
        fill: number or three of them, default 0. The red, green and blue of the area outside the frames, or one number
            for all three, 0 … 255.

    Raises:
        ConfigurationError: degrees, center or fill are not such values, or there is no such interpolation.

    Examples:
        >>> transforms = [RandomResizedCrop(224), Rotate((-10, 10)), Normalize()]
    """

    degrees: Range = field(metadata=checked(check_degrees))
    _: KW_ONLY
    center: Center | None = field(default=None, metadata=checked(_check_center))
    interpolation: Interpolation = "bilinear"
    fill: float | Sequence[float] = 0

    def resampling(self, rng: np.random.Generator, clip: ClipInfo) -> Resampling:
        """The step as drawn for one clip."""
        degrees = draw_range(self.degrees, rng, clip.length)
        matrix = warp_matrices.rotation(degrees, self.center or _middle(clip))
        return Resampling(matrix, (clip.height, clip.width), self.interpolation, False, fill_color(self.fill))


@dataclass(frozen=True)
class Affine(WarpStep):
    """Shear, scale, rotate and translate frames, in that order, as torchvision's ``affine`` does.

    Args:
        degrees: float, (low, high) or curve, default 0.0. The angle, clockwise as in torchvision's ``affine``. A number
            is the angle of every clip; from (low, high) each clip draws its own; see ``curves``.
        translate: two of float or curve, default (0.0, 0.0). The translation (to the right, down). A float is the
            largest share of the width or height to move either way: moves are drawn uniformly and rounded to whole
            pixels, as in torchvision's ``RandomAffine``. A curve's values are such shares, and are not rounded.
        scale: float, (low, high) or curve, default 1.0. The factor by which to enlarge the picture.
        shear: float, (low, high) or curve, default 0.0. The shear along x in degrees.
        shear_y: float, (low, high) or curve, default 0.0. The shear along y in degrees.
        center: (float, float), default the middle. The point (x, y) that rotation, scaling and shear leave in place, in
            pixels from the top left corner.
        interpolation: str, default ``"bilinear"``. See ``Rotate``.
        fill: number or three of them, default 0. See ``Rotate``.
        antialias: bool, default False. Whether to average several points for each pixel where the picture gets smaller;
            torchvision uses one.

    Raises:
        ConfigurationError: shares are outside [0, 1], curves outside [-1, 1] or shears outside [-89, 89], a scale is
            not positive, degrees, center or fill are not such values, or there is no such interpolation.

    Examples:
        >>> transforms = [Affine((-15, 15), translate=(0.1, 0.1), scale=(0.8, 1.2), shear=(-5, 5))]
    """

    degrees: Range = field(default=0.0, metadata=checked(check_degrees))
    _: KW_ONLY
    translate: tuple[Range, Range] = (0.0, 0.0)
    scale: Range = field(default=1.0, metadata=checked(check_factor, 1e-3, 1e3))
    shear: Range = field(default=0.0, metadata=checked(check_degrees, -_MOST_SHEAR, _MOST_SHEAR))
    shear_y: Range = field(default=0.0, metadata=checked(check_degrees, -_MOST_SHEAR, _MOST_SHEAR))
    center: Center | None = field(default=None, metadata=checked(_check_center))
    interpolation: Interpolation = "bilinear"
    fill: float | Sequence[float] = 0
    antialias: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        are_two = isinstance(self.translate, Sequence) and len(self.translate) == 2
        check("Affine's translate", self.translate, are_two, "(to the right, down)")
        for share in self.translate:
            check_range("Affine's translate", share, -1.0 if isinstance(share, Curve) else 0.0, 1.0)

    def resampling(self, rng: np.random.Generator, clip: ClipInfo) -> Resampling:
        """The step as drawn for one clip."""
        degrees = draw_range(self.degrees, rng, clip.length)
        right, down = (
            _shift(share, side, rng, clip.length)
            for share, side in zip(self.translate, (clip.width, clip.height), strict=True)
        )
        scale, shear, shear_y = (draw_range(each, rng, clip.length) for each in (self.scale, self.shear, self.shear_y))
        matrix = affine_matrix(degrees, (right, down), scale, (shear, shear_y), self.center or _middle(clip))
        size = clip.height, clip.width
        return Resampling(matrix, size, self.interpolation, self.antialias, fill_color(self.fill))


@dataclass(frozen=True)
class Perspective(WarpStep):
    """Distort frames in perspective: each corner moves inwards independently.

    Args:
        distortion_scale: number, (low, high) or curve, default 0.5. The largest distance that a corner moves along a
            side, as a share of half the side, in [0, 1]. Each corner draws its share of that distance uniformly; along
            a curve the corners move together.
        p: float, default 0.5. The probability that a clip is distorted.
        interpolation, fill, antialias: default ``"bilinear"``, 0 and False. See ``Affine``.

    Raises:
        ConfigurationError: ``distortion_scale`` or ``p`` is outside [0, 1], the fill is not a colour, or there is no
            such interpolation.

    Examples:
        >>> transforms = [Perspective(0.3, p=1)]
    """

    distortion_scale: Range = field(default=0.5, metadata=checked(check_range, 0.0, 1.0))
    p: float = field(default=0.5, metadata=checked(check_probability))
    _: KW_ONLY
    interpolation: Interpolation = "bilinear"
    fill: float | Sequence[float] = 0
    antialias: bool = False

    def resampling(self, rng: np.random.Generator, clip: ClipInfo) -> Resampling | None:
        """The step as drawn for one clip; None to leave it unchanged."""
        if rng.random() >= self.p:
            return None
        height, width = clip.height, clip.width
        distortion = draw_range(self.distortion_scale, rng, clip.length)
        corners = np.array([(0, 0), (width, 0), (width, height), (0, height)], np.float64)
        inwards = np.array([(1, 1), (-1, 1), (-1, -1), (1, -1)]) * (width / 2, height / 2)
        moved = corners + distortion[:, None, None] * rng.random((4, 2)) * inwards
        matrix = np.stack([perspective_matrix(corners, ends) for ends in moved])
        return Resampling(matrix, (height, width), self.interpolation, self.antialias, fill_color(self.fill))


def affine_matrix(degrees: Number, translate: Point, scale: Number, shear: Point, center: Point) -> Matrices:
    """float64[F, 3, 3]: the matrix of ``Affine`` from output to input.

    Args:
        degrees: clockwise.
        translate: (to the right, down), pixels.
        scale: factor of the picture.
        shear: degrees (columns, rows).
        center: (x, y), pixels.
    """
    across, down = (np.tan(np.radians(angle)) for angle in shear)
    return (
        warp_matrices.shear(across, down, center)
        @ warp_matrices.scaling(scale, scale, center)
        @ warp_matrices.rotation(-np.asarray(degrees), center)
        @ warp_matrices.translation(*translate)
    )


def perspective_matrix(starts: npt.NDArray[np.float64], ends: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """float64[3, 3] from output to input that maps four points ``ends`` to ``starts``, float64[4, 2] of (x, y).

    It solves the eight equations of a planar projective map (Hartley and Zisserman, "Multiple View Geometry in Computer
    Vision", 4.1).
    """
    rows, values = [], []
    for (x, y), (u, v) in zip(ends.tolist(), starts.tolist(), strict=True):
        rows += [[x, y, 1, 0, 0, 0, -u * x, -u * y], [0, 0, 0, x, y, 1, -v * x, -v * y]]
        values += [u, v]
    return np.append(np.linalg.solve(rows, values), 1.0).reshape(3, 3)


def _shift(share: Range, side: int, rng: np.random.Generator, frames: int) -> npt.NDArray[np.float64]:
    """Pixels."""
    if isinstance(share, int | float):
        return np.rint(Uniform(-share, share).values(rng, frames) * side)
    return draw_range(share, rng, frames) * side


def _middle(clip: ClipInfo) -> Center:
    return clip.width / 2, clip.height / 2
