"""Find the display order of MPEG-4 part 2 pictures (VOPs) by their headers (ISO/IEC 14496-2, 6.2.3 and 6.2.5).

For streams that the standard does not foresee (several VOPs in one packet, placeholders, VOPs that are not coded), the
output follows libavcodec, as found by decoding such streams.
"""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt

from videoloader.indexing.bitstream.mpeg4_headers import (
    B_VOP,
    DIVX,
    FIRST_LAYER,
    GROUP_START,
    I_VOP,
    LAST_LAYER,
    VOP,
    Layer,
    Vop,
    find_layer,
    group_seconds,
    read_layer,
    read_vop,
    sections,
)
from videoloader.indexing.bitstream.mpeg4_times import Clock
from videoloader.indexing.bitstream.picture_order import PacketHeads, PictureOrder, alike

_START = b"\0\0\1"
_VISUAL_SEQUENCE = b"\0\0\1\xb0"
_USER_DATA = 0xB2
_SIGNATURES = re.compile(rb"DivX\d+(?:Build|b)\d+|XviD\d+|Lavc\d+|FFmpeg")
# Four-character codes whose streams libavcodec takes for Xvid's if no signature says otherwise.
_XVID_TAGS = {"XVID", "XVIX", "RMP4", "ZMP4", "SIPP"}
# Codes for which it counts times by other rules.
_ODD_TAGS = {"UMP4", "WV1F", "3IV1", "QMP4"}
_LONGEST_VOP_HEADER = 20  # bytes, for everything read of it here
_USUAL_HEADERS = 512  # bytes, for the headers before a VOP


def mpeg4_order(config: bytes, tag: str, packets: PacketHeads) -> PictureOrder | None:
    """Return the order in which a decoder outputs frames; None if the headers do not determine it.

    Args:
        config: headers before the first VOP, with start codes.
        tag: four-character code of the codec in the container.
        packets: packets in decode order.
    """
    layer = find_layer(config)
    if layer is None or tag.upper() in _ODD_TAGS:
        return None
    try:
        headers = _HeaderReader(config, tag, layer, _headers_of(packets, 0))
        if headers.first is None or headers.first.kind != I_VOP or not headers.first.coded:
            return None
        return _order_late(headers, packets) if layer.late or headers.packed else _order_at_once(headers, packets)
    except ValueError:
        return None


def _headers_of(packets: PacketHeads, number: int) -> bytes:
    """Return the start of a packet that contains the headers of its first VOP."""
    head = packets.start(number, _USUAL_HEADERS)
    return head if VOP in head[:-_LONGEST_VOP_HEADER] else packets.start(number, int(packets.size[number]))


