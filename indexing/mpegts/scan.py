"""Scan a transport stream once for the access units of its video and their times."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from videoloader.indexing.mpegts.access_units import AccessUnits, Positions, cut_access_units, join_units
from videoloader.indexing.mpegts.packets import OddStreamError, find_payloads, following, packet_headers
from videoloader.indexing.mpegts.pes import NO_TIME, PesPackets, first_time
from videoloader.indexing.mpegts.pieces import Piece, count_packets, make_piece, read_transport
from videoloader.indexing.mpegts.stream import TIME_BASE
from videoloader.indexing.mpegts.tables import ElementaryStream, Programs, iterate_sections, read_map, read_programs
from videoloader.indexing.sources.base import ByteSource
from videoloader.indexing.start_time import StreamStart
from videoloader.indexing.stream_info import TransportLayout
from videoloader.indexing.video_stream import open_video

_PIECE = 3 << 20  # bytes to read at a time: this and what is made of it fit the processor's caches
_LONGEST_ACCESS_UNIT = 32 << 20  # bytes of the file over which one may be spread
_HEAD = 1 << 20  # bytes that must contain the program tables
# libavformat passes longer PES packets on in parts, of which only the first has the timestamp.
_PES_PART = 200_000
_SEEN_AFTER = 9  # maximum bytes from the start code of a unit until its beginning is recognised
_PMT = 2


class Scan(NamedTuple):
    """The video of a transport stream in decode order.

    Attributes:
        layout: pid of the video, and layout of the transport packets.
        codec: ``h264``, ``hevc`` or ``mpeg2video``.
        number: number of the video among the streams of all programs.
        only_stream: whether the program has no other stream.
        others: starts of those other streams that begin in the first piece; if libavformat was asked for the video, the
            start of the file.
        units: all access units; stream positions count from the first byte of the video.
        offset: int64[A], where in the file each begins.
        size: int64[A], bytes.
        pts, dts: int64[A], 33 bits; NO_TIME if a unit has none of its own.
    """

    layout: TransportLayout
    codec: str
    number: int
    only_stream: bool
    others: tuple[StreamStart, ...]
    units: AccessUnits
    offset: Positions
    size: Positions
    pts: Positions
    dts: Positions


def scan_transport(source: ByteSource, packing: TransportLayout) -> Scan:
    """Read a whole transport stream once, in pieces.

    Args:
        source: source of the file.
        packing: layout of the transport packets (``find_packing``).

    Raises:
        OddStreamError: only libavformat can tell which packets come out.
        SourceError: the source cannot be read.
    """
    stride = packing.stride
    data = read_transport(source, packing, 0, min(count_packets(source.size, packing), _PIECE // stride))
    headers = packet_headers(data, stride)
    programs = read_programs(data, stride, headers[: _HEAD // stride])
    video, start = _choose_video(source, data, packing, headers, programs)
    others = (
        tuple(_starts(data, stride, headers, [each for each in programs.streams if each != video]))
        if start is None
        else (StreamStart(round(start * 90_000 / 1_000_000), TIME_BASE),)
    )
    layout = replace(packing, pid=video.pid)
    units, offset, pes, end = _cut_units(source, layout, data, headers, programs, video)
    present = following(pes.position, end) - pes.position
    filled = present > 0
    if not filled.all():
        pes, present = PesPackets(*(each[filled] for each in pes)), present[filled]
    if ((pes.declared > 0) & (present > pes.declared)).any():
        raise OddStreamError("PES packets are longer than they say")
    pts, dts = _unit_times(video.codec, units, pes, end)
    size = following(units.start, end) - units.start
    if int(size.max()) > np.iinfo(np.int32).max:
        raise OddStreamError("an access unit does not end")
    number, only_stream = programs.streams.index(video), len(programs.streams) == 1
    return Scan(layout, video.codec, number, only_stream, others, units, offset, size, pts, dts)


def _cut_units(
    source: ByteSource,
    layout: TransportLayout,
    data: bytes,
    headers: npt.NDArray[np.uint32],
    programs: Programs,
    video: ElementaryStream,
) -> tuple[AccessUnits, Positions, PesPackets, int]:
    """Return the video's access units, where each begins in the file, its PES packets, and its stream end position."""
    count, piece_packets = count_packets(source.size, layout), _PIECE // layout.stride
    parts: list[AccessUnits] = []
    offsets: list[Positions] = []
    pes: list[PesPackets] = []
    first = position = begin = 0
    while True:
        last = first + len(headers) >= count
        piece = make_piece(data, headers, layout, first, position, last=last)
        if first == 0:
            _check_start(piece, programs)
        if first or len(headers) > _HEAD // layout.stride:
            _check_tables(piece, programs, video)
        wanted = piece_packets
        following = first + len(headers)
        if len(piece.row_start):
            units = cut_access_units(video.codec, piece, begin)
            kept = len(units.start) - (not last)
            if kept:
                parts.append(units.first(kept))
                offsets.append(piece.offset + piece.locate(units.start[:kept]))
                pes.append(_new_pes(piece, pes))
            position = piece.end
            if not last:
                begin = int(units.start[-1])
                row = int(piece.position.searchsorted(max(begin - 1, int(piece.position[0])), "right")) - 1
                following = first + int(piece.row_packet[row])
                position = int(piece.position[row])
        if last:
            break
        if following == first:  # one access unit fills the piece
            wanted = 2 * len(headers)
            if wanted * layout.stride > _LONGEST_ACCESS_UNIT:
                raise OddStreamError("an access unit does not end")
        first = following
        data = read_transport(source, layout, first, min(count - first, wanted))
        headers = packet_headers(data, layout.stride)
    if not parts:
        raise OddStreamError("has no video packets")
    packets = PesPackets(*map(np.concatenate, zip(*pes, strict=True)))
    return join_units(parts), np.concatenate(offsets), packets, position


