"""``Resize``: resizes whole frames."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from videoloader.convert.spec import Geometry, Interpolation
from videoloader.errors import ConfigurationError
from videoloader.errors.checks import check_integer, check_size
from videoloader.transforms.geometry.fusing import resize_to
from videoloader.transforms.planning.steps import GeometryStep


@dataclass(frozen=True)
class Resize(GeometryStep):
    """Resize frames, as torchvision does.

    Args:
        size: int, (int, int) or None. An int for the shorter edge, which keeps the aspect ratio and truncates the other
            edge to whole pixels; (height, width); or None if ``max_size`` alone decides.
        max_size: int, default None. The most pixels of the longer edge: if it would be longer, it gets that length, and
            the shorter edge follows from the ratio, truncated to whole pixels. With ``size=None`` the longer edge
            always gets that length.
        interpolation: str, default ``"bilinear"``. ``"bilinear"``, ``"bicubic"`` or ``"nearest"``; see ``Geometry``.
            Successive resizes become one resize, with the interpolation of the last. A crop between them takes whole
            pixels of the video, so after an enlarging resize its edges may move by half a pixel of the video.
        antialias: bool, default True. Whether to widen the filter as frames get smaller.

    Raises:
        ConfigurationError: a size is below one, ``max_size`` is not larger than ``size`` or accompanies a (height,
            width), or there is no such interpolation.

    Examples:
        Shorter edge 256 but never wider than 454; longer edge 320:

            >>> transforms = [Resize(256, max_size=454)]
            >>> transforms = [Resize(None, max_size=320)]
    """

    size: int | tuple[int, int] | None
    max_size: int | None = field(default=None, kw_only=True)
    interpolation: Interpolation = field(default="bilinear", kw_only=True)
    antialias: bool = field(default=True, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.size is not None:
            check_size("Resize's size", self.size)
        elif self.max_size is None:
            raise ConfigurationError("Resize needs a size, a max_size, or both")
        if self.max_size is not None:
            if isinstance(self.size, tuple):
                raise ConfigurationError(f"Resize's max_size is for one edge's size, not for {self.size}")
            check_integer("Resize's max_size", self.max_size, 1 if self.size is None else self.size + 1)

    def plan(self, geometry: Geometry, rng: np.random.Generator) -> Geometry:
        """The geometry with this step added."""
        return resize_to(geometry, self._target(*geometry.output_size), self.interpolation, self.antialias)

    def _target(self, rows: int, columns: int) -> tuple[int, int]:
        if isinstance(self.size, tuple):
            return self.size
        short, long = min(rows, columns), max(rows, columns)
        new_short, new_long = (short, long) if self.size is None else (self.size, int(self.size * long / short))
        if self.max_size is not None and (self.size is None or new_long > self.max_size):
            new_short, new_long = int(self.max_size * new_short / new_long), self.max_size
        # torchvision fails if the shorter edge becomes 0.
        new_short = max(new_short, 1)
        return (new_short, new_long) if rows <= columns else (new_long, new_short)
