"""Writes headers bit by bit."""

from __future__ import annotations


class BitWriter:
    """Collects bits, the most significant first."""

    def __init__(self) -> None:
        self._bits = ""

    def u(self, value: int, bits: int) -> BitWriter:
        self._bits += f"{value:0{bits}b}" if bits else ""
        return self

    def ue(self, value: int) -> BitWriter:
        code = f"{value + 1:b}"
        self._bits += "0" * (len(code) - 1) + code
        return self

    def raw(self, data: bytes) -> BitWriter:
        """Zeros up to the next byte, and whole bytes."""
        self._bits += "0" * (-len(self._bits) % 8) + "".join(f"{byte:08b}" for byte in data)
        return self

    def bytes(self) -> bytes:
        """The bits, followed by a one and zeros up to the next byte."""
        bits = self._bits + "1"
        bits += "0" * (-len(bits) % 8)
        return int(bits, 2).to_bytes(len(bits) // 8, "big")


def with_emulation_prevention(payload: bytes) -> bytes:
    """The payload as written in a NAL unit (ITU-T H.265, 7.4.2)."""
    escaped, zeros = bytearray(), 0
    for byte in payload:
        if zeros >= 2 and byte < 4:
            escaped.append(3)
            zeros = 0
        escaped.append(byte)
        zeros = zeros + 1 if byte == 0 else 0
    return bytes(escaped)
