"""Packets whose own headers contradict the size that a session was set up for: NVDEC would not tell."""

from __future__ import annotations

from videoloader.indexing.bitstream.av1 import sequence_format
from videoloader.indexing.bitstream.bits import BitReader
from videoloader.indexing.bitstream.mpeg4_order import find_layer
from videoloader.indexing.bitstream.picture import PictureFormat
from videoloader.indexing.bitstream.vp9_references import split_superframe
from videoloader.indexing.bitstream.vpx import LONGEST_KEYFRAME_HEADER, keyframe_format

# Sequence headers stand at the start of their packets.
_SEQUENCE_HEAD = 64
_AV1_HEAD = 256
_INTER_HEAD = 16


def contradiction(codec: str, payload: bytes | memoryview, picture: PictureFormat) -> str:
    """What in a packet of VP8, VP9, AV1, MPEG-1, 2 or 4 says another size than the session's; empty if nothing does."""
    if codec == "vp8":
        return _of_size(keyframe_format(codec, bytes(payload[:10])), picture)
    if codec == "vp9":
        for start, stop in split_superframe(payload):
            if reason := _vp9(bytes(payload[start : min(stop, start + LONGEST_KEYFRAME_HEADER)]), picture):
                return reason
        return ""
    if codec == "av1":
        sequence = sequence_format(bytes(payload[:_AV1_HEAD]))
        if sequence is None or (sequence.width, sequence.height) == (picture.width, picture.height):
            return ""
        return f"a sequence header says {sequence.width}×{sequence.height}"
    if codec in ("mpeg1video", "mpeg2video"):
        head = bytes(payload[:_SEQUENCE_HEAD])
        at = head.find(b"\0\0\1\xb3") + 4
        if at < 4 or at + 3 > len(head):
            return ""
        size = int.from_bytes(head[at : at + 3], "big")
        if (size >> 12, size & 0xFFF) == (picture.width & 0xFFF, picture.height & 0xFFF):
            return ""
        return f"a sequence header says {size >> 12}×{size & 0xFFF}"
    if codec == "mpeg4" and payload[:4] != b"\0\0\1\xb6":
        layer = find_layer(bytes(payload[:_SEQUENCE_HEAD]))
        if layer and (layer.width, layer.height) != (picture.width, picture.height):
            return f"a video object layer says {layer.width}×{layer.height}"
        if layer and layer.interlaced:
            return "a video object layer says that it is interlaced, and NVDEC blends fields"
    return ""


def _of_size(stated: PictureFormat | None, picture: PictureFormat) -> str:
    if stated is None or (stated.width, stated.height) == (picture.width, picture.height):
        return ""
    return f"a keyframe is {stated.width}×{stated.height}"


def _vp9(head: bytes, picture: PictureFormat) -> str:
    """By uncompressed_header of the VP9 bitstream specification, 6.2."""
    if stated := keyframe_format("vp9", head):
        return _of_size(stated, picture)
    try:
        bits = BitReader.raw(head[:_INTER_HEAD])
        bits.u(2)
        profile = bits.u(1) | bits.u(1) << 1
        if profile == 3:
            bits.u(1)
        if bits.u(1):  # shows an earlier frame
            return ""
        inter, shown, resilient = bits.u(1), bits.u(1), bits.u(1)
        if not inter:
            return ""
        intra_only = 0 if shown else bits.u(1)
        if not resilient:
            bits.u(2)
        if intra_only:
            bits.u(24)
            if profile > 0:
                if profile >= 2:
                    bits.u(1)
                if bits.u(3) != 7:
                    bits.u(1)
                    if profile & 1:
                        bits.u(3)
                elif profile & 1:
                    bits.u(1)
            bits.u(8)
        else:
            bits.u(20)
            if bits.u(1) or bits.u(1) or bits.u(1):  # as large as one of its references
                return ""
        size = bits.u(16) + 1, bits.u(16) + 1
    except ValueError:
        return ""
    return "" if size == (picture.width, picture.height) else f"a frame is {size[0]}×{size[1]}"
