"""``CropToBox``: crops each clip to a box from its row of the data set, such as a person, a face or a screen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from numbers import Integral
from typing import Any

import numpy as np

from videoloader.convert.spec import Geometry
from videoloader.errors import ConfigurationError
from videoloader.errors.checks import check, check_numbers
from videoloader.errors.of_handlers import raise_of_handler
from videoloader.errors.short_text import repr_of
from videoloader.sampling.columns import cells_of
from videoloader.transforms.geometry.fusing import cut
from videoloader.transforms.operations import ClipInfo, checked
from videoloader.transforms.planning.steps import Choice, GeometryStep, Step, ViewStep

_FAR = 1e12  # pixels

_MARGIN = "a share of the box's sides in [0, 10], such as 0.2"


def _check_column(name: str, column: Any) -> None:
    names = (column,) if isinstance(column, str) else column
    are_names = isinstance(names, tuple) and len(names) in (1, 4) and all(isinstance(n, str) and n for n in names)
    check(name, column, are_names, "the name of a column, or those of x0, y0, x1 and y1")


@dataclass(frozen=True)
class CropToBox(GeometryStep):
    """Crop a clip to a box from its row of the data set, the same for all frames.

    It must be the first transform, because boxes are in pixels of the video's frames, after the file's rotation but not
    stretched where pixels are not square. x runs to the right and y down, from the corner of the top left pixel; the
    box ends at x1 and y1. Edges are rounded to whole pixels, and parts outside the picture are cut off. Crops differ in
    size, so a ``Resize`` or ``Letterbox`` should follow.

    Args:
        column: str or list of four, default ``"box"``. The column that holds (x0, y0, x1, y1) as a list or as text such
            as ``10 20 300 400``; or the names of four columns.
        margin: float, default 0.0. The share of the box's width and height to add on every side.
        square: bool, default False. Whether to extend the shorter side to the longer one. A square that reaches outside
            the picture is moved inside, and shrinks only if the picture is smaller.
        relative: bool, default False. Whether boxes are shares of the picture's width and height, 0 … 1, instead of
            pixels.

    Raises:
        ConfigurationError: an argument has the wrong type; when planned, it is not the first transform; in use, a row
            has no box, an empty one, one wholly outside the picture, or one of shares without ``relative``. The message
            names row and file.

    Examples:
        >>> entry = VideoEntry("a.mp4", columns={"box": [40, 10, 200, 160]})
        >>> transforms = [CropToBox(margin=0.1, square=True), Resize((112, 112)), Normalize()]
        >>> loader = VideoLoader(VideoDataset([entry]), [0, 1], batch_size=1, transforms=transforms)
        >>> next(iter(loader)).frames.shape
        torch.Size([1, 2, 3, 112, 112])
    """

    column: str | Sequence[str] = field(default="box", metadata=checked(_check_column))
    _: KW_ONLY
    margin: float = field(default=0.0, metadata=checked(check_numbers, None, _MARGIN, lambda share: 0 <= share <= 10))
    square: bool = False
    relative: bool = False

    def plan(self, geometry: Geometry, rng: np.random.Generator) -> Geometry:
        """Not supported, since the box depends on the clip: see ``plan_clip``."""
        raise ConfigurationError(
            "CropToBox takes a different box for each clip: a choice cannot have it beside steps of other sizes"
        )

    def plan_clip(self, geometry: Geometry, rng: np.random.Generator, clip: ClipInfo) -> Geometry:
        """The geometry with this step added."""
        given = self._box(clip)
        sides = (clip.width, clip.height, clip.width, clip.height) if self.relative else (1, 1, 1, 1)
        left, top, right, bottom = (_near(edge * side) for edge, side in zip(given, sides, strict=True))
        spans = (top, bottom, clip.height), (left, right, clip.width)
        if not all(start < stop and start < length and stop > 0 for start, stop, length in spans):
            unit = "shares of its sides, 0 to 1, as relative=True says" if self.relative else "pixels"
            raise ConfigurationError(
                f"the box {given} of column {self.column!r} (x0, y0, x1, y1 in {unit}) shows "
                f"nothing of a picture that is {clip.width} wide and {clip.height} high"
            )
        margins = [_near(self.margin * (stop - start)) for start, stop, _ in spans]
        wide = [(start - margin, stop + margin) for (start, stop, _), margin in zip(spans, margins, strict=True)]
        if self.square:
            side = min(max(stop - start for start, stop in wide), clip.height, clip.width)
            side = max(_rounded(side), 1)
            starts = [_rounded((start + stop - side) / 2) for start, stop in wide]
            first = [min(max(start, 0), span[2] - side) for start, span in zip(starts, spans, strict=True)]
            return cut(geometry, first[0], first[1], side, side)
        (y, height), (x, width) = (_whole_pixels(*edges, span[2]) for edges, span in zip(wide, spans, strict=True))
        return cut(geometry, y, x, height, width)

    def _box(self, clip: ClipInfo) -> tuple[float, float, float, float]:
        """(x0, y0, x1, y1) of a clip's row, as given."""
        names = (self.column,) if isinstance(self.column, str) else self.column
        missing = [name for name in names if _is_missing(clip.columns.get(name))]
        if missing:
            known = ", ".join(map(repr, clip.columns)) or "none (rows of a data set have some; Compose has columns=)"
            raise ConfigurationError(f"the row has no box in column {missing[0]!r}; its columns are {known}")
        values = [clip.columns[name] for name in names]
        given = values[0] if len(values) == 1 else values
        try:
            x0, y0, x1, y1 = map(float, cells_of(given) if isinstance(given, str) else given)
        except (RuntimeError, TypeError, ValueError, OverflowError) as error:  # the first is PyTorch's
            raise_of_handler(error)
            x0 = y0 = x1 = y1 = math.nan
        if not all(map(math.isfinite, (x0, y0, x1, y1))):
            raise ConfigurationError(
                f"column {self.column!r} must be four numbers, x0, y0, x1 and y1, got {repr_of(given)}"
            )
        whole = not isinstance(given, str) and all(isinstance(each, Integral) for each in given)
        if not self.relative and not whole and 0 < max(x0, y0, x1, y1) <= 1:
            told = f"column {self.column!r} is in pixels, got {repr_of(given)}"
            raise ConfigurationError(f"{told}: write CropToBox(…, relative=True) if these are shares of the picture")
        return x0, y0, x1, y1


def check_boxes_first(transforms: Sequence[Step | ViewStep], first: bool = True) -> None:
    """Raise ConfigurationError if a ``CropToBox`` gets anything but the whole picture.

    Args:
        transforms: transforms in order of application, perhaps choices.
        first: whether no transform comes before them.
    """
    for number, transform in enumerate(transforms):
        if isinstance(transform, CropToBox) and not (first and number == 0):
            raise ConfigurationError("CropToBox must be the first transform: its boxes are in the video's pixels")
        if isinstance(transform, Choice):
            for alternative in transform.alternatives:
                check_boxes_first(alternative, first and number == 0)


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


def _near(pixels: float) -> float:
    """A distance that sums of a few others do not take beyond what a float holds. All pictures are smaller."""
    return min(max(pixels, -_FAR), _FAR)


def _rounded(value: float) -> int:
    return math.floor(value + 0.5)


def _whole_pixels(start: float, stop: float, length: int) -> tuple[int, int]:
    """(first pixel, number of pixels) along an axis of this length, at least one pixel."""
    first = min(max(_rounded(start), 0), length - 1)
    return first, max(min(_rounded(stop), length) - first, 1)
