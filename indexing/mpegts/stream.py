"""Read the video's own headers: the facts of the stream, and where they change."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import groupby
from operator import itemgetter

import numpy as np
import numpy.typing as npt

from videoloader.indexing.bitstream.formats import PictureFormat
from videoloader.indexing.bitstream.mpeg2 import read_sequence_header
from videoloader.indexing.bitstream.parameter_sets import is_sequence_set, is_set, memory_size
from videoloader.indexing.bitstream.picture import picture_format
from videoloader.indexing.mpegts.access_units import AccessUnits
from videoloader.indexing.stream_info import StreamInfo

TIME_BASE = Fraction(1, 90000)
# Types of NAL units that a configuration must have.
_NEEDED = {"h264": {7, 8}, "hevc": {32, 33, 34}}
# Fields that StreamInfo and a picture's format have in common.
_FACTS = (
    "width", "height", "sample_aspect_ratio", "bit_depth", "chroma", "color_primaries", "color_transfer",
    "color_matrix", "frame_rate",
)  # fmt: skip
# libavformat rounds rates to these if they are within a hundredth.
_USUAL_RATES = tuple(
    rate
    for whole in (*range(1, 61), 72, 96, 100, 120, 144, 200, 240)
    for rate in (Fraction(whole), Fraction(whole * 1000, 1001))
)
_USUAL_RATES_APPROXIMATELY = np.array([float(rate) for rate in _USUAL_RATES])


def nal_type(codec: str, header: bytes) -> int:
    """Return the type of the NAL unit after a three-byte start code."""
    return header[3] & 31 if codec == "h264" else header[3] >> 1 & 63


def describe_stream(codec: str, units: AccessUnits) -> StreamInfo | None:
    """Describe the stream by its first headers; None if there are none, or they cannot be read."""
    config = _first_config(codec, units)
    picture = _format_of(codec, config)
    if picture is None:
        return None
    facts = {name: getattr(picture, name) for name in _FACTS}
    ranges = {True: "full", False: "limited", None: "limited" if codec == "hevc" else ""}
    return StreamInfo(codec, (config,), TIME_BASE, color_range=ranges[picture.full_range], **facts)


def _format_of(codec: str, headers: bytes) -> PictureFormat | None:
    if codec == "mpeg2video":
        return read_sequence_header(headers)
    return picture_format(StreamInfo(codec, (headers,), TIME_BASE, 0, 0))


def _size_of(codec: str, headers: bytes) -> tuple[int, ...] | None:
    if codec == "mpeg2video":
        return memory_size(codec, headers)
    picture = _format_of(codec, headers)
    return picture and (picture.width, picture.height)


def _first_config(codec: str, units: AccessUnits) -> bytes:
    """Return the headers of the first access unit with all that are needed, joined as in libavformat."""
    if codec == "mpeg2video":
        return next(iter(units.headers.values()), b"")
    positions = list(units.headers)
    unit = np.searchsorted(units.start, positions, "right").tolist()
    for _, together in groupby(zip(unit, units.headers.values(), strict=True), itemgetter(0)):
        headers = [header for _, header in together if nal_type(codec, header) in _NEEDED[codec]]
        if {nal_type(codec, each) for each in headers} == _NEEDED[codec]:
            return b"".join(headers)
    return b""


def headers_brought(codec: str, units: AccessUnits) -> dict[int, list[bytes]]:
    """Return the parameter sets of H.264 and HEVC by the access unit that contains them."""
    if codec == "mpeg2video":
        return {}
    places = np.searchsorted(units.start, list(units.headers), "right") - 1
    brought: dict[int, list[bytes]] = {}
    for unit, header in zip(places.tolist(), units.headers.values(), strict=True):
        if is_set(codec, header[3]):
            brought.setdefault(unit, []).append(bare(header[3:]))
    return brought


def mark_changes(codec: str, units: AccessUnits, stream: StreamInfo) -> tuple[StreamInfo, npt.NDArray[np.bool_]]:
    """Return the stream, and where decoding can start, given headers that differ from the first.

    After such a change in MPEG-2, decoding starts only where headers are repeated, since the decoder gets the first
    ones.
    """
    key = units.key.copy()
    first = bare(stream.codec_configs[0])
    formats = {_size_of(codec, stream.codec_configs[0])}
    different = {header for header in set(units.headers.values()) if bare(header) != first}
    for header in different:
        leads = codec == "mpeg2video" or is_sequence_set(codec, header[3])
        if leads and (other := _size_of(codec, header)):
            formats.add(other)
    if codec == "mpeg2video" and different:
        changed_at = next(position for position, header in units.headers.items() if header in different)
        with_headers = np.zeros(len(key), np.bool_)
        with_headers[np.searchsorted(units.start, list(units.headers), "right") - 1] = True
        key &= with_headers | (units.start < changed_at)
    return replace(stream, size_varies=True) if len(formats) > 1 else stream, key


def bare(header: bytes) -> bytes:
    """Return a header without the zeros that may follow it."""
    return header.rstrip(b"\0")


def usual_rate(rate: float) -> Fraction | None:
    """Return the nearest rate in common use if it is within a hundredth."""
    error = np.abs(_USUAL_RATES_APPROXIMATELY / rate - 1)
    nearest = int(error.argmin())
    return _USUAL_RATES[nearest] if error[nearest] < 0.01 else None
