"""In which order the pictures of a stream are shown, where its container does not tell."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol


class PacketHeads(Protocol):
    """The packets of a stream, in decode order, as far as headers are to be read from them."""

    sizes: list[int]

    def __iter__(self) -> Iterator[bytes]:
        """The first bytes of each packet: all of a short one."""
        ...

    def whole(self, number: int) -> bytes:
        """All of one packet."""
        ...


class PictureOrder(NamedTuple):
    """What a decoder makes of the packets of a stream.

    Attributes:
        frames: packet number of each frame, in display order.
        keys: for each packet, whether decoding can start there.
        late: for each packet, whether its picture is shown only when the next such picture is decoded.
        packed: whether packets carry parts of the frames of others.
    """

    frames: list[int]
    keys: list[bool]
    late: list[bool]
    packed: bool = False


def hold_references(references: list[bool], late: bool) -> list[int]:
    """Packet numbers in display order where B pictures are shown at once and all others one reference later.

    Args:
        references: for each packet, whether its picture is not a B picture.
        late: whether references are shown late at all.
    """
    if not late:
        return list(range(len(references)))
    frames: list[int] = []
    held = None
    for number, reference in enumerate(references):
        if not reference:
            frames.append(number)
            continue
        if held is not None:
            frames.append(held)
        held = number
    return frames if held is None else [*frames, held]
