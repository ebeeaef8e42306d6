"""Clusters and blocks: any legal writing of the same frames reads back; what does not fit is left to libavformat."""

from __future__ import annotations

from typing import NamedTuple

import av
import numpy as np
import pytest
from example_count import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from matroska_writing import (
    AV1,
    BLOCK,
    BLOCK_ADDITIONS,
    BLOCK_DURATION,
    BLOCK_GROUP,
    CLUSTER,
    CRC32,
    CUES,
    EBML_LACING,
    FIXED,
    NO_LACING,
    REFERENCE,
    SEGMENT,
    SIMPLE_BLOCK,
    TAGS,
    TIMESTAMP,
    TRACKS,
    VOID,
    XIPH,
    block,
    element,
    endless,
    header,
    info,
    matroska,
    track,
    uint,
    vint,
)

from videoloader.errors import IndexingError, VideoLoaderError
from videoloader.indexing import MemorySource
from videoloader.indexing.matroska.index import index_matroska

KEY = 0x80
FRAME_MS = 40
DEFAULT_DURATION = uint(0x23E383, FRAME_MS * 1_000_000)


def index(data: bytes):
    return index_matroska(MemorySource(data))


class Expected(NamedTuple):
    pts: int
    payload: bytes


class Written(NamedTuple):
    data: bytes
    frames: list[Expected]

    def __repr__(self) -> str:
        return f"Written({len(self.data)} bytes, {len(self.frames)} frames)"


size_lengths = st.sampled_from([0, 2, 4, 8])
fillings = st.one_of(
    st.just(b""),
    st.integers(0, 300).map(lambda size: element(VOID, bytes(size))),
    st.just(element(CRC32, b"abcd")),
    st.just(uint(0xAB, 77)),
    st.just(element(0xA7, b"\1\2")),
)
payloads = st.one_of(st.binary(min_size=1, max_size=20), st.integers(1, 5000).map(lambda size: b"\x5a" * size))


@st.composite
def blocks(draw, pts: int, cluster_time: int) -> tuple[bytes, Expected]:
    """A block of the video track, and its frame."""
    frame, as_group = draw(payloads), draw(st.booleans())
    duration = draw(st.integers(1, 500)) if as_group and draw(st.booleans()) else FRAME_MS
    body = block(1, pts - cluster_time, [frame], flags=0 if as_group else KEY)
    if as_group:
        parts = [element(BLOCK, body, size_length=draw(size_lengths)), uint(BLOCK_DURATION, duration)]
        parts += [
            element(BLOCK_ADDITIONS, element(VOID, bytes(draw(st.integers(0, 400))))),
            uint(REFERENCE, 1),
            b"\xec\x80",
        ]
        written = element(BLOCK_GROUP, *draw(st.permutations(parts)), size_length=draw(size_lengths))
    else:
        written = element(SIMPLE_BLOCK, body, size_length=draw(size_lengths))
    return written, Expected(pts, frame)


@st.composite
def files(draw) -> Written:
    clusters, frames, pts = [], [], draw(st.integers(0, 1 << 40))
    for _ in range(draw(st.integers(1, 4))):
        # Blocks count from their cluster's time, also backwards.
        cluster_time = max(pts + draw(st.integers(-300, 300)), 0)
        parts = [draw(fillings), uint(TIMESTAMP, cluster_time)]
        for _ in range(draw(st.integers(0, 5))):
            if pts - cluster_time > 30_000:
                break
            written, expected = draw(blocks(pts, cluster_time))
            pts += draw(st.integers(1, 50))
            laces = [([draw(payloads)], NO_LACING), ([b"a", b"bc"], EBML_LACING), ([b"ab", b"cd"], FIXED)]
            sound = element(SIMPLE_BLOCK, block(2, 0, *draw(st.sampled_from(laces)), flags=KEY))
            parts += [written, draw(st.sampled_from([b"", sound, sound * 3])), draw(fillings)]
            frames.append(expected)
        clusters.append(
            endless(CLUSTER, *parts, size_length=draw(st.sampled_from([1, 8])))
            if draw(st.booleans())
            else element(CLUSTER, *parts, size_length=draw(size_lengths))
        )
        clusters.append(
            draw(st.sampled_from([b"", element(CUES, bytes(50)), element(TAGS, b""), element(TAGS, b"\xec\x80")]))
        )
    tracks = element(TRACKS, track(1, *AV1, DEFAULT_DURATION), track(2, "A_OPUS", kind=2))
    segment = draw(st.sampled_from([element, endless]))
    return Written(header() + segment(SEGMENT, info(), tracks, *clusters), frames)


