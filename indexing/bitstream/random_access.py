"""Check that decoding can really start at a packet, since containers may mark keyframes wrongly."""

from __future__ import annotations

import re
from collections.abc import Callable, Container
from functools import cache, partial
from itertools import dropwhile

import av.codec

from videoloader.indexing.bitstream import av1, av1_references, vp8_references, vp9
from videoloader.indexing.bitstream.intra_pictures import HEAD_READERS, LONGEST_HEAD
from videoloader.indexing.bitstream.jpeg import has_own_tables
from videoloader.indexing.bitstream.nal import (
    H264_IDR,
    HEVC_BLA,
    HEVC_ENDS,
    HEVC_IRAP,
    iterate_messages,
    iterate_nals,
    nal_length_size,
)
from videoloader.indexing.bitstream.parameter_sets import is_slice
from videoloader.indexing.bitstream.picture_kinds import INTRA, picture_kind, refers_back

# The last bytes of a packet, among which is the end of a sequence; only a message or padding may come after it.
LONGEST_TAIL = 256
_LONGEST_HEAD = 256  # bytes that contain everything read of a frame's header
_LONGEST_MPEG4_HEADERS = 4100  # bytes, for everything before a picture's kind

# Codecs whose decoders take a packet for a difference unless the container marks it, so the mark is always true.
_BY_MARK = ("pdv", "png", "zerocodec")
# A screen codec with frames that leave parts of the picture unchanged, whatever libavcodec's table says.
_NOT_INTRA_AFTER_ALL = ("mss2",)

# Codecs whose decoders in libavcodec mark the pictures that refer to no other, as their headers say. This was tried for
# codecs without B-frames; decoders of QuickTime and screen codecs mark no pictures, some or all.
MARKED_BY_DECODER = ("cavs", "h261", "rv10", "rv20", "rv30", "rv40", "svq3", "vc1", "wmv3")


def is_random_access(codec: str, config: bytes, payload: bytes | memoryview) -> bool | None:
    """Whether a decoder that knows nothing before this packet gives correct frames from it on.

    H.264: an IDR picture, or a recovery point that recovers at once (ITU-T H.264, 7.4.1.2.4 and D.2.8). HEVC: an IRAP
    picture (ITU-T H.265, 3.69). VVC: an IDR or CRA picture (ITU-T H.266, 7.4.2.2). AV1: a key frame that is shown,
    after a sequence header in the same packet (AV1 specification, 7.6.2); one that is only shown later cannot serve the
    frames before that. VP8 and VP9: a key frame comes first (RFC 6386, 9.1; VP9 bitstream specification, 7.2). MPEG-1
    and MPEG-2: an I picture, after a sequence header here or in the record (ISO/IEC 13818-2, 6.3.9). MPEG-4 part 2: an
    I-VOP (ISO/IEC 14496-2, 6.3.5). H.263: an INTRA picture (ITU-T H.263, 5.1). Theora: an intra frame (Theora
    specification, 7.1). FFV1: a keyframe (RFC 9043, 4.4). JPEG: a picture with its own tables. DV: a header section
    comes first (IEC 61834-2); where it is damaged, libavcodec takes the format from the frame before. Other codecs that
    libavcodec lists as intra only: all packets, unless the container marks those that are differences. For codecs
    without a standard, the header is the one that libavcodec reads.

    Returns:
        The answer, or None for codecs whose headers are not read here, or do not tell it.
    """
    reader = _IS_RANDOM_ACCESS.get(codec)
    if reader is not None:
        try:
            return reader(config, payload)
        except (IndexError, ValueError):  # it is no packet of this codec
            return False
    return True if is_intra_only(codec) and codec not in _BY_MARK else None


def reads_headers(codec: str) -> bool:
    """Whether ``is_random_access`` always gives an answer for this codec, or the container's marks do."""
    return codec in _IS_RANDOM_ACCESS or codec in _BY_MARK


