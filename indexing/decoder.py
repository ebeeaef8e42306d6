"""Open a libavcodec decoder for an indexed video, and make packets for it, without a container."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import av
import av.error
import av.packet
import av.video.codeccontext
import numpy as np

from videoloader.errors import UnsupportedError
from videoloader.errors.of_handlers import error_of_handler
from videoloader.indexing.bitstream.headers_before import split_headers
from videoloader.indexing.bitstream.nal import MOST_HELD
from videoloader.indexing.bitstream.picture import configs_not_cut
from videoloader.indexing.images.metadata import check_metadata
from videoloader.indexing.images.several import check_single
from videoloader.indexing.index import VideoIndex
from videoloader.indexing.limits import check_picture, count_decoded_packet, current_limits

if TYPE_CHECKING:
    from av.packet import PktSideDataT

# The decoder that libavcodec names after this codec cannot decode on a CPU; this one can.
_DECODER_NAMES = {"av1": "libdav1d"}
# libavcodec takes a larger limit for a negative one.
_MOST_PIXELS = 2**31 - 1
# Codecs whose packets do not contain the picture's size.
_WITHOUT_SIZE = ("ffv1",)
# Codecs whose decoders need nothing but the record and the packets, whatever the container.
WELL_KNOWN_CODECS = (
    "h264", "hevc", "vvc", "vp8", "vp9", "av1", "mpeg1video", "mpeg2video", "mpeg4", "mjpeg",
)  # fmt: skip


def gives_one_each(index: VideoIndex) -> bool:
    """Whether no packet may become several pictures.

    MPEG-4's decoder may show a picture early, and in its place once more. An index made by decoding has seen that.
    """
    return index.stream.codec != "mpeg4" and index.method != "decoded"


def several_pictures(packet: int, source: str) -> UnsupportedError:
    """Return the error for a packet that decodes to several different pictures."""
    fault = f"packet {packet} decodes to several pictures, which cannot be told apart"
    return UnsupportedError(f"{fault}: re-encode the file", source)


def size_told(index: VideoIndex, start: int) -> tuple[int, int]:
    """Return the picture size to tell a decoder that starts at a packet; (0, 0) if its packets are enough.

    H.264's decoder is told the size of the stream's first pictures, and crops later ones to it as long as they fit.
    Motion JPEG's takes its first picture for a field if it is much less high than it is told.
    """
    stream = index.stream
    size = (stream.width, stream.height)
    if stream.codec == "h264":
        if stream.container_size not in ((0, 0), size):
            return (0, 0)  # the first pictures are not of that size, so the decoder forgets it at once
        lost = configs_not_cut(stream) if len(stream.codec_configs) > 1 else ()
        return (0, 0) if lost and np.isin(index.packet_config[: start + 1], lost).any() else size
    if stream.codec == "mjpeg":
        return stream.container_size
    return size if stream.codec in _WITHOUT_SIZE or stream.pixel_format else (0, 0)


def common_options() -> dict[str, str]:
    """Return the options of libavcodec that every decoder gets, libavformat's own included.

    Only libvpx, with which ``decoding/vp8_check.py`` compares pictures of VP8, gets none. What our decoder and
    libavformat's decode differently is an error of ``verify``, so an option that changes pictures belongs here.
    """
    return {"max_pixels": str(min(current_limits().picture_pixels, _MOST_PIXELS))}


def open_decoder(
    index: VideoIndex, start: int, threads: int = 1, *, strict: bool = False, holds_back: bool = False
) -> av.video.codeccontext.VideoCodecContext:
    """Open a decoder for the packets from one packet on.

    Args:
        index: index of the video.
        start: the first packet that the decoder will be given.
        threads: maximum number of threads. With more than one, frames are held back, and the threads must have ended
            before the process is forked.
        strict: make damage an error where possible, including what libavcodec would otherwise replace without a mark,
            such as missing pictures that others refer to. If there is no error, pictures are the same.
        holds_back: keep H.264 pictures as long as possible. All come out, and are the same, except that each is decoded
            into other memory, so that anything read there before it is written differs.

    Raises:
        UnsupportedError: there is no decoder for the codec, or pictures have more pixels than allowed.
    """
    stream = index.stream
    try:
        context = av.CodecContext.create(_DECODER_NAMES.get(stream.codec, stream.codec), "r")
    except (av.error.FFmpegError, ValueError) as error:
        raise UnsupportedError(f"libavcodec has no decoder for {stream.codec} ({error})", index.source) from None
    if not isinstance(context, av.video.codeccontext.VideoCodecContext):
        raise UnsupportedError(f"its index names a codec that is not of video: {stream.codec}", index.source)
    record = stream.codec_configs[index.packet_config[start]]
    if stream.codec == "mpeg4" and len(steps := split_headers(record).steps()) > 1:
        record = steps[0]  # ``mpeg4_start`` shows the decoder the others
    if stream.codec in ("mpeg1video", "mpeg2video"):
        # libavcodec refuses a sequence header of MPEG-1 without zeros behind it, and PyAV puts anything there.
        record += bytes(4)
    context.extradata = record or None
    context.thread_count = threads
    context.thread_type = "AUTO"
    options = common_options()
    if stream.codec == "h264":
        # Without this, decoding of streams that do not state their reorder depth would begin with a depth of zero, and
        # lose the first frames that come out of order. With threads, a picture that is output before it is decoded
        # lacks its mark of damage, so it must stay until each thread has begun another one.
        held_back = MOST_HELD if holds_back else stream.reorder_depth + (threads if threads > 1 else 0)
        options["has_b_frames"] = str(min(held_back, MOST_HELD))  # a larger value would abort the process
    if strict:
        options["err_detect"] = "explode"
    if threads > 1 and stream.codec == "av1":
        # With several frames in flight, dav1d does not report errors reliably.
        options["max_frame_delay"] = "1"
    context.options = options
    if stream.codec_tag:
        context.codec_tag = stream.codec_tag
    size = size_told(index, start)
    if size != (0, 0):
        check_picture(*size, index.source)
        context.width, context.height = size
    if stream.pixel_format:
        context.pix_fmt = stream.pixel_format
    if stream.bits_per_coded_sample:
        context.bits_per_coded_sample = stream.bits_per_coded_sample
    return context


def make_packet(
    index: VideoIndex, data: bytes | memoryview, number: int, previous: int | None
) -> av.packet.Packet[Any]:
    """Make a packet for the decoder, whose frame comes out with ``number`` as its pts.

    Args:
        index: index of the video.
        data: the packet's bytes.
        number: number of the packet in the index.
        previous: number of the packet that the decoder got before in this run; None for the first. If another
            configuration has come into force since, the packet carries it as side data.

    Raises:
        UnsupportedError: the packet has too large a colour profile, too many texts or too much Exif data, or it is an
            image file of several pictures.
    """
    check_metadata(index.stream.codec, data, index.source)
    if index.container == "images":
        check_single(index.stream.codec, data, index.source)
    # av.Packet(size) has the zeros after its end that decoders read past the end. A packet made around our buffer would
    # show them the bytes that happen to follow.
    packet: av.packet.Packet[Any] = av.Packet(len(data))
    packet.update(data)  # type: ignore[arg-type]  # any buffer will do
    packet.pts = number
    # Some decoders (such as PNG's) take packets without this flag for differences from the last picture.
    packet.is_keyframe = bool(index.packet_key[number])
    stream = index.stream
    if stream.palettes or len(stream.codec_configs) > 1:
        config = int(index.packet_config[number])
        before = None if previous is None else int(index.packet_config[previous])
        _attach(packet, "palette", stream.palettes, config, before)
        if before is not None:  # otherwise the decoder was opened with it
            _attach(packet, "new_extradata", stream.codec_configs, config, before)
    return packet


def _attach(
    packet: av.packet.Packet[Any], kind: PktSideDataT, contents: tuple[bytes, ...], config: int, before: int | None
) -> None:
    """Attach a configuration's contents to a packet, unless the decoder has them from the packet before."""
    content = contents[config] if contents else b""
    if content and (before is None or contents[before] != content):
        put_beside(packet, kind, content)


