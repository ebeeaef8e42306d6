"""What libavformat would do to open a Matroska file is counted before it does it."""

from __future__ import annotations

import contextlib
import functools
import io
import random
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import av.stream
import PIL.Image
import pytest
from matroska_writing import (
    ATTACHMENTS,
    CLUSTER,
    CUES,
    SEEK_HEAD,
    SEGMENT,
    SIMPLE_BLOCK,
    TAGS,
    TIMESTAMP,
    TRACK_ENTRY,
    TRACKS,
    VOID,
    block,
    element,
    header,
    info,
    matroska,
    real,
    track,
    uint,
)

from videoloader import IndexingError, UnsupportedError, Video, build_index
from videoloader.indexing import FileSource, MemorySource
from videoloader.indexing.demuxer import demuxed, open_demuxer
from videoloader.indexing.matroska.opening import _MOST_STEPS, OpeningWork
from videoloader.indexing.video_stream import open_video

TAG, SIMPLE_TAG, NAME, TEXT, TARGETS, TRACK_TARGET = 0x7373, 0x67C8, 0x45A3, 0x4487, 0x63C0, 0x63C5
TARGET_TYPE, LANGUAGE = 0x63CA, 0x447A
CHAPTERS, EDITION, CHAPTER, CHAPTER_UID, START = 0x1043A770, 0x45B9, 0xB6, 0x73C4, 0x91
TRACK_UID, OPERATION, COMBINED, PLANE = 0x73C5, 0xE2, 0xE3, 0xE4
PRIVATE, ENCODINGS, ENCODING, SCOPE, COMPRESSION, ALGORITHM, ZLIB = 0x63A2, 0x6D80, 0x6240, 0x5032, 0x5034, 0x4254, 0
HEADER_STRIPPING, SETTINGS = 3, 0x4255
CUE, CUE_TIME, CUE_PLACE, CUE_TRACK, CUE_CLUSTER = 0xBB, 0xB3, 0xB7, 0xF7, 0xF1
SOUND, SOUND_RATE = 0xE1, 0xB5
SEEK, SEEK_ID, SEEK_POSITION = 0x4DBB, 0x53AB, 0x53AC
# The fewest that are refused, or a few more.
MANY_TAGS, MANY_CHAPTERS, MANY_PLANES, MANY_PACKED = 700, 17_000, 47_000, 9


@functools.cache
def picture() -> bytes:
    out = io.BytesIO()
    PIL.Image.new("RGB", (64, 48)).save(out, "JPEG")
    return out.getvalue()


def jpeg_track(number: int = 1, *parts: bytes) -> bytes:
    return track(number, "V_MJPEG", *parts)


def frames(*tracks: int, count: int = 1) -> bytes:
    blocks = [block(each, time, [picture()], flags=0x80) for time in range(count) for each in tracks or (1,)]
    return element(CLUSTER, uint(TIMESTAMP, 0), *(element(SIMPLE_BLOCK, each) for each in blocks))


def film(*before: bytes, tracks: tuple[bytes, ...] = ()) -> bytes:
    """A file of one picture, with elements before its cluster."""
    return matroska(*before, frames(), tracks=[jpeg_track(), *tracks])


def tag(number: int, *parts: bytes, start: bytes = b"") -> bytes:
    return element(SIMPLE_TAG, element(NAME, start + b"%x" % number), element(TEXT, b"x"), *parts)


def tags(count: int, *target: bytes) -> bytes:
    """As many groups of one tag."""
    return element(TAGS, *(element(TAG, *target, tag(number)) for number in range(count)))


def tags_in_tags() -> bytes:
    return film(element(TAGS, element(TAG, *(tag(number, tag(number)) for number in range(MANY_TAGS)))))


def empty_groups() -> bytes:
    names = element(TAG, *(tag(number) for number in range(100)))
    return film(element(TAGS, names, element(TAG) * 27_000))


def long_names() -> bytes:
    return film(element(TAGS, *(element(TAG, tag(number, start=b"x" * 1000)) for number in range(150))))


def long_types() -> bytes:
    return film(tags(150, element(TARGETS, element(TARGET_TYPE, b"x" * 1000))))


def long_names_around() -> bytes:
    return film(element(TAGS, element(TAG, tag(0, *(tag(number, tag(0)) for number in range(150)), start=b"x" * 1000))))


def languages() -> bytes:
    return film(element(TAGS, *(element(TAG, tag(0, element(LANGUAGE, b"%x" % number))) for number in range(600))))


def types() -> bytes:
    groups = (element(TAG, element(TARGETS, element(TARGET_TYPE, b"%x" % number)), tag(0)) for number in range(600))
    return film(element(TAGS, *groups))


