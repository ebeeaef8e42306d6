"""Find packets whose headers contradict the size that a session was set up for, which NVDEC would not report."""

from __future__ import annotations

from videoloader.decoding.nvdec_codecs import NVDEC_CODECS
from videoloader.indexing.bitstream.formats import PictureFormat
from videoloader.indexing.bitstream.mpeg4_headers import find_layer
from videoloader.indexing.bitstream.parameter_sets import may_have_sequence_headers, sequence_headers

# What is needed for every packet, in tuples, which are faster to read than rows.
_STATEMENTS = {codec: (facts.sizes, facts.blends_fields) for codec, facts in NVDEC_CODECS.items()}


def contradiction(codec: str, payload: bytes | memoryview, picture: PictureFormat) -> str:
    """Return what in a packet contradicts the session's size; empty if nothing does. H.264 and HEVC state no sizes."""
    sizes, blends_fields = _STATEMENTS[codec]
    try:
        for what, (width, height) in sizes(codec, payload):
            if width != picture.width or height != picture.height:
                return f"{what} says {width}×{height}"
    except ValueError as error:  # damage, which the CPU engine reports
        return str(error)
    if blends_fields and may_have_sequence_headers(payload):
        layer = find_layer(sequence_headers(codec, payload))
        if layer and layer.interlaced:
            return "a video object layer says that it is interlaced, and NVDEC blends fields"
    return ""
