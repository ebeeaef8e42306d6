"""Writes H.264 with field pictures, which no encoder here makes: gray frames with rows of their own in each field."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import av
from bit_writing import BitWriter, with_emulation_prevention

# Size in macroblocks, and pictures from one keyframe to the next.
_WIDTH, _HEIGHT, _GOP = 2, 4, 4
_CODE = b"\0\0\0\1"
_I, _I_PCM = 7, 25  # slice_type and mb_type


def write_field_pictures(path: Path, kinds: Sequence[str], *, together: bool = False) -> Path:
    """Write pictures, of which libavformat's parsers would make these packets, 25 frames a second.

    Args:
        path: where to write; the suffix is that of the container.
        kinds: how each picture is coded: ``"frame"``, ``"fields"``, only its ``"top"``, or ``"slices"``, fields
            of two slices each.
        together: whether the fields of a picture are in one packet.
    """
    pictures = [_picture(number, kind) for number, kind in enumerate(kinds)]
    plain = path.with_suffix(".plain.h264")
    plain.write_bytes(b"".join(part for parts in pictures for part in parts))
    with av.open(str(plain)) as read, av.open(str(path), "w") as written:
        stream = written.add_stream_from_template(read.streams.video[0])
        for number, parts in enumerate(pictures):
            for second, data in enumerate([b"".join(parts)] if together else parts):
                packet = av.Packet(data)
                packet.stream, packet.time_base = stream, Fraction(1, 50)
                packet.pts = packet.dts = 2 * number + second
                packet.duration = 1 if second or (len(parts) > 1 and not together) else 2
                packet.is_keyframe = number % _GOP == 0 and not second
                written.mux(packet)
    plain.unlink()
    return path


def _picture(number: int, kind: str) -> list[bytes]:
    """The packets of a picture, one for a frame, one for each field."""
    slices = 2 if kind == "slices" else 1
    fields = {"frame": (None,), "top": (0,)}.get(kind, (0, 1))
    parts = [b"".join(_slice(number, field, part, slices) for part in range(slices)) for field in fields]
    return [_parameter_sets() + parts[0], *parts[1:]] if number % _GOP == 0 else parts


def _parameter_sets() -> bytes:
    sps = BitWriter().u(77, 8).u(0, 8).u(30, 8).ue(0).ue(0).ue(0).ue(4).ue(4).u(0, 1)
    sps.ue(_WIDTH - 1).ue(_HEIGHT // 2 - 1).u(0b00100, 5)  # frame_mbs_only_flag is the first of these
    pps = BitWriter().ue(0).ue(0).u(0, 2).ue(0).ue(0).ue(0).u(0, 3).ue(0).ue(0).ue(0).u(0b100, 3)
    return _unit(0x67, sps) + _unit(0x68, pps)


def _slice(number: int, field: int | None, part: int, parts: int) -> bytes:
    """The part of a frame or field in one of several slices, all of it uncompressed."""
    place = number % _GOP
    is_idr = not place and not field
    blocks = _WIDTH * _HEIGHT // (1 if field is None else 2)
    first, stop = blocks * part // parts, blocks * (part + 1) // parts
    bits = BitWriter().ue(first).ue(_I).ue(0).u(place, 4).u(field is not None, 1)
    if field is not None:
        bits.u(field, 1)
    if is_idr:
        bits.ue(number // _GOP % 2)  # idr_pic_id
    bits.u(2 * place + (field or 0), 8)
    bits.u(0, 2 if is_idr else 1).ue(0).ue(1)  # reference marking, slice_qp_delta, no deblocking
    for block in range(first, stop):
        value = 20 + (37 * number + 11 * block + 90 * (field or 0)) % 210
        bits.ue(_I_PCM).raw(bytes([value] * 256 + [128] * 128))
    return _unit(0x65 if is_idr else 0x61, bits)


def _unit(header: int, bits: BitWriter) -> bytes:
    return _CODE + bytes([header]) + with_emulation_prevention(bits.bytes())
