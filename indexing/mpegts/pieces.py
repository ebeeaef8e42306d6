"""View the elementary stream of one pid piece by piece, without copying it out of the transport packets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from videoloader.errors import SourceError
from videoloader.indexing.mpegts.packets import PACKET_SIZE, OddStreamError, find_payloads, gather, led_by
from videoloader.indexing.mpegts.pes import PesPackets, without_headers
from videoloader.indexing.sources.base import ByteSource
from videoloader.indexing.stream_info import TransportLayout
from videoloader.runtime.cached_property import cached_property

_START_CODE_SIZE = 3
_PREFIX = 0x010000  # 00 00 01, little endian
_BLOCK = 1 << 18  # pairs of bytes, so that their marks stay in the cache
_MOST_START_CODES = 1 << 18  # in a piece: more would take more memory than they are worth


@dataclass(frozen=True, eq=False)
class Piece:
    """A part of a transport stream, and where the bytes of one elementary stream lie in it.

    Positions in the elementary stream ("stream positions") count from its first byte in the file.

    Attributes:
        data: whole transport packets.
        layout: layout of the file, with the pid of the stream.
        offset: offset of the first transport packet in the file.
        headers: uint32[N], the first four bytes of each.
        row_start: int64[R], where in ``data`` each stretch of the stream begins; none is empty.
        row_packet: int64[R], the transport packet that contains it.
        position: int64[R + 1], stream position of each stretch, and of the end of the last.
        pes: PES packets whose headers are in this piece.
        last: whether the file ends with this piece.
    """

    data: bytes
    layout: TransportLayout
    offset: int
    headers: npt.NDArray[np.uint32]
    row_start: npt.NDArray[np.int64]
    row_packet: npt.NDArray[np.int64]
    position: npt.NDArray[np.int64]
    pes: PesPackets
    last: bool

    @cached_property
    def array(self) -> npt.NDArray[np.uint8]:
        return np.frombuffer(self.data, np.uint8)

    @property
    def end(self) -> int:
        """The stream position of the end of the piece."""
        return int(self.position[-1])

    def locate(self, position: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return where in ``data`` the bytes at these stream positions are; beyond the end, where the last byte is."""
        position = np.minimum(position, self.position[-1] - 1)
        row = self.position.searchsorted(position, "right") - 1
        located: npt.NDArray[np.int64] = self.row_start[row] + position - self.position[row]
        return located

    def bytes_at(self, position: npt.NDArray[np.int64]) -> npt.NDArray[np.uint8]:
        """Return the bytes at these stream positions, of any shape."""
        return self.array[self.locate(position)]

    def windows(self, position: npt.NDArray[np.int64], width: int) -> npt.NDArray[np.uint8]:
        """Return the bytes from each of these stream positions on, uint8[N, width]; most lie in one packet."""
        located = self.locate(position)
        within = np.minimum(located, len(self.data) - width)
        window: npt.NDArray[np.uint8] = gather(self.data, within, width).view(np.uint8).reshape(-1, width)
        in_packet = (located % self.layout.stride) + width <= PACKET_SIZE
        if not in_packet.all():
            split = (~in_packet).nonzero()[0]
            window[split] = self.bytes_at(position[split][:, None] + np.arange(width))
        return window

    def cut(self, starts: npt.NDArray[np.int64], stops: npt.NDArray[np.int64]) -> list[bytes]:
        """Return the stream's bytes from each of some positions to another."""
        if not len(starts):
            return []
        row = np.minimum(self.position.searchsorted(starts, "right"), len(self.row_start)) - 1
        begins = self.row_start[row] + starts - self.position[row]
        ends = np.where(stops <= self.position[row + 1], begins + stops - starts, -1)
        return [
            self.data[begin:end] if end >= 0 else self._joined(start, stop)
            for begin, end, start, stop in zip(
                begins.tolist(), ends.tolist(), starts.tolist(), stops.tolist(), strict=True
            )
        ]

    def _joined(self, start: int, stop: int) -> bytes:
        return self.bytes_at(np.arange(start, min(stop, self.end))).tobytes()

    def start_codes(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
        """Return (stream position, byte that follows) of all start code prefixes 00 00 01 that a byte follows."""
        found = _start_codes(self.data)
        count, stride = len(self.headers), self.layout.stride
        row_of = np.full(count, -1)
        row_of[self.row_packet] = np.arange(len(self.row_packet))
        packet = found // stride
        row = row_of[packet]
        start = self.row_start[row]
        inside = (row >= 0) & (found >= start) & (found + _START_CODE_SIZE <= packet * stride + PACKET_SIZE)
        found, row, packet = found[inside], row[inside], packet[inside]
        position = self.position[row] + found - self.row_start[row]
        following = self.array[found + _START_CODE_SIZE]
        outside = (found + _START_CODE_SIZE >= packet * stride + PACKET_SIZE).nonzero()[0]
        if len(outside):
            following[outside] = self.bytes_at(position[outside] + _START_CODE_SIZE)
        split = self._split_start_codes()
        if len(split):
            order = np.argsort(position := np.concatenate((position, split)))
            following = np.concatenate((following, self.bytes_at(split + _START_CODE_SIZE)))[order]
            position = position[order]
        complete = int(position.searchsorted(self.end - _START_CODE_SIZE))
        return position[:complete], following[:complete]

    def _split_start_codes(self) -> npt.NDArray[np.int64]:
        """Return the stream positions of prefixes that are split between two transport packets."""
        before = self.row_start[:-1] + self.position[1:-1] - self.position[:-2] - 1
        border: npt.NDArray[np.int64] = (self.array[before] == 0).nonzero()[0] + 1
        border = border[self.array[self.row_start[border]] <= 1]
        if not len(border):
            return border
        position = np.unique((self.position[border][:, None] + np.array([-2, -1])).ravel())
        position = position[position >= self.position[0]]
        triple = self.bytes_at(position[:, None] + np.arange(3))
        split: npt.NDArray[np.int64] = position[(triple == (0, 0, 1)).all(1) & (position + 3 <= self.end)]
        return split


def _start_codes(data: bytes) -> npt.NDArray[np.int64]:
    """Return where the data has 00 00 01 followed by a byte, whatever they belong to.

    The data begins with a sync byte and has an even size, as all strides are even.

    Raises:
        OddStreamError: there are too many of them.
    """
    # Two bytes at a time: in every prefix, one aligned pair is 00 00, or 00 01 after a zero. Such pairs are rare, so
    # their marks are checked eight at a time; if there are many, blocks keep them from filling the memory.
    pairs = np.frombuffer(data, "<u2", len(data) // 2)
    size = min(_BLOCK, -(-len(pairs) // 8) * 8)
    masked, marks = np.empty(size, np.uint16), np.empty(size, np.bool_)
    fours: npt.NDArray[np.uint32] = np.ndarray((len(data) - 3,), "<u4", data, 0, (1,))
    blocks = []
    for start in range(0, len(pairs), _BLOCK):
        block = pairs[start : start + _BLOCK]
        count = len(block)
        np.equal(np.bitwise_and(block, 0xFEFF, out=masked[:count]), 0, out=marks[:count])
        marks[count:] = False
        eights = (marks.view(np.uint64) != 0).nonzero()[0]
        lane = marks.view(np.uint64)[eights].view(np.bool_).nonzero()[0]
        before = (eights[lane >> 3] * 8 + (lane & 7) + start) * 2 - 1
        before = before[: before.searchsorted(len(fours))]
        four = fours[before]
        # The pair is the second and third of the four bytes: the prefix begins before it or with it.
        with_pair = four >> 8 == _PREFIX
        prefix = (with_pair | (four & 0xFFFFFF == _PREFIX)).nonzero()[0]
        blocks.append(before[prefix] + with_pair[prefix])
    prefixes = np.concatenate(blocks)
    if len(prefixes) > _MOST_START_CODES:
        raise OddStreamError("has more start codes than a video has")
    return prefixes


def count_packets(size: int, layout: TransportLayout) -> int:
    """Return the number of whole transport packets in a file. What follows the last packet may be missing."""
    return max(size - layout.first + layout.stride - PACKET_SIZE, 0) // layout.stride


def read_transport(source: ByteSource, layout: TransportLayout, first: int, count: int) -> bytes:
    """Return ``count`` transport packets from number ``first`` on, up to the last one's last byte.

    Raises:
        SourceError: the file ends before.
    """
    offset, size = layout.first + first * layout.stride, (count - 1) * layout.stride + PACKET_SIZE
    data = source.read(offset, size)
    if len(data) < size:
        raise SourceError(
            f"is shorter than it was: of {size} bytes at {offset} only {len(data)} are there", source.name
        )
    return data


def make_piece(
    data: bytes, headers: npt.NDArray[np.uint32], layout: TransportLayout, first: int, position: int, *, last: bool
) -> Piece:
    """Make the piece that begins with transport packet ``first`` of the file, at this stream position.

    Raises:
        OddStreamError: sync is lost, or a header is not plain.
    """
    payloads = find_payloads(data, layout.stride, headers, layout.pid)
    if position == 0 and len(payloads.packet):
        # Data before the first PES header belongs to a packet that began before the file did.
        begin = int(payloads.unit_start.argmax()) if payloads.unit_start.any() else len(payloads.packet)
        payloads = payloads.rows(slice(begin, None))
    stripped, row, *told = without_headers(data, payloads)
    size = stripped.stop - stripped.start
    positions = led_by(0, size.cumsum()) + position
    filled = size.nonzero()[0]
    return Piece(
        data=data,
        layout=layout,
        offset=layout.first + first * layout.stride,
        headers=headers,
        row_start=stripped.start[filled],
        row_packet=stripped.packet[filled],
        position=np.append(positions[:-1][filled], positions[-1]),
        pes=PesPackets(positions[row], first + stripped.packet[row], *told),
        last=last,
    )
