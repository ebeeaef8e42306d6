"""Packs B pictures of MPEG-4 as DivX and Xvid write them into AVI files."""

from __future__ import annotations

import dataclasses

from avi_writing import Video

VOP, USER_DATA = b"\0\0\1\xb6", b"\0\0\1\xb2"
# The signature by which decoders know such streams.
PACKED = USER_DATA + b"DivX503b1393p"
_B = 2


def packed(video: Video) -> Video:
    """The video with packed pictures, whose headers say so."""
    packets, config = signed(video, PACKED)
    return of_packets(video, pack(packets), extra=config)


def pack(packets: list[bytes]) -> list[bytes]:
    """Packets of which the first B-VOP lies with its later reference, and a placeholder behind the last."""
    result: list[bytes] = []
    merged = False
    for packet in packets:
        if vop_kind(packet) == _B and not merged:
            result[-1] += packet
            merged = True
            continue
        if vop_kind(packet) != _B and merged:
            result.append(not_coded(0))
            merged = False
        result.append(packet)
    return [*result, not_coded(0)] if merged else result


def not_coded(increment: int) -> bytes:
    """A P-VOP that is not coded, at a time of 25 units a second: what packed streams hold in place of a B-VOP."""
    return VOP + int(f"01{0:b}1{increment:05b}1001111", 2).to_bytes(3, "big")[-3:]


def vop_kind(packet: bytes) -> int:
    return packet[packet.index(VOP) + 4] >> 6


def signed(video: Video, signature: bytes) -> tuple[list[bytes], bytes]:
    """(the packets without the stream's headers, the headers with another signature)."""
    first = video.packets[0]
    stop = min(at for at in (first.find(b"\0\0\1\xb3"), first.find(VOP)) if at >= 0)
    return [first[stop:], *video.packets[1:]], first[: first.index(USER_DATA)] + (
        signature or first[first.index(USER_DATA) : stop]
    )


def of_packets(video: Video, packets: list[bytes], **changes: object) -> Video:
    return dataclasses.replace(video, packets=tuple(packets), keys=(True,) * len(packets), **changes)  # type: ignore[arg-type]
