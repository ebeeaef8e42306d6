"""The order in which the pictures of a stream are shown, where its container does not tell."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt


class PacketHeads(Protocol):
    """The packets of a stream, in decode order, as far as headers are to be read from them.

    Attributes:
        size: int64[P], bytes.
        rows: uint8[P, H], the first bytes of each packet, H a multiple of 8; what stands behind the end of a
            shorter one means nothing.
    """

    @property
    def size(self) -> npt.NDArray[np.int64]: ...

    @property
    def rows(self) -> npt.NDArray[np.uint8]: ...

    def __iter__(self) -> Iterator[bytes]:
        """The first bytes of each packet: all of a short one."""
        ...

    def wholes(self) -> Iterator[bytes]:
        """All of each packet."""
        ...

    def start(self, number: int, most: int) -> bytes:
        """The first bytes of one packet, so many at most."""
        ...

    def whole(self, number: int) -> bytes:
        """All of one packet."""
        ...


class PictureOrder(NamedTuple):
    """The pictures that a decoder makes of the packets of a stream.

    Attributes:
        frames: int64[N], packet number of each frame, in display order.
        keys: bool[P], whether decoding can start at each packet.
        late: bool[P], whether a packet's picture is shown only when the next such picture is decoded.
        packed: whether packets carry parts of the frames of others.
    """

    frames: npt.NDArray[np.int64]
    keys: npt.NDArray[np.bool_]
    late: npt.NDArray[np.bool_]
    packed: bool = False


def alike(
    rows: npt.NDArray[np.uint8], one: int, compared: npt.NDArray[np.bool_], others: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """The packets that begin with the same bytes as one of them.

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