@settings(max_examples=examples(200))
@given(files())
def test_frames_read_back_from_every_kind_of_block_and_cluster(written):
    if not written.frames:
        with pytest.raises(IndexingError, match="<bytes>: the video track has no frames"):
            index(written.data)
        return
    found = index(written.data)
    ranges = zip(found.packet_offset.tolist(), found.packet_size.tolist(), strict=True)
    assert [written.data[at : at + size] for at, size in ranges] == [frame.payload for frame in written.frames]
    assert found.packet_pts.tolist() == [frame.pts for frame in written.frames]
    assert (found.container, found.method, found.byte_ranges) == ("matroska,webm", "tables", True)


@settings(max_examples=examples(40))
@given(files().filter(lambda written: written.frames))
def test_libavformat_finds_the_same_frames(tmp_path_factory, written):
    path = tmp_path_factory.getbasetemp() / "written.mkv"
    path.write_bytes(written.data)
    with av.open(str(path)) as container:
        packets = [(packet.pts, bytes(packet)) for packet in container.demux(video=0) if packet.size]
    assert packets == written.frames


@given(files(), st.data())
def test_a_file_cut_anywhere_has_the_frames_before_the_cut_or_none(written, data):
    cut = data.draw(st.integers(1, len(written.data)))
    try:
        found = index(written.data[:cut])
    except IndexingError:
        return
    if found is not None:
        frames = written.frames[: len(found)]
        assert found.packet_pts.tolist() == [frame.pts for frame in frames]
        assert int((found.packet_offset + found.packet_size).max()) <= cut


@given(files(), st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(0, 255)), min_size=1, max_size=4))
def test_a_damaged_file_gives_an_index_inside_it_an_error_or_none(written, damage):
    damaged = bytearray(written.data)
    for at, value in damage:
        damaged[at % len(damaged)] = value
    try:
        found = index(bytes(damaged))
    except VideoLoaderError:
        return
    if found is not None:
        assert found.packet_offset.min() > 0
        assert int((found.packet_offset + found.packet_size).max()) <= len(damaged)
        assert (np.diff(found.frame_pts) > 0).all()


def simple(time: int, payload: bytes = b"frame", number: int = 1, flags: int = KEY) -> bytes:
    return element(SIMPLE_BLOCK, block(number, time, [payload], flags=flags))


def cluster(*parts: bytes, time: int = 1000) -> bytes:
    return element(CLUSTER, uint(TIMESTAMP, time), *parts)


def test_keyframes_are_what_flags_and_references_say():
    data = matroska(
        cluster(
            simple(0),
            simple(1, flags=0),
            element(BLOCK_GROUP, element(BLOCK, block(1, 2, [b"key"]))),
            element(BLOCK_GROUP, element(BLOCK, block(1, 3, [b"not"])), element(REFERENCE, b"\xff")),
        ),
        tracks=[track(1, *AV1)],
    )
    assert index(data).packet_key.tolist() == [True, False, True, False]


def test_blocks_may_lie_before_their_clusters_time():
    assert index(matroska(cluster(simple(-900), simple(-1), simple(30)))).frame_pts.tolist() == [100, 999, 1030]


def test_times_count_in_the_files_scale_from_the_codecs_delay():
    data = matroska(cluster(simple(0), simple(3)), tracks=[track(1, *AV1, uint(0x56AA, 4_400_000))], scale=2_000_000)
    found = index(data)
    assert found.stream.time_base * 500 == 1
    assert found.frame_pts.tolist() == [998, 1001]


def test_track_numbers_of_several_bytes():
    for number in (1, 126, 127, 300, 20_000, 1 << 40):
        data = matroska(
            cluster(simple(0, number=number), simple(5, number=77)), tracks=[track(number, *AV1), track(77, kind=2)]
        )
        assert len(index(data)) == 1


