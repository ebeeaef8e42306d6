"""Index Matroska and WebM files from their own elements (RFC 9559): the track that libavformat would choose."""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import numpy as np
import numpy.typing as npt

from videoloader.errors import IndexingError, UnsupportedError
from videoloader.indexing.bitstream.formats import PictureFormat
from videoloader.indexing.bitstream.parameter_sets import WITH_HEADERS, headers_with_start_codes
from videoloader.indexing.bitstream.picture import cut_by_container
from videoloader.indexing.bitstream.vpx import hides_frame
from videoloader.indexing.demuxer import start_by_libavformat
from videoloader.indexing.index import VideoIndex
from videoloader.indexing.keyframe_heads import coded_picture
from videoloader.indexing.libav import checked_by_decoding_head, index_by_decoding
from videoloader.indexing.matroska.blocks import Packets, Walk, read_packets
from videoloader.indexing.matroska.ebml import EBML, MalformedError
from videoloader.indexing.matroska.headers import ATTACHMENTS, NANOSECONDS, VIDEO, Headers, Track, read_headers
from videoloader.indexing.matroska.picture_order import comes_in_order, with_sets_told
from videoloader.indexing.packet_times import reorder_depth
from videoloader.indexing.sources.base import ByteSource
from videoloader.indexing.sources.stream import StreamSource
from videoloader.indexing.start_time import StreamStart, earliest_start
from videoloader.indexing.stream_info import StreamInfo
from videoloader.indexing.true_order import decoded_if_uncoded, with_decoded_frames
from videoloader.indexing.video_stream import best_video_stream
from videoloader.indexing.wrong_times import times_are_wrong

EBML_MAGIC = EBML.to_bytes(4, "big")
_UNSPECIFIED = 2
_LONGEST_FIRST_PACKET = 1 << 20
# Bytes of a track's ContentEncodings: files have up to a hundred, which each frame begins with, or keys and signatures.
_LONGEST_ENCODINGS = 1 << 12
# Codecs whose blocks are one frame each, for H.264 if no picture is coded as fields. For others, the first frames must
# come out as expected, and describe the picture.
_FRAME_A_BLOCK = ("h264", "hevc", "vp8", "vp9", "av1")
_ONLY_KEYFRAMES = ("mjpeg",)
# Types of tracks whose blocks libavformat uses: video, audio, subtitles, metadata.
_TAKEN_TYPES = (1, 2, 0x11, 0x21)
# Types of tracks whose times determine the start of a file: video and audio.
_MEDIA_TYPES = (1, 2)
# Each candidate costs a walk through the file.
_MOST_CANDIDATES = 8


def index_matroska(source: ByteSource) -> VideoIndex | None:
    """Index the file's best video track; None if only libavformat can.

    That is so for compressed and encrypted blocks, codecs that are unknown here, frames without a timestamp of their
    own, and damaged files. If blocks may not be one frame each (fields, MPEG-4), the first ones are decoded.

    Raises:
        IndexingError: the video track has no frames.
        UnsupportedError: libavformat would put many bytes before each frame.
    """
    try:
        headers = read_headers(source)
        if (longest := max((track.encodings_size for track in headers.tracks), default=0)) > _LONGEST_ENCODINGS:
            told = f"has {longest} bytes that say how frames are compressed, which may stand for as many in each frame"
            raise UnsupportedError(f"{told}: remux it (e.g. `mkvmerge -o clean.mkv {source.name}`)", source.name)
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
        first = source.read(int(packets.offset[0]), min(int(packets.size[0]), _LONGEST_FIRST_PACKET))
        track = track._replace(config=headers_with_start_codes(track.codec, first))
    stream = _describe_container(track, packets, headers.time_scale, number)
    picture = coded_picture(stream, source, int(packets.offset[0]), int(packets.size[0]))
    if picture is None and track.codec in _FRAME_A_BLOCK:
        return None
    if picture:
        stream = cut_by_container(_describe_picture(stream, picture), track.width, track.height)
    index = _assemble(source, track, packets, stream, start_of(source, headers, track, walk))
    if index is None:
        return None
    if decoded := decoded_if_uncoded(index, source):
        return decoded
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


def read_best_track(source: ByteSource, headers: Headers) -> tuple[Track, Walk] | None:
    """Return the track that libavformat takes for the video, and the walk for its packets; None if it takes another.

    For a ``StreamSource`` this is the track that it names. Otherwise libavformat first compares the tracks' flags.
    Among equals it takes the one with more frames in the part of the file that it has read, and among these the first.
    Only libavformat knows how much it has read, so it is asked where that matters.

    Raises:
        MalformedError: as in ``read_packets``.
    """
    numbers = {track.number for track in headers.tracks}
    candidates = _best_by_flags(headers.tracks)
    if isinstance(source, StreamSource):
        candidates = headers.tracks[source.stream_index :][:1]
    unusual = len(numbers) < len(headers.tracks) or any(track.type not in _TAKEN_TYPES for track in headers.tracks)
    if unusual or not any(track.codec for track in candidates) or len(candidates) > _MOST_CANDIDATES:
        return None
    timed = {track.number for track in headers.tracks if track.type in _MEDIA_TYPES}
    walks = [read_packets(source, headers, track, timed - {track.number}) for track in candidates]
    # A picture among the attachments is also a video stream, and never a default one.
    has_picture = headers.has_attachments or ATTACHMENTS in walks[0].elements
    if (candidates[0].is_default or not has_picture) and _first_has_most_frames([walk.packets for walk in walks]):
        return candidates[0], walks[0]
    taken = headers.tracks[best_video_stream(source) :][:1]
    return next(((track, walk) for track, walk in zip(candidates, walks, strict=True) if track in taken), None)


def _best_by_flags(tracks: list[Track]) -> list[Track]:
    ranks = [(track.is_default + (not track.is_impaired), track) for track in tracks if track.type == VIDEO]
    best = max((rank for rank, _ in ranks), default=0)
    return [track for rank, track in ranks if rank == best]


def _first_has_most_frames(tracks: list[Packets]) -> bool:
    """Whether at any position in the file, no other track has more frames before it than the first."""
    first = tracks[0].offset
    return all(
        len(other.offset) <= len(first) and bool((first[: len(other.offset)] < other.offset).all())
        for other in tracks[1:]
    )


def start_of(source: ByteSource, headers: Headers, taken: Track, walk: Walk) -> int:
    """Return when the earliest track begins, in microseconds."""
    # libavformat gives a block before 0 no time, and reckons it from later ones and the codec's delay.
    before_zero = min(walk.first_times.values(), default=0) < 0
    if before_zero and (start := start_by_libavformat(source)) is not None:
        return start
    base = Fraction(headers.time_scale, NANOSECONDS)
    first = int(walk.packets.pts[0]) - taken.delay_in(base)
    starts = [
        StreamStart(walk.first_times[track.number], base, track.type not in _MEDIA_TYPES)
        for track in headers.tracks
        if track.number in walk.first_times
    ]
    return earliest_start([StreamStart(first, base), *starts])
