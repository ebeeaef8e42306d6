"""Find VP8 pictures that libavcodec silently leaves unfinished, by comparison with libvpx.

libavcodec's own decoder stops when a partition of a packet has been used up for a while, and leaves the rest of the
picture as it is in memory. libvpx goes on reading zeros, as decoders should (RFC 6386, 7.3). Encoders write more bytes
than are needed, so among intact packets only the smallest were seen to be affected. Other affected packets were
truncated or lost a part. No size in a header shows that, since the last partition has none. But encoders end partitions
with zeros (7.3, flush_bool_encoder), and three in four packets that end elsewhere do not have two zeros there. If the
size of the first partition in a header is wrong, every second one does not have one zero there.
"""

from __future__ import annotations

from collections.abc import Sequence

import av
import av.codec
import av.error
import av.video.codeccontext

from videoloader.indexing.decoder import make_packet
from videoloader.indexing.index import VideoIndex
from videoloader.indexing.pictures import are_same

_SMALL = 32  # bytes
# Masks of zero bits that end a packet and its first partition. One intact packet in a hundred has no more of them.
_LAST_ZEROS, _FIRST_ZEROS = 3, 1
_MOST_KEPT = 64 << 20  # bytes of packets before the first one to compare; beyond this, none is compared


def may_be_unfinished(codec: str, data: bytes | memoryview) -> bool:
    """Whether a packet is a VP8 frame that may use up its bytes: it is small, or a partition ends as none should."""
    if codec != "vp8":
        return False
    if len(data) <= _SMALL or data[-1] & _LAST_ZEROS:
        return True
    end = (3 if data[0] & 1 else 10) + (int.from_bytes(data[:3], "little") >> 5)  # of the first partition (9.1)
    return end > len(data) or data[end - 1] & _FIRST_ZEROS != 0


class Vp8Check:
    """Compares the pictures of a run with libvpx's, from the first one on that may be unfinished.

    Args:
        index: index of the video.
    """

    def __init__(self, index: VideoIndex) -> None:
        self._index = index
        self._earlier: list[tuple[int, bytes | memoryview]] = []
        self._kept = 0
        self._libvpx: av.video.codeccontext.VideoCodecContext | None = None

    def finds_unfinished(self, number: int, data: bytes | memoryview, frames: Sequence[av.VideoFrame]) -> bool:
        """Process the run's next packet, and return whether its picture differs from libvpx's.

        Args:
            number: number of the packet.
            data: its bytes.
            frames: frames that libavcodec's own decoder made of it.
        """
        if self._libvpx is None:
            self._kept += len(data)
            if self._kept > _MOST_KEPT or "libvpx" not in av.codec.codecs_available:
                self._earlier.clear()
                return False
            if not may_be_unfinished("vp8", data):
                self._earlier.append((number, data))
                return False
            context = av.CodecContext.create("libvpx", "r")
            assert isinstance(context, av.video.codeccontext.VideoCodecContext)
            context.thread_count = 1
            self._libvpx = context
            for earlier in self._earlier:
                self._decode(*earlier)
            self._earlier.clear()
        theirs = self._decode(number, data)
        return len(theirs) != len(frames) or not all(map(are_same, frames, theirs))

    def _decode(self, number: int, data: bytes | memoryview) -> list[av.VideoFrame]:
        assert self._libvpx is not None
        try:
            return self._libvpx.decode(make_packet(self._index, data, number, None))
        except av.error.FFmpegError:
            return []
