"""Makes several views of one clip for testing, each a row of its own in the batch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from videoloader.convert.spec import Geometry
from videoloader.transforms.flips import HorizontalFlip, VerticalFlip
from videoloader.transforms.geometry.fusing import cut_at
from videoloader.transforms.planning.steps import Sized, ViewStep


@dataclass(frozen=True)
class ThreeCrop(Sized, ViewStep):
    """Crop frames at the two ends and the centre of the longer edge, centred on the shorter edge.

    Args:
        size: int or (int, int). The size of each crop: an int for a square, or (height, width).

    Raises:
        ConfigurationError: a size is below one; when used, frames are smaller than it.

    Examples:
        The usual spatial views for testing action recognition:

            >>> transforms = [Resize(256), ThreeCrop(256), Normalize()]
    """

    views: int = field(default=3, init=False, repr=False)

    def plan_views(self, geometry: Geometry, rng: np.random.Generator) -> list[Geometry]:
        """The three geometries with this step added, from left to right or top to bottom."""
        is_wide = geometry.output_size[1] >= geometry.output_size[0]
        places = [(0.5, along) if is_wide else (along, 0.5) for along in (0, 0.5, 1)]
        return [cut_at(geometry, self._sides, *place) for place in places]


@dataclass(frozen=True)
class FiveCrop(Sized, ViewStep):
    """Crop frames at the top left, top right, bottom left, bottom right and centre.

    Args:
        size: int or (int, int). The size of each crop: an int for a square, or (height, width).

    Raises:
        ConfigurationError: a size is below one; when used, frames are smaller than it.
    """

    views: int = field(default=5, init=False, repr=False)

    def plan_views(self, geometry: Geometry, rng: np.random.Generator) -> list[Geometry]:
        """The five geometries with this step added."""
        places = [(0, 0), (0, 1), (1, 0), (1, 1), (0.5, 0.5)]
        return [cut_at(geometry, self._sides, *place) for place in places]


@dataclass(frozen=True)
class TenCrop(FiveCrop):
    """Make the crops of ``FiveCrop``, then those of the horizontally flipped frames.

    Args:
        size: int or (int, int). The size of each crop: an int for a square, or (height, width).
        vertical_flip: bool, default False. Whether to flip frames vertically instead.

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
    """The number of views that a list of transforms makes of a clip."""
    return math.prod(transform.views for transform in transforms if isinstance(transform, ViewStep))
