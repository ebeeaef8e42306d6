"""Whether a decoder that has only what an index keeps gives the pictures that libavformat's own decoder gives."""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import Any

import av
import av.error
from av.packet import Packet
from av.video.codeccontext import VideoCodecContext

from videoloader.errors import UnsupportedError
from videoloader.indexing.decoder import WELL_KNOWN_CODECS, FreshDecoder
from videoloader.indexing.index import VideoIndex
from videoloader.indexing.libav import open_video
from videoloader.indexing.pictures import are_same
from videoloader.indexing.sources import ByteSource

_CHECKED_PACKETS = 16
# Less of large pictures: some 4K ones.
_CHECKED_PIXELS = 1 << 27

# Whose decoders need no more than the record and the packets either.
_PLAIN = (*WELL_KNOWN_CODECS, "h263", "flv1", "theora")


def check_decoder(index: VideoIndex, source: ByteSource) -> None:
    """Decode the first packets both ways, and compare. Codecs that are well known need no such check.

    Args:
        index: of the video.
        source: of the same video.

    Raises:
        UnsupportedError: there is no decoder for the codec, or it gives other pictures.
    """
    if index.stream.codec in _PLAIN or index.container == "images" or not len(index):
        return
    if not _gives_the_same(index, source):
        raise UnsupportedError(
            f"{index.stream.codec} of this kind needs more than its packets and what describes them: "
            "a decoder that is set up by them gives other pictures than libavformat's",
            index.source,
        )


def _gives_the_same(index: VideoIndex, source: ByteSource) -> bool:
    """Whether a decoder that is set up by an index gives all pictures that libavformat's gives of the first packets."""
    ours: deque[av.VideoFrame] = deque()
    expected: deque[av.VideoFrame] = deque()
    pixels = 0
    with open_video(source) as (container, stream):
        decoder = FreshDecoder(index, 0)
        packets = (packet for packet in container.demux(stream) if packet.size)
        for number, packet in enumerate(islice(packets, _CHECKED_PACKETS)):
            ours += decoder.frames(number, bytes(packet)) or ()
            frames = _decode(stream.codec_context, packet)
            expected += frames
            _take_same(expected, ours)
            pixels += sum(frame.width * frame.height for frame in frames)
            if pixels >= _CHECKED_PIXELS:
                break
        expected += _decode(stream.codec_context, None)
    ours += decoder.rest() or ()
    _take_same(expected, ours)
    return not expected


def _take_same(expected: deque[av.VideoFrame], ours: deque[av.VideoFrame]) -> None:
    """Take the same pictures off both, and of ours what comes before them: libavformat may leave some out."""
    while expected and ours:
        if are_same(expected[0], ours.popleft()):
            expected.popleft()


def _decode(context: VideoCodecContext, packet: Packet[Any] | None) -> list[av.VideoFrame]:
    try:
        return context.decode(packet)
    except av.error.FFmpegError:
        return []
