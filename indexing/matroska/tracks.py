"""Read track entries of Matroska (RFC 9559, 5.1.4): codec ids and private data become stream facts."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, NamedTuple

from videoloader.indexing.matroska.ebml import MalformedError, iterate_elements, read_float, read_string, read_uint

VIDEO = 1
_TRACK_ENTRY = 0xAE
# Ids in a track entry, and in its element Video.
_NUMBER, _TYPE, _DEFAULT, _HEARING_IMPAIRED, _VISUAL_IMPAIRED = 0xD7, 0x83, 0x88, 0x55AB, 0x55AC
_CODEC, _PRIVATE, _DELAY, _DEFAULT_DURATION, _TIME_SCALE = 0x86, 0x63A2, 0x56AA, 0x23E383, 0x23314F
_ENCODINGS, _VIDEO = 0x6D80, 0xE0
_WIDTH, _HEIGHT, _DISPLAY_WIDTH, _DISPLAY_HEIGHT, _DISPLAY_UNIT = 0xB0, 0xBA, 0x54B0, 0x54BA, 0x54B2
_CROP_BOTTOM, _CROP_TOP, _CROP_LEFT, _CROP_RIGHT = 0x54AA, 0x54BB, 0x54CC, 0x54DD
_STEREO, _COLOUR_SPACE, _FRAME_RATE, _COLOUR, _PROJECTION = 0x53B8, 0x2EB524, 0x2383E3, 0x55B0, 0x7670
_MATRIX, _RANGE, _TRANSFER, _PRIMARIES = 0x55B1, 0x55B9, 0x55BA, 0x55BB
_PROJECTION_TYPE, _YAW, _PITCH, _ROLL = 0x7671, 0x7673, 0x7674, 0x7675

# libavcodec's decoder for each codec that it decodes with only the private data. Tracks of other codecs are indexed
# through libavformat, which knows them all.
_CODECS = {
    "V_MPEG4/ISO/AVC": "h264", "V_MPEGH/ISO/HEVC": "hevc", "V_VP8": "vp8", "V_VP9": "vp9", "V_AV1": "av1",
    "V_MPEG4/ISO/SP": "mpeg4", "V_MPEG4/ISO/ASP": "mpeg4", "V_MPEG4/ISO/AP": "mpeg4",
    "V_MPEG1": "mpeg1video", "V_MPEG2": "mpeg2video",
    "V_MJPEG": "mjpeg", "V_FFV1": "ffv1", "V_THEORA": "theora",
}  # fmt: skip
# How many times wider and higher the picture is than that of one eye, by StereoMode.
_STEREO_SCALE = {**dict.fromkeys((1, 8, 9, 11), (2, 1)), **dict.fromkeys((2, 3, 6, 7), (1, 2))}
_UNKNOWN_UNIT = 4
# The largest number that libavformat allows in a frame rate.
_LARGEST_RATE = 30000
NANOSECONDS = 10**9


class Track(NamedTuple):
    """One track entry. Numbers are as in the file; ``facts`` are fields of StreamInfo, for video only.

    ``codec`` is empty if it is unknown here, or if packets are not the plain bytes of blocks.
    """

    number: int
    type: int
    codec: str
    config: bytes
    is_default: bool
    is_impaired: bool
    codec_delay: int
    width: int
    height: int
    facts: dict[str, Any]

    def delay_in(self, base: Fraction) -> int:
        """Return the time that the codec's delay subtracts, in units of ``base`` seconds."""
        return round(Fraction(self.codec_delay, NANOSECONDS) / base) if self.codec_delay else 0


def read_tracks(data: bytes) -> list[Track]:
    """Return the entries of a Tracks element."""
    return [_read_track(payload) for kind, payload in iterate_elements(data) if kind == _TRACK_ENTRY]