def tracks_that_share_tags() -> bytes:
    same = [jpeg_track(number).replace(uint(TRACK_UID, number), uint(TRACK_UID, 100)) for number in range(2, 90)]
    return film(tags(150, element(TARGETS, uint(TRACK_TARGET, 100))), tracks=tuple(same))


def behind_a_seek_head() -> bytes:
    """Tags in padding, where only a seek head leads, after the place that it names for other tags."""

    def where(position: int) -> bytes:
        place = element(SEEK_POSITION, position.to_bytes(4, "big"))
        return element(SEEK_HEAD, element(SEEK, element(SEEK_ID, TAGS.to_bytes(4, "big")), place))

    first = info() + element(TRACKS, jpeg_track())
    hidden = element(VOID, tags(MANY_TAGS))
    position = len(where(0) + first) + len(hidden) - len(tags(MANY_TAGS))
    return header() + element(SEGMENT, where(position), first, hidden, frames())


def after_damage() -> bytes:
    return film(bytes(20), tags(MANY_TAGS))


def chapters() -> bytes:
    atoms = (element(CHAPTER, uint(CHAPTER_UID, number + 1), uint(START, number)) for number in range(MANY_CHAPTERS))
    return film(element(CHAPTERS, element(EDITION, *atoms)))


def planes() -> bytes:
    combined = element(OPERATION, element(COMBINED, element(PLANE) * MANY_PLANES))
    return film(tracks=(jpeg_track(2, combined), element(TRACK_ENTRY) * MANY_PLANES))


def packed_tracks(count: int = MANY_PACKED, scope: int = 3) -> bytes:
    compression = element(ENCODINGS, element(ENCODING, uint(SCOPE, scope), element(COMPRESSION, uint(ALGORITHM, ZLIB))))
    packed = element(PRIVATE, zlib.compress(bytes(1000)))
    return film(tracks=tuple(jpeg_track(2 + number, compression, packed) for number in range(count)))


@pytest.mark.parametrize(
    ("write", "what"),
    [
        (lambda: film(tags(MANY_TAGS)), "tags"),
        (tags_in_tags, "tags"),
        (empty_groups, "tags"),
        (long_names, "tags"),
        (long_types, "tags"),
        (long_names_around, "tags"),
        (languages, "tags"),
        (types, "tags"),
        (tracks_that_share_tags, "tags"),
        (behind_a_seek_head, "tags"),
        (after_damage, "tags"),
        (chapters, "chapters"),
        (planes, "planes of stereo tracks"),
        (packed_tracks, "tracks with compressed private data"),
    ],
)
def test_what_would_take_libavformat_too_long_is_refused(
    write: Callable[[], bytes], what: str, capfd: pytest.CaptureFixture[str]
) -> None:
    data = write()
    told = rf"has \d+ {what} or more, over which libavformat would take too long: remux its video alone \(e\.g\. `mkv"
    for door in (build_index, functools.partial(Video, device="cpu")):
        with pytest.raises(UnsupportedError, match=told):
            door(data)
    assert capfd.readouterr().err == ""  # PyAV prints an error that follows another one


def stripped(count: int) -> bytes:
    """A file each of whose frames begins with bytes that its track entry holds once."""
    whole = picture()
    begins = whole[:2] + b"\xff\xfe" + (count - 4).to_bytes(2, "big") + bytes(count - 6)  # a comment
    how = uint(ALGORITHM, HEADER_STRIPPING), element(SETTINGS, begins)
    encodings = element(ENCODINGS, element(ENCODING, element(COMPRESSION, *how)))
    blocks = [element(SIMPLE_BLOCK, block(1, time, [whole[2:]], flags=0x80)) for time in range(3)]
    return matroska(element(CLUSTER, uint(TIMESTAMP, 0), *blocks), tracks=[jpeg_track(1, encodings)])


def test_frames_may_begin_with_a_few_bytes_of_their_track() -> None:
    assert len(build_index(stripped(100))) == 3
    with pytest.raises(UnsupportedError, match=r"has 50\d\d bytes that say how frames are compressed, which may stand"):
        build_index(stripped(5000))


def test_more_than_a_usual_file_has_is_no_reason() -> None:
    count = 200
    groups = [
        element(TAG, element(TARGETS, uint(TRACK_TARGET, number)), *(tag(each) for each in range(10)))
        for number in range(1, count + 2)
    ]
    atoms = [element(CHAPTER, uint(CHAPTER_UID, number + 1), uint(START, number)) for number in range(1000)]
    others = tuple(track(number, "A_PCM/INT/LIT", kind=2) for number in range(2, count + 2))
    data = film(element(CHAPTERS, element(EDITION, *atoms)), element(TAGS, *groups), tracks=others)
    assert len(build_index(data)) == 1
    assert len(build_index(packed_tracks(3))) == 1
    assert len(build_index(packed_tracks(MANY_PACKED, scope=1))) == 1


