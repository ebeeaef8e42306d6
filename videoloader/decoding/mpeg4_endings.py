"""Prepare MPEG-4 decoders that begin in the middle of a stream to recognise damaged picture endings.

libavcodec counts how many pictures end with stuffing (ISO/IEC 14496-2, 5.2.4) and how many do not, since some encoders
leave it out. Until it has seen some that do, it takes a picture with damage in its last bits for a sound one. So a
decoder that begins at a keyframe would show, without a mark, what a full decode conceals.
"""

from __future__ import annotations

from functools import lru_cache

import av.error
import av.video.codeccontext

from videoloader.indexing.bitstream.mpeg4_headers import Layer, find_layer
from videoloader.indexing.bitstream.parameter_sets import sequence_headers
from videoloader.indexing.decoder import make_packet
from videoloader.indexing.index import VideoIndex

# libavcodec relies on stuffing once two more pictures have it than lack it. (Each takes 30 µs at 320×240.)
_PICTURES = 4
# libavcodec refuses a picture with fewer bits than this: macroblocks of stuffing, ten bits each.
_STUFFING = 16 * "0000000001"


def show_sound_endings(
    context: av.video.codeccontext.VideoCodecContext, index: VideoIndex, packet: int, data: bytes | memoryview
) -> None:
    """Show a new decoder pictures that end with stuffing, before its run begins with this packet.

    If the stream's encoder leaves out the stuffing, the run's pictures are then taken for damaged, and decoded again by
    a decoder that has seen pictures of this stream.
    """
    headers = sequence_headers("mpeg4", data)
    layer = find_layer(headers or index.config_at(packet))
    if layer is None:
        return
    try:
        for _ in range(_PICTURES):
            context.decode(make_packet(index, headers + _skipped_picture(layer), packet, None))
    except av.error.FFmpegError:
        pass  # the stream has fields that are not supported here, and the decoder is unchanged
    context.flush_buffers()


@lru_cache(16)
def _skipped_picture(layer: Layer) -> bytes:
    """Make a P-VOP that repeats the previous picture (ISO/IEC 14496-2, 6.2.5): no macroblock is coded."""
    blocks = -(-layer.width // 16) * -(-layer.height // 16)
    header = "01" + "0" + "1" + layer.increment_bits * "0" + "1" + "1" + "0" + "000"
    header += ("00" if layer.interlaced else "") + "00001" + "001"
    bits = header + _STUFFING + blocks * "1" + "0"
    bits += -len(bits) % 8 * "1"
    return b"\0\0\1\xb6" + int(bits, 2).to_bytes(len(bits) // 8, "big")
