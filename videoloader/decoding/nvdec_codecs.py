"""The facts about codecs on which decoding with NVDEC depends, one row for each codec that NVDEC decodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

from videoloader.decoding.primer import PRIMER_PICTURE, h264_primer, mpeg2_primer
from videoloader.indexing.bitstream import vp9
from videoloader.indexing.bitstream.av1 import sequence_format
from videoloader.indexing.bitstream.formats import PictureFormat
from videoloader.indexing.bitstream.parameter_sets import coded_size, may_have_sequence_headers, sequence_headers
from videoloader.indexing.bitstream.vpx import keyframe_format

# Bytes to search for AV1 sequence headers, which are at the start of their packets.
_AV1_HEAD = 256
_MEBIBYTE = 1 << 20

# (what says it, (width, height)) for each header in a packet that gives a size.
StatedSizes: TypeAlias = Iterator[tuple[str, tuple[int, int]]]


def _no_sizes(codec: str, payload: bytes | memoryview) -> StatedSizes:
    return iter(())


def _vp8_sizes(codec: str, payload: bytes | memoryview) -> StatedSizes:
    if keyframe := keyframe_format(codec, bytes(payload[:10])):
        yield "a keyframe", (keyframe.width, keyframe.height)


def _vp9_sizes(codec: str, payload: bytes | memoryview) -> StatedSizes:
    for start, stop in vp9.split_superframe(payload):
        head = bytes(payload[start : min(stop, start + vp9.LONGEST_HEAD)])
        if size := vp9.stated_size(head):
            yield "a frame", size


def _av1_sizes(codec: str, payload: bytes | memoryview) -> StatedSizes:
    if picture := sequence_format(bytes(payload[:_AV1_HEAD])):
        yield "a sequence header", (picture.width, picture.height)


def _mpeg_sizes(codec: str, payload: bytes | memoryview) -> StatedSizes:
    if may_have_sequence_headers(payload):
        size = coded_size(codec, sequence_headers(codec, payload))
        if any(size):
            yield "a sequence header", size


# Estimates of a session's working memory: of the bytes of a picture of the session's size in 4:2:0 8 bit, of a surface,
# and the ``PictureFormat.buffering`` of the stream.
def _memory(plain: float, surface: float, buffering: tuple[int, ...]) -> float:
    held = buffering[2] if len(buffering) > 2 else 4
    return (4.5 + 1.6 * held) * surface + min(12 * surface, 20 * _MEBIBYTE)


def _memory_of_vp9(plain: float, surface: float, buffering: tuple[int, ...]) -> float:
    return 45 * _MEBIBYTE + 18 * surface


def _memory_of_large_blocks(plain: float, surface: float, buffering: tuple[int, ...]) -> float:
    held = buffering[0] if buffering else 10
    return (6 + held) * surface + min(24 * plain, 30 * _MEBIBYTE + 5 * plain)


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
        is_sequence_set: whether a NAL unit is a sequence parameter set, for each first byte of it; empty for codecs
            without NAL units.
        has_layers: whether packets may have NAL units of other views or of alpha, which NVDEC would output as separate
            pictures.
        sizes: finds the sizes that a packet's headers state; in H.264 and HEVC, parameter sets state them instead.
        blends_fields: whether NVDEC blends the fields of interlaced pictures, which only ``find_layer`` tells.
        tells_fields: whether the picture format tells if pictures may consist of two fields.
        primer: makes the stream with which a session can begin; it is empty for codecs that need none.
        memory: estimates the working memory of a session.
    """

    name: str
    has_headers: bool = False
    reorders: bool = True
    leaves_out: bool = False
    cuts_odd_sizes: bool = True
    is_exact: bool = True
    is_sequence_set: bytes = b""
    has_layers: bool = False
    sizes: Callable[[str, bytes | memoryview], StatedSizes] = _no_sizes
    blends_fields: bool = False
    tells_fields: bool = True
    primer: Callable[[], bytes] = bytes
    memory: Callable[[float, float, tuple[int, ...]], float] = _memory

    def may_interlace(self, picture: PictureFormat) -> bool:
        """Whether pictures may consist of two fields."""
        return not (self.tells_fields and picture.frames_only)

    def can_begin_whole(self, picture: PictureFormat) -> bool:
        """Whether a session can be given the primer first and then set itself up again for a video."""
        other_size = picture.width > PRIMER_PICTURE.width or picture.height > PRIMER_PICTURE.height
        return self.primer() != b"" and (picture.chroma, picture.bit_depth) == ("420", 8) and other_size


NVDEC_CODECS = {
    "h264": NvdecCodec(
        "H264",
        has_headers=True,
        leaves_out=True,
        is_sequence_set=bytes(first & 0x1F == 7 for first in range(256)),
        primer=h264_primer,
    ),
    "hevc": NvdecCodec(
        "HEVC",
        has_headers=True,
        is_sequence_set=bytes(first & 0x7E == 33 << 1 for first in range(256)),
        has_layers=True,
        memory=_memory_of_large_blocks,
    ),
    "vp8": NvdecCodec("VP8", reorders=False, cuts_odd_sizes=False, sizes=_vp8_sizes),
    "vp9": NvdecCodec("VP9", reorders=False, sizes=_vp9_sizes, memory=_memory_of_vp9),
    "av1": NvdecCodec("AV1", reorders=False, sizes=_av1_sizes, memory=_memory_of_large_blocks),
    "mpeg1video": NvdecCodec("MPEG1", cuts_odd_sizes=False, is_exact=False, sizes=_mpeg_sizes),
    "mpeg2video": NvdecCodec(
        "MPEG2", cuts_odd_sizes=False, is_exact=False, sizes=_mpeg_sizes, tells_fields=False, primer=mpeg2_primer
    ),
    "mpeg4": NvdecCodec(
        "MPEG4", has_headers=True, cuts_odd_sizes=False, is_exact=False, sizes=_mpeg_sizes, blends_fields=True
    ),
}
# Codecs that a GPU decodes with other values for some samples: its JPEG engines decode the first, NVDEC the others.
INEXACT_CODECS = ("mjpeg", *(codec for codec, facts in NVDEC_CODECS.items() if not facts.is_exact))
