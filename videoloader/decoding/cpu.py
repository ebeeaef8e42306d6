"""Decoding on the CPU through libavcodec, fed with packets read by ourselves."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable

import av
import av.error
import av.video.codeccontext

from videoloader.errors import DecodeError, UnsupportedError
from videoloader.indexing.index import StreamInfo, VideoIndex
from videoloader.packets import PacketBytes

# libavcodec's decoder of the codec's own name cannot decode on a CPU; this one can.
_DECODER_NAMES = {"av1": "libdav1d"}
# Codecs whose packets do not tell the picture's size.
_WITHOUT_SIZE = ("ffv1",)
_OPEN_CONTEXTS = 8
# libavcodec ends the process when told of more.
_DEEPEST_H264_REORDERING = 16

Sink = Callable[[int, av.VideoFrame], None]


class CpuDecoder:
    """A decoder for one thread. Its libavcodec contexts stay open from clip to clip, one a configuration.

    Args:
        threads: threads inside one context. One is best where many clips are decoded at once; more shorten
            the wait for a single clip.
    """

    def __init__(self, *, threads: int = 1) -> None:
        self._threads = threads
        self._contexts: OrderedDict[tuple[StreamInfo, int], av.video.codeccontext.VideoCodecContext] = OrderedDict()

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
        fed = number = 0
        try:
            for number, data, wanted in packets:
                if context is None:
                    context = self._context(index, int(index.packet_config[number]))
                    context.flush_buffers()
                if wanted:
                    expected.add(number)
                # Made by size, the packet has the zeros after its end that decoders read on into; a packet
                # made around our buffer would show them the bytes that happen to follow.
                packet = av.Packet(len(data))
                packet.update(data)  # type: ignore[arg-type]  # any buffer will do
                packet.pts = number
                # Some decoders (PNG's) take packets without the mark for differences to the last picture.
                packet.is_keyframe = bool(index.packet_key[number])
                fed += 1
                self._give(context.decode(packet), expected, sink)
            if context is not None:
                self._give(context.decode(None), expected, sink)
        except av.error.FFmpegError as error:
            raise DecodeError(f"packet {number} does not decode: {error.strerror}", index.source) from None
        return fed

    @staticmethod
    def _give(frames: list[av.VideoFrame], expected: set[int], sink: Sink) -> None:
        for frame in frames:
            number = frame.pts
            if number in expected:
                expected.remove(number)
                sink(number, frame)

    def _context(self, index: VideoIndex, config: int) -> av.video.codeccontext.VideoCodecContext:
        stream = index.stream
        key = (stream, config)
        context = self._contexts.get(key)
        if context is not None:
            self._contexts.move_to_end(key)
            return context
        try:
            created = av.CodecContext.create(_DECODER_NAMES.get(stream.codec, stream.codec), "r")
        except (av.error.FFmpegError, ValueError) as error:
            raise UnsupportedError(f"libavcodec has no decoder for {stream.codec} ({error})", index.source) from None
        assert isinstance(created, av.video.codeccontext.VideoCodecContext)
        context = created
        context.extradata = stream.codec_configs[config] or None
        context.thread_count = self._threads
        context.thread_type = "SLICE"
        if stream.codec == "h264":
            # Streams that do not state their reorder depth start at zero and would lose the first frames
            # that come out of order.
            context.options = {"has_b_frames": str(min(stream.reorder_depth, _DEEPEST_H264_REORDERING))}
        if stream.codec_tag:
            context.codec_tag = stream.codec_tag
        if stream.codec in _WITHOUT_SIZE or stream.pixel_format:
            context.width, context.height = stream.width, stream.height
        if stream.pixel_format:
            context.pix_fmt = stream.pixel_format
        self._contexts[key] = context
        if len(self._contexts) > _OPEN_CONTEXTS:
            self._contexts.popitem(last=False)
        return context
