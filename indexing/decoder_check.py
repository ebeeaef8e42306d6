"""Whether a decoder that has only what an index keeps gives the pictures that libavformat's own decoder gives."""

from __future__ import annotations

from collections import deque
from itertools import islice

import av

from videoloader.errors import UnsupportedError
from videoloader.indexing.decoder import WELL_KNOWN_CODECS, FreshDecoder, decode_if_sound
from videoloader.indexing.index import VideoIndex
from videoloader.indexing.libav import open_video
from videoloader.indexing.pictures import are_same
from videoloader.indexing.sources import ByteSource

_CHECKED_PACKETS = 16
# Less of large pictures, since all are held: four of 4K.
_CHECKED_PIXELS = 1 << 25

# Whose decoders need no more than the record and the packets either.
_PLAIN = (*WELL_KNOWN_CODECS, "h263", "flv1", "theora")


def check_decoder(index: VideoIndex, source: ByteSource) -> None:
    """Decode the first packets both ways, and compare. Codecs that are well known need no such check.

    Args:
        index: index of the video.
        source: source of the same video.

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
    """Whether a decoder that is set up by an index gives all pictures that libavformat's gives of the first packets.

    All of libavformat's are held while the other decoder works. Were their memory free, it would be what pictures that
    a decoder leaves unfinished are made of, and these would look the same.
    """
    payloads: list[bytes] = []
    expected: list[av.VideoFrame] = []
    with open_video(source) as (container, stream):
        packets = (packet for packet in container.demux(stream) if packet.size)
        for packet in islice(packets, _CHECKED_PACKETS):
            payloads.append(bytes(packet))
            expected += decode_if_sound(stream.codec_context, packet) or ()
            if sum(frame.width * frame.height for frame in expected) >= _CHECKED_PIXELS:
                break
        expected += decode_if_sound(stream.codec_context, None) or ()
    # Libavformat may leave some out, so ours may be more.
    missing = deque(expected)
    for picture in FreshDecoder(index, 0).all_frames(payloads):
        if missing and are_same(missing[0], picture):
            missing.popleft()
    return not missing
