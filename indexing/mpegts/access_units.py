"""Cut a video into access units in the way of libavcodec's parsers.

One rule applies to all three codecs. Some start codes belong to a *picture* (slices), some *open* an access unit
(headers, and slices that begin a picture). One that opens begins a new access unit if a picture has come since the last
unit began.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from videoloader.indexing.bitstream.nal import H264_IDR, iterate_messages
from videoloader.indexing.bitstream.picture_counts import SLICE_WINDOW, hevc_kinds, read_ue, skip_hevc_head
from videoloader.indexing.bitstream.picture_counts import slice_bits as slice_bits_of
from videoloader.indexing.bitstream.random_access import is_random_access
from videoloader.indexing.index import DISPOSABLE_NO, DISPOSABLE_UNKNOWN, DISPOSABLE_YES
from videoloader.indexing.mpegts.packets import OddStreamError, following, led_by
from videoloader.indexing.mpegts.pieces import Piece

Positions = npt.NDArray[np.int64]

_LONGEST_FIRST_BLOCK = 5  # bytes of first_mb_in_slice if it is not zero; the parser sees no start code in them
_NEEDED_AFTER = 3 + 2 + SLICE_WINDOW
_DISPLAY_ORIENTATION = 47


class AccessUnits(NamedTuple):
    """Access units in decode order.

    Attributes:
        start: int64[A], stream position of the first byte.
        mark: int64[A], stream position of the start code that shows where it begins, at most one byte later.
        picture: int64[A], stream position of the start code of the picture's own header; -1 if there is none.
        key: bool[A], whether decoding can start here.
        disposable: uint8[A], by the unit's own headers.
        restarts: bool[A], H.264 and HEVC: an IDR picture, at which order counts start again.
        anchor: bool[A], whether order counts of later pictures continue from this one's; in MPEG-2, whether it is no B
            picture.
        slice_bits: uint64[A], H.264 and HEVC: what follows the number of the picture parameter set in the first slice,
            from the top bit down.
        headers: bytes of each parameter set, sequence header or end of sequence by stream position.
        turned: whether a message in the first unit may give a rotation of the picture.
    """

    start: Positions
    mark: Positions
    picture: Positions
    key: npt.NDArray[np.bool_]
    disposable: npt.NDArray[np.uint8]
    restarts: npt.NDArray[np.bool_]
    anchor: npt.NDArray[np.bool_]
    slice_bits: npt.NDArray[np.uint64]
    headers: dict[int, bytes]
    turned: bool

    def first(self, count: int) -> AccessUnits:
        """Return the first units."""
        if count == len(self.start):
            return self
        stop = self.start[count]
        columns: dict[str, Any] = {name: getattr(self, name)[:count] for name in _COLUMNS}
        headers = {at: header for at, header in self.headers.items() if at < stop}
        return self._replace(**columns, headers=headers)


_COLUMNS = AccessUnits._fields[:-2]  # the fields with an item for each unit


def join_units(parts: list[AccessUnits]) -> AccessUnits:
    """Join the units of consecutive parts."""
    if len(parts) == 1:
        return parts[0]
    columns: dict[str, Any] = {name: np.concatenate([getattr(part, name) for part in parts]) for name in _COLUMNS}
    headers = {at: header for part in parts for at, header in part.headers.items()}
    return parts[0]._replace(**columns, headers=headers)


def cut_access_units(codec: str, piece: Piece, begin: int) -> AccessUnits:
    """Cut a piece into access units, the first of which begins at ``begin``. The last may continue after the piece.

    Raises:
        OddStreamError: libavcodec's parser would be confused by the data.
    """
    position, kind = piece.start_codes()
    # Close to the end of a piece, too little is visible after a start code.
    stop = piece.end - (0 if piece.last else _NEEDED_AFTER)
    first, last = position.searchsorted((begin, stop)).tolist()
    position, kind = position[first:last], kind[first:last]
    if codec == "h264":
        return _cut_h264(piece, begin, position, kind)
    if codec == "hevc":
        return _cut_hevc(piece, begin, position, kind)
    return _cut_mpeg2(piece, begin, position, kind)


def _borders(is_picture: npt.NDArray[np.bool_], opens: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    cut = np.zeros(len(opens), np.bool_)
    cut[1:] = opens[1:] & is_picture[:-1]
    return cut


def _starts(piece: Piece, begin: int, mark: Positions) -> tuple[Positions, Positions]:
    """Return (start, mark) of the units: a zero byte before the start code belongs to the unit that it opens."""
    before = piece.bytes_at(np.maximum(mark - 1, 0))
    start = mark - ((before == 0) & (mark > 0))
    return led_by(begin, start), led_by(begin, mark)


def _cut_h264(piece: Piece, begin: int, position: Positions, header: npt.NDArray[np.uint8]) -> AccessUnits:
    """Cut units as in ITU-T H.264, 7.4.1.2.3 and .4, as far as libavcodec's parser implements it."""
    kind = header & 31
    if ((kind >= 2) & (kind <= 4)).any():
        raise OddStreamError("is cut into data partitions")
    is_slice = (kind == 1) | (kind == H264_IDR)
    slices = is_slice.nonzero()[0]
    relevant = (is_slice | (kind >= 6) & (kind <= 9)).nonzero()[0]
    is_picture = is_slice[relevant]
    bits = _windows(piece, position[slices] + 4)
    longest = np.where(bits >> np.uint64(63) == 1, 1, _LONGEST_FIRST_BLOCK)
    if (following(position, piece.end)[slices] - position[slices] < 4 + longest).any():
        raise OddStreamError("has slices without a header")
    first_block, bits = read_ue(bits)
    opens = np.ones(len(relevant), np.bool_)
    opens[is_picture] = first_block <= led_by(0, first_block[:-1])[: len(first_block)]
    cut = _borders(is_picture, opens)
    start, mark = _starts(piece, begin, position[relevant[cut]])
    units, first, unit = _with_pictures(start, mark, position[slices])
    slice_type, bits = read_ue(bits[first])
    _, bits = read_ue(bits)
    units.key[unit] = units.restarts[unit] = kind[slices[first]] == H264_IDR
    units.anchor[unit] = header[slices[first]] & 0x60 != 0
    units.disposable[unit] = np.where(units.anchor[unit], DISPOSABLE_NO, DISPOSABLE_YES)
    units.slice_bits[unit] = bits
    # A recovery point at which decoding can start has only intra slices.
    intra = unit[~units.key[unit] & (slice_type % 5 == 2)]
    heads = piece.cut(start[intra], units.picture[intra] + 5)
    units.key[intra] = [is_random_access("h264", b"", head) for head in heads]
    headers = _cut_headers(piece, position, (kind == 7) | (kind == 8))
    return units._replace(headers=headers, turned=_first_is_turned(piece, position, kind == 6, start, 1))


