"""``read_transport_packets``: read packets by number, without walking to them from the start of the file."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from videoloader.errors import SourceError
from videoloader.indexing.index import VideoIndex
from videoloader.indexing.mpegts.packets import OddStreamError, find_payloads, packet_headers
from videoloader.indexing.mpegts.pes import without_headers
from videoloader.indexing.mpegts.pieces import count_packets, read_transport
from videoloader.indexing.sources.base import ByteSource
from videoloader.indexing.stream_info import TransportLayout

# Other packets between two are read too if they are shorter than this, since a read costs more than its bytes.
_READ_THROUGH = 64 << 10
_LARGEST_READ = 16 << 20
# The end of the video's last packet is unknown: this many transport packets are read first for each that its bytes
# would fill.
_SPREAD = 2


def read_transport_packets(
    source: ByteSource, index: VideoIndex, packet_numbers: npt.NDArray[np.int64]
) -> Iterator[memoryview]:
    """Yield the bytes of some packets of a transport stream, as a demuxer would give them.

    Args:
        source: source of the video.
        index: index of the same video, with a ``transport``.
        packet_numbers: int64[P], rising.

    Raises:
        SourceError: the source is no longer the one that was indexed.
    """
    layout = index.transport
    assert layout is not None
    count = count_packets(source.size, layout)
    offset, size = index.packet_offset[packet_numbers], index.packet_size[packet_numbers].astype(np.int64)
    first = (offset - layout.first) // layout.stride
    # A packet ends at the latest where the next one begins, which may be in the same transport packet.
    following = np.append(index.packet_offset, layout.first + count * layout.stride)[packet_numbers + 1]
    stop = np.minimum(-((layout.first - following) // layout.stride), count)
    if len(packet_numbers) and packet_numbers[-1] == len(index.packet_offset) - 1:
        stop[-1] = min(count, int(first[-1]) + 2 + _SPREAD * int(size[-1]) // 184)
    far = (first[1:] - stop[:-1]) * layout.stride > _READ_THROUGH
    part = np.cumsum(stop - first) * layout.stride // _LARGEST_READ
    bounds = (far | (part[1:] != part[:-1])).nonzero()[0] + 1
    for begin, end in zip([0, *bounds.tolist()], [*bounds.tolist(), len(offset)], strict=True):
        stream, starts = _read_stream(
            source, layout, int(first[begin]), int(stop[end - 1]), offset[begin:end], int(size[end - 1])
        )
        for start, length in zip(starts, size[begin:end].tolist(), strict=True):
            yield stream[start : start + length]


def _read_stream(
    source: ByteSource, layout: TransportLayout, first: int, stop: int, offset: npt.NDArray[np.int64], needed: int
) -> tuple[memoryview, list[int]]:
    """Return the elementary stream of some transport packets, and where in it the bytes at each file offset are.

    More packets are read until ``needed`` bytes follow the last offset.
    """
    count = count_packets(source.size, layout)
    while True:
        if not 0 <= first < stop <= count:
            raise _changed(source)
        data = read_transport(source, layout, first, stop - first)
        try:
            stream, packet, start, position = _elementary_stream(data, layout)
        except OddStreamError:
            raise _changed(source) from None
        at = offset - layout.first - first * layout.stride
        row = packet.searchsorted(at // layout.stride)
        if not len(packet) or row[-1] >= len(packet) or (packet[row] != at // layout.stride).any():
            raise _changed(source)
        starts = position[row] + at - start[row]
        if len(stream) - int(starts[-1]) >= needed:
            return stream, starts.tolist()
        if stop == count:
            raise _changed(source)
        stop = min(count, stop + max(stop - first, 64))


def _elementary_stream(
    data: bytes, layout: TransportLayout
) -> tuple[memoryview, npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the bytes, and for each stretch of them its transport packet, start in ``data`` and start in the bytes."""
    headers = packet_headers(data, layout.stride)
    payloads = find_payloads(data, layout.stride, headers, layout.pid)
    payloads, *_ = without_headers(data, payloads)
    size = payloads.stop - payloads.start
    position = np.cumsum(size) - size
    # Each payload is the end of its packet, and most are everything but the four bytes of the header. Those are copied
    # together, and what comes before shorter ones is left out.
    full = np.ndarray((len(headers), 184), np.uint8, data, 4, (layout.stride, 1))[payloads.packet]
    flat = memoryview(full.tobytes())
    short = (size < 184).nonzero()[0]
    if not len(short):
        return flat, payloads.packet, payloads.start, position
    begin = np.append(0, (short + 1) * 184 - size[short]).tolist()
    end = np.append(short * 184, len(flat)).tolist()
    stream = memoryview(b"".join([flat[i:j] for i, j in zip(begin, end, strict=True)]))
    return stream, payloads.packet, payloads.start, position


def _changed(source: ByteSource) -> SourceError:
    return SourceError("is not the transport stream that was indexed", source.name)
