"""Open the video stream of a file with libavformat, and say what is known of it without decoding."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from typing import Any

import av
import av.codec.context
import av.container
import av.error
import av.packet
import av.video.stream
from av.stream import Disposition

from videoloader.errors import ConfigurationError, IndexingError, UnsupportedError
from videoloader.indexing.bitstream.picture import cut_by_container, picture_format
from videoloader.indexing.decoder import WELL_KNOWN_CODECS, common_options
from videoloader.indexing.demuxer import demuxed, open_demuxer
from videoloader.indexing.images.metadata import check_metadata
from videoloader.indexing.limits import check_picture
from videoloader.indexing.sources.base import ByteSource
from videoloader.indexing.sources.stream import StreamSource
from videoloader.indexing.stream_info import StreamInfo


@contextmanager
def open_video(source: ByteSource) -> Iterator[tuple[av.container.InputContainer, av.video.stream.VideoStream]]:
    """Open a libavformat container and its best video stream, set up for one exact, single-threaded decode.

    For a ``StreamSource``, this is the stream that it names.

    Raises:
        IndexingError: libavformat does not recognise the file.
        UnsupportedError: the file has no video stream, or no decoder for it, or is a list of other files, or its
            pictures are too large.
        ConfigurationError: the stream of a ``StreamSource`` is no video.
    """
    try:
        with open_demuxer(source) as container:
            stream = _named_stream(container, source) or container.streams.best("video")
            if stream is None or stream.codec_context is None:
                raise UnsupportedError("has no video stream that can be decoded", source.name)
            assert isinstance(stream, av.video.stream.VideoStream)
            check_picture(stream.codec_context.width, stream.codec_context.height, source.name)
            check_metadata(stream.codec_context.name, stream.codec_context.extradata or b"", source.name)
            # Frame threads hold frames back, and may never return on damaged files.
            stream.codec_context.thread_count = 1
            stream.codec_context.options = common_options()
            yield container, stream
    except IndexError:
        # PyAV knows only the streams that existed when it opened the file.
        raise IndexingError("libavformat cannot read it: new streams begin in mid-file", source.name) from None


def packets_to_decode(
    container: av.container.InputContainer,
    stream: av.video.stream.VideoStream,
    source: ByteSource,
    incomplete: list[int] | None = None,
) -> Iterator[av.packet.Packet[Any]]:
    """Yield the stream's packets as ``demuxed``, each checked before libavformat's decoder unpacks what it holds.

    Raises:
        UnsupportedError: a packet has too large a colour profile, too many texts or too much Exif data.
    """
    codec = stream.codec_context.name
    for packet in demuxed(container, stream, incomplete):
        if packet.size:
            check_metadata(codec, memoryview(packet), source.name)
        yield packet


def _named_stream(container: av.container.InputContainer, source: ByteSource) -> av.video.stream.VideoStream | None:
    if not isinstance(source, StreamSource):
        return None
    videos = {each.index: each for each in container.streams.video if not each.disposition & Disposition.attached_pic}
    if source.stream_index not in videos:
        shown = ", ".join(f"{number} ({_shown(each)})" for number, each in videos.items()) or "none"
        raise ConfigurationError(
            f"stream_index={source.stream_index} is not a video stream of the file; those are {shown}", source.file.name
        )
    return videos[source.stream_index]


def _shown(stream: av.video.stream.VideoStream) -> str:
    context = stream.codec_context
    return f"{context.name} {context.width}×{context.height}" if context else "of an unknown codec"


def best_video_stream(source: ByteSource) -> int:
    """Return the number, from zero, of libavformat's best video stream, or of the one that a ``StreamSource`` names."""
    with open_video(source) as (_, stream):
        return stream.index


def read_stream_info(source: ByteSource) -> StreamInfo:
    """Return what libavformat and libavcodec know of the best video stream after its first packets."""
    with open_video(source) as (_, stream):
        return stream_info_of(stream, 0)


def stream_info_of(stream: av.video.stream.VideoStream, depth: int) -> StreamInfo:
    context = stream.codec_context
    pixels, codec = context.format, context.codec.canonical_name
    return StreamInfo(
        codec=codec,
        codec_configs=(context.extradata or b"",),
        time_base=Fraction(stream.time_base or Fraction(1, 1000)),
        width=context.width,
        height=context.height,
        sample_aspect_ratio=Fraction(context.sample_aspect_ratio or 1),
        bit_depth=pixels.components[0].bits if pixels else 0,
        chroma=chroma_of(pixels.name) if pixels else "",
        color_primaries=int(context.color_primaries),
        color_transfer=int(context.color_trc),
        color_matrix=int(context.colorspace),
        color_range={1: "limited", 2: "full"}.get(int(context.color_range), ""),
        frame_rate=Fraction(stream.average_rate or stream.guessed_rate or 0),
        reorder_depth=depth,
        codec_tag=_codec_tag(context),
        pixel_format=pixels.name if pixels else "",
        bits_per_coded_sample=0 if codec in WELL_KNOWN_CODECS else context.bits_per_coded_sample,
    )


def with_container_size(stream: StreamInfo) -> StreamInfo:
    """Return the stream with the size that libavformat opens its decoder with, if that affects its pictures."""
    picture = picture_format(stream)
    if picture is None:
        return stream
    coded, told = replace(stream, width=picture.width, height=picture.height), (stream.width, stream.height)
    if stream.codec == "h264" and len(stream.codec_configs) > 1 and told != (coded.width, coded.height):
        return replace(stream, container_size=told)
    return replace(stream, container_size=cut_by_container(coded, *told).container_size)


def _codec_tag(context: av.codec.context.CodecContext) -> str:
    try:
        return context.codec_tag
    except UnicodeDecodeError:  # a damaged tag
        return ""


def chroma_of(pixel_format: str) -> str:
    if pixel_format.startswith("gray"):
        return "400"
    return next((chroma for chroma in ("420", "422", "444") if chroma in pixel_format), "")
