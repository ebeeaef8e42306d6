"""Packets whose own headers contradict the size that a session was set up for: NVDEC would not tell."""

from __future__ import annotations

from videoloader.indexing.bitstream import vp9
from videoloader.indexing.bitstream.av1 import first_sequence_header
from videoloader.indexing.bitstream.mpeg4_order import find_layer
from videoloader.indexing.bitstream.picture import PictureFormat
from videoloader.indexing.bitstream.vpx import keyframe_format

# Sequence headers stand at the start of their packets.
_SEQUENCE_HEAD = 64
_AV1_HEAD = 256


def contradiction(codec: str, payload: bytes | memoryview, picture: PictureFormat) -> str:
    """What in a packet of VP8, VP9, AV1, MPEG-1, 2 or 4 says another size than the session's; empty if nothing does."""
    if codec == "vp8":
        stated = keyframe_format(codec, bytes(payload[:10]))
        if stated is None or (stated.width, stated.height) == (picture.width, picture.height):
            return ""
        return f"a keyframe is {stated.width}×{stated.height}"
    if codec == "vp9":
        for start, stop in vp9.split_superframe(payload):
            if reason := _vp9(bytes(payload[start : min(stop, start + vp9.LONGEST_HEAD)]), picture):
                return reason
        return ""
    if codec == "av1":
        sequence = first_sequence_header(bytes(payload[:_AV1_HEAD]))
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


def _vp9(head: bytes, picture: PictureFormat) -> str:
    try:
        frame = vp9.read_frame_header(head)
    except ValueError:
        return ""
    if frame.size is None or frame.size == (picture.width, picture.height):
        return ""
    return f"a {'keyframe' if frame.is_key else 'frame'} is {frame.size[0]}×{frame.size[1]}"
