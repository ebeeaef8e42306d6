"""Read sequence and picture parameter sets of H.264: the fields about pictures and their order."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from videoloader.indexing.bitstream.bits import BitReader

_MOST_NUMBER_BITS = 16  # for frame_num and pic_order_cnt_lsb (7.4.2.1.1)
_SPS, _PPS = 7, 8  # nal_unit_type of ITU-T H.264, table 7-1
_PROFILES_WITH_CHROMA = (100, 110, 122, 244, 44, 83, 86, 118, 128, 138, 139, 134, 135)
# num_ref_frames_in_pic_order_cnt_cycle is at most 255 (ITU-T H.264, 7.4.2.1.1).
_LONGEST_ORDER_CYCLE = 255


class Vui(NamedTuple):
    """The first part of the video usability information. Colours are ITU-T H.273 code points; 2 is "unspecified".

    So is ``chroma_site``, of the top field and of frames; without it, chroma is on the left.
    """

    primaries: int = 2
    transfer: int = 2
    matrix: int = 2
    full_range: bool | None = None
    sample_aspect_ratio: Fraction = Fraction(1)
    chroma_site: int = 0


class Sps(NamedTuple):
    """A sequence parameter set (ITU-T H.264, 7.3.2.1.1).

    Attributes:
        number: seq_parameter_set_id.
        level: level_idc.
        chroma: chroma_format_idc.
        separate_planes: separate_colour_plane_flag.
        bit_depth: bits of a luma sample.
        frame_num_bits: bits of frame_num in slice headers.
        order_type: pic_order_cnt_type.
        order_bits: bits of pic_order_cnt_lsb in slice headers, type 0.
        order_deltas: whether slice headers have delta_pic_order_cnt, type 1.
        offset_for_non_ref, offset_for_ref: the offsets of type 1.
        references: max_num_ref_frames.
        coded_size: (width, height) of whole macroblocks in pixels.
        width, height: size of the output pictures (cropped) in pixels.
        frames_only: frame_mbs_only_flag.
        vui: colours and shape of its pixels.
        timed: whether pictures may state when they are shown, relative to when they are decoded.
        reordered: max_num_reorder_frames; None if it is not stated.
        buffered: max_dec_frame_buffering; None if it is not stated.
        left, top: pixels that are cropped on these sides.
    """

    number: int
    level: int
    chroma: int
    separate_planes: bool
    bit_depth: int
    frame_num_bits: int
    order_type: int
    order_bits: int
    order_deltas: bool
    offset_for_non_ref: int
    offset_for_ref: tuple[int, ...]
    references: int
    coded_size: tuple[int, int]
    width: int
    height: int
    frames_only: bool
    vui: Vui
    timed: bool
    reordered: int | None
    buffered: int | None
    left: int = 0
    top: int = 0


@lru_cache(64)
def read_sps(payload: bytes) -> Sps:
    """Read the sequence parameter set in a NAL unit, given without its header byte.

    Raises:
        ValueError: the set ends too early, or has an impossible number.
    """
    bits = BitReader(payload)
    profile = bits.u(8)
    bits.u(8)
    level = bits.u(8)
    number = bits.ue()
    chroma, depth, separate = 1, 8, 0
    if profile in _PROFILES_WITH_CHROMA:
        chroma = bits.ue()
        separate = bits.u(1) if chroma == 3 else 0
        depth = 8 + bits.ue()
        bits.ue()
        bits.u(1)
        if bits.u(1):
            for matrix in range(8 if chroma != 3 else 12):
                if bits.u(1):
                    _skip_scaling_list(bits, 16 if matrix < 6 else 64)
    frame_num_bits = bits.ue() + 4
    order_type = bits.ue()
    order_bits = non_ref = 0
    deltas, cycle = False, []
    if order_type == 0:
        order_bits = bits.ue() + 4
    if max(frame_num_bits, order_bits) > _MOST_NUMBER_BITS:
        raise ValueError("a sequence parameter set has numbers that cannot be")
    if order_type == 1:
        deltas = not bits.u(1)
        non_ref, _ = bits.se(), bits.se()
        length = bits.ue()
        if length > _LONGEST_ORDER_CYCLE:
            raise ValueError("a cycle of picture order counts is too long")
        cycle = [bits.se() for _ in range(length)]
    references = bits.ue()
    bits.u(1)  # gaps_in_frame_num_value_allowed_flag
    width, height = (bits.ue() + 1) * 16, (bits.ue() + 1) * 16
    frames_only = bits.u(1)
    height *= 2 - frames_only
    coded_size = width, height
    left = top = 0
    if not frames_only:
        bits.u(1)
    bits.u(1)
    if bits.u(1):
        unit_x = 2 if chroma in (1, 2) and not separate else 1
        unit_y = (2 if chroma == 1 and not separate else 1) * (2 - frames_only)
        left, right, top, bottom_rows = (bits.ue() for _ in range(4))
        width -= (left + right) * unit_x
        height -= (top + bottom_rows) * unit_y
        left, top = left * unit_x, top * unit_y
        if min(width, height) < 1:
            raise ValueError("a sequence parameter set cuts off more than there is")
    vui = Vui()
    timed, reordered, buffered = False, None, None
    if bits.u(1):
        vui = read_vui(bits)
        timed, reordered, buffered = _read_stated_buffering(bits)
    return Sps(
        number, level, chroma, bool(separate), depth, frame_num_bits, order_type, order_bits, deltas, non_ref,
        tuple(cycle), references, coded_size, width, height, bool(frames_only), vui, timed,
        reordered, buffered, left, top,
    )  # fmt: skip


def _skip_scaling_list(bits: BitReader, size: int) -> None:
    last = following = 8
    for _ in range(size):
        if following:
            following = (last + bits.se()) & 255
        last = following or last


# Sample aspect ratios by aspect_ratio_idc (ITU-T H.273, table 16).
_ASPECT_RATIOS = (
    (1, 1), (1, 1), (12, 11), (10, 11), (16, 11), (40, 33), (24, 11), (20, 11), (32, 11), (80, 33), (18, 11), (15, 11),
    (64, 33), (160, 99), (4, 3), (3, 2), (2, 1),
)  # fmt: skip


def read_vui(bits: BitReader) -> Vui:
    """Read vui_parameters up to the chroma sites, which are the same in H.264 and HEVC (annex E of each)."""
    aspect = (1, 1)
    if bits.u(1):
        code = bits.u(8)
        if code == 255:
            aspect = bits.u(16), bits.u(16)
        elif code < len(_ASPECT_RATIOS):
            aspect = _ASPECT_RATIOS[code]
    ratio = Fraction(*aspect) if all(aspect) else Fraction(1)
    if bits.u(1):
        bits.u(1)
    full, colors = None, (2, 2, 2)
    if bits.u(1):
        bits.u(3)
        full = bool(bits.u(1))
        if bits.u(1):
            colors = bits.u(8), bits.u(8), bits.u(8)
    site = 0
    if bits.u(1):
        site = bits.ue()
        bits.ue()  # of the bottom field
    return Vui(*colors, full, ratio, site)


def _read_stated_buffering(bits: BitReader) -> tuple[bool, int | None, int | None]:
    """Read from vui_parameters, after the chroma sites, whether pictures are timed, and two numbers of frames.

    These are max_num_reorder_frames and max_dec_frame_buffering. Source: E.1.1. Times are in picture timing messages,
    if there are HRD parameters.
    """
    if bits.u(1):
        bits.u(65)
    with_hrd = 0
    for _ in range(2):
        if bits.u(1):
            with_hrd = 1
            schedules = bits.ue() + 1
            bits.u(8)
            for _ in range(schedules):
                bits.ue()
                bits.ue()
                bits.u(1)
            bits.u(20)
    bits.u(with_hrd + 1)
    if not bits.u(1):
        return bool(with_hrd), None, None
    bits.u(1)
    for _ in range(4):
        bits.ue()
    return bool(with_hrd), bits.ue(), bits.ue()


class SetsByPicture:
    """The sequence parameter set that each picture parameter set names.

    Args:
        units: NAL units, with header bytes. A unit that cannot be read is skipped, and missing if a slice names it.
        before: sets in force before them.

    Attributes:
        of: sequence parameter set by number of the picture parameter set.
    """

    def __init__(self, units: Iterable[bytes], before: SetsByPicture | None = None) -> None:
        self._sps: dict[int, Sps] = {**before._sps} if before else {}
        self._pps: dict[int, int] = {**before._pps} if before else {}
        for unit in filter(None, units):
            with suppress(ValueError):
                if unit[0] & 31 == _SPS:
                    sps = read_sps(unit[1:])
                    self._sps[sps.number] = sps
                elif unit[0] & 31 == _PPS:
                    bits = BitReader(unit[1:])
                    number, named = bits.ue(), bits.ue()  # 7.3.2.2
                    self._pps[number] = named
        self.of = {number: self._sps[named] for number, named in self._pps.items() if named in self._sps}
