"""Steps that add borders to frames, so that videos of any size fit into one batch.

They are the last steps that conversion carries out: only flips and ``Normalize`` may follow. ``Batch.boxes`` has the
position of the picture in the output, and ``Batch.to_source`` maps its points to the video.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Literal, get_args

import numpy as np

from videoloader import padding
from videoloader.convert.border import Border
from videoloader.convert.spec import Geometry, Interpolation, fill_color
from videoloader.errors import ConfigurationError
from videoloader.errors.checks import both_ends, check, check_choice, check_size
from videoloader.padding import Filling
from videoloader.transforms.operations import checked
from videoloader.transforms.planning.steps import GeometryStep, Sized
from videoloader.transforms.resizing import Resize

Position = Literal["center", "top_left"]
_POSITION = checked(check_choice, get_args(Position))


def check_border_mode(name: str, mode: str) -> None:
    """Raise ConfigurationError, which names the argument, unless borders can be made in this mode."""
    try:
        known = padding.check_mode(mode)
    except ConfigurationError as error:
        raise ConfigurationError(f"{name}: {error}") from None
    check(name, mode, known != "none", "a mode that pads frames")


@dataclass(frozen=True)
class _Surrounding(GeometryStep):
    """A step that pads frames to a size; ``Letterbox`` explains the fields."""

    _: KW_ONLY
    mode: Filling = field(default="constant", metadata=checked(check_border_mode))
    fill: float | Sequence[float] = 0
    position: Position = field(default="top_left", metadata=_POSITION)

    def _surround(self, geometry: Geometry, size: tuple[int, int]) -> Geometry:
        below, right = (whole - side for whole, side in zip(size, geometry.output_size, strict=True))
        if below < 0 or right < 0:
            rows, columns = geometry.output_size
            told = f"frames of {rows}×{columns} do not fit into {size[0]}×{size[1]}"
            raise ConfigurationError(f"{told}: add a Resize, or take a Letterbox")
        top, left = (below // 2, right // 2) if self.position == "center" else (0, 0)
        mode = padding.check_mode(self.mode)
        border = Border(top, below - top, left, right - left, mode, fill_color(self.fill))
        return replace(geometry, border=border)


@dataclass(frozen=True)
class Letterbox(Sized, _Surrounding):
    """Resize frames to the largest size that fits, keeping their aspect ratio, and pad the rest.

    Args:
        size: int or (int, int). The size of the output: an int for a square, or (height, width).
        mode: str, default ``"constant"``. The content of the border: ``"constant"`` is a colour; ``"edge"``,
            ``"reflect_101"``, ``"reflect_1001"``, ``"wrap"`` and their aliases repeat the picture's own pixels as
            ``padding.pad`` does.
        fill: number or three of them, default 0. The red, green and blue of mode ``"constant"``, or one number for all
            three, 0 … 255 whatever the output's dtype and normalisation.
        position: str, default ``"center"``. The position of the picture: with ``"center"``, an odd border is larger
            below and to the right; with ``"top_left"``, all of the border is there.
        interpolation, antialias: default ``"bilinear"`` and True. See ``Resize``.

    Raises:
        ConfigurationError: a size is below one, or there is no such mode, colour, position or interpolation.

    Examples:
        Frames of 360×640 in a square of 320, with borders of 70 rows above and below:

            >>> loader = VideoLoader(data, mode, batch_size=8, transforms=[Letterbox(320)])
            >>> batch = next(iter(loader))
            >>> batch.boxes[0]
            array([ 70,   0, 180, 320])
    """

    _: KW_ONLY
    position: Position = field(default="center", metadata=_POSITION)
    interpolation: Interpolation = "bilinear"
    antialias: bool = True

    def plan(self, geometry: Geometry, rng: np.random.Generator) -> Geometry:
        """The geometry with this step added."""
        height, width = self._sides
        rows, columns = geometry.output_size
        # The side that fills the output is exact; the other one is rounded, halves up.
        if height * columns <= width * rows:
            inner = height, max((2 * columns * height + rows) // (2 * rows), 1)
        else:
            inner = max((2 * rows * width + columns) // (2 * columns), 1), width
        resize = Resize(inner, interpolation=self.interpolation, antialias=self.antialias)
        return self._surround(resize.plan(geometry, rng), (height, width))


@dataclass(frozen=True)
class Pad(Sized, _Surrounding):
    """Pad frames to a size.

    Args:
        size: int or (int, int). The size of the output: an int for a square, or (height, width).
        mode, fill: default ``"constant"`` and 0. See ``Letterbox``.
        position: str, default ``"top_left"``. The position of the picture: ``"top_left"`` or ``"center"``; see
            ``Letterbox``.

    Raises:
        ConfigurationError: a size is below one, or there is no such mode, colour or position; in use, frames are larger
            than the size.

    Examples:
        Frames whose longer edge is at most 640, without resizing:

            >>> transforms = [Pad(640, mode="edge")]
    """

    def plan(self, geometry: Geometry, rng: np.random.Generator) -> Geometry:
        """The geometry with this step added."""
        return self._surround(geometry, self._sides)


@dataclass(frozen=True)
class PadToMultiple(_Surrounding):
    """Pad frames to the next height and width that are multiples of a number, as networks with strides need.

    Args:
        multiple: int or (int, int). The number: an int for both sides, or one for the height and one for the width.
        mode, fill: default ``"constant"`` and 0. See ``Letterbox``.
        position: str, default ``"top_left"``. The position of the picture: ``"top_left"`` or ``"center"``; see
            ``Letterbox``.

    Raises:
        ConfigurationError: a multiple is below one, or there is no such mode, colour or position.

    Examples:
        Frames of 360×640 become 384×640:

            >>> transforms = [PadToMultiple(32, mode="reflect_101")]
    """

    multiple: int | tuple[int, int] = field(metadata=checked(check_size))

    def plan(self, geometry: Geometry, rng: np.random.Generator) -> Geometry:
        """The geometry with this step added."""
        sides = zip(geometry.output_size, both_ends(self.multiple), strict=True)
        height, width = (-(-side // of) * of for side, of in sides)
        return self._surround(geometry, (height, width))
