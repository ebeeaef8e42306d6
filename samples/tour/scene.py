"""Write two short videos with something to see in them: a car on a road, and a boat at dusk.

python scene.py scenes
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import av
import numpy as np
from PIL import Image, ImageDraw

FRAMES, FPS, WIDTH, HEIGHT = 80, 25, 256, 192
GOP = 16  # the distance from keyframe to keyframe, in frames
# Pictures are drawn larger and then reduced, so that edges are smooth.
SCALE = 2
# The car's place in the middle of its video, in pixels: x0, y0, x1, y1.
CAR_BOX = (88, 120, 176, 176)


def write_scenes(folder: str | Path) -> list[str]:
    """Write ``car.mp4`` and ``boat.mp4``, and return their paths."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    return [_write(folder / "car.mp4", draw_car), _write(folder / "boat.mp4", draw_boat)]


def draw_car(number: int) -> Image.Image:
    """A red car passes from left to right under a morning sky."""
    picture, draw = _sky((90, 160, 235), (225, 240, 250))
    draw.ellipse(_box(196, 18, 232, 54), (255, 214, 60))
    draw.polygon(_points(0, 140, 50, 70, 100, 120, 150, 60, 256, 140), (70, 130, 80))
    draw.rectangle(_box(0, 136, 256, 192), (84, 88, 96))
    for left in range(-8, 256, 48):
        draw.rectangle(_box(left, 178, left + 24, 182), (240, 240, 230))
    for left, shade in ((18, 50), (64, 75), (222, 60)):
        draw.rectangle(_box(left, 108, left + 6, 140), (96, 64, 40))
        draw.ellipse(_box(left - 12, 84, left + 18, 120), (30, shade + 70, 40))
    x = -70 + 340 * number / FRAMES
    draw.rectangle(_box(x + 4, 136, x + 80, 158), (206, 38, 40))
    draw.polygon(_points(x + 18, 137, x + 28, 122, x + 58, 122, x + 70, 137), (206, 38, 40))
    draw.polygon(_points(x + 24, 136, x + 31, 125, x + 43, 125, x + 43, 136), (190, 225, 245))
    draw.polygon(_points(x + 46, 136, x + 46, 125, x + 56, 125, x + 64, 136), (190, 225, 245))
    for wheel in (x + 20, x + 64):
        draw.ellipse(_box(wheel - 9, 149, wheel + 9, 167), (25, 25, 28))
        for spoke in (0, np.pi / 2):
            turn = number / 3 + spoke
            ends = (wheel + 6 * np.cos(turn), 158 + 6 * np.sin(turn), wheel - 6 * np.cos(turn), 158 - 6 * np.sin(turn))
            draw.line(_points(*ends), (200, 200, 205), 2 * SCALE)
    return _finished(picture)


def draw_boat(number: int) -> Image.Image:
    """A boat sails from right to left at dusk."""
    picture, draw = _sky((60, 30, 90), (250, 150, 80))
    draw.ellipse(_box(40, 80, 88, 128), (255, 236, 170))
    draw.rectangle(_box(0, 112, 256, 192), (28, 60, 104))
    for row in range(120, 192, 12):
        for left in range(-24 + (number + row) % 24, 256, 24):
            draw.arc(_box(left, row, left + 20, row + 8), 200, 340, (70, 120, 170), 2 * SCALE)
    x, y = 220 - 240 * number / FRAMES, 118 + 3 * np.sin(number / 5)
    draw.polygon(_points(x, y + 22, x + 84, y + 22, x + 68, y + 42, x + 16, y + 42), (120, 66, 30))
    draw.rectangle(_box(x + 40, y - 54, x + 43, y + 22), (60, 40, 30))
    draw.polygon(_points(x + 46, y - 50, x + 46, y + 14, x + 84, y + 14), (245, 245, 240))
    draw.polygon(_points(x + 37, y - 42, x + 37, y + 14, x + 10, y + 14), (226, 70, 60))
    return _finished(picture)


def _sky(top: tuple[int, int, int], bottom: tuple[int, int, int]) -> tuple[Image.Image, ImageDraw.ImageDraw]:
    ramp = np.linspace(0, 1, HEIGHT * SCALE)[:, None, None]
    pixels = np.array(top) * (1 - ramp) + np.array(bottom) * ramp
    picture = Image.fromarray(np.broadcast_to(pixels, (HEIGHT * SCALE, WIDTH * SCALE, 3)).astype(np.uint8))
    return picture, ImageDraw.Draw(picture)


def _box(*edges: float) -> list[float]:
    return [SCALE * edge for edge in edges]


def _points(*coordinates: float) -> list[tuple[float, float]]:
    scaled = _box(*coordinates)
    return list(zip(scaled[::2], scaled[1::2], strict=True))


def _finished(picture: Image.Image) -> Image.Image:
    return picture.resize((WIDTH, HEIGHT), Image.Resampling.BOX)


def _write(path: Path, draw: Callable[[int], Image.Image]) -> str:
    options = {"crf": "20", "g": str(GOP), "sc_threshold": "0"}
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=FPS, options=options)
        assert isinstance(stream, av.VideoStream)
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        for number in range(FRAMES):
            container.mux(stream.encode(av.VideoFrame.from_image(draw(number))))
        container.mux(stream.encode())
    return str(path)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Write two short videos with something to see in them.")
    parser.add_argument("folder", type=Path)
    print(*write_scenes(parser.parse_args().folder), sep="\n")
