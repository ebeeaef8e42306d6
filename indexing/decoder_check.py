"""Check that a decoder set up from an index alone gives the same pictures as libavformat's decoder."""

from __future__ import annotations

from collections import deque
from itertools import islice

import av

from videoloader.errors import IndexingError, UnsupportedError
from videoloader.indexing.decoder import WELL_KNOWN_CODECS, FreshDecoder, decode_if_sound
from videoloader.indexing.index import VideoIndex
from videoloader.indexing.pictures import are_same
from videoloader.indexing.sources.base import ByteSource
from videoloader.indexing.video_stream import open_video, packets_to_decode

_CHECKED_PACKETS = 16
# With large pictures fewer packets are checked, since all pictures are held in memory: four of 4K.
_CHECKED_PIXELS = 1 << 25

# More codecs whose decoders need no more than the record and the packets.
_PLAIN = (*WELL_KNOWN_CODECS, "h263", "flv1", "theora")


def check_decoder(index: VideoIndex, source: ByteSource) -> None:
    """Decode the first packets in both ways and compare. Well-known codecs need no such check.

    Args:
        index: index of the video.
        source: source of the same video.

    Raises:
        UnsupportedError: there is no decoder for the codec, or it gives different pictures.
        IndexingError: packets of raw video are too short for its pictures.
    """
    if index.stream.codec in _PLAIN or index.container == "images" or not len(index):
        return
    _check_sizes(index)
    if not _gives_the_same(index, source):
        raise UnsupportedError(
            f"this kind of {index.stream.codec} cannot be decoded exactly from its packets and the container's headers "
            "alone: re-encode the file",
            index.source,
        )


def _check_sizes(index: VideoIndex) -> None:
    """Check that packets of raw video with a palette are as large as its pictures. Other formats libavcodec checks."""
    stream = index.stream
    if stream.codec != "rawvideo" or stream.pixel_format != "pal8":
        return
    needed = -(-stream.width * stream.height * stream.bits_per_coded_sample // 8)
    size = int(index.packet_size[index.packet_size > 0].min(initial=needed))
    if size < needed:  # the rest of a picture would be what was in memory
        told = f"has a packet of {size} bytes, but a picture of {stream.width}×{stream.height} takes {needed}"
        raise IndexingError(told, index.source)


def _gives_the_same(index: VideoIndex, source: ByteSource) -> bool:
    """Whether a decoder set up from an index gives all pictures of the first packets that libavformat's decoder gives.

    All of libavformat's pictures are kept while the other decoder works. If their memory were free, pictures that a
    decoder leaves unfinished would show it, and so look the same.
    """
    payloads: list[bytes] = []
    expected: list[av.VideoFrame] = []
    with open_video(source) as (container, stream):
        packets = (packet for packet in packets_to_decode(container, stream, source) if packet.size)
        for packet in islice(packets, _CHECKED_PACKETS):
            payloads.append(bytes(packet))
            expected += decode_if_sound(stream.codec_context, packet) or ()
            if sum(frame.width * frame.height for frame in expected) >= _CHECKED_PIXELS:
                break
        expected += decode_if_sound(stream.codec_context, None) or ()
    if len(payloads) > len(index.packet_pts):
        return False
    # libavformat may leave some pictures out, so ours may be more.
    missing = deque(expected)
    for picture in FreshDecoder(index, 0).all_frames(payloads):
        if missing and are_same(missing[0], picture):
            missing.popleft()
    return not missing
