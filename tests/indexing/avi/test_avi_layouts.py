"""Where chunks and indexes stand: every layout gives the packets and times that libavformat finds."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from contextlib import suppress
from fractions import Fraction
from pathlib import Path

import av
import avi_writing
import numpy as np
import pytest
from avi_writing import Video, chunk, chunk_list, header_list, read_video, riff, stream_header
from example_count import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_videos import Recipe, write_video
from truth import full_decode

from videoloader.errors import VideoLoaderError
from videoloader.indexing import FileSource, MemorySource, VideoIndex, build_index
from videoloader.indexing.avi.index import index_avi
from videoloader.indexing.libav import index_by_demuxing
from videoloader.indexing.video_stream import open_video

LAYOUTS: dict[str, Callable[[Video], bytes]] = {
    "index from the list's name": avi_writing.with_old_index,
    "index from the file's start": lambda video: avi_writing.with_old_index(video, None),
    "index from the first chunk": lambda video: avi_writing.with_old_index(video, 0),
    "no index": avi_writing.without_index,
    "rec lists with sound": avi_writing.with_records,
    "OpenDML": lambda video: avi_writing.with_open_dml(video, 1000),
    "OpenDML in three RIFFs": lambda video: avi_writing.with_open_dml(video, 9),
}
each_layout = pytest.mark.parametrize("layout", LAYOUTS)


@pytest.fixture(scope="session")
def video(tmp_path_factory: pytest.TempPathFactory) -> Video:
    """24 packets of MPEG-4 with B-frames, of odd and even sizes."""
    path = tmp_path_factory.mktemp("layouts") / "video.avi"
    write_video(path, Recipe("avi", "mpeg4", {"bf": "2", "g": "8"}, size=(64, 48), frames=24))
    read = read_video(path)
    assert {len(packet) % 2 for packet in read.packets} == {0, 1}
    return read


def with_holes(video: Video, numbers: list[int]) -> Video:
    """The video with empty chunks before some of its packets: frames that a recorder dropped."""
    packets, keys = list(video.packets), list(video.keys)
    for number in sorted(numbers, reverse=True):
        packets.insert(number, b"")
        keys.insert(number, False)
    return dataclasses.replace(video, packets=tuple(packets), keys=tuple(keys))


def assert_as_libav_finds(data: bytes, path: Path) -> VideoIndex:
    path.write_bytes(data)
    index, reference, truth = index_avi(FileSource(path)), index_by_demuxing(FileSource(path)), full_decode(path)
    assert index is not None
    for name in ("packet_offset", "packet_size", "packet_key", "packet_pts", "frame_packet", "frame_pts"):
        assert getattr(index, name).tolist() == getattr(reference, name).tolist(), name
    assert index.stream == reference.stream
    assert index.frame_pts.tolist() == sorted(truth.pts)
    return index


@each_layout
def test_each_layout_gives_the_same_packets(layout: str, video: Video, tmp_path: Path) -> None:
    data = LAYOUTS[layout](video)
    index = assert_as_libav_finds(data, tmp_path / "a.avi")
    ranges = zip(index.packet_offset.tolist(), index.packet_size.tolist(), strict=True)
    assert tuple(data[offset : offset + size] for offset, size in ranges) == video.packets


@each_layout
@settings(max_examples=examples(12))
@given(st.lists(st.integers(1, 24), max_size=8))
def test_empty_chunks_take_time_and_show_nothing(
    tmp_path_factory: pytest.TempPathFactory, layout: str, video: Video, holes: list[int]
) -> None:
    path = tmp_path_factory.getbasetemp() / "holes.avi"
    assert len(assert_as_libav_finds(LAYOUTS[layout](with_holes(video, holes)), path)) == 24


@settings(max_examples=examples(25))
@given(st.integers(1, 5000), st.integers(1, 5000), st.integers(0, 1000))
def test_the_time_base_is_the_writers_scale_and_rate(
    tmp_path_factory: pytest.TempPathFactory, video: Video, scale: int, rate: int, start: int
) -> None:
    data = avi_writing.with_old_index(dataclasses.replace(video, scale=scale, rate=rate, start=start))
    index = index_avi(MemorySource(data))
    if rate >= 1000 * scale:
        assert index is None  # libavformat counts the last frame's duration in another way
        return
    index = assert_as_libav_finds(data, tmp_path_factory.getbasetemp() / "rate.avi")
    assert index.stream.time_base == Fraction(scale, rate)


def test_the_aspect_ratio_is_that_of_the_video_properties(video: Video) -> None:
    properties = chunk(
        b"vprp", bytes(20) + (9 << 0 | 16 << 16).to_bytes(4, "little") + bytes([64, 0, 0, 0, 48]) + bytes(11)
    )
    movi = chunk_list(b"movi", *(chunk(b"00dc", packet) for packet in video.packets))
    index = build_index(riff(b"AVI ", header_list(stream_header(video, properties)), movi))
    assert index.stream.sample_aspect_ratio == Fraction(16, 9) / Fraction(64, 48)


def test_rows_from_top_to_bottom_have_a_negative_height(video: Video) -> None:
    index = index_avi(MemorySource(avi_writing.with_old_index(dataclasses.replace(video, height=-48))))
    assert (index.stream.width, index.stream.height) == (64, 48)


def test_a_file_with_two_video_streams_is_left_to_libavformat(video: Video) -> None:
    movi = chunk_list(b"movi", *(chunk(b"00dc", packet) for packet in video.packets))
    data = riff(b"AVI ", header_list(stream_header(video), stream_header(video)), movi)
    assert index_avi(MemorySource(data)) is None


def test_palette_changes_are_left_to_libavformat(video: Video) -> None:
    chunks = [chunk(b"00dc", packet) for packet in video.packets]
    chunks.insert(3, chunk(b"00pc", bytes(8)))
    assert (
        index_avi(MemorySource(riff(b"AVI ", header_list(stream_header(video)), chunk_list(b"movi", *chunks)))) is None
    )


@pytest.mark.parametrize("layout", ["index from the list's name", "no index"])
def test_joined_files_have_the_frames_of_both(layout: str, video: Video, tmp_path: Path) -> None:
    path = tmp_path / "joined.avi"
    path.write_bytes(2 * LAYOUTS[layout](video))
    index, truth = build_index(path), full_decode(path)
    assert index.frame_pts.tolist() == sorted(truth.pts)
    assert len(index) == 48


@pytest.mark.parametrize("unpadded", ["a frame", "something else"])
def test_a_last_frame_behind_a_chunk_without_padding_is_found(unpadded: str, video: Video, tmp_path: Path) -> None:
    odd = next(number for number, packet in enumerate(video.packets) if number > 2 and len(packet) % 2)
    chunks = [chunk(b"00dc", packet) for packet in video.packets[: odd + 2]]
    if unpadded == "a frame":
        chunks[odd] = chunks[odd][:-1]
    else:
        chunks.insert(odd + 1, chunk(b"abcd", b"odd")[:-1])
    path = tmp_path / "unpadded.avi"
    path.write_bytes(riff(b"AVI ", header_list(stream_header(video)), chunk_list(b"movi", *chunks)))
    index, truth = build_index(path), full_decode(path)
    assert index.frame_pts.tolist() == sorted(truth.pts)
    assert len(index.packet_pts) == odd + 2


def test_chunks_that_hold_nothing_like_a_frame_are_passed_over(video: Video, tmp_path: Path) -> None:
    chunks = [chunk(b"00dc", packet) for packet in video.packets]
    chunks.insert(8, chunk(b"abcd", b"a remark"))
    information = chunk_list(b"INFO", chunk(b"INAM", b"a name"))
    data = riff(b"AVI ", header_list(stream_header(video)), chunk_list(b"movi", *chunks), information)
    assert len(assert_as_libav_finds(data, tmp_path / "a.avi")) == 24


@pytest.mark.parametrize("name", [b"abcd", b"junk", b"01dc", b"RIFF"])
def test_chunks_in_which_libavformat_finds_frames_are_left_to_it(name: bytes, video: Video, tmp_path: Path) -> None:
    chunks = [chunk(b"00dc", packet) for packet in video.packets]
    chunks.insert(8, chunk(name, b"AVI " + chunks[0]))
    path = tmp_path / "hidden.avi"
    path.write_bytes(riff(b"AVI ", header_list(stream_header(video)), chunk_list(b"movi", *chunks)))
    index, truth = build_index(path), full_decode(path)
    assert index_avi(FileSource(path)) is None
    assert index.frame_pts.tolist() == sorted(truth.pts)
    assert len(index.packet_pts) == 25


@pytest.mark.parametrize(
    "lie",
    [
        lambda row, n: (row[0], row[1], row[2] + 2, row[3]),
        lambda row, n: (row[0], row[1], row[2], row[3] + 2),
        lambda row, n: None if n == 11 else row,
        lambda row, n: None if n > 20 else row,
    ],
)
def test_an_index_that_contradicts_the_chunks_is_not_believed(
    lie: Callable[[tuple, int], tuple | None], video: Video, tmp_path: Path
) -> None:
    data = avi_writing.with_old_index(video)
    at = data.rindex(b"idx1")
    rows = np.frombuffer(data[at + 8 :], "<u4").reshape(-1, 4).tolist()
    told = [row for n, each in enumerate(rows) if (row := lie(tuple(each), n)) is not None]
    data = data[:at] + chunk(b"idx1", np.array(told, "<u4").tobytes())
    path = tmp_path / "lie.avi"
    path.write_bytes(data)
    assert index_avi(FileSource(path)) is None
    index, truth = build_index(path), full_decode(path)
    assert not truth.error
    assert index.frame_pts.tolist() == sorted(truth.pts)
    assert len(index) == 24


@each_layout
def test_a_file_cut_off_between_two_chunks_has_the_frames_before(layout: str, video: Video, tmp_path: Path) -> None:
    data, path = LAYOUTS[layout](video), tmp_path / "cut.avi"
    for border in build_index(data).packet_offset[1::3].tolist():
        path.write_bytes(data[: border - 8])
        index, truth = build_index(path), full_decode(path)
        assert not truth.error
        assert len(index) == len(truth.pts)
        assert index.frame_pts.tolist() == sorted(truth.pts)


def frames_decoded(source: MemorySource) -> int:
    count = 0
    with open_video(source) as (container, stream):
        for packet in container.demux(stream):
            with suppress(av.error.InvalidDataError):  # a last packet that does not decode is left out
                count += len(packet.decode())
    return count


@each_layout
@settings(max_examples=examples(60))
@given(st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), min_size=1, max_size=4))
def test_changed_bytes_of_the_tables_give_an_error_or_an_index_of_bytes_that_are_there(
    layout: str, video: Video, changes: list[tuple[float, int]]
) -> None:
    data = bytearray(LAYOUTS[layout](video))
    payload = set()
    for packet in video.packets:
        start = data.index(packet)
        payload |= set(range(start, start + len(packet)))
    table = [at for at in range(len(data)) if at not in payload]
    for place, value in changes:
        data[table[int(place * len(table))]] = value
    source = MemorySource(bytes(data))
    try:
        index = build_index(source)
    except VideoLoaderError:
        return
    if index.container == "avi":
        assert len(index) <= 24
    else:  # without its first bytes libavformat may take the file for raw MPEG-4
        assert len(index) == frames_decoded(source)
    assert (index.packet_offset + index.packet_size <= source.size).all()
    assert (np.diff(index.timestamps) >= 0).all()


@pytest.mark.parametrize("where", ["chunk", "index"])
@pytest.mark.parametrize("name", [b"0\0dc", b"10dc", b"01wb"])
def test_a_changed_name_of_a_chunk_counts_as_in_libavformat(where: str, name: bytes, tmp_path: Path) -> None:
    """It shows what a chunk calls itself, and not what the index calls it. No decoder needs to look at these chunks."""
    path = write_video(tmp_path / "a.avi", Recipe("avi", "mjpeg", {}, pix_fmt="yuvj420p", size=(64, 48), frames=24))
    data = path.read_bytes()
    index = data.rindex(b"idx1") + 8
    at = index + 16 * 20 if where == "index" else build_index(data).packet_offset[20] - 8
    path.write_bytes(data[:at] + name + data[at + 4 :])
    truth = full_decode(path)
    assert len(truth.pts) == (24 if where == "index" else 23)
    assert build_index(path).frame_pts.tolist() == truth.pts
