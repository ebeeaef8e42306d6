"""Find packets whose headers contradict the size that a session was set up for, which NVDEC would not report."""

from __future__ import annotations

from collections.abc import Iterator

from videoloader.indexing.bitstream import vp9
from videoloader.indexing.bitstream.av1 import first_sequence_header
from videoloader.indexing.bitstream.mpeg4_order import find_layer
from videoloader.indexing.bitstream.parameter_sets import coded_size, may_have_sequence_headers, sequence_headers
from videoloader.indexing.bitstream.picture import PictureFormat
from videoloader.indexing.bitstream.vpx import keyframe_format

# Bytes to search for AV1 sequence headers, which are at the start of their packets.
_AV1_HEAD = 256


def contradiction(codec: str, payload: bytes | memoryview, picture: PictureFormat) -> str:
    """Return what in a VP8, VP9, AV1 or MPEG-1, 2, 4 packet contradicts the session's size; empty if nothing does."""
    try:
        for what, (width, height) in _stated_sizes(codec, payload):
            if (width, height) != (picture.width, picture.height):
                return f"{what} says {width}×{height}"
    except ValueError as error:  # damage, which the CPU engine reports
        return str(error)
    if codec == "mpeg4" and may_have_sequence_headers(payload):
        layer = find_layer(sequence_headers(codec, payload))
        if layer and layer.interlaced:
            return "a video object layer says that it is interlaced, and NVDEC blends fields"
    return ""


def _stated_sizes(codec: str, payload: bytes | memoryview) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield (what says it, (width, height)) for each header in a packet that gives a size."""
    if codec == "vp8":
        if keyframe := keyframe_format(codec, bytes(payload[:10])):
            yield "a keyframe", (keyframe.width, keyframe.height)
    elif codec == "vp9":
        for start, stop in vp9.split_superframe(payload):
            head = bytes(payload[start : min(stop, start + vp9.LONGEST_HEAD)])
            if size := vp9.stated_size(head):
                yield "a frame", size
    elif codec == "av1":
        if sequence := first_sequence_header(bytes(payload[:_AV1_HEAD])):
            yield "a sequence header", (sequence.width, sequence.height)
    elif may_have_sequence_headers(payload):
        size = coded_size(codec, sequence_headers(codec, payload))
        if any(size):
            yield "a sequence header", size
