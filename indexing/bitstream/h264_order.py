"""The display order of H.264 pictures, from their slice headers (ITU-T H.264, 8.2.1)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from videoloader.indexing.bitstream.h264_parameter_sets import Sps
from videoloader.indexing.bitstream.h264_slices import Slices, read_slices
from videoloader.indexing.bitstream.picture_order import PacketHeads, PictureOrder


def h264_order(config: bytes, packets: PacketHeads) -> PictureOrder | None:
    """The order that a decoder gives frames out in, or None where these headers do not settle it.

    They do not with field pictures, several sequence parameter sets, a start that is no IDR picture, and reordering
    that the stream does not state: a decoder must then guess its depth, and drops frames where it guesses wrong. Nor is
    the order told of streams whose pictures state their own times.

    Args:
        config: avcC, or parameter sets with start codes.
        packets: one access unit each.
    """
    try:
        slices, sps = read_slices(config, packets)
    except ValueError:
        return None
    if sps.timed or not slices.idr[0] or pictures_are_missing(slices, sps):
        return None
    frames = display_order(slices.idr, order_counts(slices, sps))
    # A decoder that holds so many pictures back gives out the earliest of them when one more comes (C.4.5.3): the
    # order is right if each has come by then.
    if frames is None or (frames - np.arange(len(frames)) > (sps.reordered or 0)).any():
        return None
    return PictureOrder(frames, slices.key, late=np.ones(len(frames), np.bool_))


def pictures_are_missing(slices: Slices, sps: Sps) -> bool:
    """Whether frame_num does not go on as it should (7.4.3).

    Memory management operation 5 starts counts anew; it stands behind what is read here, but the gap that it leaves in
    frame_num is seen.
    """
    before = _last_before(slices.reference)
    expected = np.where(before >= 0, slices.frame_num[before], 0) + 1 & (1 << sps.frame_num_bits) - 1
    return bool((~slices.idr & (slices.frame_num != expected)).any())


def order_counts(slices: Slices, sps: Sps) -> npt.NDArray[np.int64]:
    """int64[P]: picture order counts of frames (8.2.1), which start anew with each IDR picture.

    Args:
        slices: the first of an IDR picture, and without gaps.
        sps: of all of them.
    """
    if sps.order_type == 0:
        return _by_lsb(slices, sps)
    previous = np.where(slices.idr, 0, np.roll(slices.frame_num, 1))
    number = slices.frame_num + (_since_idr(slices.frame_num < previous, slices.idr) << sps.frame_num_bits)
    return _by_cycle(slices, sps, number) if sps.order_type == 1 else 2 * number - ~slices.reference


def display_order(idr: npt.NDArray[np.bool_], counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64] | None:
    """int64[P]: pictures sorted by coded video sequence and count; None where two have the same.

    Args:
        idr: bool[P], the first of each sequence.
        counts: int64[P].
    """
    rises = counts[1:] > counts[:-1]
    if (rises | idr[1:]).all():
        return np.arange(len(counts))
    sequence = np.cumsum(idr)
    frames: npt.NDArray[np.int64] = np.lexsort((counts, sequence))
    same = (np.diff(counts[frames]) == 0) & (np.diff(sequence[frames]) == 0)
    return None if same.any() else frames


def _by_lsb(slices: Slices, sps: Sps) -> npt.NDArray[np.int64]:
    """Type 0 (8.2.1.1): the higher bits change where the lower ones jump from those of the reference before."""
    half = 1 << (sps.order_bits - 1)
    before, lsb = _last_before(slices.reference), slices.order_lsb
    in_sequence = before >= np.maximum.accumulate(np.where(slices.idr, np.arange(len(lsb)), 0))
    in_sequence &= ~slices.idr
    jump = np.where(in_sequence, lsb[before], 0) - lsb
    turns = (jump >= half).astype(np.int64) - (jump < -half)
    turned = _since_idr(np.where(slices.reference, turns, 0), slices.idr)
    msb = np.where(slices.reference, turned, turned + turns) * 2 * half
    return msb + lsb + np.minimum(slices.bottom_delta, 0)


def _by_cycle(slices: Slices, sps: Sps, number: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Type 1 (8.2.1.2), of frames with these numbers in their sequences."""
    sums = np.cumsum([0, *sps.offset_for_ref])
    expected = np.zeros(len(number), np.int64)
    if sps.offset_for_ref:
        cycles, rest = np.divmod(number - (~slices.reference & (number > 0)), len(sps.offset_for_ref))
        expected = cycles * sums[-1] + sums[rest]
    top = expected + np.where(slices.reference, 0, sps.offset_for_non_ref) + slices.first_delta
    count: npt.NDArray[np.int64] = np.minimum(top, top + sps.offset_for_bottom + slices.second_delta)
    return count


def _last_before(marked: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """int64[P]: the last marked place before each; -1 where there is none."""
    last = np.maximum.accumulate(np.where(marked, np.arange(len(marked)), -1))
    return np.concatenate([[-1], last[:-1]])


def _since_idr(
    steps: npt.NDArray[np.int64] | npt.NDArray[np.bool_], idr: npt.NDArray[np.bool_]
) -> npt.NDArray[np.int64]:
    """int64[P]: sum of the steps from the last IDR picture up to each, which begins with its own."""
    total = np.cumsum(steps, dtype=np.int64)
    start = np.maximum.accumulate(np.where(idr, np.arange(len(idr)), 0))
    since: npt.NDArray[np.int64] = total - (total - steps)[start]
    return since
