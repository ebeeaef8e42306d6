"""Find the display order of H.264 pictures by their slice headers, for containers without times."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from videoloader.indexing.bitstream.h264_parameter_sets import SetsByPicture, Sps
from videoloader.indexing.bitstream.h264_slices import after_names
from videoloader.indexing.bitstream.nal import H264_IDR, iterate_nals, nal_length_size, parameter_sets
from videoloader.indexing.bitstream.parameter_sets import is_slice, sets_in_packet
from videoloader.indexing.bitstream.picture_counts import (
    SLICE_WINDOW,
    h264_count_bits,
    h264_places,
    h264_told,
    slice_bits,
    top_bits,
)
from videoloader.indexing.bitstream.picture_order import PacketHeads, PictureOrder
from videoloader.indexing.bitstream.random_access import is_random_access

_SLICE = 1  # nal_unit_type of ITU-T H.264, table 7-1
_HARMLESS = (9, 12)  # access unit delimiter, ends of sequence and stream, filler
_HEAD = 1 + SLICE_WINDOW  # bytes of a slice that are kept
_USUAL_HEADERS = 1024  # bytes, for everything before a slice


def h264_order(config: bytes, packets: PacketHeads) -> PictureOrder | None:
    """Return the order in which a decoder outputs frames; None if the headers do not determine it.

    They do not if there are field pictures, several sequence parameter sets, order counts of type 1, missing pictures,
    a start that is no IDR picture, or reordering that the stream does not state: a decoder must then guess its depth,
    and drops frames if it guesses wrong. The order is not determined either for streams whose pictures state their own
    times.

    Args:
        config: avcC, or parameter sets with start codes.
        packets: one access unit each.
    """
    try:
        return _order(*_first_slices(config, packets))
    except ValueError:
        return None


def _order(
    heads: npt.NDArray[np.uint8], keys: npt.NDArray[np.bool_], short: list[int], sets: set[tuple[int, Sps]]
) -> PictureOrder | None:
    """Return the order of the pictures with these first slices; see ``_first_slices``."""
    header = heads[:, 0]
    first_block, bits, sps = after_names(slice_bits(heads[:, 1:].copy()), sets)
    is_idr, is_reference = header & 31 == H264_IDR, header & 0x60 != 0
    frame_num = top_bits(bits, sps.frame_num_bits)
    is_field = not sps.frames_only and bool((bits << np.uint64(sps.frame_num_bits) >> np.uint64(63)).any())
    whole = not first_block.any() and not is_field and np.isin(header & 31, (_SLICE, H264_IDR)).all()
    if sps.timed or not whole or not is_idr[0]:
        return None
    # Memory management operation 5, which restarts counts, also leaves a gap in the numbers.
    last = np.maximum.accumulate(np.arange(len(header)) * is_reference)[:-1]
    if ((frame_num[1:] - frame_num[last]) % (1 << sps.frame_num_bits) != 1)[~is_idr[1:]].any():
        return None
    told = h264_told(sps)
    # If a slice's header is complete, at least a stop bit follows it.
    if not (h264_count_bits(bits, is_idr, told)[short] << np.uint64(sps.order_bits)).all():
        return None
    places = h264_places(bits, is_idr, is_reference, told)
    frames = places.argsort(kind="stable")
    # A decoder that holds this many pictures back outputs the earliest of them when one more comes (C.4.5.3). The order
    # is right if each picture has come by then.
    held_back = frames - np.arange(len(frames))
    if (np.diff(places[frames]) == 0).any() or (held_back > (sps.reordered or 0)).any():
        return None
    return PictureOrder(frames, keys, late=np.ones(len(frames), np.bool_))


def _first_slices(
    config: bytes, packets: PacketHeads
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.bool_], list[int], set[tuple[int, Sps]]]:
    """Read the first slices of packets, all at once if their headers are within the first bytes.

    Returns:
        (uint8[P, _HEAD], the slices' first bytes, followed by zeros if shorter; bool[P], whether decoding can start at
        each packet; packets whose slices have fewer bytes; numbers of all picture parameter sets, and the sequence
        parameter set that each names).

    Raises:
        ValueError: a packet has no slice.
    """
    rows, length_size = packets.rows, nal_length_size("h264", config)
    sets = SetsByPicture(parameter_sets("h264", config))
    named = {*sets.of.items()}
    is_code = (rows[:, :-3] == 0) & (rows[:, 1:-2] == 0) & (rows[:, 2:-1] == 1)
    kind = rows[:, 3:] & 31
    is_first = is_code & ((kind < _HARMLESS[0]) | (kind > _HARMLESS[1]))
    at = is_first.argmax(1)
    # The first bytes of the first unit that is not harmless.
    start = np.minimum(at, rows.shape[1] - 3 - _HEAD) + 3
    heads = rows[np.arange(len(rows))[:, None], start[:, None] + np.arange(_HEAD)]
    kind, zero = heads[:, 0] & 31, heads == 0
    plain = (kind == _SLICE) | (kind == H264_IDR)
    plain &= (start == at + 3) & is_first.any(1) & (packets.size >= start + _HEAD)
    # Two zero bytes may belong to the next start code.
    plain &= ~(zero[:, 1:] & zero[:, :-1]).any(1) & ~zero[:, -1] & (length_size == 0)
    keys, short = kind == H264_IDR, []
    for number in (~plain).nonzero()[0].tolist():
        head, first, stop = _up_to_slice(packets, number, length_size)
        if units := sets_in_packet("h264", length_size, head):
            sets = SetsByPicture(units, sets)
            named.update(sets.of.items())
        keys[number] = bool(is_random_access("h264", config, head))
        heads[number] = np.frombuffer(head[first : min(stop, first + _HEAD)].ljust(_HEAD, b"\0"), np.uint8)
        if stop < first + _HEAD:
            short.append(number)
    return heads, keys, short, named


def _up_to_slice(packets: PacketHeads, number: int, length_size: int) -> tuple[bytes, int, int]:
    """Return the part of a packet with its first slice's header, where that slice begins, and where it ends at most."""
    size = int(packets.size[number])
    for most in (_USUAL_HEADERS, size):
        head = packets.start(number, most)
        for start, stop in iterate_nals(head, length_size):
            if is_slice("h264", head[start]) and (len(head) == size or start + _HEAD <= len(head)):
                return head, start, stop
    raise ValueError("a packet has no picture")
