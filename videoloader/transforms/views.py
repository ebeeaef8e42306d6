"""Several views of one clip: the usual places to test models at, each a clip of its own in the batch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from videoloader.convert import Geometry
from videoloader.transforms.flips import HorizontalFlip, VerticalFlip
from videoloader.transforms.geometry.fusing import cut
from videoloader.transforms.planning.steps import Sized, ViewStep


@dataclass(frozen=True)
class ThreeCrop(Sized, ViewStep):
    """Three crops of the frames: the two ends and the middle of the longer edge, the middle of the other.

    Args:
        size: int or (int, int). The size of each crop: an int for a square, or (height, width).

    Raises:
        ConfigurationError: a size is below one; when used, frames are smaller than it.

    Examples:
        The spatial views of a usual test of action recognition:

            >>> transforms = [Resize(256), ThreeCrop(256), Normalize()]
    """

    views: int = field(default=3, init=False, repr=False)

    def plan_views(self, geometry: Geometry, rng: np.random.Generator) -> list[Geometry]:
        """The three geometries with this step added, in the order left to right or top to bottom."""
        height, width = self._sides
        below, right = geometry.output_size[0] - height, geometry.output_size[1] - width
        middle = round(below / 2), round(right / 2)
        if geometry.output_size[1] >= geometry.output_size[0]:
            places = [(middle[0], 0), middle, (middle[0], right)]
        else:
            places = [(0, middle[1]), middle, (below, middle[1])]
        return [cut(geometry, *place, height, width) for place in places]


@dataclass(frozen=True)
class FiveCrop(Sized, ViewStep):
    """Five crops of the frames: top left, top right, bottom left, bottom right and the middle.

    Args:
        size: int or (int, int). The size of each crop: an int for a square, or (height, width).

    Raises:
        ConfigurationError: a size is below one; when used, frames are smaller than it.
    """

    views: int = field(default=5, init=False, repr=False)

    def plan_views(self, geometry: Geometry, rng: np.random.Generator) -> list[Geometry]:
        """The five geometries with this step added."""
        height, width = self._sides
        below, right = geometry.output_size[0] - height, geometry.output_size[1] - width
        places = [(0, 0), (0, right), (below, 0), (below, right), (round(below / 2), round(right / 2))]
        return [cut(geometry, *place, height, width) for place in places]


@dataclass(frozen=True)
class TenCrop(FiveCrop):
    """The crops of ``FiveCrop``, then those of the frames turned left to right.

    Args:
        size: int or (int, int). The size of each crop: an int for a square, or (height, width).
        vertical_flip: bool, default False. Whether to turn frames upside down instead.

    Raises:
        ConfigurationError: a size is below one; when used, frames are smaller than it.
    """

    vertical_flip: bool = False
    views: int = field(default=10, init=False, repr=False)

    def plan_views(self, geometry: Geometry, rng: np.random.Generator) -> list[Geometry]:
        """The ten geometries with this step added."""
        flip = VerticalFlip() if self.vertical_flip else HorizontalFlip()
        return super().plan_views(geometry, rng) + super().plan_views(flip.plan(geometry, rng), rng)


def count_views(transforms: Sequence[object]) -> int:
    """The number of clips that a list of transforms makes of one."""
    return math.prod(transform.views for transform in transforms if isinstance(transform, ViewStep))
