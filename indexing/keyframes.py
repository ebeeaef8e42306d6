"""Find the keyframes of codecs whose headers do not tell where decoding can start."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

import av
import numpy as np
import numpy.typing as npt

from videoloader.errors import UnsupportedError
from videoloader.indexing.bitstream.jpeg import JpegTables, tables_brought
from videoloader.indexing.bitstream.random_access import MARKED_BY_DECODER, is_intra_only, reads_headers
from videoloader.indexing.decoder import FreshDecoder
from videoloader.indexing.demuxer import demuxed
from videoloader.indexing.index import VideoIndex
from videoloader.indexing.keyframe_heads import read_packet
from videoloader.indexing.pictures import are_same
from videoloader.indexing.sources.base import ByteSource
from videoloader.indexing.video_stream import open_video

# Maximum number of times a stream is decoded with fewer keyframes, before only its first packet is left as one.
_MOST_ROUNDS = 2
# Bytes of a JPEG picture that are read to find the tables before its first scan.
_JPEG_HEAD = 4 << 10
_NO_TABLES = JpegTables(False, False, False)

# Result of a packet: its pictures, possibly none, or None if it does not decode.
_Outcome = list[av.VideoFrame] | None


def with_sure_keyframes(index: VideoIndex, source: ByteSource) -> VideoIndex:
    """Return the index with confirmed keyframes, if they can be known now; see ``VideoIndex.keys_from``.

    If headers tell, they are checked when a clip is read. Codecs without references have only keyframes. For all other
    codecs the stream is decoded once. libavcodec may mark pictures that refer to no other. For codecs for which it does
    not, a packet that the container marks as a keyframe is one if a new decoder that starts there gives the same
    pictures as the sequential decode, up to the next one that proves to be a keyframe.

    Args:
        index: index of the video.
        source: source of the same video.

    Raises:
        UnsupportedError: there is no decoder for the codec, or it relies on the container's marks, and these are wrong.
    """
    codec = index.stream.codec
    if index.keys_from != "container" or index.stream.encrypted or not len(index.packet_key):
        return index
    if codec == "mjpeg":
        return _with_jpeg_tables(index, source)
    if reads_headers(codec):
        return index
    if is_intra_only(codec):
        return replace(index.with_keyframes(np.ones_like(index.packet_key)), keys_from="headers")
    if codec in MARKED_BY_DECODER:
        return replace(index.with_keyframes(_marked_keyframes(index, source)), keys_from="decoder")
    sure = index.with_keyframes(_repeating_keyframes(index, source))
    if (sure.packet_key != index.packet_key).any() and _marks_matter(index, sure, source):
        raise UnsupportedError(
            f"marks packets as keyframes that are not, and {codec} cannot be decoded without right marks: re-encode it",
            index.source,
        )
    return replace(sure, keys_from="decoder")


def _with_jpeg_tables(index: VideoIndex, source: ByteSource) -> VideoIndex:
    """Find the JPEG pictures that have all their tables. Others take tables from an earlier one.

    As long as no earlier picture has Huffman tables, libavcodec's own are used.
    """
    count = len(index.packet_key)
    index = index.with_keyframes(np.ones(count, np.bool_))
    if not index.byte_ranges:
        brought = [tables_brought(data) or _NO_TABLES for data in packet_payloads(index, source)]
    elif all(_tables(index, source, packet)[:2] == (True, True) for packet in {0, count - 1}):
        return index  # the others are examined when a clip is read
    else:
        brought = [_tables(index, source, packet) for packet in range(count)]
    first = next((number for number, tables in enumerate(brought) if tables.some_codes), count)
    starts = [tables.quantization and (tables.codes or number < first) for number, tables in enumerate(brought)]
    return replace(index.with_keyframes(np.array(starts)), keys_from="headers")


def _tables(index: VideoIndex, source: ByteSource, packet: int) -> JpegTables:
    told = tables_brought(read_packet(index, source, packet, _JPEG_HEAD))
    return told or tables_brought(read_packet(index, source, packet)) or _NO_TABLES


def packet_payloads(index: VideoIndex, source: ByteSource) -> Iterator[bytes]:
    """Yield all packets of a video in decode order, without a last one that the index leaves out."""
    if index.byte_ranges:
        yield from (read_packet(index, source, packet) for packet in range(len(index.packet_size)))
        return
    with open_video(source) as (container, stream):
        whole = (bytes(packet) for packet in demuxed(container, stream) if packet.size)
        yield from islice(whole, len(index.packet_size))


def _marked_keyframes(index: VideoIndex, source: ByteSource) -> npt.NDArray[np.bool_]:
    """Return the packets whose pictures libavcodec marks as keyframes, bool[P]."""
    key = np.zeros_like(index.packet_key)
    for frame in FreshDecoder(index, 0).all_frames(packet_payloads(index, source)):
        key[frame.pts or 0] |= frame.key_frame
    return key


def _repeating_keyframes(index: VideoIndex, source: ByteSource) -> npt.NDArray[np.bool_]:
    """Return the packets at which a new decoder gives the same pictures as one that began with the first: bool[P]."""
    claimed = index.packet_key.copy()
    claimed[0] = True  # from the first packet on, every frame comes out, whatever it refers to
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
    """Return the claimed packets that proved to be keyframes, and whether one of them was later refuted.

    Three decoders run side by side: one that began with the first packet, one that began with the last proven keyframe,
    and one that began with the packet being tested. A true keyframe becomes the proven one at the next claimed packet,
    and a false one usually shows at its first picture. So each packet is decoded about twice.
    """
    numbers = np.arange(len(claimed))
    key = numbers == 0
    whole = FreshDecoder(index, 0)
    proven = tried = None
    for number, data in enumerate(packet_payloads(index, source)):
        if claimed[number] and number:
            if tried is not None:
                key[tried.start] = True
                proven = tried
            tried = FreshDecoder(index, number)
        truth = whole.frames(number, data)
        if truth and any(picture.pts != number for picture in truth):
            return numbers == 0, False  # the decoder holds pictures back, so a packet does not give its own picture
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
    """Whether the decoder makes other pictures of the packets if other ones are marked as keyframes."""
    decoder, other_decoder = FreshDecoder(index, 0), FreshDecoder(other, 0)
    return not all(
        _same(decoder.frames(number, data), other_decoder.frames(number, data))
        for number, data in enumerate(packet_payloads(index, source))
    )


def _same(one: _Outcome, other: _Outcome) -> bool:
    """Whether a packet had the same result in two decoders."""
    if one is None or other is None:
        return one is other
    return len(one) == len(other) and all(
        picture.pts == again.pts and are_same(picture, again) for picture, again in zip(one, other, strict=True)
    )
