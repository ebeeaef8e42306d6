"""Read the part of a Matroska file before its first cluster: the time scale, the tracks, where blocks begin.

Of track entries (RFC 9559, 5.1.4), codec ids and private data become stream facts.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, NamedTuple

from videoloader.indexing.matroska.ebml import (
    CRC32,
    LONGEST_HEADER,
    SEGMENT,
    VOID,
    Element,
    MalformedError,
    iterate_elements,
    read_float,
    read_header,
    read_string,
    read_uint,
)
from videoloader.indexing.sources.base import ByteSource
from videoloader.indexing.stream_info import quarter_turns

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

    ``codec`` is empty if it is unknown here, or if packets are not the plain bytes of blocks. ``encodings_size`` is the
    number of bytes that say how to make packets of these.
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
    encodings_size: int

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
        len(entry.get(_ENCODINGS, b"")),
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
    return {"rotation": quarter_turns(clockwise), "mirrored": mirrored}


CLUSTER, CUES, TAGS, SEEK_HEAD = 0x1F43B675, 0x1C53BB6B, 0x1254C367, 0x114D9B74
INFO, TRACKS, ATTACHMENTS, CHAPTERS = 0x1549A966, 0x1654AE6B, 0x1941A469, 0x1043A770
TOP_LEVEL = {CLUSTER, CUES, TAGS, SEEK_HEAD, INFO, TRACKS, ATTACHMENTS, CHAPTERS}
IN_SEGMENT = {*TOP_LEVEL, VOID, CRC32}
_READ_VERSION, _MAX_ID_LENGTH, _MAX_SIZE_LENGTH = 0x42F7, 0x42F2, 0x42F3
_DOC_TYPE, _DOC_TYPE_READ_VERSION = 0x4282, 0x4285
_TIMESTAMP_SCALE, _SEEK_ID, _SEEK_POSITION = 0x2AD7B1, 0x53AB, 0x53AC
# Maximum size of an element that is read into memory at once: more than any description of tracks needs.
_LARGEST_MASTER = 16 << 20
# Bytes that usually contain everything before the first cluster.
_START = 4 << 10


class _Start:
    """A file whose first bytes are read once, since much is read there a few bytes at a time."""

    def __init__(self, source: ByteSource) -> None:
        self.size = source.size
        self._source, self._head = source, source.read(0, _START)

    def read(self, offset: int, size: int) -> bytes:
        data = self._head[offset : offset + size]
        return data if len(data) == size else self._source.read(offset, size)


class Headers(NamedTuple):
    """The part before the first cluster. ``clusters`` is where that begins, ``stop`` is where the segment ends."""

    time_scale: int
    tracks: list[Track]
    has_attachments: bool
    clusters: int
    stop: int | None


def read_headers(source: ByteSource) -> Headers:
    """Read up to the first cluster, and after the clusters what the seek head says is there.

    Raises:
        MalformedError: something is missing, occurs twice, or is out of place.
    """
    start = _Start(source)
    ebml = _read_element(start, 0)
    _check_version(dict(iterate_elements(_read_master(start, ebml))))
    segment = _read_element(start, ebml.stop or 0)
    if segment.id != SEGMENT or (segment.stop is not None and segment.stop < source.size):
        raise MalformedError("no segment, or something after it")
    masters: dict[int, bytes] = {}
    seek_heads: list[bytes] = []
    has_attachments = False
    position = segment.start
    while (element := _read_element(start, position)).id != CLUSTER:
        if element.id in (INFO, TRACKS):
            if element.id in masters:
                raise MalformedError(f"a second element {element.id:X} at byte {position}")
            masters[element.id] = _read_master(start, element)
        elif element.id not in IN_SEGMENT:
            raise MalformedError(f"element {element.id:X} at byte {position} is no part of a segment")
        elif element.id == SEEK_HEAD:
            seek_heads.append(_read_master(start, element))
        has_attachments |= element.id == ATTACHMENTS
        if element.stop is None:
            raise MalformedError(f"element {element.id:X} at byte {position} has no size")
        position = element.stop
    for kind in {INFO, TRACKS} - masters.keys():
        # It comes after the clusters, where only the seek head leads.
        element = _read_element(start, segment.start + _read_seek_head(b"".join(seek_heads)).get(kind, source.size))
        if element.id != kind:
            raise MalformedError(f"element {kind:X} is not where the seek head says")
        masters[kind] = _read_master(start, element)
    scale = read_uint(dict(iterate_elements(masters[INFO])).get(_TIMESTAMP_SCALE, b"")) or 1_000_000
    if scale >= 1 << 31:
        raise MalformedError(f"a time scale of {scale} ns")
    return Headers(scale, read_tracks(masters[TRACKS]), has_attachments, position, segment.stop)


def _read_seek_head(data: bytes) -> dict[int, int]:
    """Return positions of elements in the segment by id; the first if one is listed twice."""
    positions: dict[int, int] = {}
    for _, payload in iterate_elements(data):
        entry = dict(iterate_elements(payload))
        positions.setdefault(read_uint(entry.get(_SEEK_ID, b"")), read_uint(entry.get(_SEEK_POSITION, b"")))
    return positions


def _read_master(source: _Start, element: Element) -> bytes:
    """Return the payload of a master element, if it has a plausible size.

    Raises:
        MalformedError: it is incomplete or too large.
    """
    if element.stop is None or element.stop > source.size or element.stop - element.start > _LARGEST_MASTER:
        raise MalformedError(f"element {element.id:X} at byte {element.start} has no size that can be")
    return source.read(element.start, element.stop - element.start)


def _read_element(source: _Start, position: int) -> Element:
    return Element(*read_header(source.read(position, LONGEST_HEADER), 0, position))


def _check_version(header: dict[int, bytes]) -> None:
    # The default for a missing element is never too large.
    largest = {_READ_VERSION: 1, _MAX_ID_LENGTH: 4, _MAX_SIZE_LENGTH: 8, _DOC_TYPE_READ_VERSION: 3}
    too_large = any(read_uint(header.get(element, b"")) > most for element, most in largest.items())
    if too_large or read_string(header.get(_DOC_TYPE, b"")) not in ("matroska", "webm"):
        raise MalformedError("another kind or a later version of EBML")