def _cut_hevc(piece: Piece, begin: int, position: Positions, header: npt.NDArray[np.uint8]) -> AccessUnits:
    """Cut units as in ITU-T H.265, 7.4.2.4.4. Only the base layer counts."""
    second = piece.bytes_at(position + 4)
    is_end = ((header >> 1 == 36) | (header >> 1 == 37)) & (position + 5 <= piece.end)
    ends = position[is_end]  # libavcodec heeds them in all layers
    base = ((header & 1) == 0) & (second >> 3 == 0) & (position + 6 <= piece.end)
    if (header[~base] >> 1 == 33).any():
        raise OddStreamError("has sequence parameter sets of other layers, which may replace those of the base layer")
    position, header, second = position[base], header[base], second[base]
    kind = header >> 1 & 63
    is_slice = (kind <= 9) | (kind >= 16) & (kind <= 21)
    first_slice = is_slice.copy()
    first_slice[is_slice] = piece.bytes_at(position[is_slice] + 5) & 0x80 != 0
    opener = (kind >= 32) & (kind <= 37) | (kind == 39) | (kind >= 41) & (kind <= 44) | (kind >= 48) & (kind <= 55)
    relevant = (first_slice | opener).nonzero()[0]
    cut = _borders(first_slice[relevant], np.ones(len(relevant), np.bool_))
    start, mark = _starts(piece, begin, position[relevant[cut]])
    slices = is_slice.nonzero()[0]
    units, first, unit = _with_pictures(start, mark, position[slices])
    kinds = hevc_kinds(kind[slices[first]], second[slices[first]])
    units.key[unit], units.restarts[unit], is_disposable, units.anchor[unit] = kinds
    units.disposable[unit] = np.where(is_disposable, DISPOSABLE_YES, DISPOSABLE_NO)
    units.slice_bits[unit] = skip_hevc_head(_windows(piece, units.picture[unit] + 5), units.key[unit])
    headers = _cut_headers(piece, position, (kind >= 32) & (kind <= 34))
    marks = np.union1d(ends, position[(kind >= 16) & (kind <= 18)])
    headers.update(zip(marks.tolist(), piece.cut(marks, marks + 5), strict=True))
    return units._replace(headers=headers, turned=_first_is_turned(piece, position, kind == 39, start, 2))