def _read_track(data: bytes) -> Track:
    entry = dict(iterate_elements(data))
    video = dict(iterate_elements(entry.get(_VIDEO, b"")))
    kind = read_uint(entry.get(_TYPE, b""))
    codec = _CODECS.get(read_string(entry.get(_CODEC, b"")), "")
    # Compressed or encrypted blocks; blocks with a time scale of their own; pixels without a codec.
    if entry.get(_ENCODINGS) or read_float(entry.get(_TIME_SCALE, b"")) not in (0, 1) or _COLOUR_SPACE in video:
        codec = ""
    duration = read_uint(entry.get(_DEFAULT_DURATION, b""))
    if not duration and (rate := read_float(video.get(_FRAME_RATE, b""))) > 0:
        duration = int(min(NANOSECONDS / rate, 2**63))
    config = b"" if codec == "vp9" else entry.get(_PRIVATE, b"")
    facts: dict[str, Any] = {}
    if kind == VIDEO and codec:
        facts |= _read_shape(video)
        if _COLOUR in video:
            facts |= _read_colour(video[_COLOUR])
        if _PROJECTION in video:
            facts |= _read_projection(video[_PROJECTION])
        if duration:
            facts["frame_rate"] = _frame_rate(duration)
    return Track(
        read_uint(entry.get(_NUMBER, b"")),
        kind,
        codec,
        config,
        bool(read_uint(entry.get(_DEFAULT, b"\1"))),
        any(read_uint(entry.get(flag, b"")) for flag in (_HEARING_IMPAIRED, _VISUAL_IMPAIRED)),
        read_uint(entry.get(_DELAY, b"")),
        read_uint(video.get(_WIDTH, b"")),
        read_uint(video.get(_HEIGHT, b"")),
        facts,
    )


def _frame_rate(duration: int) -> Fraction:
    """Return the frames per second for a duration in nanoseconds, in small numbers, as libavformat rounds it."""
    if duration > NANOSECONDS:
        return Fraction(NANOSECONDS, duration).limit_denominator(_LARGEST_RATE)
    rounded = Fraction(duration, NANOSECONDS).limit_denominator(_LARGEST_RATE)
    return 1 / rounded if rounded else Fraction(_LARGEST_RATE)


def _read_shape(video: dict[int, bytes]) -> dict[str, Any]:
    """Compute the sample aspect ratio from display size, crop and stereo mode, as libavformat does."""
    width = read_uint(video.get(_WIDTH, b"")) - sum(read_uint(video.get(e, b"")) for e in (_CROP_LEFT, _CROP_RIGHT))
    height = read_uint(video.get(_HEIGHT, b"")) - sum(read_uint(video.get(e, b"")) for e in (_CROP_TOP, _CROP_BOTTOM))
    if width <= 0 or height <= 0:
        raise MalformedError("a video track without a size")
    unit = read_uint(video.get(_DISPLAY_UNIT, b""))
    # Only sizes in pixels, unit zero, have a default.
    shown_width = read_uint(video[_DISPLAY_WIDTH]) if _DISPLAY_WIDTH in video else 0 if unit else width
    shown_height = read_uint(video[_DISPLAY_HEIGHT]) if _DISPLAY_HEIGHT in video else 0 if unit else height
    if unit >= _UNKNOWN_UNIT or not shown_width or not shown_height:
        return {}
    wider, higher = _STEREO_SCALE.get(read_uint(video.get(_STEREO, b"")), (1, 1))
    return {"sample_aspect_ratio": Fraction(height * shown_width * wider, width * shown_height * higher)}


def _read_colour(data: bytes) -> dict[str, Any]:
    colour = dict(iterate_elements(data))
    facts: dict[str, Any] = {
        name: read_uint(colour[element])
        for name, element in (("color_primaries", _PRIMARIES), ("color_transfer", _TRANSFER), ("color_matrix", _MATRIX))
        if element in colour
    }
    facts["color_range"] = {1: "limited", 2: "full"}.get(read_uint(colour.get(_RANGE, b"")), "")
    return facts


def _read_projection(data: bytes) -> dict[str, Any]:
    """Read quarter turns and mirroring. Matroska turns about the vertical axis first (yaw), then in the plane."""
    projection = dict(iterate_elements(data))
    yaw, pitch, roll = (read_float(projection.get(element, b"")) for element in (_YAW, _PITCH, _ROLL))
    if read_uint(projection.get(_PROJECTION_TYPE, b"")) or pitch or abs(yaw) not in (0, 180) or not math.isfinite(roll):
        return {}
    mirrored = yaw != 0
    # Roll is counter-clockwise. Matroska mirrors before the turn, but here mirroring comes after it, so the turn is
    # reversed.
    clockwise = roll if mirrored else -roll
    quarter = round(clockwise / 90)
    return {"rotation": quarter * 90 % 360 if abs(clockwise - quarter * 90) < 1 else 0, "mirrored": mirrored}
