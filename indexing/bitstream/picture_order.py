"""Describe the order in which a stream's pictures are shown, for containers that do not tell."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt


class PacketHeads(Protocol):
    """The packets of a stream in decode order, for reading headers.

    Attributes:
        size: int64[P], bytes.
        rows: uint8[P, H], first bytes of each packet, H a multiple of 8; bytes after the end of a shorter packet have
            no meaning.
    """

    @property
    def size(self) -> npt.NDArray[np.int64]: ...

    @property
    def rows(self) -> npt.NDArray[np.uint8]: ...

    def __iter__(self) -> Iterator[bytes]:
        """Yield the first bytes of each packet, or all of a short one."""
        ...

    def wholes(self) -> Iterator[bytes]:
        """Yield all bytes of each packet."""
        ...

    def start(self, number: int, most: int) -> bytes:
        """Return at most this many of the first bytes of one packet."""
        ...


class PictureOrder(NamedTuple):
    """The pictures that a decoder makes of the packets of a stream.

    Attributes:
        frames: int64[N], packet of each frame, in display order.
        keys: bool[P], whether decoding can start at each packet.
        late: bool[P], whether a packet's picture is shown only when the next such picture is decoded.
        packed: whether packets contain parts of other packets' frames.
    """

    frames: npt.NDArray[np.int64]
    keys: npt.NDArray[np.bool_]
    late: npt.NDArray[np.bool_]
    packed: bool = False


def alike(
    rows: npt.NDArray[np.uint8], one: int, compared: npt.NDArray[np.bool_], others: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Return the packets that begin with the same bytes as one of them.

    Args:
        rows: as in PacketHeads.
        one: number of the packet.
        compared: bool[H], which bytes must be the same.
        others: numbers of packets.
    """
    words = rows.view(np.uint64)
    mask = (compared * np.uint8(255)).view(np.uint64)
    for place in mask.nonzero()[0].tolist():
        others = others[(words[others, place] ^ words[one, place]) & mask[place] == 0]
    return others