def test_a_file_that_needs_no_libavformat_may_have_them(sample: Callable[[str], Path]) -> None:
    original = build_index(sample("vp8_webm"))
    source = MemorySource(sample("vp8_webm").read_bytes())
    columns = original.packet_offset, original.packet_size, original.packet_key
    rows = zip(*(column.tolist() for column in columns), strict=True)
    blocks = [
        element(SIMPLE_BLOCK, block(1, 40 * number, [source.read(offset, size)], flags=0x80 * key))
        for number, (offset, size, key) in enumerate(rows)
    ]
    data = matroska(tags(MANY_TAGS), element(CLUSTER, uint(TIMESTAMP, 0), *blocks), tracks=[track(1, "V_VP8")])
    video = Video(data, device="cpu")
    assert (len(video), video.index.method) == (60, "tables")
    assert (video[59] == Video(sample("vp8_webm"), device="cpu")[59]).all()


def found(data: bytes, cuts: list[int]) -> tuple[Counter[bytes], dict[bytes, int]]:
    work = OpeningWork("x")
    for start, stop in zip([0, *cuts], [*cuts, len(data)], strict=True):
        work.take(start, data[start:stop])
    return work._counts, {kind: values.total() for kind, values in work._values.items()}


def test_elements_count_wherever_reads_end(monkeypatch: pytest.MonkeyPatch) -> None:
    data = film(tags(40), tracks=(jpeg_track(2, element(OPERATION, element(COMBINED, element(PLANE) * 9))),))
    whole = found(data, [])
    assert whole[0] == {b"\x73\x73": 40, b"\xe4": 9, b"\xae": 3}  # one of them by chance
    assert whole[1][b"\x45\xa3"] == 40
    draw = random.Random(0)
    for piece in (1 << 16, 50):
        monkeypatch.setattr("videoloader.indexing.matroska.opening._PIECE", piece)
        for _ in range(100):
            assert found(data, sorted(draw.choices(range(len(data)), k=draw.randint(0, 20)))) == whole


def test_what_is_read_twice_is_in_nothing_else() -> None:
    data = film(tags(40))
    work = OpeningWork("x")
    for start in (0, 100, 0, 500, 9):
        work.take(start, data[start:])
    assert (work._nested, work._deepest) == (0, 1)


def test_frames_that_are_read_after_tags_at_the_end_do_not_count() -> None:
    last = tags(40)
    work = OpeningWork("x")
    work.take(1 << 20, last)
    before = found(last, [])
    work.take(1000, random.Random(0).randbytes(1 << 19))
    assert (work._counts, {kind: values.total() for kind, values in work._values.items()}) == before


def test_real_files_are_far_from_the_limit(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("videoloader.indexing.matroska.opening._MOST_STEPS", _MOST_STEPS // 100)
    opened = 0
    for path in sorted(corpus.rglob("*")):
        if path.suffix in (".mkv", ".webm"):
            with contextlib.suppress(IndexingError), open_demuxer(FileSource(path)):
                opened += 1
    assert opened > 10


def test_letters_that_look_like_elements_in_headers_of_subtitles() -> None:
    private = element(PRIVATE, b"Style: OP2,Arial,OP2 romaji" * 200 + "中文字幕、日本語".encode() * 2000)
    styled = tuple(track(number, "S_TEXT/ASS", private, kind=17) for number in range(2, 30))
    assert len(build_index(film(tracks=styled))) == 1


def test_the_same_bytes_elsewhere_do_not_count() -> None:
    names = element(NAME, b"x") * 20_000
    assert len(build_index(film(element(VOID, element(TAG, names)), element(ATTACHMENTS, element(VOID, names))))) == 1


def test_cues_are_not_sorted() -> None:
    place = element(CUE_PLACE, uint(CUE_TRACK, 1), uint(CUE_CLUSTER, 500))
    cues = element(CUES, *(element(CUE, uint(CUE_TIME, 1000 - number), place) for number in range(1000)))
    with open_video(MemorySource(film(cues))) as (_, stream):
        assert len(stream.index_entries) <= 1


def test_blocks_of_other_tracks_are_not_unpacked() -> None:
    rate = element(SOUND, real(SOUND_RATE, 8000))
    data = matroska(frames(1, 2, count=9), tracks=[jpeg_track(), track(2, "A_PCM/INT/LIT", rate, kind=2)])
    with open_video(MemorySource(data)) as (container, stream):
        assert sum(packet.size > 0 for packet in demuxed(container, stream)) == 9
        assert [each.discard for each in container.streams] == [av.stream.Discard.default, av.stream.Discard.all]
