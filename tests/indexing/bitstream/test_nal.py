"""Where the NAL units of a packet begin and end."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from videoloader.indexing.bitstream.nal import iterate_nals

PREFIX = b"\x6e\xc0\x80\x0f"  # nal_unit_type 14 of H.264
units = st.binary(min_size=1, max_size=40).filter(lambda unit: b"\0\0\1" not in unit and unit[0] & 31 != 14)


def found(payload: bytes, length_size: int) -> list[bytes]:
    return [payload[start:stop] for start, stop in iterate_nals(payload, length_size)]


@given(st.lists(units, max_size=5), st.sampled_from([1, 2, 3, 4]))
def test_units_with_lengths(parts: list[bytes], size: int) -> None:
    payload = b"".join(len(part).to_bytes(size, "big") + part for part in parts)
    assert found(payload, size) == parts
    assert found(payload[:-1], size) == [*parts[:-1], *(part[:-1] for part in parts[-1:] if len(part) > 1)]


def test_units_with_start_codes() -> None:
    assert found(b"\0\0\0\1\x67abc\0\0\1\x65d", 0) == [b"\x67abc", b"\x65d"]


def test_units_within_a_prefix_unit() -> None:
    """Their length may look like a start code: 0x105 bytes."""
    slice_ = b"\x41" + bytes([7]) * (0x105 - len(PREFIX) - 5)
    within = PREFIX + b"\0\0\0\1" + slice_
    payload = len(within).to_bytes(4, "big") + within
    assert payload[:4] == b"\0\0\1\5"
    assert found(payload, 4) == [within, slice_]