class _HeaderReader:
    """Reads the headers before VOPs, which must agree with those of the stream.

    Attributes:
        layer: layer of the stream.
        packed: whether packets contain several VOPs.
        may_skip_bytes: whether packets of one byte are ignored.
        first: VOP of the first packet, whose headers decide on packing for the stream.
    """

    def __init__(self, config: bytes, tag: str, layer: Layer, first: bytes) -> None:
        self.layer, self.packed = layer, False
        self.may_skip_bytes = tag.upper() in _XVID_TAGS and not _SIGNATURES.search(config)
        self._settled = False
        self._last_read = b""
        self._read_signature(config)
        self.first = self.read(first)
        self._settled, self._last_read = True, b""

    def read(self, packet: bytes) -> Vop | None:
        """Return the first VOP of a packet; None if it has none."""
        vop = packet.find(VOP)
        clock = self._read_headers(packet[:vop] if vop >= 0 else packet) if vop else None
        return read_vop(packet, vop, self.layer, clock) if vop >= 0 else None

    def _read_headers(self, headers: bytes) -> int | None:
        """Read headers, and return the seconds in the last group header that has a time."""
        group = headers.find(GROUP_START)
        before_group = headers[:group] if group >= 0 else headers
        # Many writers repeat the same headers before every keyframe.
        if before_group != self._last_read:
            self._read_sections(before_group)
            self._last_read = before_group
        return self._read_sections(headers[group:]) if group >= 0 else None

    def _read_sections(self, headers: bytes) -> int | None:
        clock = None
        for code, start, stop in sections(headers):
            if code == _USER_DATA:
                self._read_signature(headers[start:stop])
            elif FIRST_LAYER <= code <= LAST_LAYER:
                if read_layer(headers[start:stop]) != self.layer:
                    raise ValueError("the video object layer changes")
            elif code == GROUP_START[3] and any(headers[start : start + 3]):
                clock = group_seconds(headers[start : start + 3])
        return clock

    def read_needed(self, packet: bytes, size: int) -> Vop | None:
        """Return the first VOP of a packet of this size; None if it has none and need not have one."""
        vop = self.read(packet)
        if vop is None and not (size == 1 and self.may_skip_bytes):
            raise ValueError("a packet has no VOP")
        return vop

    def shortest_vop(self) -> int:
        """Return the bytes that a decoder requires of a VOP that others refer to."""
        blocks = ((self.layer.width + 15) // 16) * ((self.layer.height + 15) // 16)
        return blocks // 16 + 16

    def _read_signature(self, user_data: bytes) -> None:
        if divx := DIVX.search(user_data):
            packed = bool(divx[3])
            if self._settled and packed != self.packed:
                raise ValueError("packing changes")
            self.packed = packed
        self.may_skip_bytes = self.may_skip_bytes or bool(divx) or b"XviD" in user_data


def _order_at_once(headers: _HeaderReader, packets: PacketHeads) -> PictureOrder:
    """Return the order if every coded VOP is shown when it is decoded, and there are no B-VOPs."""
    layer, rows = headers.layer, packets.rows
    place = _places_of_vops(packets)
    # The eight bytes after each VOP's start code.
    eights = np.ndarray(rows.size - 7, ">u8", rows, strides=(1,))
    value = eights[np.arange(0, rows.size, rows.shape[1]) + place + 4].astype(np.uint64)
    kind = value >> np.uint64(62)
    left = np.full(len(value), 61, np.uint64)
    for _ in range(16):
        more = value >> left & np.uint64(1)
        if not more.any():
            break
        left -= more
    fields = value >> (left - np.uint64(layer.increment_bits + 3))
    coded, marked = (fields & np.uint64(1)).astype(np.bool_), (fields & np.uint64(2)).astype(np.bool_)
    plain = (place >= 0) & (packets.size >= place + 12) & marked & (more == 0)
    last = None
    for number in np.flatnonzero(~plain).tolist():
        last = headers.read_needed(_headers_of(packets, number), int(packets.size[number]))
        kind[number], coded[number] = (last.kind, last.coded) if last else (I_VOP, False)
    if (kind == B_VOP).any() or (packets.size[coded] < headers.shortest_vop()).any():
        raise ValueError("a VOP that a decoder may not take")
    if not coded[-1] and (plain[-1] or last is not None):
        raise ValueError("a decoder repeats the last frame for one that is not coded")
    return PictureOrder(np.flatnonzero(coded), coded & (kind == I_VOP), np.zeros(len(coded), np.bool_))


def _places_of_vops(packets: PacketHeads) -> npt.NDArray[np.int64]:
    """Return where the VOP of each packet begins, int64[P]; -1 if the packet's headers must be read.

    If headers come before keyframes, they are usually the same each time, except for the time in the group header. Then
    only those of the first such packet must be read.
    """
    rows = packets.rows
    place: npt.NDArray[np.int64] = np.where(rows.view(">u4")[:, 0] == int.from_bytes(VOP, "big"), 0, -1)
    others = place.nonzero()[0]
    if len(others) > 1:
        head = rows[others[0]].tobytes()[: packets.size[others[0]]]
        vop, group = head.find(VOP), head.find(GROUP_START)
        if 0 <= vop <= len(head) - 12:
            compared = np.arange(rows.shape[1]) < vop + 4
            if 0 <= group < vop:
                compared[group + 4 : group + 7] = False
            place[alike(rows, int(others[0]), compared, others[1:])] = vop
    return place


def _order_late(headers: _HeaderReader, packets: PacketHeads) -> PictureOrder:
    """Return the order if references are shown late, or packets contain several VOPs."""
    decoder = _Decoder(headers)
    heads = packets.wholes() if headers.packed else packets
    for number, (head, size) in enumerate(zip(heads, packets.size.tolist(), strict=True)):
        if len(head) < size and VOP not in head[:-_LONGEST_VOP_HEADER]:
            head = _headers_of(packets, number)
        decoder.decode(number, headers.read_needed(head, size), head, size)
    return decoder.finish()


class _Decoder:
    """Follows what libavcodec does with each packet, to find which packet's number each frame gets.

    It raises ValueError if that depends on more than the headers.
    """

    def __init__(self, headers: _HeaderReader) -> None:
        self._headers, self._layer = headers, headers.layer
        self._clock = Clock(headers.layer)
        self._shortest = headers.shortest_vop()
        self._frames: list[int] = []
        self._keys: list[bool] = []
        self._late: list[bool] = []
        self._held: int | None = None
        self._references = 0
        self._rest: bytes | None = None  # second VOP of a packet, not decoded yet
        self._ended_uncoded = False
        self._last_was_b = False

    def decode(self, number: int, vop: Vop | None, packet: bytes, size: int) -> None:
        """Process the packet with this number and first VOP."""
        if vop is not None:
            self._last_was_b = vop.kind == B_VOP
        self._late.append(self._layer.late and not self._last_was_b)
        self._ended_uncoded = False
        rest, self._rest = self._rest, None
        if rest is not None and packet.startswith(_VISUAL_SEQUENCE, packet.find(_START)):
            rest = None
        decoded = vop if rest is None else self._headers.read(rest)
        self._keys.append(False)
        if decoded is None or not self._show(number, decoded):
            return
        self._keys[number] = decoded.kind == I_VOP and vop is not None and vop.kind == I_VOP
        if rest is None and decoded.kind != B_VOP and size < self._shortest:
            raise ValueError("a VOP too short for a decoder to take")
        if self._headers.packed:
            self._rest = _second_vop(packet, decoded.start + 4 if rest is None else 0)

    def finish(self) -> PictureOrder:
        """Return the order of all frames, after the last packet."""
        if self._ended_uncoded:
            raise ValueError("the last frame gets the properties of a packet that is not its own")
        if self._held is not None:
            self._frames.append(self._held)
        if len(set(self._frames)) != len(self._frames):
            raise ValueError("a packet gives two frames")
        return PictureOrder(np.array(self._frames), np.array(self._keys), np.array(self._late), self._headers.packed)

    def _show(self, number: int, vop: Vop) -> bool:
        """Put a VOP in its place, and return whether it becomes a frame."""
        if vop.kind == B_VOP:
            if not self._layer.late or self._references < 2:
                raise ValueError("a B-VOP without both its references")
            self._clock.check_between(vop)
        else:
            self._clock.advance(vop)
        if not vop.coded:
            self._ended_uncoded = True
            return False
        if vop.kind == B_VOP or not self._layer.late:
            self._frames.append(number)
            return True
        self._references += 1
        if self._held is not None:
            self._frames.append(self._held)
        self._held = number
        return True


def _second_vop(packet: bytes, start: int) -> bytes | None:
    """Return the rest of a packet after its first VOP, if it starts with an I- or B-VOP."""
    if len(packet) - start <= 7:
        return None
    second = packet.find(VOP, start, len(packet) - 1)
    if second < 0 or packet[second + 4] & 0x40:
        return None
    # If the second VOP begins at once, only its own header matters.
    return packet[second : second + 24] if packet.find(_START, start) == second else packet[start:]
