"""Read the headers of simple blocks that lie close together (RFC 9559, 10) all at once."""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt

from videoloader.indexing.matroska.ebml import VINT_LENGTH, VINT_MASK, MalformedError

SIMPLE_BLOCK = 0xA3
KEYFRAME, LACING = 0x80, 0x06
# Bytes of each frame that are kept.
FRAME_HEAD = 16
_LONGEST_SIZE = 4
# The longest header that is handled here, with the first bytes of the frame.
_LONGEST = 1 + _LONGEST_SIZE + 4 + FRAME_HEAD
_OTHER, _WANTED = 1, 2
_HEADER = 4  # track, time and flags
# By the first byte of a size: how many bytes it has, and how to extract it from the four that begin with it.
_LENGTH = np.frombuffer(VINT_LENGTH, np.uint8).astype(np.int64)
_SHIFT = np.array([8 * max(_LONGEST_SIZE - length, 0) for length in VINT_LENGTH], np.uint32)
_MASK = np.array([VINT_MASK[length] if length <= _LONGEST_SIZE else 0 for length in VINT_LENGTH], np.uint32)
# The head of a cluster as writers make it, up to its first simple block: id and size, perhaps a checksum; Timestamp;
# Position and PrevSize.
_SIZE = b"|".join(b"[\\x%02x-\\x%02x].{%d}" % (0x80 >> n, 0xFF >> n, n) for n in range(8))
_PAYLOAD = b"|".join(b"\\x%02x.{%d}" % (0x80 | n, n) for n in range(1, 8))
_CLUSTER_HEAD = re.compile(
    rb"\x1f\x43\xb6\x75(%b)(?:\xbf\x84.{4})?\xe7(%b)(?:[\xa7\xab](?:%b)){0,3}(?=\xa3)" % (_SIZE, _PAYLOAD, _PAYLOAD),
    re.DOTALL,
)


def track_kinds(wanted: int, tracks: set[int]) -> npt.NDArray[np.uint8]:
    """Return by a block's first byte whether its track is the wanted one or another; 0 if neither: uint8[256].

    Only track numbers of one byte are recognised.
    """
    kinds = np.zeros(256, np.uint8)
    kinds[[0x80 | number for number in tracks if number < 0x80]] = _OTHER
    if wanted < 0x80:
        kinds[0x80 | wanted] = _WANTED
    return kinds


class DenseBlocks:
    """The positions in a buffer where simple blocks may begin, and which of them turned out to.

    Blocks that need more care (with laces, without a frame, of unknown tracks, with long sizes) do not count.

    Args:
        data: the buffer.
        base: its position in the file.
        first: position in the buffer from which to look for blocks.
        kinds: result of ``track_kinds``.
    """

    def __init__(self, data: bytes, base: int, first: int, kinds: npt.NDArray[np.uint8]) -> None:
        self.data = data
        self._base, self._octets = base, np.frombuffer(data, np.uint8)
        start = (self._octets[first:-_LONGEST] == SIMPLE_BLOCK).nonzero()[0] + first
        size_byte = self._octets[start + 1]
        body = start + 1 + _LENGTH[size_byte]
        kind = kinds[self._octets[body]]
        words = np.ndarray(len(data) - 3, ">u4", data, strides=(1,))
        stop = body + (words[start + 1] >> _SHIFT[size_byte] & _MASK[size_byte])
        wanted = (kind == _WANTED) & (stop > body + _HEADER) & (self._octets[body + 3] & LACING == 0)
        # Nearly all positions that only look like blocks are excluded here.
        plain = (wanted | (kind == _OTHER) & (_MASK[size_byte] > 0)).nonzero()[0]
        start, self._body, self._stop, self._wanted = start[plain], body[plain], stop[plain], wanted[plain]
        self._cluster_time = np.full(len(plain), -1, np.int64)
        # A run of blocks ends at a block whose end is not the start of the next.
        last = np.append((self._stop[:-1] != start[1:]).nonzero()[0], len(plain) - 1) if len(plain) else plain
        after = last + 1
        before = np.append(0, after)[:-1]
        runs = zip(before.tolist(), after.tolist(), self._stop[last].tolist(), strict=True)
        self._runs = dict(zip(start[before[: len(last)]].tolist(), runs, strict=True))

    def take(self, at: int, limit: int, cluster_time: int) -> int:
        """Take the runs of blocks that follow each other from ``at`` to ``limit``; return where the last one ends."""
        while at in self._runs:
            number, after, stop = self._runs[at]
            if stop > limit:
                break
            self._cluster_time[number:after] = cluster_time
            at = stop
        return at

    def take_clusters(self, at: int, limit: int) -> int:
        """Take the clusters that follow each other from ``at`` to ``limit`` and have only such blocks.

        Returns:
            Where the last cluster taken ends.
        """
        while head := _CLUSTER_HEAD.match(self.data, at):
            mask = VINT_MASK[len(head[1])]
            size = int.from_bytes(head[1], "big") & mask
            number, after, stop = self._runs.get(head.end(), (0, 0, -1))
            if size == mask or stop != head.end(1) + size or stop > limit:
                break  # of unknown size, or with other blocks
            self._cluster_time[number:after] = int.from_bytes(head[2][1:], "big")
            at = stop
        return at

    def columns(self) -> npt.NDArray[np.int64]:
        """Return the columns of ``Packets`` for the blocks taken of the wanted track: int64[6, n].

        Raises:
            MalformedError: a block has a time before zero.
        """
        taken = (self._wanted & (self._cluster_time >= 0)).nonzero()[0]
        body = self._body[taken]
        frame = body + _HEADER
        times = np.ndarray(len(self.data) - 1, ">i2", self.data, strides=(1,))
        columns = np.empty((6, len(taken)), np.int64)
        columns[0] = frame + self._base
        columns[1] = self._stop[taken] - frame
        columns[2] = self._cluster_time[taken] + times[body + 1]
        columns[3] = self._octets[body + 3] >= KEYFRAME
        words = np.ndarray(len(self.data) - 7, ">i8", self.data, strides=(1,))
        columns[4], columns[5] = words[frame], words[frame + 8]
        if (columns[2] < 0).any():
            raise MalformedError(f"a block after byte {self._base} has the timestamp {columns[2].min()}")
        return columns
