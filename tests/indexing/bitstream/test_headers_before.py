"""What decoders of MPEG-1, 2 and 4 keep of the headers in earlier packets."""

from __future__ import annotations

from videoloader.indexing.bitstream.headers_before import HeadersBefore, split_headers

USER_DATA = b"\0\0\1\xb2"
LAYER, OTHER = (b"\0\0\1\xb0\1\0\0\1\xb5\x89\0\0\1\0\0\0\1\x20" + bytes([number, 7]) for number in (1, 2))
LAVC, XVID, DIVX = (USER_DATA + note for note in (b"Lavc61.1", b"XviD0050", b"DivX503b1393p"))


def test_headers_are_split_into_the_first_layer_and_notes() -> None:
    headers = LAYER + USER_DATA + b"camera 3" + LAVC + b"\0" + OTHER + DIVX
    assert split_headers(headers) == (LAYER, (LAVC + DIVX,))
    assert split_headers(b"") == (b"", ())
    assert split_headers(LAVC) == (b"", (LAVC,))


def test_of_notes_of_one_kind_in_one_packet_the_last_counts() -> None:
    assert split_headers(LAYER + XVID + LAVC + USER_DATA + b"XviD0001").notes == (LAVC + USER_DATA + b"XviD0001",)


def test_a_record_that_is_made_is_split_again() -> None:
    for notes in ((), (LAVC,), (b"", XVID), (LAVC, XVID + DIVX, LAVC)):
        record = split_headers(LAYER)._replace(notes=notes).record()
        assert split_headers(record) == (LAYER, notes)


def test_nothing_is_lacking_while_all_headers_are_alike() -> None:
    before = HeadersBefore("mpeg4")
    assert before.lacking(LAYER + LAVC, b"") == [LAYER + LAVC]
    assert before.lacking(LAYER + LAVC, LAYER + LAVC) == []
    assert before.lacking(LAYER + LAVC, b"") == [LAYER + LAVC]


def test_keyframes_without_headers_lack_the_last_ones() -> None:
    before = HeadersBefore("mpeg4")
    before.lacking(LAYER + LAVC, b"")
    assert before.lacking(LAYER + LAVC, OTHER + LAVC) == []
    assert before.lacking(LAYER + LAVC, b"") == [OTHER + LAVC]


def test_all_notes_are_lacking_in_the_order_of_their_first_and_last_occurrence() -> None:
    before = HeadersBefore("mpeg4")
    for note in (LAVC, XVID, DIVX, XVID):
        lacking = before.lacking(LAYER, OTHER + note)
    assert [split_headers(record).notes for record in lacking] == [(LAVC, XVID, DIVX, LAVC, DIVX, XVID)]


def test_pictures_before_any_note_count_too() -> None:
    before = HeadersBefore("mpeg4")
    before.lacking(LAYER, b"")
    (record,) = before.lacking(LAYER, LAYER + XVID)
    assert split_headers(record).notes == (b"", XVID)


def test_a_note_in_the_record_counts_together_with_those_of_the_first_packet() -> None:
    before = HeadersBefore("mpeg4")
    assert before.lacking(LAYER + LAVC, LAYER + XVID) == []
    assert before.lacking(LAYER + LAVC, LAYER) == [LAYER + LAVC + XVID]


def test_a_file_of_thousands_of_notes_has_a_short_record() -> None:
    before = HeadersBefore("mpeg4")
    for number in range(5000):
        (record,) = before.lacking(LAYER, LAYER + USER_DATA + b"XviD%d" % number + b"x" * 4000) or [b""]
    assert len(record) < 64 * 2 * 300


def test_keyframes_of_mpeg_2_without_headers_lack_the_last_ones() -> None:
    before = HeadersBefore("mpeg2video")
    assert before.lacking(b"record", b"") == []
    assert before.lacking(b"record", b"one") == []
    assert before.lacking(b"record", b"other") == []
    assert before.lacking(b"record", b"") == [b"other"]
