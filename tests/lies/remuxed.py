"""Lies that libavformat writes for us, in any container that it can write: flags, times, packets that are missing."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

import av
import av.error

from lies.registry import Rng, container_of, few, lie
from videoloader.indexing.demuxer import LENIENT_METADATA

FORMATS = {
    "mp4": "mov", "mkv": "matroska", "avi": "avi", "flv": "flv", "ts": "mpegts", "ps": "vob", "asf": "asf",
    "ogg": "ogg",
}  # fmt: skip

# No random numbers of the file, no date.
_EXACT = {"fflags": "+bitexact"}


@dataclass(frozen=True)
class Packet:
    """A packet on its way from one file to another; times in units of its stream's time base."""

    data: bytes
    pts: int | None
    dts: int | None
    duration: int
    key: bool


@dataclass(frozen=True)
class Packets:
    """The packets of a file's video, and the file itself, as a pattern for the stream that they go to."""

    source: bytes
    time_base: Fraction
    packets: list[Packet]
    codec: str
    config: bytes


def demuxed(data: bytes) -> Packets | None:
    """The packets of the best video stream; None where libavformat finds none, or one packet only."""
    try:
        with av.open(io.BytesIO(data), **LENIENT_METADATA) as container:
            stream = container.streams.best("video")
            if stream is None or stream.codec_context is None:
                return None
            packets = [
                Packet(bytes(packet), packet.pts, packet.dts, packet.duration or 0, packet.is_keyframe)
                for packet in container.demux(stream)
                if packet.size
            ]
            context = stream.codec_context
            codec, config = context.codec.canonical_name, bytes(context.extradata or b"")
            if len(packets) < 2:
                return None
            return Packets(data, Fraction(stream.time_base or 1), packets, codec, config)
    except (av.error.FFmpegError, ValueError, IndexError):
        return None


def muxed(packets: Packets, container: str) -> bytes | None:
    """The packets in a new file; None where libavformat will not have them."""
    output = io.BytesIO()
    try:
        with (
            av.open(io.BytesIO(packets.source), **LENIENT_METADATA) as pattern,
            av.open(output, "w", format=FORMATS.get(container, container), options=_EXACT) as made,
        ):
            template = pattern.streams.best("video")
            assert template is not None
            stream = made.add_stream_from_template(template, opaque=True)
            for each in packets.packets:
                packet = av.Packet(each.data)
                packet.stream, packet.time_base = stream, packets.time_base
                packet.pts, packet.dts, packet.duration = each.pts, each.dts, each.duration
                packet.is_keyframe = each.key
                made.mux(packet)
    except (av.error.FFmpegError, ValueError, OverflowError):
        return None
    return output.getvalue()


def rewritten(data: bytes, change: Callable[[Packets], list[Packet] | None]) -> bytes | None:
    """The file's packets, changed, in a new file of the same container; None where ``change`` gives None."""
    container = container_of(data)
    if container == "raw":
        found = demuxed(data)
        packets = found and change(found)
        return b"".join(each.data for each in packets) if packets else None
    found = demuxed(data) if container in FORMATS else None
    packets = found and change(found)
    return muxed(replace(found, packets=packets), container) if found and packets else None


def _changed(data: bytes, change: Callable[[list[Packet]], list[Packet]]) -> bytes | None:
    return rewritten(data, lambda found: change(found.packets))


@lie()
def flagged_all(data: bytes, rng: Rng) -> bytes | None:
    return _changed(data, lambda packets: [replace(each, key=True) for each in packets])


@lie()
def flagged_first_only(data: bytes, rng: Rng) -> bytes | None:
    return _changed(data, lambda packets: [replace(each, key=not number) for number, each in enumerate(packets)])


@lie()
def flagged_random(data: bytes, rng: Rng) -> bytes | None:
    return _changed(
        data,
        lambda packets: [replace(each, key=not number or rng.random() < 0.3) for number, each in enumerate(packets)],
    )


@lie()
def flagged_some(data: bytes, rng: Rng) -> bytes | None:
    """A few more keyframes than there are."""
    return _changed(data, lambda packets: [replace(each, key=each.key or rng.random() < 0.1) for each in packets])


@lie()
def shown_as_decoded(data: bytes, rng: Rng) -> bytes | None:
    """Decode times for presentation times."""
    return _changed(data, lambda packets: [replace(each, pts=each.dts) for each in packets])


@lie()
def shown_later(data: bytes, rng: Rng) -> bytes | None:
    """Some packets' presentation times moved on."""

    def change(packets: list[Packet]) -> list[Packet]:
        late = list(packets)
        for number in few(rng, len(late)):
            each = late[number]
            if each.pts is not None:
                late[number] = replace(each, pts=each.pts + int(rng.choice([1, 2, 3, 7])) * max(each.duration, 1))
        return late

    return _changed(data, change)


@lie(damages=True)
def packets_missing(data: bytes, rng: Rng) -> bytes | None:
    def change(packets: list[Packet]) -> list[Packet]:
        gone = set(few(rng, len(packets)))
        return [each for number, each in enumerate(packets) if number not in gone]

    return _changed(data, change)


@lie(damages=True)
def packets_from_the_middle(data: bytes, rng: Rng) -> bytes | None:
    """What a recording is that begins inside a GOP."""
    return _changed(data, lambda packets: packets[int(rng.integers(len(packets) * 3 // 4)) :])


@lie(damages=True)
def packets_up_to_the_middle(data: bytes, rng: Rng) -> bytes | None:
    return _changed(data, lambda packets: packets[: int(rng.integers(1, len(packets)))])


@lie(damages=True)
def packets_cut_short(data: bytes, rng: Rng) -> bytes | None:
    """Packets without their last bytes."""

    def change(packets: list[Packet]) -> list[Packet]:
        short = list(packets)
        for number in few(rng, len(short)):
            each = short[number]
            short[number] = replace(each, data=each.data[: max(1, int(rng.integers(1, len(each.data) + 1)))])
        return short

    return _changed(data, change)


def _into(container: str) -> Callable[[bytes, Rng], bytes | None]:
    def change(data: bytes, rng: Rng) -> bytes | None:
        packets = None if container_of(data) == container else demuxed(data)
        return packets and muxed(packets, container)

    change.__name__ = f"into_{container}"
    return change


for _container in (
    *FORMATS,
    "nut",
    "h264",
    "hevc",
    "mpeg2video",
    "m4v",
    "ivf",
    "obu",
    "mxf",
    "3gp",
    "ismv",
    "rm",
    "swf",
):
    lie()(_into(_container))