@cache
def is_intra_only(codec: str) -> bool:
    """Whether libavcodec says that every packet of a codec stands alone; False for codecs that it does not know."""
    if codec in _NOT_INTRA_AFTER_ALL:
        return False
    try:
        return av.codec.Codec(codec, "r").intra_only
    except ValueError:
        return False


def has_idr(config: bytes, payload: bytes | memoryview) -> bool:
    """Whether a packet of H.264 is an IDR picture."""
    return has_unit("h264", config, payload, (H264_IDR,))


def has_unit(codec: str, config: bytes, payload: bytes | memoryview, kinds: Container[int]) -> bool:
    """Whether a packet of H.264 or HEVC has a unit of one of these kinds (nal_unit_type)."""
    shift, mask = (0, 31) if codec == "h264" else (1, 63)
    units = iterate_nals(payload, nal_length_size(codec, config))
    return any(payload[start] >> shift & mask in kinds for start, _ in units)


def is_keyframe_slice(codec: str, first: int) -> bool:
    """Whether decoding of H.264 or HEVC can start at a slice, by the first byte of its header: IDR, or any IRAP."""
    return first & 31 == H264_IDR if codec == "h264" else first >> 1 & 63 in HEVC_IRAP


def breaks_sequence(first: int) -> bool:
    """Whether a unit of HEVC ends a sequence, or is a picture of a broken link (BLA), by the first byte of its header.

    RASL pictures after such a keyframe are not output (ITU-T H.265, 8.1.3), and pictures of the sequence before come
    first. libavcodec also heeds the ends of sequences of other layers.
    """
    kind = first >> 1 & 63
    return kind in HEVC_ENDS or kind in HEVC_BLA


def has_break(config: bytes, payload: bytes | memoryview) -> bool:
    """Whether a packet of HEVC has a unit with which ``breaks_sequence`` is true."""
    return has_unit("hevc", config, payload, (*HEVC_ENDS, *HEVC_BLA))


def end_of_sequence(config: bytes) -> re.Pattern[bytes]:
    """Return a pattern that finds an end of a sequence or bitstream among the last bytes of a packet of HEVC."""
    return _end_of_sequence(nal_length_size("hevc", config))


@cache  # not by the record, of which each video has its own
def _end_of_sequence(length_size: int) -> re.Pattern[bytes]:
    if not length_size:
        return re.compile(rb"\x00\x00\x01[\x48-\x4b]")
    # Such a unit is only its header of two bytes, but writers may have put padding into it.
    unit = rb"(?:\x02[\x48-\x4b].|[^\x00][\x48-\x4b].\x00+\Z)"
    return re.compile(rb"\x00" * (length_size - 1) + unit, re.DOTALL)


def ends_sequence(config: bytes, payload: bytes | memoryview) -> bool:
    """Whether a sequence of HEVC ends behind the picture of a packet."""
    if not end_of_sequence(config).search(payload, max(0, len(payload) - LONGEST_TAIL)):
        return False
    units = iterate_nals(payload, nal_length_size("hevc", config))
    kinds = dropwhile(lambda kind: kind >= 32, (payload[start] >> 1 & 63 for start, _ in units))
    return any(kind in HEVC_ENDS for kind in kinds)


def is_skipped_leading(codec: str, config: bytes, payload: bytes | memoryview) -> bool:
    """Whether a picture of HEVC or VVC may refer to pictures before its keyframe, without which it is not shown.

    Such RASL pictures are not output after the first keyframe (ITU-T H.265, 8.1.3; ITU-T H.266, 8.1.1).
    """
    return _picture_type(codec, config, payload) in ((8, 9) if codec == "hevc" else (3,))


def is_leading(codec: str, config: bytes, payload: bytes | memoryview) -> bool:
    """Whether a picture of HEVC or VVC is shown before the keyframe that it follows: RADL and RASL pictures."""
    return _picture_type(codec, config, payload) in ((6, 7, 8, 9) if codec == "hevc" else (2, 3))


