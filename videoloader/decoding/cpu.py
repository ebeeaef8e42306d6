"""Decoding on the CPU through libavcodec, fed with packets read by ourselves."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable

import av
import av.error
import av.video.codeccontext

from videoloader.errors import DecodeError
from videoloader.indexing.bitstream.nal import iterate_nals, nal_length_size
from videoloader.indexing.bitstream.x264_version import demands_version
from videoloader.indexing.decoder import make_packet, open_decoder
from videoloader.indexing.images import has_own_tables
from videoloader.indexing.index import VideoIndex
from videoloader.packets import PacketBytes

_OPEN_CONTEXTS = 8

Sink = Callable[[int, av.VideoFrame], None]
_ContextKey = tuple[Hashable, ...]


class CpuDecoder:
    """A decoder for one thread. Its libavcodec contexts stay open from clip to clip, one a configuration record."""

    def __init__(self) -> None:
        self._contexts: OrderedDict[_ContextKey, av.video.codeccontext.VideoCodecContext] = OrderedDict()

    def decode(self, index: VideoIndex, packets: Iterable[PacketBytes], sink: Sink) -> int:
        """Decode one run, from a keyframe on, until all wanted frames have come out.

        The packet's number travels through the decoder as its timestamp, so a frame is always the one of
        its packet, whatever order or number of frames the decoder gives out.

        Args:
            index: of the video.
            packets: of the run, in decode order; all of one configuration record.
            sink: called as ``sink(packet number, frame)`` for each wanted packet, in display order. The
                frame is the sink's to keep.

        Returns:
            Packets fed to the decoder.

        Raises:
            DecodeError: libavcodec refuses a packet before all wanted frames came out.
            UnsupportedError: there is no decoder for the codec.
        """
        context: av.video.codeccontext.VideoCodecContext | None = None
        expected: set[int] = set()
        keys = index.packet_key
        fed = number = 0
        try:
            for number, data, wanted in packets:
                if context is None:
                    context = self._context(index, number, data)
                    context.flush_buffers()
                if wanted:
                    expected.add(number)
                fed += 1
                for frame in context.decode(make_packet(data, number, bool(keys[number]))):
                    if frame.pts in expected:
                        expected.remove(frame.pts)
                        sink(frame.pts, frame)
            # What is held back is asked for only while something wanted is.
            for frame in context.decode(None) if context is not None and expected else ():
                if frame.pts in expected:
                    expected.remove(frame.pts)
                    sink(frame.pts, frame)
        except av.error.FFmpegError as error:
            raise DecodeError(f"packet {number} does not decode: {error.strerror}", index.source, number) from None
        return fed

    def _context(
        self, index: VideoIndex, packet: int, data: bytes | memoryview
    ) -> av.video.codeccontext.VideoCodecContext:
        """The context for the run that begins with this packet."""
        config = int(index.packet_config[packet])
        key = _context_key(index, config, data)
        context = self._contexts.get(key)
        if context is not None:
            self._contexts.move_to_end(key)
            return context
        context = open_decoder(index, config)
        self._contexts[key] = context
        if len(self._contexts) > _OPEN_CONTEXTS:
            self._contexts.popitem(last=False)
        return context


def _context_key(index: VideoIndex, config: int, first_packet: bytes | memoryview) -> _ContextKey:
    """What a context depends on. Videos of one making share it, and with it the memory of its frames; JPEG files, too.

    But not those whose packets bring parameter sets along: they replace the ones of the record for good. Nor those of
    4:4:4, which are decoded as their encoder's version demands: a context keeps that, too.
    """
    stream = index.stream
    if index.container == "images" and stream.codec == "mjpeg" and has_own_tables(first_packet):
        return ("mjpeg",)
    record = stream.codec_configs[config]
    facts = (stream.codec, stream.codec_tag, stream.width, stream.height, stream.pixel_format, stream.reorder_depth)
    shared = stream.codec in ("h264", "hevc") and record and not _has_parameter_sets(stream.codec, record, first_packet)
    if stream.codec == "h264" and demands_version(record, first_packet):
        shared = False
    return record, facts, "" if shared else index.source


def _has_parameter_sets(codec: str, record: bytes, packet: bytes | memoryview) -> bool:
    """nal_unit_type of ITU-T H.264, table 7-1: 7 and 8; of ITU-T H.265, table 7-1: 32 to 34."""
    units = iterate_nals(packet, nal_length_size(codec, record))
    if codec == "h264":
        return any(packet[start] & 31 in (7, 8) for start, _ in units)
    return any(32 <= packet[start] >> 1 & 63 <= 34 for start, _ in units)
