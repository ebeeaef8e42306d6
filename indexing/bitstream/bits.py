"""Read the headers of H.26x, MPEG and AV1 bit by bit."""

from __future__ import annotations

# All bytes with their bits reversed: zlib's checksums begin with the lowest bit, those of videos with the highest.
TURNED_BYTES = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))


class BitReader:
    """Reads the bits of a NAL unit, the most significant first, and Exp-Golomb codes (ITU-T H.264, 9.1).

    Args:
        payload: bytes of the unit, with emulation prevention: the third byte of each 0 0 3 is skipped (7.3.1).

    Attributes:
        left: number of bits that have not been read.
    """

    def __init__(self, payload: bytes) -> None:
        # No real header is longer, and a malicious one would take hours.
        data = payload[:4096].replace(b"\0\0\3", b"\0\0")
        self._value = int.from_bytes(data, "big")
        self.left = len(data) * 8

    @classmethod
    def raw(cls, payload: bytes) -> BitReader:
        """Make a reader for codecs without emulation prevention, which reads all bytes."""
        reader = cls(b"")
        reader._value, reader.left = int.from_bytes(payload, "big"), len(payload) * 8
        return reader

    def u(self, bits: int) -> int:
        self.left -= bits
        if self.left < 0:
            raise ValueError("a header ends too early")
        return self._value >> self.left & ((1 << bits) - 1)

    def ue(self) -> int:
        rest = self._value & ((1 << self.left) - 1)
        zeros = self.left - rest.bit_length()
        # The zeros, a one, and as many bits as there were zeros, which together are the number plus one.
        return self.u(2 * zeros + 1) - 1

    def se(self) -> int:
        value = self.ue()
        return (value + 1) // 2 if value & 1 else -(value // 2)
