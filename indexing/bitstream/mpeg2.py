"""Read the sequence header of MPEG-2 video: size, shape and colours of the pictures, and their rate."""

from __future__ import annotations

from fractions import Fraction

from videoloader.indexing.bitstream.formats import PictureFormat

_CHROMA = {1: "420", 2: "422", 3: "444"}
# aspect_ratio_information and frame_rate_code (ISO/IEC 13818-2, tables 6-3 and 6-4).
_DISPLAY_ASPECT = {2: Fraction(4, 3), 3: Fraction(16, 9), 4: Fraction(221, 100)}
_FRAME_RATES = {
    1: Fraction(24000, 1001), 2: Fraction(24), 3: Fraction(25), 4: Fraction(30000, 1001), 5: Fraction(30),
    6: Fraction(50), 7: Fraction(60000, 1001), 8: Fraction(60),
}  # fmt: skip
_SEQUENCE_EXTENSION, _SEQUENCE_DISPLAY_EXTENSION = 1, 2


def read_sequence_header(header: bytes) -> PictureFormat | None:
    """Read a sequence header with its extensions and start codes (ISO/IEC 13818-2, 6.2.2.1 to 6.2.2.4).

    Returns:
        The format; None for MPEG-1, which has no extension, and for a truncated header.
    """
    extensions = {each[0] >> 4: each for each in header.split(b"\0\0\1\xb5")[1:] if each}
    sequence = extensions.get(_SEQUENCE_EXTENSION, b"")
    if len(header) < 12 or header[:4] != b"\0\0\1\xb3" or len(sequence) < 6:
        return None
    width = header[4] << 4 | header[5] >> 4 | (sequence[1] & 1) << 13 | (sequence[2] & 0x80) << 5
    height = (header[5] & 15) << 8 | header[6] | (sequence[2] & 0x60) << 7
    rate = _FRAME_RATES.get(header[7] & 15, Fraction(0))
    rate *= Fraction((sequence[5] >> 5 & 3) + 1, (sequence[5] & 31) + 1)
    chroma = _CHROMA.get(sequence[1] >> 1 & 3)
    if not width or not height or chroma is None:
        return None
    colours, shown = (2, 2, 2), (width, height)
    if display := extensions.get(_SEQUENCE_DISPLAY_EXTENSION):
        at = 1
        if display[0] & 1 and len(display) > 3:
            colours, at = (display[1], display[2], display[3]), 4
        if len(display) >= at + 4:
            bits = int.from_bytes(display[at : at + 4], "big")
            shown = bits >> 18, bits >> 3 & 0x3FFF
    primaries, transfer, matrix = colours
    return PictureFormat(
        width, height, chroma, 8, matrix, False, color_primaries=primaries, color_transfer=transfer,
        sample_aspect_ratio=_sample_aspect(header[7] >> 4, (width, height), shown), frame_rate=rate,
    )  # fmt: skip


def is_progressive(header: bytes) -> bool:
    """Whether a sequence header says that all its pictures are frames (6.2.2.3, progressive_sequence)."""
    _, _, extension = header.partition(b"\0\0\1\xb5")
    return len(extension) > 1 and extension[0] >> 4 == _SEQUENCE_EXTENSION and bool(extension[1] & 8)


def _sample_aspect(code: int, coded: tuple[int, int], shown: tuple[int, int]) -> Fraction:
    display = _DISPLAY_ASPECT.get(code)
    if display is None:
        return Fraction(1)
    # By the standard, the aspect ratio is that of the area shown. Many streams mean the whole picture instead, so the
    # standard is followed only if the picture then has a usual shape, as in libavcodec.
    if all(shown) and display / Fraction(*shown) * Fraction(*coded) in (Fraction(4, 3), Fraction(16, 9)):
        return display / Fraction(*shown)
    return display / Fraction(*coded)
