"""Bit by bit through the headers of H.26x, MPEG and AV1."""

from __future__ import annotations


class BitReader:
    """Reads a raw byte sequence payload, emulation prevention removed (ITU-T H.264, 7.3.1 and 9.1)."""

    def __init__(self, payload: bytes) -> None:
        data = payload[:4096].replace(b"\0\0\3", b"\0\0")  # no real one is longer, and a wild one would take hours
        self._value = int.from_bytes(data, "big")
        self._left = len(data) * 8

    @classmethod
    def raw(cls, payload: bytes) -> BitReader:
        """Reads the bytes as they are, for codecs without emulation prevention."""
        reader = cls(b"")
        reader._value, reader._left = int.from_bytes(payload, "big"), len(payload) * 8
        return reader

    def u(self, bits: int) -> int:
        self._left -= bits
        if self._left < 0:
            raise ValueError("a parameter set ends too early")
        return self._value >> self._left & ((1 << bits) - 1)

    def ue(self) -> int:
        zeros = 0
        while not self.u(1):
            zeros += 1
        return (1 << zeros) - 1 + self.u(zeros)

    def se(self) -> int:
        value = self.ue()
        return (value + 1) // 2 if value & 1 else -(value // 2)