def put_beside(packet: av.packet.Packet[Any], kind: PktSideDataT, content: bytes) -> None:
    """Attach side data of one kind to a packet."""
    number = av.packet.packet_sidedata_type_from_literal(kind)
    beside = av.packet.PacketSideData(number, len(content))  # type: ignore[call-arg]  # its stub has no constructor
    beside.update(content)
    packet.set_sidedata(beside)


class FreshDecoder:
    """A decoder that knows nothing before its first packet.

    Args:
        index: index of the video.
        start: the first packet that it will be given.
    """

    def __init__(self, index: VideoIndex, start: int) -> None:
        self.start = start
        self._index = index
        self._previous: int | None = None
        self._context = open_decoder(index, start)

    def frames(self, number: int, data: bytes) -> list[av.VideoFrame] | None:
        """Return the frames that come out after a packet; None if it does not decode."""
        count_decoded_packet()
        packet = make_packet(self._index, data, number, self._previous)
        self._previous = number
        return decode_if_sound(self._context, packet)

    def all_frames(self, payloads: Iterable[bytes]) -> Iterator[av.VideoFrame]:
        """Yield the frames of all packets from the first on; those that do not decode yield nothing."""
        for number, data in enumerate(payloads, self.start):
            yield from self.frames(number, data) or ()
        yield from decode_if_sound(self._context, None) or ()


def decode_packet(
    context: av.video.codeccontext.VideoCodecContext, packet: av.packet.Packet[Any] | None
) -> list[av.VideoFrame]:
    """Return the frames that come out after a packet, or at the end. FFmpegError if that does not decode.

    A decoder that refuses its configuration record refuses every packet. libavcodec 63 forgets the codec after the
    first one, for which PyAV raises a ValueError. Opening the decoder again would end the process.
    """
    try:
        return context.decode(packet)
    except av.error.FFmpegError:  # some of these are ValueErrors
        raise
    except ValueError as error:
        if error_of_handler(error) is not None:
            raise
        raise av.error.ArgumentError(errno.EINVAL, "its configuration is damaged") from None


def decode_if_sound(
    context: av.video.codeccontext.VideoCodecContext, packet: av.packet.Packet[Any] | None
) -> list[av.VideoFrame] | None:
    """Return the frames that come out after a packet, or at the end; None if that does not decode."""
    try:
        return decode_packet(context, packet)
    except av.error.FFmpegError:
        return None
