"""Find the frames of VP9 in a packet, and read references and picture format from their headers."""

from __future__ import annotations

from typing import NamedTuple

from videoloader.indexing.bitstream.bits import BitReader
from videoloader.indexing.bitstream.formats import PictureFormat

SLOTS = 8
LONGEST_HEAD = 32  # bytes that contain everything read of a header
_SYNC_CODE = 0x498342
_RGB = 7
# ITU-T H.273 code point of each color_space (VP9 bitstream specification, 7.2.2).
_MATRICES = (2, 5, 1, 6, 7, 9, 2, 0)
_NO_SLOTS: frozenset[int] = frozenset()


class FrameHeader(NamedTuple):
    """The slots that a frame reads and writes.

    Attributes:
        shown: slot that is shown unchanged; None for a new frame.
        is_key: True if it is a key frame, which forgets everything before it.
        resilient: True if it takes nothing from earlier frames except its references.
        refreshes: bit mask of the slots in which it is stored.
        reads: the slots it names.
        size: (width, height) in pixels; None if it is that of a reference.
        picture: format of a key frame. Its chroma is ``""`` for RGB, and for chroma that is halved only in height.
    """

    shown: int | None
    is_key: bool
    resilient: bool
    refreshes: int
    reads: frozenset[int]
    size: tuple[int, int] | None = None
    picture: PictureFormat | None = None


def split_superframe(payload: bytes | memoryview) -> list[tuple[int, int]]:
    """Return (start, stop) of the frames in a packet (VP9 bitstream specification, annex B)."""
    size = len(payload)
    if not size:
        return []
    marker = payload[size - 1]
    if marker & 0xE0 != 0xC0:
        return [(0, size)]
    width, count = (marker >> 3 & 3) + 1, (marker & 7) + 1
    index = size - 2 - width * count
    if index < 0 or payload[index] != marker:
        return [(0, size)]
    frames = []
    position = 0
    for number in range(count):
        at = index + 1 + number * width
        length = int.from_bytes(payload[at : at + width], "little")
        if not length:  # libavcodec refuses such packets
            raise ValueError("an empty frame in a superframe")
        if position + length > index:
            raise ValueError("a frame ends after its superframe")
        frames.append((position, position + length))
        position += length
    return frames


def read_frame_header(head: bytes) -> FrameHeader:
    """Read uncompressed_header up to the size (6.2, 7.2). ValueError if it is damaged."""
    bits = BitReader.raw(head[:LONGEST_HEAD])
    if bits.u(2) != 2:
        raise ValueError("no VP9 frame marker")
    profile = bits.u(1) | bits.u(1) << 1
    if profile == 3 and bits.u(1):
        raise ValueError("a VP9 profile that is not known")
    if bits.u(1):
        return FrameHeader(bits.u(3), False, True, 0, _NO_SLOTS)
    is_key, shown, resilient = not bits.u(1), bits.u(1), bool(bits.u(1))
    if is_key:
        _check_sync(bits)
        depth, chroma, matrix, full_range = _read_color_config(bits, profile)
        size = _read_size(bits)
        picture = PictureFormat(*size, chroma, depth, matrix, full_range)
        return FrameHeader(None, True, True, 0xFF, _NO_SLOTS, size, picture)
    intra_only = not shown and bits.u(1)
    bits.u(0 if resilient else 2)
    if intra_only:
        _check_sync(bits)
        if profile:
            _read_color_config(bits, profile)
        return FrameHeader(None, False, resilient, bits.u(SLOTS), _NO_SLOTS, _read_size(bits))
    refreshes = bits.u(SLOTS)
    named = []
    for _ in range(3):
        named.append(bits.u(3))
        bits.u(1)
    as_a_reference = bits.u(1) or bits.u(1) or bits.u(1)
    size_of_own = None if as_a_reference else _read_size(bits)
    return FrameHeader(None, False, resilient, refreshes, frozenset(named), size_of_own)


def stated_size(head: bytes) -> tuple[int, int] | None:
    """Return the size in a frame's header; None if it has none, or is damaged."""
    try:
        return read_frame_header(head).size
    except ValueError:
        return None


def _check_sync(bits: BitReader) -> None:
    if bits.u(24) != _SYNC_CODE:
        raise ValueError("no VP9 sync code")


def _read_color_config(bits: BitReader, profile: int) -> tuple[int, str, int, bool]:
    """Read bit depth, chroma format, matrix, and whether the range is full."""
    depth = 8 if profile < 2 else 12 if bits.u(1) else 10
    space = bits.u(3)
    chroma, full_range = "420", True
    if space == _RGB:
        chroma = ""
        bits.u(profile & 1)
    else:
        full_range = bool(bits.u(1))
        if profile & 1:
            chroma = ("444", "", "422", "420")[bits.u(2)]
            bits.u(1)
    return depth, chroma, _MATRICES[space], full_range


def _read_size(bits: BitReader) -> tuple[int, int]:
    return bits.u(16) + 1, bits.u(16) + 1
