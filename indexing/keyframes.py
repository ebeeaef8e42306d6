"""The packets at which decoding can start, where neither the codec's headers nor its nature tell."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import av
import numpy as np
import numpy.typing as npt

from videoloader.errors import UnsupportedError
from videoloader.indexing.bitstream.jpeg import JpegTables, tables_brought
from videoloader.indexing.bitstream.random_access import (
    MARKED_BY_DECODER,
    is_intra_only,
    reads_headers,
)
from videoloader.indexing.decoder import FreshDecoder
from videoloader.indexing.index import VideoIndex
from videoloader.indexing.keyframe_heads import read_packet
from videoloader.indexing.libav import open_video
from videoloader.indexing.pictures import are_same
from videoloader.indexing.sources import ByteSource

# How often a stream is decoded with fewer keyframes, before it gets none but its first packet.
_MOST_ROUNDS = 2
# Bytes of a JPEG picture, before its first scan, that are read to see its tables.
_JPEG_HEAD = 4 << 10
_NO_TABLES = JpegTables(False, False, False)

# What becomes of a packet: its picture, nothing, or None where it does not decode.
_Outcome = list[av.VideoFrame] | None


def with_sure_keyframes(index: VideoIndex, source: ByteSource) -> VideoIndex:
    """The index with keyframes that are some, if it can be known now; see ``VideoIndex.keys_from``.

    Where headers tell, they are asked when a clip is read; codecs without references have nothing but keyframes. For
    all others the stream is decoded once: libavcodec says which pictures refer to no other; or, of codecs for which it
    does not, a packet that the container calls a keyframe is one if a new decoder that starts there repeats the
    pictures of the sequential decode, as long as no other one has taken its place.

    Args:
        index: index of the video.
        source: source of the same video.

    Raises:
        UnsupportedError: there is no decoder for the codec, or it goes by the container's marks, and they lie.
    """
    codec = index.stream.codec
    if index.keys_from != "container" or index.stream.encrypted or not len(index.packet_key):
        return index
    if codec == "mjpeg":
        return _with_jpeg_tables(index, source)
    if is_intra_only(codec):
        return replace(index.with_keyframes(np.ones_like(index.packet_key)), keys_from="headers")
    if reads_headers(codec):
        return index
    if codec in MARKED_BY_DECODER:
        return replace(index.with_keyframes(_marked_keyframes(index, source)), keys_from="decoder")
    sure = index.with_keyframes(_repeating_keyframes(index, source))
    if (sure.packet_key != index.packet_key).any() and _marks_matter(index, sure, source):
        raise UnsupportedError(
            f"marks packets as keyframes that are not, and {codec} is decoded by these marks", index.source
        )
    return replace(sure, keys_from="decoder")


def _with_jpeg_tables(index: VideoIndex, source: ByteSource) -> VideoIndex:
    """JPEG pictures stand alone, but those without tables take them from an earlier one that has some.

    Where none before has tables of Huffman codes, libavcodec's are used.
    """
    count = len(index.packet_key)
    index = index.with_keyframes(np.ones(count, np.bool_))
    if not index.byte_ranges:
        brought = [tables_brought(data) or _NO_TABLES for data in _payloads(index, source)]
    elif all(_tables(index, source, packet)[:2] == (True, True) for packet in {0, count - 1}):
        return index  # the others are looked at when a clip is read
    else:
        brought = [_tables(index, source, packet) for packet in range(count)]
    first = next((number for number, tables in enumerate(brought) if tables.some_codes), count)
    starts = [tables.quantization and (tables.codes or number < first) for number, tables in enumerate(brought)]
    return replace(index.with_keyframes(np.array(starts)), keys_from="headers")


def _tables(index: VideoIndex, source: ByteSource, packet: int) -> JpegTables:
    told = tables_brought(read_packet(index, source, packet, _JPEG_HEAD))
    return told or tables_brought(read_packet(index, source, packet)) or _NO_TABLES


def _payloads(index: VideoIndex, source: ByteSource) -> Iterator[bytes]:
    """All packets of a video, in decode order."""
    if index.byte_ranges:
        yield from (read_packet(index, source, packet) for packet in range(len(index.packet_size)))
        return
    with open_video(source) as (container, stream):
        yield from (bytes(packet) for packet in container.demux(stream) if packet.size)


def _marked_keyframes(index: VideoIndex, source: ByteSource) -> npt.NDArray[np.bool_]:
    """bool[P]: packets whose pictures libavcodec calls keyframes."""
    key = np.zeros_like(index.packet_key)
    for frame in FreshDecoder(index, 0).all_frames(_payloads(index, source)):
        key[frame.pts or 0] |= frame.key_frame
    return key


def _repeating_keyframes(index: VideoIndex, source: ByteSource) -> npt.NDArray[np.bool_]:
    """bool[P]: packets from which on a new decoder gives the same pictures as one that began with the first."""
    claimed = index.packet_key.copy()
    claimed[0] = True  # from there on every frame comes out, whatever it refers to
    for _ in range(_MOST_ROUNDS):
        if np.count_nonzero(claimed) == 1:
            break
        claimed, refuted = _compare_starts(index, source, claimed)
        if not refuted:
            return claimed
    first_only: npt.NDArray[np.bool_] = np.arange(len(claimed)) == 0
    return first_only


def _compare_starts(
    index: VideoIndex, source: ByteSource, claimed: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[np.bool_], bool]:
    """(the packets among the claimed ones that proved to be keyframes, whether one later turned out to be none).

    Three decoders go side by side: one began with the first packet, one with the last keyframe that was found to be
    one, and one with the packet that is tried. A true one takes over at the next packet that is claimed, and a false
    one mostly shows itself with its first picture. So each packet is decoded about twice.
    """
    numbers = np.arange(len(claimed))
    key = numbers == 0
    whole = FreshDecoder(index, 0)
    proven = tried = None
    for number, data in enumerate(_payloads(index, source)):
        if claimed[number] and number:
            if tried is not None:
                key[tried.start] = True
                proven = tried
            tried = FreshDecoder(index, number)
        truth = whole.frames(number, data)
        if truth and any(picture.pts != number for picture in truth):
            return numbers == 0, False  # it holds pictures back, so that no packet is its picture's own
        if proven is not None and not _same(proven.frames(number, data), truth):
            key[proven.start] = False
            undecided = number + 1 if tried is None else tried.start
            return key | (claimed & (numbers >= undecided)), True
        if tried is not None and not _same(tried.frames(number, data), truth):
            tried = None
    if tried is not None:
        key[tried.start] = True
    return key, False


def _marks_matter(index: VideoIndex, other: VideoIndex, source: ByteSource) -> bool:
    """Whether the decoder makes other pictures of the packets where other ones are marked as keyframes."""
    decoder, other_decoder = FreshDecoder(index, 0), FreshDecoder(other, 0)
    return not all(
        _same(decoder.frames(number, data), other_decoder.frames(number, data))
        for number, data in enumerate(_payloads(index, source))
    )


def _same(one: _Outcome, other: _Outcome) -> bool:
    """Whether the same has become of a packet in two decoders."""
    if one is None or other is None:
        return one is other
    return len(one) == len(other) and all(
        picture.pts == again.pts and are_same(picture, again) for picture, again in zip(one, other, strict=True)
    )
