"""Messages of SEI units: any that are written are read again."""

from hypothesis import given
from hypothesis import strategies as st

from videoloader.indexing.bitstream.nal import iterate_messages

messages = st.lists(st.tuples(st.integers(0, 700), st.binary(max_size=600)), min_size=1, max_size=5)


def number(value: int) -> bytes:
    return b"\xff" * (value // 255) + bytes([value % 255])


def guarded(payload: bytes) -> bytes:
    """With emulation prevention (ITU-T H.264, 7.4.1)."""
    out = bytearray()
    for byte in payload:
        if byte <= 3 and out[-2:] == b"\0\0":
            out.append(3)
        out.append(byte)
    return bytes(out)


@given(messages)
def test_messages_come_back(written):
    unit = guarded(b"".join(number(kind) + number(len(payload)) + payload for kind, payload in written) + b"\x80")
    assert list(iterate_messages(unit)) == written


@given(st.binary(max_size=60))
def test_any_bytes_end(sei):
    assert sum(len(payload) for _, payload in iterate_messages(sei)) <= len(sei)
