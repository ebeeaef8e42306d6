"""``index_mpegts``: index a transport stream in one pass over its bytes."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from videoloader.indexing.bitstream.hevc_parameter_sets import has_one_layer, read_picture_parameters
from videoloader.indexing.bitstream.picture import picture_format
from videoloader.indexing.configurations import renews_sequences, with_configurations
from videoloader.indexing.index import DISPOSABLE_UNKNOWN, DISPOSABLE_YES, VideoIndex
from videoloader.indexing.libav import index_by_decoding, index_by_demuxing
from videoloader.indexing.mpegts.access_units import AccessUnits
from videoloader.indexing.mpegts.packets import LONGEST_HEAD, OddStreamError, find_packing
from videoloader.indexing.mpegts.pes import NO_TIME, unwrap
from videoloader.indexing.mpegts.picture_order import comes_in_order, follows_leap, numbers_that_leap
from videoloader.indexing.mpegts.scan import Scan, scan_transport
from videoloader.indexing.mpegts.stream import (
    TIME_BASE,
    bare,
    describe_stream,
    headers_brought,
    mark_changes,
    nal_type,
    usual_rate,
)
from videoloader.indexing.packet_times import depth_of, reorder_depth
from videoloader.indexing.sources.base import ByteSource
from videoloader.indexing.start_time import StreamStart, earliest_start
from videoloader.indexing.stream_info import StreamInfo
from videoloader.indexing.wrong_times import deepest_reordering


def index_mpegts(source: ByteSource) -> VideoIndex | None:
    """Index a transport stream.

    The packets are those that libavformat gives, byte for byte, with its timestamps. If they do not say which frames
    they become, libavformat or a decode does, and the packets' positions are added to that index.

    Returns:
        The index, or None if the file is no transport stream, or one that only libavformat can read: sync is lost on
        the way, it is scrambled, its tables change, or the codec is not H.264, HEVC or MPEG-2.

    Raises:
        SourceError: the source cannot be read.
        IndexingError, UnsupportedError, DecodeError: libav raised it.
    """
    packing = find_packing(source.read(0, LONGEST_HEAD))
    if packing is None:
        return None
    try:
        scan = scan_transport(source, packing)
        stream = describe_stream(scan.codec, scan.units)
        if stream is None:
            return None
        shown = scan.units.picture >= 0
        if not shown.any():
            return None
        if (scan.pts[shown] == NO_TIME).any() or scan.units.turned:
            return _with_places(index_by_demuxing(source), scan)
        pts = _display_times(scan, shown)
    except OddStreamError:
        return None
    order = np.flatnonzero(shown)
    order = order[np.argsort(pts[order], kind="stable")]
    if not (
        _shows_every_picture(scan, shown, int(pts[0]), pts[order]) and comes_in_order(scan.codec, scan.units, order)
    ):
        return _with_places(index_by_decoding(source), scan)
    stream, key = mark_changes(scan.codec, scan.units, stream)
    brought = headers_brought(scan.codec, scan.units)
    leaps = np.zeros(len(pts), np.bool_)
    if scan.codec == "h264":
        leaps = numbers_that_leap(scan.units)
        # What a decoder has invented also shifts what pictures after a recovery point refer to.
        key = key & (scan.units.restarts | ~follows_leap(scan.units, leaps))
    count = len(pts)
    index = VideoIndex(
        source=source.name,
        container="mpegts",
        method="demuxed",
        packet_offset=scan.offset,
        packet_size=scan.size.astype(np.int32),
        packet_pts=pts,
        packet_key=key,
        packet_disposable=_disposable(scan, stream, [*brought], leaps),
        packet_config=np.zeros(count, np.uint8),
        frame_packet=order.astype(np.int32),
        frame_pts=pts[order],
        byte_ranges=False,
        stream=replace(
            stream,
            reorder_depth=depth_of(order) if len(order) == count else reorder_depth(pts),
            frame_rate=stream.frame_rate or _measured_rate(pts[order]),
            stream_number=scan.number,
        ),
        transport=scan.layout,
        start_time=earliest_start([StreamStart(int(pts[0]), TIME_BASE), *scan.others]),
        keys_from="headers",
    )
    if depth_of(shown.cumsum()[order] - 1) > deepest_reordering(stream) or renews_sequences(index, brought):
        return _with_places(index_by_decoding(source), scan)
    return with_configurations(index, brought)


def _display_times(scan: Scan, shown: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """Return the time of each packet; packets without a picture get the latest of all times."""
    known = unwrap(scan.pts[shown], scan.dts[shown], scan.only_stream, [each.time for each in scan.others])
    pts = np.full(len(shown), known.max())
    pts[shown] = known
    return pts


def _shows_every_picture(scan: Scan, shown: npt.NDArray[np.bool_], first: int, times: npt.NDArray[np.int64]) -> bool:
    """Whether a decoder makes one frame of each packet with a picture.

    Args:
        scan: facts about the video's packets.
        shown: the packets that have a picture.
        first: time of the first of these.
        times: times of all packets, in order.
    """
    units = scan.units
    if not shown[0] or not units.key[0] or times[0] < first or (times[1:] == times[:-1]).any():
        return False
    if scan.codec == "h264":
        return not _has_fields(units)
    return scan.codec != "hevc" or not _leaves_pictures_out(units)


def _has_fields(units: AccessUnits) -> bool:
    """Whether a packet is one field, by field_pic_flag of its first slice (ITU-T H.264, 7.3.3)."""
    headers = {bare(header) for header in set(units.headers.values()) if nal_type("h264", header) == 7}
    formats = [picture_format(StreamInfo("h264", (each,), TIME_BASE, 0, 0)) for each in headers]
    places = {each.field_flag_at if each else None for each in formats}
    if places == {-1}:
        return False
    if len(places) > 1 or None in places:
        return True
    (place,) = places
    bits = units.slice_bits[units.picture >= 0]
    return bool((bits >> np.uint64(63 - min(place or 0, 63)) & np.uint64(1)).any())


def _leaves_pictures_out(units: AccessUnits) -> bool:
    """Whether HEVC decoders may skip pictures on the way: leading ones after an end of sequence or a broken link.

    Also if picture headers may say that a picture is not shown (output_flag_present_flag; ITU-T H.265, 7.3.2.3.1).
    """
    last = int(units.picture.max())
    for position, header in units.headers.items():
        kind = nal_type("hevc", header)
        if kind in (16, 17, 18, 36, 37) and position < last:
            return True
        if kind == 34:
            try:
                if read_picture_parameters(header[3:]).output_flag:
                    return True
            except ValueError:
                return True
    return False


def _disposable(
    scan: Scan, stream: StreamInfo, with_headers: list[int], leaps: npt.NDArray[np.bool_]
) -> npt.NDArray[np.uint8]:
    disposable = scan.units.disposable.copy()
    # Packets that others need for more than their pictures.
    disposable[with_headers] = DISPOSABLE_UNKNOWN
    # A leap shows only in two pictures together.
    disposable[(leaps | np.append(leaps[1:], False)) & (disposable == DISPOSABLE_YES)] = DISPOSABLE_UNKNOWN
    if scan.codec == "hevc" and not has_one_layer(stream.codec_configs[0]):
        return np.where(disposable == DISPOSABLE_YES, DISPOSABLE_UNKNOWN, disposable).astype(np.uint8)
    return disposable


def _measured_rate(frame_pts: npt.NDArray[np.int64]) -> Fraction:
    if len(frame_pts) < 2:
        return Fraction(0)
    count, span = len(frame_pts) - 1, int(frame_pts[-1] - frame_pts[0])
    # Fractions are slow, and rarely needed.
    return usual_rate(count * TIME_BASE.denominator / span) or count / (span * TIME_BASE)


def _with_places(index: VideoIndex, scan: Scan) -> VideoIndex:
    """Add our packets' positions to an index of libavformat's packets, if they are the same."""
    if index.byte_ranges or not np.array_equal(index.packet_size, scan.size):
        return index
    return replace(index, packet_offset=scan.offset, transport=scan.layout)
