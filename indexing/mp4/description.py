"""Read sample descriptions (stsd): four-character codes and configuration records become stream facts."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from videoloader.indexing.index import MOST_CONFIGURATIONS
from videoloader.indexing.mp4.boxes import Box, NotPlainError, children, iterate_boxes

# libavcodec's decoder for each sample entry type that it can decode with only the configuration record. Files with
# other types are indexed through libavformat, which knows them all.
_CODECS = {
    b"avc1": "h264", b"avc2": "h264", b"avc3": "h264", b"avc4": "h264", b"dva1": "h264", b"dvav": "h264",
    b"hvc1": "hevc", b"hev1": "hevc", b"hvc2": "hevc", b"hev2": "hevc", b"dvh1": "hevc", b"dvhe": "hevc",
    b"vvc1": "vvc", b"vvi1": "vvc",
    b"vp08": "vp8", b"vp09": "vp9",
    b"av01": "av1", b"dav1": "av1",
    b"s263": "h263", b"h263": "h263", b"H263": "h263",
    b"jpeg": "mjpeg", b"mjpa": "mjpeg",
}  # fmt: skip
# objectTypeIndication in the esds of mp4v sample entries (ISO/IEC 14496-1, registered at mp4ra.org).
_MP4V_CODECS = {0x20: "mpeg4", **dict.fromkeys(range(0x60, 0x66), "mpeg2video"), 0x6A: "mpeg1video", 0x6C: "mjpeg"}
_AAC = (0x40, 0x66, 0x67, 0x68)  # the same for mp4a
_CONFIG_BOXES = (b"avcC", b"hvcC", b"vvcC", b"av1C")
_VISUAL_ENTRY_SIZE = 78


class Description(NamedTuple):
    """One sample description and its four-character type. ``codec`` is empty if the type is unknown here."""

    kind: bytes
    codec: str
    config: bytes
    width: int
    height: int
    facts: dict[str, Any]


def read_descriptions(data: bytes, stsd: Box) -> list[Description]:
    """Return the entries of a video track's ``stsd`` box.

    Raises:
        NotPlainError: it has another number of them than it says.
    """
    entries = [*iterate_boxes(data, stsd.start + 8, stsd.stop)]
    if len(entries) != int.from_bytes(data[stsd.start + 4 : stsd.start + 8], "big"):
        raise NotPlainError
    return [_read_entry(data, entry) for entry in entries if entry.stop - entry.start >= _VISUAL_ENTRY_SIZE]


def records_in_force(
    descriptions: list[Description], used: npt.NDArray[np.uint8]
) -> tuple[tuple[bytes, ...], npt.NDArray[np.uint8]]:
    """Return the configuration records, and the number of the one in force at each sample.

    libavformat gives its decoder no record for a description without one, so the previous record stays in force. When a
    record comes into force again after that, it gets another number: parameter sets found in the samples in between end
    there.

    Args:
        descriptions: descriptions of the track.
        used: uint8[S], number of an existing description for each sample.
    """
    records = tuple(each.config for each in descriptions)
    if all(records) or not any(records) or 2 * len(records) > MOST_CONFIGURATIONS:
        return records, used
    numbers, number = used.copy(), 0  # a decoder is opened with the first record
    for start, stop in pairwise([0, *(np.flatnonzero(np.diff(used)) + 1).tolist(), len(used)]):
        own = int(used[start])
        if records[own]:
            number = own + len(records) if start and own == number else own
        numbers[start:stop] = number
    kept, places = np.unique(numbers, return_inverse=True)
    return tuple((records * 2)[each] for each in kept.tolist()), places.astype(np.uint8)


def _read_entry(data: bytes, entry: Box) -> Description:
    width = int.from_bytes(data[entry.start + 24 : entry.start + 26], "big")
    height = int.from_bytes(data[entry.start + 26 : entry.start + 28], "big")
    boxes = children(data, entry, _VISUAL_ENTRY_SIZE)
    kind = entry.type
    if kind == b"encv" and b"sinf" in boxes and (original := children(data, boxes[b"sinf"]).get(b"frma")):
        # Common encryption leaves headers, and often the first seconds, unencrypted.
        kind = data[original.start : original.stop]
    codec = _CODECS.get(kind, "")
    config = next((data[boxes[box].start : boxes[box].stop] for box in _CONFIG_BOXES if box in boxes), b"")
    if codec == "vvc":
        config = config[4:]  # this is the only box with a version and flags before the record
    if kind == b"mp4v" and b"esds" in boxes:
        object_type, config = _read_esds(data[boxes[b"esds"].start + 4 : boxes[b"esds"].stop])
        codec = _MP4V_CODECS.get(object_type, "")
    facts: dict[str, Any] = {"encrypted": entry.type == b"encv"}
    if b"pasp" in boxes and boxes[b"pasp"].stop - boxes[b"pasp"].start >= 8:
        start = boxes[b"pasp"].start
        horizontal, vertical = (int.from_bytes(data[start + i : start + i + 4], "big") for i in (0, 4))
        if horizontal and vertical:
            facts["sample_aspect_ratio"] = Fraction(horizontal, vertical)
    if b"colr" in boxes:
        facts |= _read_colr(data[boxes[b"colr"].start : boxes[b"colr"].stop])
    if b"vpcC" in boxes and codec == "vp9":
        facts |= _read_vpcc(data[boxes[b"vpcC"].start + 4 : boxes[b"vpcC"].stop])
    return Description(entry.type, codec, config, width, height, facts)


def _read_colr(payload: bytes) -> dict[str, Any]:
    kind = payload[:4]
    if kind not in (b"nclx", b"nclc") or len(payload) < 10:
        return {}  # an ICC profile
    primaries, transfer, matrix = (int.from_bytes(payload[i : i + 2], "big") for i in (4, 6, 8))
    facts: dict[str, Any] = {"color_primaries": primaries, "color_transfer": transfer, "color_matrix": matrix}
    if kind == b"nclx" and len(payload) > 10:
        facts["color_range"] = "full" if payload[10] & 0x80 else "limited"
    return facts


def _read_vpcc(payload: bytes) -> dict[str, Any]:
    """Read a VPCodecConfigurationRecord ("VP Codec ISO Media File Format Binding", 2017)."""
    if len(payload) < 6:
        return {}
    depth, chroma, full = payload[2] >> 4, (payload[2] >> 1) & 7, payload[2] & 1
    return {
        "bit_depth": depth,
        "chroma": ("420", "420", "422", "444")[chroma] if chroma < 4 else "",
        "color_range": "full" if full else "limited",
        "color_primaries": payload[3],
        "color_transfer": payload[4],
        "color_matrix": payload[5],
    }


def is_aac(data: bytes, stsd: Box) -> bool:
    """Whether the first entry of an audio track's ``stsd`` box is AAC."""
    entry = next(iterate_boxes(data, stsd.start + 8, stsd.stop), None)
    at = data.find(b"esds", entry.start, entry.stop) if entry and entry.type == b"mp4a" else -1
    return at >= 0 and entry is not None and _read_esds(data[at + 8 : entry.stop])[0] in _AAC


def _read_esds(payload: bytes) -> tuple[int, bytes]:
    """Return objectTypeIndication and DecoderSpecificInfo of an ES descriptor (ISO/IEC 14496-1, 7.2.6)."""
    object_type, position = 0, 0
    while position < len(payload):
        tag, position = payload[position], position + 1
        size = 0
        for _ in range(4):
            if position >= len(payload):
                return object_type, b""
            byte, position = payload[position], position + 1
            size = size << 7 | byte & 0x7F
            if not byte & 0x80:
                break
        if tag == 3 and position + 3 <= len(payload):  # ES_Descriptor: fixed fields, then three optional ones
            flags = payload[position + 2]
            position += 3 + (2 if flags & 0x80 else 0) + (2 if flags & 0x20 else 0)
            if flags & 0x40 and position < len(payload):
                position += 1 + payload[position]
        elif tag == 4 and position + 13 <= len(payload):  # DecoderConfigDescriptor
            object_type = payload[position]
            position += 13
        elif tag == 5:
            return object_type, payload[position : position + size]
        else:
            position += size
    return object_type, b""
