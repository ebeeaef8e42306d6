"""Read the coded picture's size, chroma format, bit depth and colours from the codec's own headers."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from videoloader.indexing.bitstream.av1 import sequence_format, units_of_record
from videoloader.indexing.bitstream.formats import PictureFormat
from videoloader.indexing.bitstream.h264_parameter_sets import Sps, read_sps
from videoloader.indexing.bitstream.hevc_parameter_sets import SequenceParameters, read_sequence_parameters
from videoloader.indexing.bitstream.mpeg4_headers import find_layer
from videoloader.indexing.bitstream.nal import MOST_HELD
from videoloader.indexing.bitstream.parameter_sets import WITH_PARAMETER_SETS, first_sequence_set
from videoloader.indexing.stream_info import StreamInfo

_CHROMA = ("400", "420", "422", "444")


def picture_format(stream: StreamInfo) -> PictureFormat | None:
    """Return the picture format of a stream; None if neither its headers nor its container tell."""
    size, depth = (stream.width, stream.height), stream.bit_depth
    # Only what it depends on, which is hashed and compared in a tenth of the time of the whole.
    return _picture_format(
        stream.codec, stream.codec_configs, size, depth, stream.chroma, stream.color_matrix, stream.color_range
    )


def cut_by_container(stream: StreamInfo, width: int, height: int) -> StreamInfo:
    """Return the stream with pictures cropped to the size that the container states, if libavcodec does that.

    It does so for H.264 (init_dimensions of h264_slice.c) if nothing is cropped on the left and the top, and the size
    is not larger than that of the sequence parameter set, but ends in the same macroblocks.

    Args:
        stream: stream with the size in its headers.
        width, height: size that the container states.
    """
    size = (stream.width, stream.height)
    if stream.codec != "h264" or (width, height) == size:
        return stream
    picture = picture_format(stream)
    if picture is None or (picture.width, picture.height) != size or not _may_be_cut(picture, width, height):
        return stream
    return replace(stream, width=width, height=height, container_size=(width, height))


def _may_be_cut(picture: PictureFormat, width: int, height: int) -> bool:
    sizes = ((width, picture.width), (height, picture.height))
    fits = all(0 < stated <= coded and -(-stated // 16) == -(-coded // 16) for stated, coded in sizes)
    return fits and not any(picture.cut_off)


@lru_cache(256)
def configs_not_cut(stream: StreamInfo) -> tuple[int, ...]:
    """Return the numbers of H.264's records whose pictures cannot be cropped to the stream's size.

    At the first of them libavcodec forgets that size, also for everything after it.
    """
    formats = [picture_format(replace(stream, codec_configs=(config,))) for config in stream.codec_configs]
    size = (stream.width, stream.height)
    return tuple(number for number, each in enumerate(formats) if each is not None and not _may_be_cut(each, *size))


@lru_cache(4096)
def _picture_format(
    codec: str,
    configs: tuple[bytes, ...],
    size: tuple[int, int],
    depth: int,
    chroma: str,
    color_matrix: int,
    color_range: str,
) -> PictureFormat | None:
    for config in configs:
        if codec in WITH_PARAMETER_SETS and (sps := first_sequence_set(codec, config)):
            return parameter_set_format(codec, sps)
        if codec == "av1" and (picture := sequence_format(units_of_record(config))):
            return picture
        if codec == "mpeg4" and (layer := find_layer(config)):
            size = (layer.width, layer.height)
    if codec == "av1" and configs[0][:1] == b"\x81" and len(configs[0]) >= 4:
        depth, chroma = _read_av1c(configs[0])
    if codec in ("vp8", "mpeg1video", "mpeg4", "mpeg2video") and not depth:
        depth, chroma = 8, "420"
    if not depth or not chroma:
        return None
    return PictureFormat(*size, chroma, depth, color_matrix, {"full": True, "limited": False}.get(color_range))


def _read_av1c(config: bytes) -> tuple[int, str]:
    """Return bit depth, chroma of an AV1CodecConfigurationRecord (AV1 Codec ISO Media File Format Binding, 2.3.3)."""
    flags = config[2]
    depth = 12 if flags & 0x20 else 10 if flags & 0x40 else 8
    if flags & 0x10:
        return depth, "400"
    return depth, "420" if flags & 0x0C == 0x0C else "422" if flags & 0x08 else "444"


@lru_cache(256)
def parameter_set_format(codec: str, nal: bytes) -> PictureFormat | None:
    """Return the picture format in a sequence parameter set of H.264 or HEVC; None if it cannot be read.

    Args:
        codec: ``"h264"`` or ``"hevc"``.
        nal: NAL unit with its header.
    """
    try:
        return _read_h264_format(nal) if codec == "h264" else _read_hevc_format(nal)
    except ValueError:
        return None


def _read_h264_format(unit: bytes) -> PictureFormat:
    sps = read_sps(unit[1:])
    blocks = sps.coded_size[0] * sps.coded_size[1] // 256
    limit = min(_H264_DPB_BLOCKS.get(sps.level, _H264_LARGEST_DPB) // blocks, MOST_HELD)
    buffering = (sps.references, limit, limit if sps.buffered is None else sps.buffered)
    field_flag_at = -1 if sps.frames_only else sps.frame_num_bits + 2 * sps.separate_planes
    # With type 2, pictures come in decoding order.
    reordered = 0 if sps.order_type == 2 else sps.reordered
    return _format(sps, buffering, reordered, field_flag_at)


def _format(
    sps: Sps | SequenceParameters, buffering: tuple[int, ...], reordered: int | None, field_flag_at: int = -1
) -> PictureFormat:
    vui = sps.vui
    return PictureFormat(
        sps.width, sps.height, _CHROMA[min(sps.chroma, 3)], sps.bit_depth, vui.matrix, vui.full_range, buffering,
        vui.primaries, vui.transfer, vui.sample_aspect_ratio, field_flag_at, sps.coded_size, (sps.left, sps.top),
        reordered, chroma_site=vui.chroma_site,
    )  # fmt: skip


# MaxDpbMbs by level_idc (ITU-T H.264, table A-1).
_H264_DPB_BLOCKS = {
    9: 396, 10: 396, 11: 900, 12: 2376, 13: 2376, 20: 2376, 21: 4752, 22: 8100, 30: 8100, 31: 18000, 32: 20480,
    40: 32768, 41: 32768, 42: 34816, 50: 110400, 51: 184320, 52: 184320,
}  # fmt: skip
_H264_LARGEST_DPB = 696320


def _read_hevc_format(unit: bytes) -> PictureFormat:
    sps = read_sequence_parameters(unit)
    buffering = (sps.buffered, _hevc_limit(sps.level, sps.width * sps.height))
    return _format(sps, buffering, sps.reordered)


# MaxLumaPs by general_level_idc (ITU-T H.265, table A.8).
_HEVC_LUMA_SAMPLES = {
    30: 36864, 60: 122880, 63: 245760, 90: 552960, 93: 983040, 120: 2228224, 123: 2228224,
    150: 8912896, 153: 8912896, 156: 8912896,
}  # fmt: skip


def _hevc_limit(level: int, samples: int) -> int:
    """Return MaxDpbSize (ITU-T H.265, A.4.2): it is larger for pictures smaller than the level allows."""
    largest = _HEVC_LUMA_SAMPLES.get(level, 35651584)
    if samples <= largest // 4:
        return MOST_HELD
    return 12 if samples <= largest // 2 else 8 if samples <= largest * 3 // 4 else 6
