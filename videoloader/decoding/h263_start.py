"""Show H.263 decoders that begin in the middle of a stream how its pictures end; see ``mpeg4_start``.

Until libavcodec has seen pictures that end where their data end, it takes damaged ones for sound.
"""

from __future__ import annotations

import re

import av.video.codeccontext

from videoloader.decoding.mpeg4_start import show
from videoloader.indexing.index import VideoIndex

# libavcodec relies on the ends of pictures once it has seen two that are right.
_PICTURES = 4
# (width, height) by source format (ITU-T H.263, 5.1.3), and by PictureSize (SWF file format specification, version 19,
# H.263 video packet).
_H263_SIZES = {1: (128, 96), 2: (176, 144), 3: (352, 288), 4: (704, 576), 5: (1408, 1152)}
_FLV1_SIZES = {2: (352, 288), 3: (176, 144), 4: (128, 96), 5: (320, 240), 6: (160, 120)}
# Bits of the width, and as many of the height, where the header tells them.
_FLV1_SIZE_BITS = {0: 8, 1: 16}
# 22 bits of a byte string (5.1.1); other bytes may come before it.
_START_CODE = re.compile(rb"\0\0[\x80-\x83]")
# The longest part of a packet that is searched for a header.
_LONGEST_HEAD = 512


def show_sound_h263_endings(
    context: av.video.codeccontext.VideoCodecContext, index: VideoIndex, packet: int, data: bytes | memoryview
) -> None:
    """Show a new decoder pictures that end as they should, before its run begins with this packet."""
    skipped = {"h263": _skipped_h263, "flv1": _skipped_flv1}[index.stream.codec](bytes(data[:_LONGEST_HEAD]))
    if skipped:
        show(context, index, packet, _PICTURES * [skipped])


def _skipped_h263(head: bytes) -> bytes:
    """Make a picture like the one that begins here, in which no macroblock is coded; empty if it is not known how."""
    start = _START_CODE.search(head)
    if start is None:
        return b""
    bits = _bits(head[start.start() :][:12].ljust(12, b"\0"))
    if size := _H263_SIZES.get(int(bits[35:38], 2)):
        # Inter, without options; quantizer 1; neither CPM nor PEI.
        return _pack(bits[:38] + "1" + "0000" + "00001" + "00", *size)
    # The fields of PLUSPTYPE (5.1.4), CPM, and those of CPFMT (5.1.5), with the size in units of four pixels.
    extended, kind, has_options, custom = bits[35:41] == "111001", bits[41:44], bits[68] == "1", bits[69:92]
    size = _H263_SIZES.get(int(kind, 2))
    if kind == "110":
        size = 4 * int(custom[4:13], 2) + 4, 4 * int(custom[14:], 2)
    if not extended or has_options or size is None or not size[1]:
        return b""
    plain = kind + 11 * "0" + "1000" + "001" + "000" + "001" + "0"
    return _pack(bits[:41] + plain + (custom if kind == "110" else "") + "00001" + "0", *size)


def _skipped_flv1(head: bytes) -> bytes:
    bits = _bits(head[:9].ljust(9, b"\0"))
    code = int(bits[30:33], 2)
    length = _FLV1_SIZE_BITS.get(code, 0)
    width, height = int(bits[33 : 33 + length] or "0", 2), int(bits[33 + length : 33 + 2 * length] or "0", 2)
    width, height = _FLV1_SIZES.get(code, (width, height))
    if int(bits[:17], 2) != 1 or not width * height:
        return b""
    # Inter; no deblocking; quantizer 1; no extra information.
    return _pack(bits[: 33 + 2 * length] + "01" + "0" + "00001" + "0", width, height)


def _bits(data: bytes) -> str:
    return f"{int.from_bytes(data, 'big'):0{8 * len(data)}b}"


def _pack(header: str, width: int, height: int) -> bytes:
    """Return a picture with this header, of which each macroblock has the bit that says that it is not coded."""
    bits = header + -(-width // 16) * -(-height // 16) * "1"
    bits += -len(bits) % 8 * "0"
    return int(bits, 2).to_bytes(len(bits) // 8, "big")
