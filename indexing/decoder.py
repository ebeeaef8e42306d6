"""A libavcodec decoder for a video that is known by its index: fed with packets, without a container."""

from __future__ import annotations

from typing import Any

import av
import av.error
import av.packet
import av.video.codeccontext

from videoloader.errors import UnsupportedError
from videoloader.indexing.index import VideoIndex

# libavcodec's decoder of the codec's own name cannot decode on a CPU; this one can.
_DECODER_NAMES = {"av1": "libdav1d"}
# Codecs whose packets do not tell the picture's size.
_WITHOUT_SIZE = ("ffv1",)
# libavcodec ends the process when told of more.
_DEEPEST_H264_REORDERING = 16


def open_decoder(index: VideoIndex, config: int, threads: int = 1) -> av.video.codeccontext.VideoCodecContext:
    """A decoder for the packets of one configuration record.

    Args:
        index: of the video.
        config: number of the record in ``index.stream.codec_configs``.
        threads: that it may use. More than one hold frames back, make damage an error where that can be, and must have
            ended before the process is forked.

    Raises:
        UnsupportedError: there is no decoder for the codec.
    """
    stream = index.stream
    try:
        context = av.CodecContext.create(_DECODER_NAMES.get(stream.codec, stream.codec), "r")
    except (av.error.FFmpegError, ValueError) as error:
        raise UnsupportedError(f"libavcodec has no decoder for {stream.codec} ({error})", index.source) from None
    assert isinstance(context, av.video.codeccontext.VideoCodecContext)
    context.extradata = stream.codec_configs[config] or None
    context.thread_count = threads
    context.thread_type = "AUTO"
    options = {}
    if stream.codec == "h264":
        # Streams that do not state their reorder depth start at zero and would lose the first frames
        # that come out of order.
        options["has_b_frames"] = str(min(stream.reorder_depth, _DEEPEST_H264_REORDERING))
    if threads > 1:
        # With threads the marks of damaged frames are not reliable, but errors are: with dav1d only within a frame.
        options["err_detect"] = "explode"
        if stream.codec == "av1":
            options["max_frame_delay"] = "1"
    context.options = options
    if stream.codec_tag:
        context.codec_tag = stream.codec_tag
    if stream.codec in _WITHOUT_SIZE or stream.pixel_format:
        context.width, context.height = stream.width, stream.height
    if stream.pixel_format:
        context.pix_fmt = stream.pixel_format
    return context


def make_packet(data: bytes | memoryview, number: int, is_keyframe: bool) -> av.packet.Packet[Any]:
    """A packet for the decoder, whose frame comes out with ``number`` as its pts."""
    # Made by size, the packet has the zeros after its end that decoders read on into; a packet
    # made around our buffer would show them the bytes that happen to follow.
    packet: av.packet.Packet[Any] = av.Packet(len(data))
    packet.update(data)  # type: ignore[arg-type]  # any buffer will do
    packet.pts = number
    # Some decoders (PNG's) take packets without the mark for differences to the last picture.
    packet.is_keyframe = is_keyframe
    return packet