def _starts(
    data: bytes, stride: int, headers: npt.NDArray[np.uint32], streams: list[ElementaryStream]
) -> Iterator[StreamStart]:
    head = headers[: _HEAD // stride]
    for stream in streams:
        time = first_time(data, stride, head, stream.pid)
        if time is None:
            time = first_time(data, stride, headers, stream.pid)
        if time is not None:
            yield StreamStart(time, TIME_BASE, not (stream.is_sound or stream.codec))


def _choose_video(
    source: ByteSource, data: bytes, packing: TransportLayout, headers: npt.NDArray[np.uint32], programs: Programs
) -> tuple[ElementaryStream, int | None]:
    """Return the video stream; if there may be several, the one that libavformat considers best, and its start_time."""
    start = None
    candidates = [stream for stream in programs.streams if stream.codec]
    named = {stream.pid for stream in programs.streams}
    pids = np.bincount((headers & 0x1F00) | (headers >> 16 & 0xFF)).nonzero()[0].tolist()
    unnamed = [pid for pid in pids if 0x20 <= pid < 0x1FFF and pid not in named and pid not in programs.table_pids]
    if len(candidates) > 1 or any(_may_be_video(data, packing.stride, headers, pid) for pid in unnamed):
        with open_video(source) as (container, stream):
            best, start = stream.id, container.start_time
        candidates = [stream for stream in candidates if stream.pid == best]
    if len(candidates) != 1 or candidates[0].codec not in ("h264", "hevc", "mpeg2video"):
        raise OddStreamError("has no video stream of a known codec")
    return candidates[0], start


def _may_be_video(data: bytes, stride: int, headers: npt.NDArray[np.uint32], pid: int) -> bool:
    """Whether PES packets begin in a pid that no program names, since libavformat makes a stream of it."""
    payloads = find_payloads(data, stride, headers, pid)
    starts = payloads.start[payloads.unit_start].tolist()
    return any(data[start : start + 3] == b"\0\0\1" for start in starts)


def _check_start(piece: Piece, programs: Programs) -> None:
    """Raise OddStreamError if data comes before the first program map, to which other rules apply."""
    if len(programs.table_pids) > 1 and len(piece.row_packet) and piece.row_packet[0] < programs.first_table:
        raise OddStreamError("begins before its tables")


def _check_tables(piece: Piece, programs: Programs, video: ElementaryStream) -> None:
    """Raise OddStreamError if a later program map says something else about the video."""
    stride = piece.layout.stride
    for pid in programs.table_pids:
        payloads = find_payloads(piece.data, stride, piece.headers, pid)
        for _, section in iterate_sections(piece.data, payloads, _PMT):
            if any(stream.pid == video.pid and stream != video for stream in read_map(section)):
                raise OddStreamError("the video changes its type")


def _new_pes(piece: Piece, known: list[PesPackets]) -> PesPackets:
    """Return the PES packets whose headers are in this piece and in no earlier piece."""
    seen = next((int(each.packet[-1]) for each in reversed(known) if len(each.packet)), -1)
    new = piece.pes.packet > seen
    return PesPackets(*(column[new] for column in piece.pes))


def _unit_times(codec: str, units: AccessUnits, pes: PesPackets, end: int) -> tuple[Positions, Positions]:
    """Return the timestamps of the PES packet in which each unit starts, if it is the first to do so; else NO_TIME."""
    own = pes.position.searchsorted(units.mark, "right") - 1
    first = np.ones(len(own), np.bool_)
    first[1:] = pes.position[own[1:]] > units.start[:-1]
    # libavcodec's parser asks for the time where it recognises the start of a unit: in MPEG-2 at the picture header.
    seen = np.maximum(units.picture, units.mark) if codec == "mpeg2video" else units.mark
    stop = following(pes.position, end)[own]
    plain = ((seen + _SEEN_AFTER <= stop) | (stop == end)) & (units.mark - pes.position[own] < _PES_PART)
    return np.where(first & plain, pes.pts[own], NO_TIME), np.where(first & plain, pes.dts[own], NO_TIME)