def _cut_mpeg2(piece: Piece, begin: int, position: Positions, code: npt.NDArray[np.uint8]) -> AccessUnits:
    """Cut units by ISO/IEC 13818-2, 6.2 (start codes), 6.2.3 (picture header), 6.2.3.1 (picture coding extension)."""
    is_slice = (code >= 0x01) & (code <= 0xAF)
    is_end = code == 0xB7
    cut = _borders(is_slice, ~is_slice & ~is_end)
    after_end = position[is_end] + 4
    mark = np.sort(np.concatenate((position[cut], after_end[after_end < piece.end])))
    extensions = (code == 0xB5).nonzero()[0]
    coding = extensions[piece.bytes_at(position[extensions] + 4) >> 4 == 8]  # picture coding extensions
    structure = np.full(len(code), -1)
    structure[coding] = piece.bytes_at(position[coding] + 6) & 3
    start = led_by(begin, mark)
    if (structure[coding] != 3).any():
        start = np.array([begin, *_cut_fields(position, code, structure, piece.end)])
    units, _, unit = _with_pictures(start, start, position[code == 0])
    coding_type = piece.bytes_at(units.picture[unit] + 5) >> 3 & 7
    units.key[unit] = coding_type == 1
    units.anchor[unit] = coding_type != 3
    units.disposable[unit] = np.where(units.anchor[unit], DISPOSABLE_NO, DISPOSABLE_YES)
    sequence = position[code == 0xB3]
    rest = position[(code != 0xB3) & (code != 0xB5)]
    ends = np.append(rest, piece.end)[rest.searchsorted(sequence)]
    return units._replace(headers=dict(zip(sequence.tolist(), piece.cut(sequence, ends), strict=True)))


def _cut_fields(
    position: Positions, code: npt.NDArray[np.uint8], structure: npt.NDArray[np.int64], end: int
) -> list[int]:
    """Return the starts of units in a stream with field pictures, two of which make one unit.

    ``structure`` is that of each picture coding extension, and -1 at other start codes.
    """
    after_slice = (code[:-1] >= 0x01) & (code[:-1] <= 0xAF)
    repeated = np.append(False, after_slice & (code[1:] >= 0x01) & (code[1:] <= 0xAF))
    cuts: list[int] = []
    one_field = in_slices = False
    for at, value, picture in zip(*(each[~repeated].tolist() for each in (position, code, structure)), strict=True):
        if 0x01 <= value <= 0xAF:
            in_slices = not one_field
            continue
        if value == 0xB7:
            one_field = in_slices = False
            if at + 4 < end:
                cuts.append(at + 4)
            continue
        if in_slices:
            cuts.append(at)
            in_slices = False
        if value == 0xB3:
            one_field = False
        elif picture >= 0:
            one_field = picture != 3 and not one_field
    return cuts


def _with_pictures(
    start: Positions, mark: Positions, position: Positions
) -> tuple[AccessUnits, npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Make units of which only the start and the picture are known; their other columns are then filled in.

    Returns:
        The units; and for each that has one of these positions, the index of its first one, which is its picture's, and
        the number of the unit.
    """
    unit = start.searchsorted(position, "right") - 1
    is_first = np.ones(len(unit), np.bool_)
    is_first[1:] = unit[1:] != unit[:-1]
    first = is_first.nonzero()[0]
    unit, count = unit[first], len(start)
    picture = np.full(count, -1)
    picture[unit] = position[first]
    units = AccessUnits(
        start,
        mark,
        picture,
        key=np.zeros(count, np.bool_),
        disposable=np.full(count, DISPOSABLE_UNKNOWN, np.uint8),
        restarts=np.zeros(count, np.bool_),
        anchor=np.zeros(count, np.bool_),
        slice_bits=np.zeros(count, np.uint64),
        headers={},
        turned=False,
    )
    return units, first, unit


def _cut_headers(piece: Piece, position: Positions, chosen: npt.NDArray[np.bool_]) -> dict[int, bytes]:
    number = chosen.nonzero()[0]
    start = position[number]
    return dict(zip(start.tolist(), piece.cut(start, following(position, piece.end)[number]), strict=True))


def _first_is_turned(
    piece: Piece, position: Positions, is_message: npt.NDArray[np.bool_], start: Positions, header_size: int
) -> bool:
    """Whether the first unit has a display orientation message (ITU-T H.264, D.1.27; ITU-T H.265, D.2.17)."""
    within = position.searchsorted(start[1]) if len(start) > 1 else len(position)
    number = is_message[:within].nonzero()[0]
    begins, ends = position[number] + 3 + header_size, following(position, piece.end)[number]
    return any(
        kind == _DISPLAY_ORIENTATION for message in piece.cut(begins, ends) for kind, _ in iterate_messages(message)
    )


def _windows(piece: Piece, position: Positions) -> npt.NDArray[np.uint64]:
    """Return the eight bytes from each position on, the first in the highest place, without emulation prevention."""
    return slice_bits_of(piece.windows(position, SLICE_WINDOW))
