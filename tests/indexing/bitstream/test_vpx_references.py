"""What VP8 and VP9 frames need, told by headers made by hand."""

from __future__ import annotations

from bit_writing import BitWriter

from videoloader.indexing.bitstream.references import ReferenceClosure
from videoloader.indexing.bitstream.vp9 import split_superframe

KEY = b"\x82\x49\x83\x42" + bytes(8)


def inter(refreshes: int, named: tuple[int, int, int], *, resilient: int) -> bytes:
    """A VP9 frame that is shown (VP9 bitstream specification, 6.2)."""
    bits = BitWriter().u(2, 2).u(0, 3).u(1, 1).u(1, 1).u(resilient, 1).u(0, 0 if resilient else 2).u(refreshes, 8)
    for slot in named:
        bits.u(slot, 3).u(0, 1)
    return bits.bytes() + bytes(4)


def intra_only(refreshes: int, *, resilient: int, profile: int = 0) -> bytes:
    """A hidden VP9 frame that names no reference."""
    bits = BitWriter().u(2, 2).u(profile & 1, 1).u(profile >> 1, 1).u(0, int(profile == 3)).u(0, 1).u(1, 1).u(0, 1)
    bits.u(resilient, 1).u(1, 1).u(0, 0 if resilient else 2).u(0x498342, 24)
    if profile:
        bits.u(0, int(profile >= 2)).u(1, 3).u(0, 1).u(0, 3 * (profile & 1))
    return bits.u(refreshes, 8).bytes() + bytes(4)


def existing(slot: int) -> bytes:
    return BitWriter().u(2, 2).u(0, 2).u(1, 1).u(slot, 3).bytes()


def superframe(*frames: bytes) -> bytes:
    marker = bytes([0xC8 | len(frames) - 1])
    return b"".join(frames) + marker + b"".join(len(frame).to_bytes(2, "little") for frame in frames) + marker


def kept(packets: list[bytes], wanted: set[int]) -> set[int]:
    asked = [number in wanted for number in range(len(packets))]
    needed = ReferenceClosure("vp9", b"").needed(packets, asked, more_follow=False)
    return {number for number, each in enumerate(needed) if each}


def test_resilient_frames_need_their_references_alone() -> None:
    packets = [
        KEY,
        inter(1, (0, 0, 0), resilient=1),
        inter(2, (7, 7, 7), resilient=1),
        inter(4, (0, 0, 0), resilient=1),
    ]
    assert kept(packets, {3}) == {0, 1, 3}
    assert kept(packets, {2}) == {0, 2}


def test_other_frames_need_all_since_the_key_frame() -> None:
    packets = [
        KEY,
        inter(0, (0, 0, 0), resilient=1),
        inter(0, (0, 0, 0), resilient=0),
        inter(0, (0, 0, 0), resilient=0),
    ]
    assert kept(packets, {3}) == {0, 1, 2, 3}
    assert kept([*packets, KEY, inter(0, (0, 0, 0), resilient=0)], {5}) == {0, 4, 5}


def test_frames_shown_again_need_the_packet_that_holds_them() -> None:
    hidden = superframe(intra_only(2, resilient=1), inter(0, (0, 0, 0), resilient=1))
    packets = [KEY, inter(1, (0, 0, 0), resilient=1), hidden, existing(1), existing(0), existing(7)]
    assert kept(packets, {3}) == {0, 1, 2, 3}  # the frame shown with the hidden one needs the one before
    assert kept(packets, {4}) == {0, 1, 4}
    assert kept(packets, {5}) == {0, 5}


def test_intra_frames_of_all_profiles_name_what_they_replace() -> None:
    for profile in range(4):
        hidden = intra_only(1 << 6, resilient=1, profile=profile)
        packets = [KEY, hidden, inter(0, (6, 6, 6), resilient=1), inter(0, (5, 5, 5), resilient=1)]
        assert kept(packets, {2}) == {0, 1, 2}
        assert kept(packets, {3}) == {0, 3}


def test_two_shown_frames_in_a_packet_keep_all() -> None:
    plain, hidden = inter(0, (0, 0, 0), resilient=1), intra_only(1, resilient=1)
    for pair in ((plain, plain), (plain, existing(0)), (hidden, plain, plain)):
        assert kept([KEY, plain, superframe(*pair), plain, inter(2, (1, 1, 1), resilient=1)], {4}) == {*range(5)}
    assert kept([KEY, plain, superframe(hidden, plain), plain, inter(2, (1, 1, 1), resilient=1)], {4}) == {0, 4}


def test_the_frames_of_a_superframe() -> None:
    frames = KEY, inter(0, (0, 0, 0), resilient=1), existing(0)
    payload = superframe(*frames)
    assert [payload[start:stop] for start, stop in split_superframe(payload)] == list(frames)
    assert split_superframe(KEY) == [(0, len(KEY))]
    assert split_superframe(b"") == []
    assert split_superframe(b"\xc9") == [(0, 1)]