def test_blocks_without_a_frame_are_none():
    assert index(matroska(cluster(simple(0), simple(1, b""), simple(2)))).frame_pts.tolist() == [1000, 1002]


def test_a_cluster_without_blocks():
    data = matroska(cluster(), cluster(simple(0)), element(CLUSTER, b""), cluster())
    assert index(data).frame_pts.tolist() == [1000]


def test_no_byte_of_frames_is_trusted_to_be_an_element():
    cunning = cluster(simple(7)) * 3
    assert index(matroska(cluster(simple(0, cunning), simple(1, cunning)))).frame_pts.tolist() == [1000, 1001]


@pytest.mark.parametrize("size", [2**28, 2**31, 2**40, 2**56 - 2])
@pytest.mark.parametrize("kind", [SIMPLE_BLOCK, BLOCK_GROUP, VOID, TIMESTAMP])
def test_sizes_beyond_the_end(kind, size):
    beyond = bytes([kind]) + vint(size, 8)
    assert (
        index(header() + endless(SEGMENT, info(), element(TRACKS, track(1, *AV1)), cluster(simple(0)) + beyond)) is None
    )
    open_cluster = endless(CLUSTER, uint(TIMESTAMP, 0), simple(0), beyond)
    assert index(header() + endless(SEGMENT, info(), element(TRACKS, track(1, *AV1)), open_cluster)) is None


LEFT_TO_LIBAVFORMAT = {
    "a block before its cluster's time": matroska(element(CLUSTER, simple(0), uint(TIMESTAMP, 0))),
    "a block before zero": matroska(cluster(simple(-2), time=1)),
    "a block of a track that is not there": matroska(cluster(simple(0), simple(0, number=9))),
    "two frames at one time": matroska(cluster(simple(0), simple(0))),
    "an element that does not belong there": matroska(cluster(simple(0), element(0xAE, b""))),
    "a block that runs over its cluster": matroska(cluster(simple(0), simple(1)[:-1]), cluster()),
    "a block that runs over its group": matroska(
        cluster(element(BLOCK_GROUP, element(BLOCK, block(1, 0, [b"x"]))[:-1]))
    ),
    "a lace": matroska(
        cluster(element(SIMPLE_BLOCK, block(1, 0, [b"a", b"b"], XIPH))), tracks=[track(1, *AV1, DEFAULT_DURATION)]
    ),
    "a lace in a group": matroska(
        cluster(element(BLOCK_GROUP, element(BLOCK, block(1, 0, [b"a", b"b"], FIXED)), uint(BLOCK_DURATION, 80)))
    ),
    "something after the segment": matroska(cluster(simple(0))) + b"\0",
    "two tracks of one number": matroska(cluster(simple(0)), tracks=[track(1, *AV1), track(1, *AV1)]),
    "no tracks": header() + element(SEGMENT, info(), cluster(simple(0))),
    "no information": header() + element(SEGMENT, element(TRACKS, track(1, *AV1)), cluster(simple(0))),
    "another kind of EBML": header("diary") + matroska(cluster(simple(0)))[len(header()) :],
    "a later version": header("matroska", uint(0x4285, 9)) + matroska(cluster(simple(0)))[len(header()) :],
    "a compressed track": matroska(
        cluster(simple(0)),
        tracks=[track(1, *AV1, element(0x6D80, element(0x6240, element(0x5034, uint(0x4254, 3)))))],
    ),
    "an unknown codec": matroska(cluster(simple(0)), tracks=[track(1, "V_MS/VFW/FOURCC")]),
    "no video": matroska(cluster(simple(0)), tracks=[track(1, "A_OPUS", kind=2)]),
    "a time scale that cannot be": matroska(cluster(simple(0)), scale=1 << 40),
    "a time that cannot be": matroska(cluster(simple(0), time=(1 << 63))),
}


@pytest.mark.parametrize("case", LEFT_TO_LIBAVFORMAT)
def test_what_only_libavformat_can_judge(case):
    assert index(LEFT_TO_LIBAVFORMAT[case]) is None
