"""Draws contact sheets: the frames of clips side by side, with their numbers, times and marks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from videoloader.convert.rounding import to_uint8
from videoloader.errors import ArgumentError, counted, needs
from videoloader.errors.checks import check_type
from videoloader.transforms.normalize import IMAGENET_MEAN, IMAGENET_STD, Normalize

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageDraw import ImageDraw
    from PIL.ImageFont import FreeTypeFont, ImageFont

NEEDS_PILLOW = "pictures need Pillow: pip install 'videoloader[pictures]'"
WIDTH = 960  # pixels of a sheet
_GAP, _MARGIN, _LINE, _NARROWEST, _HATCH = 6, 10, 15, 64, 24
_PAPER, _INK, _FAINT = (255, 255, 255), (30, 30, 30), (120, 120, 120)
_MARKS = {"input": (31, 96, 196), "target": (214, 98, 13), "made up": (140, 40, 140), "damaged": (200, 20, 30)}


@dataclass(frozen=True)
class Tile:
    """One frame of a contact sheet.

    Attributes:
        frame: [H, W, C] or [H, W], a tensor or array of any type on any device. C is 1 or 3.
        number: number of the frame in its video; -1 for a frame of constant padding, None where it is not known.
        time: seconds, None or NaN where it is not known.
        role: ``"input"``, ``"target"``, or ``""`` for neither.
        made_up: whether padding made the frame up. It is hatched.
        damaged: whether the decoder found damage.
    """

    frame: Any
    number: int | None = None
    time: float | None = None
    role: str = ""
    made_up: bool = False
    damaged: bool = False

    @property
    def marks(self) -> list[str]:
        """The marks to write under the frame; each has its own colour."""
        return [*filter(None, [self.role, "made up" * self.made_up, "damaged" * self.damaged])]


@dataclass(frozen=True)
class Strip:
    """The frames of one clip in a contact sheet, under a title.

    Attributes:
        tiles: tiles of the clip's frames, at least one, in order.
        title: text above them; ``""`` for none.
        left_out: number of frames of the clip that have no tile.
    """

    tiles: Sequence[Tile]
    title: str = ""
    left_out: int = 0


def contact_sheet(
    strips: Sequence[Strip], *, size: int | None = None, normalize: Normalize | None = None, note: str = ""
) -> Image:
    """Draw clips as one picture: small frames, each above its number and time.

    Args:
        strips: strips of the clips, at least one.
        size: pixels of the longer side of a frame; by default 151 … 467, larger for fewer frames.
        normalize: the frames' normalisation, which is undone; without it floats are scaled from the range of their
            values, and the last line says how.
        note: line below the frames.

    Returns:
        A PIL image in RGB, at most 960 pixels wide.

    Raises:
        ConfigurationError: Pillow is not installed.
        NoMemoryError: there is not enough memory to import it.
        ArgumentError: a frame has neither 1 nor 3 channels, or does not hold numbers.
    """
    with needs(NEEDS_PILLOW):
        import_module("PIL._imagingft")  # if this fails in ImageFont, that keeps the error and raises it for ever
        from PIL import Image, ImageDraw, ImageFont
    font = ImageFont.load_default(12)
    count = sum(len(strip.tiles) for strip in strips)
    size = size or next(side for most, side in [(2, 467), (3, 309), (8, 229), (count, 151)] if count <= most)
    arrays = [[_array(tile.frame, size) for tile in strip.tiles] for strip in strips]
    to_8_bits, told = _to_8_bits([array for some in arrays for array in some], normalize)
    pictures = [[_fitted(Image.fromarray(to_8_bits(array)), size) for array in some] for some in arrays]
    blocks = [_strip_picture(strip, some, font) for strip, some in zip(strips, pictures, strict=True)]

    # Blocks stand side by side while they fit.
    places, left, top, bottom = [], _MARGIN, _MARGIN, _MARGIN
    for block in blocks:
        if left > _MARGIN and left + block.width > WIDTH - _MARGIN:
            left, top = _MARGIN, bottom + 2 * _GAP
        places.append((left, top))
        left, bottom = left + block.width + 2 * _GAP, max(bottom, top + block.height)
    lines = [each for each in (told, note) if each]
    right = max(place[0] + block.width for place, block in zip(places, blocks, strict=True))
    width = int(max([right, *(_MARGIN + font.getlength(line) for line in lines)])) + _MARGIN
    sheet = Image.new("RGB", (width, bottom + _MARGIN + _LINE * len(lines)), _PAPER)
    for place, block in zip(places, blocks, strict=True):
        sheet.paste(block, place)
    drawing = ImageDraw.Draw(sheet)
    for number, line in enumerate(lines):
        drawing.text((_MARGIN, bottom + _GAP + number * _LINE), line, _FAINT, font)
    return sheet


def _strip_picture(strip: Strip, pictures: Sequence[Image], font: FreeTypeFont | ImageFont) -> Image:
    from PIL import Image, ImageDraw

    for picture, tile in zip(pictures, strip.tiles, strict=True):
        _mark(picture, tile)
    wide = max(_NARROWEST, *(picture.width for picture in pictures))
    high = max(picture.height for picture in pictures)
    title = f"{strip.title} (+ {counted(strip.left_out, 'more frame')})".strip() if strip.left_out else strip.title
    titles, captions = bool(title) * _LINE, _captions(strip.tiles) * _LINE
    columns = min(len(pictures), max(1, (WIDTH - 2 * _MARGIN + _GAP) // (wide + _GAP)))
    rows = -(-len(pictures) // columns)
    whole = Image.new("RGB", (columns * (wide + _GAP) - _GAP, titles + rows * (high + captions + _GAP) - _GAP), _PAPER)
    drawing = ImageDraw.Draw(whole)
    if title:
        drawing.text((0, 0), shortened(title, whole.width, font), _INK, font)
    for place, (picture, tile) in enumerate(zip(pictures, strip.tiles, strict=True)):
        left = place % columns * (wide + _GAP)
        top = titles + place // columns * (high + captions + _GAP)
        whole.paste(picture, (left, top))
        _caption(drawing, tile, left, top + high + 1, wide, font)
    return whole


def _captions(tiles: Iterable[Tile]) -> int:
    """The number of lines below each frame."""
    told = [(tile.number is not None or tile.time is not None, bool(tile.marks)) for tile in tiles]
    return sum(map(any, zip(*told, strict=True)))


def _caption(drawing: ImageDraw, tile: Tile, left: int, top: int, wide: int, font: FreeTypeFont | ImageFont) -> None:
    number = "" if tile.number is None else "no frame" if tile.number < 0 else f"#{tile.number}"
    time = "" if tile.time is None or np.isnan(tile.time) else f"{tile.time:.3f} s"
    drawing.text((left, top), number, _INK, font)
    room = wide - font.getlength(time)
    if room > font.getlength(number) + 4:
        drawing.text((left + room, top), time, _FAINT, font)
    for mark in tile.marks:
        drawing.text((left, top + _LINE * bool(number or time)), mark, _MARKS[mark], font)
        left += int(font.getlength(mark)) + 8


def _mark(picture: Image, tile: Tile) -> None:
    """Hatch frames that padding made up, frame damaged ones, and colour the upper edge by the role; in place."""
    from PIL import ImageDraw

    drawing, (wide, high) = ImageDraw.Draw(picture), picture.size
    if tile.made_up:
        # Two colours, so that the lines show on any picture.
        for color, shift in ((_MARKS["made up"], 0), (_PAPER, 3)):
            for start in range(shift - high, wide, _HATCH):
                drawing.line([(start, high), (start + high, 0)], color, 2)
    if tile.damaged:
        drawing.rectangle((0, 0, wide - 1, high - 1), outline=_MARKS["damaged"], width=4)
    if tile.role:
        drawing.rectangle((0, 0, wide, 4), _MARKS[tile.role])


def _fitted(picture: Image, size: int) -> Image:
    """Scale a picture to ``size``; pixels of small frames stay squares."""
    from PIL import Image

    picture = picture.convert("RGB")
    longest = max(picture.size)
    if longest * 2 <= size:
        times = size // longest
        return picture.resize((picture.width * times, picture.height * times), Image.Resampling.NEAREST)
    shape = [max(1, round(each * size / longest)) for each in picture.size]
    if longest <= size:
        return picture
    return picture.resize((shape[0], shape[1]), Image.Resampling.BOX, reducing_gap=2.0)


def shortened(text: str, width: float, font: FreeTypeFont | ImageFont) -> str:
    """A text shortened in the middle, if necessary, to fit into so many pixels."""
    if font.getlength(text) <= width:
        return text
    kept = len(text)
    while kept > 1 and font.getlength(text[: kept // 2] + "…" + text[-(kept // 2) :]) > width:
        kept -= 2
    return text[: kept // 2] + "…" + text[len(text) - kept // 2 :]


def _to_8_bits(
    arrays: Sequence[npt.NDArray[Any]], normalize: Normalize | None
) -> tuple[Callable[[npt.NDArray[Any]], npt.NDArray[np.uint8]], str]:
    """A function from a frame to uint8[H, W, 3] or uint8[H, W], one for all frames, and a line that describes it."""
    if normalize is not None:
        mean, std, told = np.array(normalize.mean), np.array(normalize.std), "Normalize is undone"
    elif all(array.dtype == np.uint8 for array in arrays):
        return np.ascontiguousarray, ""
    else:
        mean, std, told = _by_range(arrays)

    def to_8_bits(array: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
        factors = (std, mean) if array.ndim == 3 else (std.mean(), mean.mean())
        with np.errstate(over="ignore", invalid="ignore"):  # values that overflow are shown white or black
            values = np.nan_to_num(array.astype(np.float32) * factors[0] + factors[1])
            return to_uint8(np.clip(values * 255, 0, 255))

    return to_8_bits, told


def _by_range(arrays: Sequence[npt.NDArray[Any]]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], str]:
    """(mean, std, line) that bring values of unknown range into [0, 1]."""
    finite = [array[np.isfinite(array)] for array in arrays]
    low = float(min((each.min() for each in finite if each.size), default=0))
    high = float(max((each.max() for each in finite if each.size), default=1))
    values = f"values {low:.3g} … {high:.3g}"
    ones = np.ones(3)
    if low >= 0 and high <= 1:
        return 0 * ones, ones, ""
    if low >= 0 and high <= 255:
        return 0 * ones, ones / 255, f"{values}, shown as 0 … 255"
    if low >= -1 and high <= 1:
        return ones / 2, ones / 2, f"{values}, shown as -1 … 1"
    mean, std = np.array(IMAGENET_MEAN), np.array(IMAGENET_STD)
    bounds = (-mean / std).min() - 0.02, ((1 - mean) / std).max() + 0.02
    if low >= bounds[0] and high <= bounds[1]:
        return mean, std, f"{values}, shown with ImageNet's Normalize undone"
    span = (high - low) or 1.0
    return -low / span * ones, ones / span, f"{values}, shown from black to white"


def _array(frame: Any, size: int) -> npt.NDArray[Any]:
    """A frame as [H, W, 3] or [H, W] in main memory, perhaps with fewer pixels, but with no fewer than are shown.

    Raises:
        ArgumentError: it is not a picture.
    """
    is_tensor = hasattr(frame, "detach")
    frame = frame if is_tensor else np.asarray(frame)  # a table of pandas has a shape, too
    shape = tuple(frame.shape)
    is_picture = 0 not in shape and (len(shape) == 2 or (len(shape) == 3 and shape[2] in (1, 3)))
    check_type("a frame to show", list(shape), is_picture, "[H, W, 3], [H, W, 1] or [H, W]")
    step = max(1, max(shape[:2]) // (3 * size))
    frame = frame[::step, ::step, 0] if shape[2:] == (1,) else frame[::step, ::step]
    if is_tensor:
        frame = frame.detach().cpu()
        frame = frame.float() if frame.is_floating_point() else frame  # numpy has no bfloat16
    array = np.asarray(frame)
    if array.dtype.kind not in "biuf":
        raise ArgumentError(f"a frame to show must hold numbers, got {array.dtype}")
    return array
