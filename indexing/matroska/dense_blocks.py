"""Simple blocks that lie close together (RFC 9559, 10): all headers in a buffer are read at once, then followed."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

import numpy as np
import numpy.typing as npt

from videoloader.indexing.matroska.ebml import VINT_LENGTH, VINT_MASK, MalformedError

SIMPLE_BLOCK = 0xA3
KEYFRAME, LACING = 0x80, 0x06
# Of a header whose size has the most bytes that are taken here, with the first byte of the frame.
_LONGEST = 16
_LONGEST_SIZE = 4
_OTHER, _WANTED = 1, 2
_HEADER = 4  # track, time and flags
# By the first byte of a size: how many bytes it has, and how to cut it out of the four that begin with it.
_LENGTH = np.frombuffer(VINT_LENGTH, np.uint8).astype(np.int64)
_SHIFT = np.array([8 * max(_LONGEST_SIZE - length, 0) for length in VINT_LENGTH], np.int64)
_MASK = np.array([VINT_MASK[length] if length <= _LONGEST_SIZE else 0 for length in VINT_LENGTH], np.int64)


def track_kinds(wanted: int, tracks: set[int]) -> npt.NDArray[np.uint8]:
    """uint8[256]: by the first byte of a block, whether it is of the wanted track or of another; 0 where it is neither.

    Only track numbers of one byte are told.
    """
    kinds = np.zeros(256, np.uint8)
    kinds[[0x80 | number for number in tracks if number < 0x80]] = _OTHER
    if wanted < 0x80:
        kinds[0x80 | wanted] = _WANTED
    return kinds


class DenseBlocks:
    """The places in a buffer that may begin a simple block, and which of them were found to.

    Blocks that need a second look (of laces, without a frame, of tracks that are not there, with long sizes) are none.

    Args:
        data: the buffer.
        base: its position in the file.
        kinds: as of ``track_kinds``.
    """

    def __init__(self, data: bytes, base: int, kinds: npt.NDArray[np.uint8]) -> None:
        self.data = data
        self._base, self._octets = base, np.frombuffer(data, np.uint8)
        start = np.flatnonzero(self._octets[:-_LONGEST] == SIMPLE_BLOCK)
        first = self._octets[start + 1]
        body = start + 1 + _LENGTH[first]
        kind = kinds[self._octets[body]]
        # Of places that only look like a block nearly all end here.
        likely = np.flatnonzero((kind > 0) & (_MASK[first] > 0))
        start, first, body, kind = start[likely], first[likely], body[likely], kind[likely]
        words = np.ndarray(len(data) - 3, ">u4", data, strides=(1,))
        stop = body + (words[start + 1].astype(np.int64) >> _SHIFT[first] & _MASK[first])
        one_frame = (stop > body + _HEADER) & (self._octets[body + 3] & LACING == 0)
        plain = np.flatnonzero((kind == _OTHER) | one_frame)
        self._body, self._stop, self._wanted = body[plain], stop[plain], kind[plain] == _WANTED
        self._cluster_time = np.full(len(plain), -1, np.int64)
        self._starts, self._stops = start[plain].tolist(), self._stop.tolist()
        # Where one does not end where the next begins, a run of them does.
        self._run_stops = [*(np.flatnonzero(self._stop[:-1] != start[plain][1:]) + 1).tolist(), len(plain)]

    def take(self, at: int, limit: int, cluster_time: int) -> int:
        """Take the blocks that follow each other from ``at`` to ``limit``; where the last one taken ends."""
        number = bisect_left(self._starts, at)
        while number < len(self._starts) and self._starts[number] == at:
            after_run = self._run_stops[bisect_right(self._run_stops, number)]
            after = bisect_right(self._stops, limit, number, after_run)
            if after == number:
                break
            self._cluster_time[number:after] = cluster_time
            at = self._stops[after - 1]
            number = bisect_left(self._starts, at, after)
        return at

    def rows(self) -> npt.NDArray[np.int64]:
        """int64[n, 5]: the columns of ``Packets`` of the wanted track's blocks that were taken.

        Raises:
            MalformedError: one lies before time zero.
        """
        taken = np.flatnonzero(self._wanted & (self._cluster_time >= 0))
        body = self._body[taken]
        frame = body + _HEADER
        times = np.ndarray(len(self.data) - 1, ">i2", self.data, strides=(1,))
        pts = self._cluster_time[taken] + times[body + 1]
        if (pts < 0).any():
            raise MalformedError(f"a block after byte {self._base} has the timestamp {pts.min()}")
        key = self._octets[body + 3] >= KEYFRAME
        rows: npt.NDArray[np.int64] = np.stack(
            [frame + self._base, self._stop[taken] - frame, pts, key, self._octets[frame]], axis=1, dtype=np.int64
        )
        return rows
