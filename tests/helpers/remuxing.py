"""Rewrites a video's packets with other bytes or other flags than the encoder's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import av
from av.packet import Packet


def remux(
    path: Path, target: Path, change: Callable[[int, Packet], Packet], options: Mapping[str, str] | None = None
) -> Path:
    """Write the packets of a video after ``change(number, packet)``, with the muxer's ``options``."""
    with av.open(str(path)) as read, av.open(str(target), "w", options=dict(options or {})) as written:
        stream = read.streams.video[0]
        copy = written.add_stream_from_template(stream)
        for number, packet in enumerate(packet for packet in read.demux(stream) if packet.size):
            changed = change(number, packet)
            changed.stream = copy
            written.mux(changed)
    return target


def unchanged(number: int, packet: Packet) -> Packet:
    """A change for ``remux`` that changes nothing."""
    return packet


def marked(is_key: Callable[[int], bool]) -> Callable[[int, Packet], Packet]:
    """A change for ``remux``: mark exactly the packets with these numbers as keyframes."""

    def change(number: int, packet: Packet) -> Packet:
        packet.is_keyframe = is_key(number)
        return packet

    return change


def rewritten(write: Callable[[int, bytes], bytes]) -> Callable[[int, Packet], Packet]:
    """A change for ``remux``: replace the bytes of packets."""

    def change(number: int, packet: Packet) -> Packet:
        data = write(number, bytes(packet))
        other = Packet(data)
        other.pts, other.dts, other.duration = packet.pts, packet.dts, packet.duration
        other.time_base, other.is_keyframe = packet.time_base, packet.is_keyframe
        return other

    return change
