"""Make a small grey progressive picture with which a session can begin: 64×64 4:2:0 8 bit, intra coded.

Sources: ITU-T H.264, 7.3.2.1.1, 7.3.2.2, 7.3.3 and 7.3.5; ISO/IEC 13818-2, 6.2.2 to 6.2.6.
"""

from __future__ import annotations

from functools import cache

from videoloader.indexing.bitstream.formats import PictureFormat

_SIZE = 64
_BLOCKS = (_SIZE // 16) ** 2
PRIMER_PICTURE = PictureFormat(_SIZE, _SIZE, "420", 8, coded_size=(_SIZE, _SIZE))


@cache
def h264_primer() -> bytes:
    """Code every macroblock as Intra_16x16, DC predicted, without coefficients."""
    sps = _bits("01000010 11000000 00001010")  # Baseline profile, level 1
    sps += _ue(0) + _ue(0) + _ue(2) + _ue(0) + "0"  # output in decode order, no references
    sps += 2 * _ue(_SIZE // 16 - 1) + "1" + "1" + "0" + "0"  # whole frames, nothing cropped, no VUI
    pps = _ue(0) + _ue(0) + "0" + "0" + _ue(0) + _ue(0) + _ue(0) + "0" + "00" + 3 * _ue(0) + "000"
    slice_header = _ue(0) + _ue(7) + _ue(0) + "0000" + _ue(0) + "0" + "0" + _ue(0)
    macroblock = _ue(3) + _ue(0) + _ue(0) + "1"
    units = ((0x67, sps), (0x68, pps), (0x65, slice_header + _BLOCKS * macroblock))
    return b"".join(b"\0\0\0\1" + bytes([header]) + _pack(bits + "1") for header, bits in units)


@cache
def mpeg2_primer() -> bytes:
    """Code every macroblock as intra, without coefficients."""
    size = f"{_SIZE:012b}"
    sequence = size + size + "0001" + "0101" + f"{2500:018b}" + "1" + f"{20:010b}" + "000"
    # Main profile, main level; progressive; 4:2:0.
    sequence_extension = (
        "0001" + "01001000" + "1" + "01" + "00" + "00" + 12 * "0" + "1" + 8 * "0" + "0" + "00" + "00000"
    )
    picture = 10 * "0" + "001" + 16 * "1" + "0"
    # A frame picture with frame prediction only, 4:2:0 progressive.
    coding_extension = "1000" + 16 * "1" + "00" + "11" + "0" + "1" + "00000" + "1" + "1" + "0"
    macroblock = "1" + "1" + 4 * "10010" + 2 * "0010"
    row = "00001" + "0" + _SIZE // 16 * macroblock
    sections = [(0xB3, sequence), (0xB5, sequence_extension), (0x00, picture), (0xB5, coding_extension)]
    sections += [(number + 1, row) for number in range(_SIZE // 16)]
    return b"".join(b"\0\0\1" + bytes([code]) + _pack(bits) for code, bits in sections)


def _ue(value: int) -> str:
    """Return the bits of an Exp-Golomb code."""
    bits = f"{value + 1:b}"
    return "0" * (len(bits) - 1) + bits


def _bits(text: str) -> str:
    return text.replace(" ", "")


def _pack(bits: str) -> bytes:
    """Pack bits into bytes, padded with zeros."""
    bits += -len(bits) % 8 * "0"
    return int(bits, 2).to_bytes(len(bits) // 8, "big")
