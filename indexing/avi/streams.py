"""Describe AVI streams with the codecs and facts that libavformat and libavcodec would give."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

from videoloader.indexing.avi.header import PictureHeader, Stream
from videoloader.indexing.bitstream.jpeg import read_jpeg_frame
from videoloader.indexing.bitstream.mpeg4_headers import find_layer
from videoloader.indexing.bitstream.nal import iterate_nals
from videoloader.indexing.bitstream.parameter_sets import first_sequence_set, headers_with_start_codes
from videoloader.indexing.bitstream.picture import cut_by_container, parameter_set_format
from videoloader.indexing.decoder import WELL_KNOWN_CODECS
from videoloader.indexing.sources.base import ByteSource
from videoloader.indexing.stream_info import StreamInfo
from videoloader.indexing.video_stream import read_stream_info

_YUV420 = {"bit_depth": 8, "chroma": "420", "pixel_format": "yuv420p"}
_BT601 = 5  # the matrix of JPEG
# Fields that StreamInfo and H.264's picture format have in common.
_OF_PICTURE = ("width", "height", "bit_depth", "chroma", "color_primaries", "color_transfer", "color_matrix")
# Codes of libavcodec's decoders, case-insensitive. MPEG-4 part 2 alone has about fifty.
_CODES = {
    "mpeg4": "FMP4 DIVX DX50 XVID MP4S M4S2 ZMP4 DIV1 BLZ0 MP4V SEDG RMP4 3IV2 WAWV FFDS FVFW DCOD MVXM PM4V SMP4 "
    "DXGM VIDM M4T3 HDX4 DM4V DMK2 DYM4 DIGI EPHV EM4A M4CC SN40 VSPX ULDX SIPP SM4V XVIX DREX PLV1 MNM4 GTM4",
    "h264": "H264 X264 AVC1 DAVC V264",
    "mjpeg": "MJPG DMB1 JPEG IJPG CJPG AVI1 AVI2 MMJP",
    "msmpeg4v3": "MP43 DIV3 MPG3 DIV5 DIV6 DIV4 DVX3 AP41 COL1 COL0",
    "msmpeg4v2": "MP42 DIV2",
    "wmv1": "WMV1",
    "wmv2": "WMV2",
    "ffv1": "FFV1",
    "huffyuv": "HFYU",
    "ffvhuff": "FFVH",
    "utvideo": "ULRA ULRG ULY0 ULY2 ULY4 ULH0 ULH2 ULH4",
    "magicyuv": "MAGY M8RG M8RA M8G0 M8Y0 M8Y2 M8Y4 M8YA",
    "png": "MPNG",
    "rawvideo": "I420 IYUV YUY2 YUYV UYVY YV12 YV16 Y800 NV12",
    "cinepak": "CVID",
    "indeo4": "IV41",
}
_CODECS = {code.encode(): codec for codec, codes in _CODES.items() for code in codes.split()}
_RAW = b"\0\0\0\0"
_MPEG4_NUMBERS = {b"\4\0\0\0", b"\4\0\0\x10"}


def describe_stream(
    source: ByteSource, codec: str, stream: Stream, picture: PictureHeader, first: bytes
) -> StreamInfo | None:
    """Return the facts of a video stream; None if the codec's headers contradict the container's.

    Args:
        source: bytes of the file.
        codec: libavcodec's name of the codec.
        stream: stream as the file describes it.
        picture: picture header of the stream.
        first: the first packet.
    """
    config = _config(stream, picture)
    facts: dict[str, Any] | None
    if codec == "mpeg4":
        config = config or headers_with_start_codes(codec, first)
        facts = _mpeg4_facts(config)
    elif codec == "h264":
        config = config or _h264_headers(first)
        facts = _h264_facts(config)
    elif codec == "mjpeg":
        facts = _mjpeg_facts(first)
    elif codec in ("msmpeg4v2", "msmpeg4v3", "wmv1", "wmv2"):
        facts = {**_YUV420, "width": picture.width, "height": abs(picture.height)}
    else:
        return _described_by_libav(source, codec, stream)
    if facts is None:
        return None
    tag = stream.handler if codec == "mpeg4" and stream.handler == b"XVID" else picture.compression
    time_base = Fraction(stream.scale, stream.rate)
    if stream.aspect:
        facts["sample_aspect_ratio"] = stream.aspect
    stated = (picture.width, abs(picture.height))
    info = StreamInfo(
        codec=codec,
        codec_configs=(config,),
        time_base=time_base,
        frame_rate=1 / time_base,
        codec_tag=tag.decode("ascii") if tag.isascii() else "",
        bits_per_coded_sample=0 if codec in WELL_KNOWN_CODECS else picture.bits,
        **facts,
    )
    info = cut_by_container(info, *stated)
    return info if (info.width, info.height) == stated else None


def _config(stream: Stream, picture: PictureHeader) -> bytes:
    """Return the decoder configuration: after the picture header, or in a chunk of its own."""
    extra = picture.extra
    if picture.size == len(stream.format) - 1 and picture.size & 1:
        extra = extra[:-1]  # the padding was counted as part of the chunk
    return stream.data if not extra and picture.compression != b"H264" else extra


def _described_by_libav(source: ByteSource, codec: str, stream: Stream) -> StreamInfo | None:
    """Describe codecs whose headers are not read here: libavformat opens the file and examines the first packets."""
    info = read_stream_info(source)
    if info.codec != codec or not info.pixel_format or info.pixel_format == "pal8":
        return None
    return replace(info, sample_aspect_ratio=stream.aspect) if stream.aspect else info


def _mpeg4_facts(config: bytes) -> dict[str, Any] | None:
    layer = find_layer(config)
    if layer is None:
        return None
    return {**_YUV420, "width": layer.width, "height": layer.height, "sample_aspect_ratio": layer.sample_aspect_ratio}


def _h264_headers(first: bytes) -> bytes:
    # With the zeros between them, as libavformat has them. The last unit is usually the picture, which is nearly all of
    # the packet, so searching from the end finds it sooner.
    last = first.rfind(b"\0\0\1")
    bounds = [*iterate_nals(first[:last], 0), (last + 3, len(first))] if last >= 0 else []
    units = [first[start:stop] for start, stop in bounds if start < stop and first[start] & 31 in (7, 8)]
    return b"".join(b"\0\0\1" + unit for unit in units)


def _h264_facts(config: bytes) -> dict[str, Any] | None:
    unit = first_sequence_set("h264", config)
    picture = parameter_set_format("h264", unit) if unit else None
    # Decoders output grey pictures in several formats.
    if not picture or picture.chroma == "400" or picture.color_matrix == 0 or picture.bit_depth not in (8, 10):
        return None
    depth, full = picture.bit_depth, picture.full_range
    pixels = f"yuv{'j' if full and depth == 8 else ''}{picture.chroma}p"
    return {
        **{name: getattr(picture, name) for name in _OF_PICTURE},
        "pixel_format": pixels if depth == 8 else f"{pixels}{depth}le",
        "color_range": "" if full is None else "full" if full else "limited",
    }


def _mjpeg_facts(first: bytes) -> dict[str, Any] | None:
    frame = read_jpeg_frame(first)
    if frame is None:
        return None
    return {
        "width": frame.width,
        "height": frame.height,
        "bit_depth": 8,
        "chroma": frame.chroma,
        "pixel_format": f"yuvj{frame.chroma}p",
        "color_matrix": _BT601,
        "color_range": "full",
    }


def codec_of(compression: bytes, bits: int) -> str:
    """Return libavcodec's decoder for a ``biCompression`` and bits per pixel; empty if it is unknown here."""
    if bits <= 8 and (compression == _RAW or compression.upper() in (b"CVID", b"MPNG")):
        return ""  # with a palette, which may change from frame to frame
    if compression == _RAW:
        return "rawvideo"
    if compression in _MPEG4_NUMBERS:
        return "mpeg4"
    return _CODECS.get(compression.upper(), "")


def is_shown_when_decoded(codec: str, head: bytes) -> bool:
    """Whether a frame is shown when it is decoded. By their type, some of Indeo 4 are not, as libavcodec knows it."""
    fields = int.from_bytes(head[:3], "little")
    return codec != "indeo4" or (fields & 0x3FFFF == 0x3FFF8 and fields >> 18 & 7 in (0, 1, 2, 4))
