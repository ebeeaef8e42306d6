"""Lies in the headers of pictures, among them H.264's numbers, by which decoders see that some are missing."""

from __future__ import annotations

from dataclasses import replace

from lies.parameter_sets import is_slice, joined_units, units_of
from lies.registry import Rng, few, lie
from lies.remuxed import Packet, Packets, demuxed, rewritten
from videoloader.indexing.bitstream.h264_slices import HEAD_BITS, SliceReader
from videoloader.indexing.bitstream.nal import nal_length_size

# Bytes of a packet in which the header of its first picture lies.
_HEAD = 16


@lie(damages=True)
def picture_numbers_altered(data: bytes, rng: Rng) -> bytes | None:
    """One bit of frame_num (ITU-T H.264, 7.3.3) in the first slices of some packets."""

    def change(found: Packets) -> list[Packet] | None:
        if found.codec != "h264":
            return None
        reader, packets = SliceReader(found.config), list(found.packets)
        chosen = few(rng, len(packets))
        for number, packet in enumerate(found.packets):
            try:
                _, _, sps, left = reader.read(packet.data)
            except ValueError:
                continue
            bit = HEAD_BITS - left + int(rng.integers(sps.frame_num_bits))
            if number not in chosen:
                continue
            units = units_of(found, packet.data)
            first = next(each for each, unit in enumerate(units) if is_slice("h264", unit))
            unit = bytearray(units[first])
            if len(unit) > bit // 8 + 1:
                unit[1 + bit // 8] ^= 128 >> bit % 8
            units[first] = bytes(unit)
            joined = joined_units(units, nal_length_size("h264", found.config))
            packets[number] = replace(packet, data=joined)
        return packets

    return rewritten(data, change)


@lie(damages=True)
def picture_heads_flipped(data: bytes, rng: Rng) -> bytes | None:
    """One bit near the beginning of some packets that lie in one piece.

    Not of H.264, whose order counts ``docs/limits.md`` tells of.
    """
    found = demuxed(data)
    if found is None or found.codec == "h264":
        return None
    changed = bytearray(data)
    for number in few(rng, len(found.packets)):
        packet = found.packets[number].data
        at = int(rng.integers(min(_HEAD, len(packet))))
        if (start := data.find(packet)) >= 0:
            changed[start + at] ^= 1 << int(rng.integers(8))
    return bytes(changed)
