"""Image files made with Pillow, and the pixels that Pillow reads from them."""

from __future__ import annotations

import io
import struct
import zlib
from pathlib import Path

import numpy as np
from PIL import Image

from videoloader.indexing.bitstream.jpeg import iterate_segments


def picture(number: int = 0, size: tuple[int, int] = (48, 32)) -> Image.Image:
    """A picture of smooth waves and some noise, another for each number; ``size`` is (width, height)."""
    x, y = np.arange(size[0]), np.arange(size[1])[:, None]
    waves = [np.sin((x + 5 * number) / period + y / 11) for period in (5, 7, 9)]
    noise = np.random.default_rng(number).integers(-12, 13, (size[1], size[0], 3))
    return Image.fromarray(np.clip(128 + 90 * np.stack(waves, 2) + noise, 0, 255).astype(np.uint8))


def encoded(image: Image.Image, kind: str, **options: object) -> bytes:
    """The bytes of an image file: ``encoded(picture(), "PNG")``."""
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def png_of(*chunks: tuple[bytes, bytes]) -> bytes:
    """A PNG file of chunks, each its type and data."""
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in (*chunks, (b"IEND", b""))
    )


def grey_pixel(*chunks: tuple[bytes, bytes]) -> bytes:
    """A PNG file of a grey pixel, with other chunks before it."""
    head = b"IHDR", struct.pack(">2I5B", 1, 1, 8, 0, 0, 0, 0)
    return png_of(head, *chunks, (b"IDAT", zlib.compress(b"\0\x80")))


def write_frames(folder: Path, names: list[str], *, size: tuple[int, int] = (48, 32), first: int = 0) -> Path:
    """Write a folder of pictures, numbered in the order of their names, each in the format of its extension."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(names, first):
        picture(number, size).save(folder / name)
    return folder


def rgb(file: Path | bytes) -> np.ndarray:
    """uint8[3, H, W]: the pixels that Pillow reads, without orientation."""
    image = Image.open(io.BytesIO(file) if isinstance(file, bytes) else file)
    return np.asarray(image.convert("RGB")).transpose(2, 0, 1)


def without(file: bytes, kinds: tuple[int, ...]) -> bytes:
    """A JPEG file of one scan without its segments of these kinds."""
    for kind, position in reversed(list(iterate_segments(file[: file.find(b"\xff\xda") + 4]))):
        if kind in kinds:
            file = file[:position] + file[position + 2 + int.from_bytes(file[position + 2 : position + 4], "big") :]
    return file
