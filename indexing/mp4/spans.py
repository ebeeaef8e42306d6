"""Index edit lists with spans that begin where a decoder cannot start afresh, which takes a decode.

For each span libavformat outputs packets from what the container marks as a keyframe. A decoder that gets them in the
middle of a GOP gives no frame, or a different one, until the next keyframe. A decoder that jumps to a keyframe without
starting a new sequence drops the pictures it holds back, or puts them in between. This happens where the table of
keyframes is wrong, and where one of several spans begins in an open GOP.
"""

from __future__ import annotations

from dataclasses import replace

from videoloader.errors import DecodeError
from videoloader.errors.of_handlers import raise_of_handler
from videoloader.indexing.bitstream.nal import H264_IDR, MOST_HELD
from videoloader.indexing.bitstream.random_access import has_unit, is_intra_only
from videoloader.indexing.decoder import FreshDecoder
from videoloader.indexing.index import VideoIndex
from videoloader.indexing.keyframe_heads import is_random_access_at, read_packet, with_keyframes_read
from videoloader.indexing.keyframes import packet_payloads
from videoloader.indexing.libav import NothingDecodesError, index_by_decoding
from videoloader.indexing.mp4.edits import Shown
from videoloader.indexing.sources.base import ByteSource
from videoloader.indexing.true_order import packets_of

# Types of NAL units with which decoders start anew: IDR pictures, and in HEVC those after a broken link.
_ANEW = {"h264": (H264_IDR,), "hevc": range(16, 21)}


def spans_need_decoding(index: VideoIndex, source: ByteSource, shown: Shown) -> bool:
    """Whether tables do not tell which frames come out of the spans of an edit list.

    Args:
        index: index made from the tables.
        source: source of the same video.
        shown: spans by the tables.
    """
    if index.stream.encrypted or not shown.starts:
        return False
    if shown.uncertain:
        return True
    first, *others = shown.starts
    if not first and not others:
        return False
    if is_intra_only(index.stream.codec):
        return False
    # A video's own start is checked elsewhere, with or without an edit list.
    if first and is_random_access_at(index, source, first) is False:
        return True
    if not all(_starts_anew_at(index, source, packet) for packet in sorted(set(others))):
        return True
    # Parameter sets in the packets of one span stay in force in the next.
    return bool(others) and len(with_keyframes_read(index, source)[0].stream.codec_configs) > 1


def with_decoded_spans(index: VideoIndex, source: ByteSource) -> VideoIndex:
    """Return the index with the packets that libavformat reads, in its order, and the frames that they decode to.

    A packet that several spans need occurs several times, since its pictures may differ.

    Raises:
        NothingDecodesError: no frame comes out.
    """
    try:
        decoded = index_by_decoding(source)
    except NothingDecodesError:
        raise
    except DecodeError as error:
        raise_of_handler(error)
        return index  # damaged: keep the frames of the container's tables
    packets = packets_of(decoded, index)
    if packets is None:
        return decoded
    spans = replace(
        decoded,
        container=index.container,
        packet_size=index.packet_size[packets],
        start_time=index.start_time,
        keys_from=index.keys_from,
        stream=replace(
            index.stream,
            # All packets were examined for parameter sets, which stay in force from one span to the next.
            codec_configs=decoded.stream.codec_configs,
            palettes=decoded.stream.palettes,
            # Packets that show nothing are reordered, too.
            reorder_depth=max(index.stream.reorder_depth, decoded.stream.reorder_depth),
            size_varies=decoded.stream.size_varies,
        ),
    )
    return _with_depth_of_decoder(spans, source) if index.stream.codec == "h264" else spans


def _with_depth_of_decoder(index: VideoIndex, source: ByteSource) -> VideoIndex:
    """Return the index of H.264 with the reorder depth at which a decoder gives these frames.

    If pictures seem to come out of order, libavformat assumes deeper reordering and tells its decoder so. The depth
    decides which pictures are lost at a jump.
    """
    shown, own = index.frame_packet.tolist(), index.stream.reorder_depth
    known = set(shown)
    for depth in dict.fromkeys((own, MOST_HELD, *range(own + 1, MOST_HELD))):
        tried = replace(index, stream=replace(index.stream, reorder_depth=depth))
        came = (frame.pts for frame in FreshDecoder(tried, 0).all_frames(packet_payloads(index, source)))
        if [packet for packet in came if packet in known] == shown:
            return tried
    return index


def _starts_anew_at(index: VideoIndex, source: ByteSource, packet: int) -> bool:
    """Whether a decoder outputs all pictures that it holds back at a packet, and starts anew there."""
    codec, config = index.stream.codec, index.config_at(packet)
    if codec not in _ANEW:
        return codec != "vvc" and is_random_access_at(index, source, packet) is not False
    return has_unit(codec, config, read_packet(index, source, packet), _ANEW[codec])