def _picture_type(codec: str, config: bytes, payload: bytes | memoryview) -> int:
    """Return nal_unit_type of the first slice (ITU-T H.265, 7.4.2.2; ITU-T H.266, 7.4.2.2); -1 if there is none."""
    for start, stop in iterate_nals(payload, nal_length_size(codec, config)):
        if codec == "hevc" and payload[start] >> 1 & 63 < 32:
            return payload[start] >> 1 & 63
        if codec == "vvc" and stop - start > 1 and payload[start + 1] >> 3 < 12:
            return payload[start + 1] >> 3
    return -1


def _by_head(reader: Callable[[bytes], bool], config: bytes, payload: bytes | memoryview) -> bool:
    return reader(bytes(payload[:LONGEST_HEAD]))


def _h264(config: bytes, payload: bytes | memoryview) -> bool:
    for start, stop in iterate_nals(payload, nal_length_size("h264", config)):
        kind = payload[start] & 31
        if kind == H264_IDR:
            return True
        if kind == 6 and _recovers_at_once(bytes(payload[start + 1 : stop])):
            return not refers_back(config, payload)  # a picture made of others does not recover at once
        if is_slice("h264", kind):  # data partitions, too
            return False
    return False


def _mpeg2(config: bytes, payload: bytes | memoryview) -> bool:
    data = bytes(payload)
    with_sequence = b"\0\0\1\xb3" in config or 0 <= data.find(b"\0\0\1\xb3") < data.find(b"\0\0\1\0")
    return with_sequence and picture_kind("mpeg2video", data) == INTRA


def _vp9(config: bytes, payload: bytes | memoryview) -> bool:
    frames = vp9.split_superframe(payload)
    if not frames:
        return False
    start, stop = frames[0]
    return vp9.read_frame_header(bytes(payload[start : min(stop, _LONGEST_HEAD)])).is_key


def _av1(config: bytes, payload: bytes | memoryview) -> bool:
    sequence = None
    for obu in av1.iterate_obus(payload):
        head = bytes(payload[obu.start : min(obu.stop, obu.start + _LONGEST_HEAD)])
        if obu.kind == av1.SEQUENCE_HEADER:
            sequence = av1.read_sequence_header(head)
        elif obu.kind in av1_references.WITH_FRAME_HEADER:
            if sequence is None:
                return False
            if av1_references.is_decoded(obu, sequence):
                frame = av1_references.read_frame_header(head, obu, sequence)
                return frame.is_shown and frame.kind == av1_references.KEY
    return False


# Signal type and 50 Hz flag of DV, by which libavcodec knows a frame's format (``ff_dv_frame_profile``).
_DV_FORMATS = {(1, 1)} | {(stype, dsf) for stype in (0, 4, 0x14, 0x18) for dsf in (0, 1)}


def _recovers_at_once(sei: bytes) -> bool:
    """Whether an H.264 SEI NAL unit has a recovery point message with recovery_frame_cnt 0."""
    for kind, message in iterate_messages(sei):
        if kind == 6:
            # recovery_frame_cnt is the first field, Exp-Golomb coded: zero is the single bit 1.
            return bool(message[:1]) and bool(message[0] & 0x80)
    return False


_IS_RANDOM_ACCESS: dict[str, Callable[[bytes, bytes | memoryview], bool]] = {
    "h264": _h264, "vp9": _vp9, "av1": _av1, "mpeg1video": _mpeg2, "mpeg2video": _mpeg2,
    "hevc": lambda config, payload: _picture_type("hevc", config, payload) in HEVC_IRAP,
    "vvc": lambda config, payload: 7 <= _picture_type("vvc", config, payload) <= 9,
    "vp8": lambda _, payload: vp8_references.is_key_frame(bytes(payload[:_LONGEST_HEAD])),
    "mpeg4": lambda _, payload: picture_kind("mpeg4", bytes(payload[:_LONGEST_MPEG4_HEADERS])) == INTRA,
    "mjpeg": lambda _, payload: bool(has_own_tables(payload)),
    "dvvideo": lambda _, payload: payload[0] >> 5 == 0 and (payload[451] & 0x1F, payload[3] >> 7) in _DV_FORMATS,
    **{codec: partial(_by_head, reader) for codec, reader in HEAD_READERS.items()},
}  # fmt: skip
