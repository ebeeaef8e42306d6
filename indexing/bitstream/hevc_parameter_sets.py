"""Read the parts of HEVC's parameter sets that slice headers depend on (ITU-T H.265, 7.3.2)."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from videoloader.indexing.bitstream.bits import BitReader
from videoloader.indexing.bitstream.h264_parameter_sets import Vui, read_vui
from videoloader.indexing.bitstream.nal import HEVC_IDR, HEVC_IRAP, MOST_HELD, parameter_sets

# (difference of picture order counts, whether the current picture may use it) of pictures shown before the current one,
# nearest first, then of those shown after it.
ReferencePictureSet = tuple[tuple[int, bool], ...]

_SPS, _PPS = 33, 34  # nal_unit_type of ITU-T H.265, table 7-1
_MOST_SETS = 64  # num_short_term_ref_pic_sets (7.4.3.2.1)


class SequenceParameters(NamedTuple):
    """A sequence parameter set.

    Attributes:
        number: number by which picture parameter sets name it.
        level: general_level_idc.
        chroma: chroma_format_idc.
        separate_planes: whether slices state their colour plane.
        bit_depth: bits of a luma sample.
        coded_size: (width, height) of the coded picture in pixels.
        width, height: size of the picture that is shown.
        left, top: pixels that are cropped there.
        order_bits: bits of slice_pic_order_cnt_lsb.
        buffered, reordered: sizes of the decoded picture buffer and of the reordering for the highest sub-layer.
        reference_sets: short-term reference picture sets that slices name by number.
        long_term: whether slices may name long-term references.
        long_term_orders: (low bits of the order count, whether the current picture may use it) of the candidates.
        vui: colours and shape of the samples.
    """

    number: int
    level: int
    chroma: int
    separate_planes: bool
    bit_depth: int
    coded_size: tuple[int, int]
    width: int
    height: int
    left: int
    top: int
    order_bits: int
    buffered: int
    reordered: int
    reference_sets: tuple[ReferencePictureSet, ...]
    long_term: bool
    long_term_orders: tuple[tuple[int, bool], ...]
    vui: Vui


class PictureParameters(NamedTuple):
    """The parts of a picture parameter set that affect what comes before the references in a slice header."""

    number: int
    sequence: int
    output_flag: bool
    extra_bits: int


@lru_cache(256)
def read_sequence_parameters(unit: bytes) -> SequenceParameters:
    """Read an SPS NAL unit with its header (7.3.2.2.1). ValueError if it is damaged."""
    bits = BitReader(unit[2:])
    bits.u(4)
    layers = bits.u(3)
    bits.u(1)
    level = read_profile_tier_level(bits, layers)
    number = bits.ue()
    chroma = bits.ue()
    separate = chroma == 3 and bool(bits.u(1))
    width, height = coded_size = bits.ue(), bits.ue()
    left = top = 0
    if bits.u(1):
        unit_x = 2 if chroma in (1, 2) else 1
        unit_y = 2 if chroma == 1 else 1
        left, right, top, bottom = (bits.ue() * unit for unit in (unit_x, unit_x, unit_y, unit_y))
        width, height = width - left - right, height - top - bottom
    if min(width, height) < 1:
        raise ValueError("a sequence parameter set leaves nothing of the picture")
    bit_depth = 8 + bits.ue()
    bits.ue()
    order_bits = bits.ue() + 4
    if order_bits > 16:
        raise ValueError("picture order counts of more than 16 bits")
    buffered = reordered = 0
    for _ in range(layers + 1 if bits.u(1) else 1):
        buffered, reordered = bits.ue() + 1, bits.ue()
        bits.ue()
    reference_sets = _read_reference_picture_sets(bits)
    long_term = bool(bits.u(1))
    candidates = bits.ue() if long_term else 0
    if candidates > 32:
        raise ValueError("more than 32 long-term references")
    long_term_orders = tuple((bits.u(order_bits), bool(bits.u(1))) for _ in range(candidates))
    bits.u(2)
    vui = read_vui(bits) if bits.u(1) else Vui()
    return SequenceParameters(
        number, level, chroma, separate, bit_depth, coded_size, width, height, left, top, order_bits, buffered,
        reordered, reference_sets, long_term, long_term_orders, vui,
    )  # fmt: skip


@lru_cache(256)
def read_picture_parameters(unit: bytes) -> PictureParameters:
    """Read a PPS NAL unit with its header (7.3.2.3.1). ValueError if it is damaged."""
    bits = BitReader(unit[2:34])
    number, sequence = bits.ue(), bits.ue()
    bits.u(1)  # dependent_slice_segments_enabled_flag: the first segment of a picture is never dependent
    return PictureParameters(number, sequence, bool(bits.u(1)), bits.u(3))


def read_profile_tier_level(bits: BitReader, layers: int) -> int:
    """Read general_level_idc of profile_tier_level (7.3.3), and skip the rest.

    Args:
        bits: reader at the start of the structure.
        layers: sps_max_sub_layers_minus1.
    """
    bits.u(88)
    general_level = bits.u(8)
    present = [(bits.u(1), bits.u(1)) for _ in range(layers)]
    if layers:
        bits.u(2 * (8 - layers))
    for profile, level in present:
        bits.u(88 * profile + 8 * level)
    return general_level


def _read_reference_picture_sets(bits: BitReader) -> tuple[ReferencePictureSet, ...]:
    """Read an SPS's short-term reference picture sets, which follow block sizes, scaling lists and PCM sizes.

    Args:
        bits: reader after the buffering numbers of the sub-layers.
    """
    for _ in range(6):
        bits.ue()
    if bits.u(1) and bits.u(1):
        _skip_scaling_lists(bits)
    bits.u(2)
    if bits.u(1):
        bits.u(8)
        bits.ue()
        bits.ue()
        bits.u(1)
    count = bits.ue()
    if count > _MOST_SETS:
        raise ValueError("more than 64 reference picture sets")
    sets: list[ReferencePictureSet] = []
    for _ in range(count):
        sets.append(read_reference_picture_set(bits, sets, in_slice=False))
    return tuple(sets)


def _skip_scaling_lists(bits: BitReader) -> None:
    """Skip scaling_list_data (7.3.4)."""
    for size in range(4):
        for _ in range(0, 6, 3 if size == 3 else 1):
            if not bits.u(1):
                bits.ue()
                continue
            if size > 1:
                bits.se()
            for _ in range(min(64, 1 << (4 + (size << 1)))):
                bits.se()


def read_reference_picture_set(
    bits: BitReader, sets: list[ReferencePictureSet] | tuple[ReferencePictureSet, ...], *, in_slice: bool
) -> ReferencePictureSet:
    """Read one st_ref_pic_set (7.3.7, 7.4.8), which may be coded as the difference from an earlier one.

    Args:
        bits: reader at the start of the structure.
        sets: sets read before it; in a slice header, all sets of the SPS.
        in_slice: True if it is in a slice header, where it may build on any of the sets, not only the last.
    """
    if sets and bits.u(1):
        back = bits.ue() + 1 if in_slice else 1
        if back > len(sets):
            raise ValueError("a reference picture set builds on one that is not there")
        sign = bits.u(1)
        shift = (1 - 2 * sign) * (bits.ue() + 1)
        entries = []
        for delta, _ in (*sets[len(sets) - back], (0, False)):
            used = bool(bits.u(1))
            if (used or bits.u(1)) and delta + shift:
                entries.append((delta + shift, used))
        before = sorted((entry for entry in entries if entry[0] < 0), reverse=True)
        return (*before, *sorted(entry for entry in entries if entry[0] > 0))
    counts = bits.ue(), bits.ue()
    if sum(counts) > MOST_HELD:
        raise ValueError("more than 16 reference pictures")
    entries = []
    for count, direction in zip(counts, (-1, 1), strict=True):
        delta = 0
        for _ in range(count):
            delta += direction * (bits.ue() + 1)
            entries.append((delta, bool(bits.u(1))))
    return tuple(entries)


class HevcSets:
    """The sequence and picture parameter sets of the base layer by number, updated as new ones come."""

    def __init__(self) -> None:
        self._units: dict[tuple[int, int], bytes] = {}
        self._sequences: dict[int, SequenceParameters] = {}
        self._pictures: dict[int, PictureParameters] = {}

    def take(self, unit: bytes) -> bool:
        """Take a NAL unit with its header, and return whether it is a set that differs from the one with its number
        before.

        Raises:
            ValueError: the unit is damaged.
        """
        kind = unit[0] >> 1 & 63 if len(unit) > 2 else -1
        if kind not in (_SPS, _PPS) or is_of_layer(unit, 0):
            return False
        if kind == _SPS:
            sequence = read_sequence_parameters(unit)
            number = sequence.number
            self._sequences[number] = sequence
        else:
            picture = read_picture_parameters(unit)
            number = picture.number
            self._pictures[number] = picture
        differs = self._units.get((kind, number)) != unit
        self._units[kind, number] = unit
        return differs

    def read_slice(self, kind: int, bits: BitReader) -> tuple[SequenceParameters, int]:
        """Return the sequence parameter set that a slice header names, and the low bits of its order count (7.3.6.1).

        Args:
            kind: nal_unit_type.
            bits: reader after the first flag; afterwards, it is after the order count, or in IDR pictures where that
                would be.

        Raises:
            ValueError: the header ends too early, or names missing parameter sets.
        """
        if kind in HEVC_IRAP:
            bits.u(1)
        picture = self._pictures.get(bits.ue())
        sequence = self._sequences.get(picture.sequence) if picture else None
        if picture is None or sequence is None:
            raise ValueError("a slice names a parameter set that is not there")
        bits.u(picture.extra_bits)
        bits.ue()
        bits.u(picture.output_flag + 2 * sequence.separate_planes)
        return sequence, 0 if kind in HEVC_IDR else bits.u(sequence.order_bits)


def is_of_layer(payload: bytes | memoryview, start: int) -> bool:
    """Whether a NAL unit belongs to another layer than the base layer (nuh_layer_id; 7.3.1.2)."""
    return payload[start] & 1 != 0 or payload[start + 1] >> 3 != 0


def is_anchor(kind: int, second: int) -> bool:
    """Whether later order counts continue from a picture's (8.3.1, prevTid0Pic).

    Such a picture is in the lowest temporal layer, not leading, and may be referred to.

    Args:
        kind: nal_unit_type.
        second: second byte of the NAL unit's header.
    """
    return second & 7 == 1 and not 6 <= kind <= 9 and (kind > 14 or kind % 2 == 1)


def has_one_layer(config: bytes) -> bool:
    """Whether sps_max_sub_layers_minus1 is 0 in the first SPS of a configuration record (ITU-T H.265, 7.3.2.2.1)."""
    for unit in parameter_sets("hevc", config):
        if len(unit) > 2 and unit[0] >> 1 & 63 == _SPS:
            # After the two-byte NAL header: vps id (4 bits), max sub layers minus 1 (3 bits).
            return unit[2] >> 1 & 7 == 0
    return False
