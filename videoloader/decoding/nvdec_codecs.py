"""The facts about codecs on which decoding with NVDEC depends, one row for each codec that NVDEC decodes."""

from __future__ import annotations

from typing import NamedTuple


class NvdecCodec(NamedTuple):
    """Facts about one codec.

    Attributes:
        name: its name in PyNvVideoCodec's ``cudaVideoCodec``.
        has_headers: whether NVDEC's parser needs the parameter sets or headers of a configuration record.
        reorders: whether pictures may come out in another order than their packets.
        leaves_out: whether PyNvVideoCodec may skip pictures by their times. In the other codecs, it may take a picture
            for one that no other refers to, and skip decoding it, although others do refer to it.
        cuts_odd_sizes: whether NVDEC cuts pictures of odd width or height correctly.
        is_exact: whether decoders agree in all sample values. Some standards leave the rounding of the inverse DCT open
            (IEEE 1180).
    """

    name: str
    has_headers: bool = False
    reorders: bool = True
    leaves_out: bool = False
    cuts_odd_sizes: bool = True
    is_exact: bool = True


NVDEC_CODECS = {
    "h264": NvdecCodec("H264", has_headers=True, leaves_out=True),
    "hevc": NvdecCodec("HEVC", has_headers=True),
    "vp8": NvdecCodec("VP8", reorders=False, cuts_odd_sizes=False),
    "vp9": NvdecCodec("VP9", reorders=False),
    "av1": NvdecCodec("AV1", reorders=False),
    "mpeg1video": NvdecCodec("MPEG1", cuts_odd_sizes=False, is_exact=False),
    "mpeg2video": NvdecCodec("MPEG2", cuts_odd_sizes=False, is_exact=False),
    "mpeg4": NvdecCodec("MPEG4", has_headers=True, cuts_odd_sizes=False, is_exact=False),
}
# Codecs that a GPU decodes with other values for some samples: its JPEG engines decode the first, NVDEC the others.
INEXACT_CODECS = ("mjpeg", *(codec for codec, facts in NVDEC_CODECS.items() if not facts.is_exact))
