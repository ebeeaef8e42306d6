"""Index Matroska and WebM files from their own elements (RFC 9559)."""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import numpy as np
import numpy.typing as npt

from videoloader.errors import IndexingError
from videoloader.indexing.bitstream.hidden import hides_frame
from videoloader.indexing.bitstream.parameter_sets import WITH_HEADERS, headers_with_start_codes
from videoloader.indexing.bitstream.picture import PictureFormat, cut_by_container
from videoloader.indexing.index import VideoIndex
from videoloader.indexing.keyframe_heads import coded_picture
from videoloader.indexing.libav import checked_by_decoding_head, index_by_decoding
from videoloader.indexing.matroska.blocks import Packets
from videoloader.indexing.matroska.choice import read_best_track, start_of
from videoloader.indexing.matroska.ebml import EBML, MalformedError
from videoloader.indexing.matroska.headers import read_headers
from videoloader.indexing.matroska.picture_order import comes_in_order, with_sets_told
from videoloader.indexing.matroska.tracks import NANOSECONDS, Track
from videoloader.indexing.packet_times import reorder_depth
from videoloader.indexing.sources import ByteSource
from videoloader.indexing.stream_info import StreamInfo
from videoloader.indexing.true_order import with_decoded_frames
from videoloader.indexing.wrong_times import times_are_wrong

EBML_MAGIC = EBML.to_bytes(4, "big")
_UNSPECIFIED = 2
_LONGEST_FIRST_PACKET = 1 << 20
# Codecs whose blocks are one frame each, for H.264 if no picture is coded as fields. For others, the first frames must
# come out as expected, and describe the picture.
_FRAME_A_BLOCK = ("h264", "hevc", "vp8", "vp9", "av1")
_ONLY_KEYFRAMES = ("mjpeg",)
# A picture that is not coded (vop_coded of ISO/IEC 14496-2, 6.2.5) has at most this many bytes, and gives no frame.
_LARGEST_UNCODED = 10


def index_matroska(source: ByteSource) -> VideoIndex | None:
    """Index the file's best video track; None if only libavformat can.

    That is so for compressed and encrypted blocks, codecs that are unknown here, frames without a timestamp of their
    own, and damaged files. If blocks may not be one frame each (fields, MPEG-4), the first ones are decoded.

    Raises:
        IndexingError: the video track has no frames.
    """
    try:
        headers = read_headers(source)
        found = read_best_track(source, headers)
    except MalformedError:
        return None
    if found is None or not found[0].codec:
        return None
    track, walk = found
    number, packets = headers.tracks.index(track), walk.packets
    if not len(packets.offset):
        raise IndexingError("the video track has no frames", source.name)
    if not track.config and track.codec in WITH_HEADERS:
        track = track._replace(config=_headers_in_packet(source, track.codec, packets))
    stream = _describe_container(track, packets, headers.time_scale, number)
    picture = coded_picture(stream, source, int(packets.offset[0]), int(packets.size[0]))
    if picture is None and track.codec in _FRAME_A_BLOCK:
        return None
    if picture:
        stream = cut_by_container(_describe_picture(stream, picture), track.width, track.height)
    index = _assemble(source, track, packets, stream, start_of(headers, track, walk))
    if index is None:
        return None
    if track.codec == "mpeg4" and packets.size.min() <= _LARGEST_UNCODED:
        return index_by_decoding(source)
    in_order = comes_in_order(index, source, packets)
    if in_order is None:
        index = with_sets_told(index, source, packets)
        in_order = comes_in_order(index, source, packets, at_once=False)
    if in_order is None:
        in_order = not times_are_wrong(index, source)
    if not in_order:
        index = with_decoded_frames(index, source)
    if index.method == "tables" and (track.codec not in _FRAME_A_BLOCK or (picture and not picture.frames_only)):
        return checked_by_decoding_head(index, source) or index_by_decoding(source)
    return index


def _headers_in_packet(source: ByteSource, codec: str, packets: Packets) -> bytes:
    """Return the headers or sets of the first packet, with start codes, in place of a configuration record."""
    first = source.read(int(packets.offset[0]), min(int(packets.size[0]), _LONGEST_FIRST_PACKET))
    return headers_with_start_codes(codec, first)


def _describe_container(track: Track, packets: Packets, time_scale: int, number: int) -> StreamInfo:
    pts, count = packets.pts, len(packets.pts)
    span = int(pts[pts.argmax()] - pts[pts.argmin()])  # a fifth of the time of max and min
    mean_rate = Fraction((count - 1) * NANOSECONDS, span * time_scale) if span else Fraction(0)
    return StreamInfo(
        codec=track.codec,
        codec_configs=(track.config,),
        time_base=Fraction(time_scale, NANOSECONDS),
        width=track.width,
        height=track.height,
        reorder_depth=reorder_depth(pts),
        stream_number=number,
        **{"frame_rate": mean_rate} | track.facts,
    )


def _describe_picture(stream: StreamInfo, picture: PictureFormat) -> StreamInfo:
    """Set the facts that decoders go by, whatever the container says of them."""
    ranges = {True: "full", False: "limited", None: stream.color_range}
    facts = {
        "width": picture.width,
        "height": picture.height,
        "bit_depth": picture.bit_depth,
        "chroma": picture.chroma,
        "color_matrix": stream.color_matrix if picture.color_matrix == _UNSPECIFIED else picture.color_matrix,
        "color_range": ranges[picture.full_range],
    }
    return StreamInfo(**vars(stream) | facts)  # half the time of ``replace``


def _assemble(
    source: ByteSource, track: Track, packets: Packets, stream: StreamInfo, start_time: int
) -> VideoIndex | None:
    pts = packets.pts - track.delay_in(stream.time_base)
    shown = (~_hidden(source, track.codec, packets)).nonzero()[0]
    order = shown[pts[shown].argsort(kind="stable")]
    frame_pts = pts[order]
    if np.count_nonzero(frame_pts[1:] == frame_pts[:-1]):
        return None  # two frames have the same time, and only a decode tells what comes of them
    count = len(pts)
    return VideoIndex(
        source=source.name,
        container="matroska,webm",
        method="tables",
        packet_offset=packets.offset,
        packet_size=packets.size.astype(np.int32),
        packet_pts=pts,
        packet_key=np.ones(count, np.bool_) if track.codec in _ONLY_KEYFRAMES else packets.key,
        packet_disposable=np.zeros(count, np.uint8),
        packet_config=np.zeros(count, np.uint8),
        frame_packet=order.astype(np.int32),
        frame_pts=frame_pts,
        byte_ranges=True,
        stream=stream,
        start_time=start_time,
    )


def _hidden(source: ByteSource, codec: str, packets: Packets) -> npt.NDArray[np.bool_]:
    """Find packets that show nothing. The first byte decides for most; only for the others is the last one read."""
    first_byte = packets.head >> 56 & 0xFF
    hidden: npt.NDArray[np.bool_] = _hiding_bytes(codec)[first_byte]
    for number in hidden.nonzero()[0].tolist():
        last = source.read(int(packets.offset[number] + packets.size[number]) - 1, 1)[0]
        hidden[number] = hides_frame(codec, int(first_byte[number]), last)
    return hidden


@cache
def _hiding_bytes(codec: str) -> npt.NDArray[np.bool_]:
    return np.array([hides_frame(codec, first, 0) for first in range(256)], np.bool_)
