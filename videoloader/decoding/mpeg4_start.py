"""Show MPEG-4 decoders that begin in the middle of a stream what they would remember of its start.

libavcodec counts how many pictures end with stuffing (ISO/IEC 14496-2, 5.2.4) and how many do not, since some encoders
leave it out. Until it has seen some that do, it takes a picture with damage in its last bits for a sound one. So a
decoder that begins at a keyframe would show, without a mark, what a full decode conceals.

By the notes of encoders, libavcodec chooses how to decode. It remembers those of all parts of a joined file.

It scales the motion vectors of interlaced B pictures by the distance of the first B picture that it is given. A decoder
that begins elsewhere, or is not given pictures that nothing refers to, would show other pictures.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from typing import Any

import av.error
import av.packet
import av.video.codeccontext

from videoloader.indexing.bitstream.headers_before import split_headers
from videoloader.indexing.bitstream.mpeg4_headers import VOP, Layer, find_layer, is_packed, read_vop
from videoloader.indexing.bitstream.mpeg4_times import UNEVEN
from videoloader.indexing.bitstream.parameter_sets import sequence_headers
from videoloader.indexing.decoder import make_packet
from videoloader.indexing.index import VideoIndex

# libavcodec relies on stuffing once two more pictures have it than lack it. (Each takes 30 µs at 320×240.)
_PICTURES = 4
# libavcodec refuses a picture with fewer bits than this: macroblocks of stuffing, ten bits each.
_STUFFING = 16 * "0000000001"
# Kinds of VOPs.
_P, _B = "01", "10"


def show_notes(context: av.video.codeccontext.VideoCodecContext, index: VideoIndex, packet: int) -> None:
    """Show a new decoder all notes of encoders before its run begins with this packet, if they differ.

    Whenever libavcodec decodes a picture, it chooses by the notes that it has met how to decode, and keeps this choice.
    """
    config = split_headers(index.config_at(packet))
    if len(config.notes) > 1 and (layer := find_layer(config.layer)):
        show(context, index, packet, [step + _skipped_picture(layer) for step in config.steps()])


def show_sound_endings(
    context: av.video.codeccontext.VideoCodecContext, index: VideoIndex, packet: int, data: bytes | memoryview
) -> None:
    """Show a new decoder pictures that end with stuffing, before its run begins with this packet.

    If the stream's encoder leaves out the stuffing, the run's pictures are then taken for damaged, and decoded again by
    a decoder that has seen pictures of this stream.
    """
    _show(context, index, packet, data, lambda layer: _PICTURES * [_skipped_picture(layer)])


def show_first_b_picture(
    context: av.video.codeccontext.VideoCodecContext, index: VideoIndex, packet: int, data: bytes | memoryview
) -> None:
    """Show a new decoder a B picture of the distance of the stream's first, before its run begins with this packet."""
    if (distance := index.stream.first_b_distance) not in (0, UNEVEN):
        times = ((_P, 0), (_P, distance + 1), (_B, distance))
        _show(context, index, packet, data, lambda layer: [_uncoded_picture(layer, *each) for each in times])


def packets_behind(index: VideoIndex, packet: int, data: bytes | memoryview) -> list[av.packet.Packet[Any]]:
    """Return a packet to decode behind a run that ends with this one, if its picture is not coded; else none.

    At the end of what it is given, libavcodec repeats the last picture for one that is not coded. If another one
    follows, as it does in the stream, nothing comes out for it. The frame of the returned packet has no pts.
    """
    _, layer = _layer_at(index, packet, data)
    if layer is None or packet + 1 == len(index.packet_size) or is_packed(index.config_at(packet)):
        return []
    content = bytes(data)
    if (at := content.rfind(VOP)) < 0:
        return []
    with suppress(ValueError):  # where a header is damaged, libavcodec may take the picture for one that is not coded
        if read_vop(content, at, layer, None).coded:
            return []
    behind = make_packet(index, _skipped_picture(layer), packet, packet)
    behind.pts = None
    return [behind]


def _show(
    context: av.video.codeccontext.VideoCodecContext,
    index: VideoIndex,
    packet: int,
    data: bytes | memoryview,
    pictures: Callable[[Layer], list[bytes]],
) -> None:
    """Show a decoder pictures that are made for the layer in force at a packet."""
    headers, layer = _layer_at(index, packet, data)
    if layer is not None:
        show(context, index, packet, [headers + each for each in pictures(layer)])


def _layer_at(index: VideoIndex, packet: int, data: bytes | memoryview) -> tuple[bytes, Layer | None]:
    """Return the headers that a packet brings, and the layer that is in force there."""
    headers = sequence_headers("mpeg4", data)
    return headers, find_layer(headers or index.config_at(packet))


def show(
    context: av.video.codeccontext.VideoCodecContext, index: VideoIndex, packet: int, pictures: list[bytes]
) -> None:
    """Show a decoder pictures, and have it forget their contents."""
    try:
        for picture in pictures:
            context.decode(make_packet(index, picture, packet, None))
    except av.error.FFmpegError:
        pass  # the stream has fields that are not supported here, and the decoder is unchanged
    context.flush_buffers()


@lru_cache(16)
def _skipped_picture(layer: Layer) -> bytes:
    """Make a P-VOP that repeats the previous picture (ISO/IEC 14496-2, 6.2.5): no macroblock is coded."""
    blocks = -(-layer.width // 16) * -(-layer.height // 16)
    header = _times(layer, _P, 0) + "1" + "0" + "000" + ("00" if layer.interlaced else "") + "00001" + "001"
    return _pack(header + _STUFFING + blocks * "1")


def _uncoded_picture(layer: Layer, kind: str, time: int) -> bytes:
    """Make a VOP that has a time, but is not coded."""
    return _pack(_times(layer, kind, time) + "0")


def _times(layer: Layer, kind: str, time: int) -> str:
    """Return the bits of a VOP's header up to ``vop_coded``."""
    seconds, units = divmod(time, layer.resolution)
    return kind + seconds * "1" + "0" + "1" + f"{units:0{layer.increment_bits}b}" + "1"


def _pack(bits: str) -> bytes:
    """Return a VOP of these bits, which ends with stuffing."""
    bits += "0"
    bits += -len(bits) % 8 * "1"
    return VOP + int(bits, 2).to_bytes(len(bits) // 8, "big")
