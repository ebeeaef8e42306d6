"""Whether a decoder that has only what an index keeps gives the pictures that libavformat's own decoder gives."""

from __future__ import annotations

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
from videoloader.indexing.pictures import digest_of
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
    payloads, expected = _head_by_libavformat(source)
    decoder = FreshDecoder(index, 0)
    pictures = [picture for number, data in enumerate(payloads) for picture in decoder.frames(number, data) or ()]
    ours = iter([digest_of(picture) for picture in [*pictures, *(decoder.rest() or ())]])
    # Libavformat may leave some out at the start.
    if not all(digest in ours for digest in expected):
        raise UnsupportedError(
            f"{index.stream.codec} of this kind needs more than its packets and what describes them: "
            "a decoder that is set up by them gives other pictures than libavformat's",
            index.source,
        )


def _head_by_libavformat(source: ByteSource) -> tuple[list[bytes], list[bytes]]:
    """(the first packets, digests of the pictures that libavformat's own decoder makes of them)."""
    payloads: list[bytes] = []
    digests: list[bytes] = []
    pixels = 0
    with open_video(source) as (container, stream):
        packets = (packet for packet in container.demux(stream) if packet.size)
        for packet in islice(packets, _CHECKED_PACKETS):
            payloads.append(bytes(packet))
            frames = _decode(stream.codec_context, packet)
            digests += map(digest_of, frames)
            pixels += sum(frame.width * frame.height for frame in frames)
            if pixels >= _CHECKED_PIXELS:
                break
        digests += map(digest_of, _decode(stream.codec_context, None))
    return payloads, digests


def _decode(context: VideoCodecContext, packet: Packet[Any] | None) -> list[av.VideoFrame]:
    try:
        return context.decode(packet)
    except av.error.FFmpegError:
        return []
