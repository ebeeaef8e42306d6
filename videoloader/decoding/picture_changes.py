"""Find packets whose headers contradict the size that a session was set up for, which NVDEC would not report."""

from __future__ import annotations

from videoloader.decoding.nvdec_codecs import NVDEC_CODECS
from videoloader.indexing.bitstream.mpeg4_order import find_layer
from videoloader.indexing.bitstream.parameter_sets import may_have_sequence_headers, sequence_headers
from videoloader.indexing.bitstream.picture import PictureFormat


def contradiction(codec: str, payload: bytes | memoryview, picture: PictureFormat) -> str:
    """Return what in a packet contradicts the session's size; empty if nothing does. H.264 and HEVC state no sizes."""
    facts = NVDEC_CODECS[codec]
    try:
        for what, (width, height) in facts.sizes(codec, payload) if facts.sizes else ():
            if (width, height) != (picture.width, picture.height):
                return f"{what} says {width}×{height}"
    except ValueError as error:  # damage, which the CPU engine reports
        return str(error)
    if facts.blends_fields and may_have_sequence_headers(payload):
        layer = find_layer(sequence_headers(codec, payload))
        if layer and layer.interlaced:
            return "a video object layer says that it is interlaced, and NVDEC blends fields"
    return ""
