"""Decode one video with several threads of libavcodec, for reads that do not run beside many others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any

import av
import av.error
import av.logging
import av.packet
import av.video.codeccontext

from videoloader.decoding.vp8_check import may_be_unfinished
from videoloader.indexing.bitstream.lost_data import has_a_slice_in_each_row, lost_data_check
from videoloader.indexing.bitstream.nal import nal_length_size
from videoloader.indexing.bitstream.vp9 import split_superframe
from videoloader.indexing.decoder import gives_one_each, make_packet, open_decoder
from videoloader.indexing.images.self_contained import may_remember, remembered
from videoloader.indexing.index import VideoIndex
from videoloader.packets.decode_plan import PacketBytes, Run
from videoloader.runtime.forks import after_fork, keep_forever

# Codecs whose frames were found to be the same with any number of threads, even in damaged streams in which one thread
# sees no damage. Theora's are not (libavcodec 62, six threads), nor MPEG-4's, since each thread guesses at encoders'
# bugs. With threads, the decoders of MPEG-1 and MPEG-2 do not notice missing slices, so here each row of blocks must
# have one.
_EXACT_CODECS = (
    "av1", "ffv1", "h264", "hevc", "mjpeg", "mpeg1video", "mpeg2video", "png", "vp8", "vp9", "vvc",
)  # fmt: skip
# The most threads that libavcodec creates by itself, and the most pictures that it holds back in H.264. Each thread
# holds one picture, beside those held for reordering. More threads gain little.
_MOST_THREADS = 16
# An access unit delimiter (nal_unit_type 9) after which slices of any kind may follow.
_DELIMITER = b"\x09\xf0"
# The byte before and after the length of the only frame of a VP9 superframe (VP9 bitstream specification, annex B).
_OF_ONE = b"\xd8"
# The bytes that libavcodec's decoders may read past the end of a frame.
_READ_PAST = 64
# Packets of a run below which threads are not worth starting.
_LEAST_PACKETS = 8


class NeedsOneThreadError(Exception):
    """Several threads cannot be trusted with these frames: one thread must decode all of them again."""


def suits_threads(index: VideoIndex, *runs: Run) -> bool:
    """Whether several threads, which are started anew for each run, should decode these runs of a video.

    Args:
        index: index of the video.
        runs: runs of a plan made with this index.
    """
    packets = sum(len(run.packets) for run in runs)
    # If its log callback is set, libavcodec's threads wait for the GIL, which is held while Python waits for them.
    silent = av.logging.get_level() is None
    known = index.stream.codec in _EXACT_CODECS and index.method != "decoded" and not index.stream.encrypted
    return packets >= _LEAST_PACKETS * max(len(runs), 1) and known and silent


def decode_in_threads(
    index: VideoIndex, packets: Iterable[PacketBytes], threads: int
) -> Iterator[tuple[int, av.VideoFrame]]:
    """Decode one run, from a keyframe on; see ``CpuDecoder.decode``.

    In a damaged stream, what is concealed and what is left out may depend on the threads. So this gives up at any sign
    of damage, at the latest when the damaged frame itself would come out.

    Args:
        index: index of the video.
        packets: packets of the run, in decode order; all of one configuration record.
        threads: maximum number of threads.

    Yields:
        (packet number, frame) for each wanted packet, in display order.

    Raises:
        NeedsOneThreadError: a packet does not decode, lacks data or depends on missing ones, a frame is damaged, or a
            wanted one did not come out.
        UnsupportedError: there is no decoder for the codec.
    """
    coming = iter(packets)
    if (first := next(coming, None)) is None:
        return
    expected: set[int] = set()
    # The packets whose pictures came out; None if one may have several. See ``CpuDecoder.decode``.
    given: set[int | None] | None = set() if gives_one_each(index) or not index.packet_key[first.number] else None
    previous: int | None = None
    config = int(index.packet_config[first.number])
    codec = index.stream.codec
    lacks_data = lost_data_check(codec, index.stream.codec_configs[config])
    in_rows = codec in ("mpeg1video", "mpeg2video")
    remembers, memory = may_remember(index), remembered(index, first.data)

    def wanted(frames: list[av.VideoFrame]) -> Iterator[tuple[int, av.VideoFrame]]:
        for frame in frames:
            if frame.is_corrupt or (given is not None and frame.pts in given):
                raise NeedsOneThreadError
            if given is not None:
                given.add(frame.pts)
            if frame.pts in expected:
                expected.remove(frame.pts)
                yield frame.pts, frame

    with _decoder(index, first.number, threads) as decoder:
        for packet in chain((first,), coming):
            if lacks_data is not None and lacks_data(packet.data):
                raise NeedsOneThreadError
            if packet.guessed:  # each thread has memory of its own
                raise NeedsOneThreadError
            if in_rows and not has_a_slice_in_each_row(packet.data, index.stream.height):
                raise NeedsOneThreadError
            if may_be_unfinished(codec, packet.data):
                raise NeedsOneThreadError
            if remembers and (memory is None or remembered(index, packet.data) != memory):
                raise NeedsOneThreadError
            if packet.wanted:
                expected.add(packet.number)
            for data in _fed_one_by_one(codec, packet.data):
                yield from wanted(_decode(decoder, make_packet(index, data, packet.number, previous)))
            previous = packet.number
        if codec == "h264":
            # At the end, libavcodec takes over the marks of all pictures that it still holds, although threads may
            # still be working on them. Each thread finishes its work before it gets another packet, so each gets one
            # without a picture.
            decoder.skip_frame = "NONREF"  # without this, such a packet is an error
            for _ in range(decoder.thread_count):
                yield from wanted(_decode(decoder, _without_picture(index.stream.codec_configs[config])))
        # Up to the last frame that is held back, since wanted frames may refer to it.
        yield from wanted(_decode(decoder, None))
    if expected:
        raise NeedsOneThreadError


def _decode(
    decoder: av.video.codeccontext.VideoCodecContext, packet: av.packet.Packet[Any] | None
) -> list[av.VideoFrame]:
    """Return the frames that come out after a packet, or all frames that are held back."""
    try:
        return decoder.decode(packet)
    except av.error.FFmpegError:
        raise NeedsOneThreadError from None


def _fed_one_by_one(codec: str, data: bytes | memoryview) -> Iterable[bytes | memoryview]:
    """Split a packet into the parts that a decoder must get one by one: the frames of a VP9 superframe.

    PyAV drops an error that follows a frame in the same call. A hidden frame would then be missing unnoticed. Each
    frame becomes a superframe of its own, with the bytes behind it: libavcodec reads past the end of a damaged frame.
    """
    if codec != "vp9":
        return [data]
    try:
        frames = split_superframe(data)
    except ValueError:
        raise NeedsOneThreadError from None
    if len(frames) < 2:
        return [data]
    return [
        b"".join((data[start : stop + _READ_PAST], _OF_ONE, (stop - start).to_bytes(4, "little"), _OF_ONE))
        for start, stop in frames
    ]


def _without_picture(config: bytes) -> av.packet.Packet[Any]:
    """Make an H.264 packet with only an access unit delimiter (ITU-T H.264, 7.3.2.4)."""
    size = nal_length_size("h264", config)
    data = (len(_DELIMITER).to_bytes(size, "big") if size else b"\0\0\1") + _DELIMITER
    packet: av.packet.Packet[Any] = av.Packet(len(data))  # it adds the zeros that decoders read past the end
    packet.update(data)
    return packet


# The decoders of all threads that are decoding.
_decoders: list[av.video.codeccontext.VideoCodecContext] = []


@contextmanager
def _decoder(index: VideoIndex, start: int, threads: int) -> Iterator[av.video.codeccontext.VideoCodecContext]:
    decoder = open_decoder(index, start, max(min(threads, _MOST_THREADS - index.stream.reorder_depth), 1), strict=True)
    open_now = _decoders  # at exit, this may run when the module has lost its names
    open_now.append(decoder)
    try:
        yield decoder
    finally:
        open_now.remove(decoder)


def _abandon_decoders() -> None:
    """Make sure that the decoders are never freed in a forked process, which would wait for threads that it lacks."""
    for decoder in _decoders:
        keep_forever(decoder)


after_fork(_abandon_decoders)
