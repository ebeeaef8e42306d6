"""Convert packets to the form that NVDEC's parser expects, with start codes instead of lengths (Annex B)."""

from __future__ import annotations

from videoloader.decoding.nvdec_codecs import NVDEC_CODECS
from videoloader.indexing.bitstream.nal import nal_length_size, parameter_sets
from videoloader.indexing.bitstream.parameter_sets import leading_units

_START_CODE = b"\0\0\0\1"
# What add_annex_b needs for every packet, in tuples, which are faster to read than rows.
_UNITS = {codec: (facts.is_sequence_set, facts.has_layers) for codec, facts in NVDEC_CODECS.items()}


def annex_b_headers(codec: str, config: bytes) -> bytes:
    """Return the parameter sets of a configuration record, each after a start code.

    A record that is already in Annex B form, or is the header of MPEG-4 part 2, is returned as it is.
    """
    facts = NVDEC_CODECS[codec]
    if not nal_length_size(codec, config):
        return config if facts.has_headers else b""
    return b"".join(
        _START_CODE + each for each in parameter_sets(codec, config) if not (facts.has_layers and _layer(each, 0))
    )


def sequence_parameter_sets(codec: str, config: bytes) -> list[bytes]:
    """Return the base layer's sequence parameter sets from an H.264 or HEVC configuration record, with header bytes."""
    facts = NVDEC_CODECS[codec]
    return [
        each
        for each in parameter_sets(codec, config)
        if len(each) > 1 and facts.is_sequence_set[each[0]] and not (facts.has_layers and _layer(each, 0))
    ]


def add_annex_b(
    pieces: list[bytes | memoryview], payload: bytes | memoryview, codec: str, length_size: int
) -> list[bytes]:
    """Append a packet of H.264 or HEVC to the pieces of the decoder's input, with a start code before each NAL unit.

    Nothing is copied. Truncated units are left out, and so are those of HEVC's higher layers (other views, alpha),
    which NVDEC would output as separate pictures. This takes 0.8 µs for a packet of one unit.

    Args:
        pieces: list to append to.
        payload: one packet.
        codec: ``"h264"`` or ``"hevc"``.
        length_size: result of ``nal_length_size``; 0 for packets with start codes, which are appended unchanged.

    Returns:
        The sequence parameter sets in the packet, with header bytes.
    """
    kinds, layered = _UNITS[codec]
    if not length_size:
        pieces.append(payload)
        found = leading_units(codec, payload, kinds)
        return [unit for unit in found if not _layer(unit, 0)] if layered and found else found
    found = []
    position, size = 0, len(payload)
    while position + length_size < size:
        start = position + length_size
        position = start + int.from_bytes(payload[position:start], "big")
        if position > size:
            break
        if position == start or (layered and _layer(payload, start)):
            continue
        unit = payload[start:position]
        pieces += (_START_CODE, unit)
        if kinds[payload[start]]:
            found.append(bytes(unit))
    return found


def _layer(payload: bytes | memoryview, start: int) -> int:
    """Return nuh_layer_id of the HEVC NAL unit that begins at start (ITU-T H.265, 7.3.1.2); 0 if it is truncated."""
    return (payload[start] & 1) << 5 | payload[start + 1] >> 3 if start + 1 < len(payload) else 0
