"""How little of a file is read, and what becomes of files that only look like Matroska."""

from __future__ import annotations

import io
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from matroska_writing import AV1, CLUSTER, SIMPLE_BLOCK, TIMESTAMP, block, element, matroska, track, uint
from sample_videos import Recipe, write_video
from truth import full_decode

from videoloader.errors import VideoLoaderError
from videoloader.indexing import MemorySource, build_index
from videoloader.indexing.matroska.index import index_matroska


class CountingSource:
    """Bytes that keep account of what is read of them."""

    name, read_through = "counted", 0

    def __init__(self, data: bytes) -> None:
        self.size, self.bytes_read, self.reads = len(data), 0, 0
        self._data = data

    def read(self, offset: int, size: int) -> bytes:
        data = self._data[offset : offset + size]
        self.bytes_read += len(data)
        self.reads += 1
        return data

    def open(self) -> io.BytesIO:
        raise AssertionError("the file is given to libavformat")


def file_of(frame_size: int, frames: int, sounds: int = 2) -> bytes:
    """Clusters of 25 frames, with short blocks of sound after each."""
    clusters = []
    for first in range(0, frames, 25):
        parts = [uint(TIMESTAMP, 40 * first)]
        for number in range(first, min(first + 25, frames)):
            time = 40 * (number - first)
            parts.append(element(SIMPLE_BLOCK, block(1, time, [bytes([number % 256]) * frame_size], flags=0x80)))
            parts += [element(SIMPLE_BLOCK, block(2, time, [b"sound" * 60]))] * sounds
        clusters.append(element(CLUSTER, *parts))
    return matroska(*clusters, tracks=[track(1, *AV1), track(2, "A_OPUS", kind=2)])


@pytest.mark.parametrize("sounds", [0, 1, 3])
@pytest.mark.parametrize("frame_size", [20_000, 100_000])
def test_of_large_frames_only_the_headers_are_read(frame_size, sounds):
    data = file_of(frame_size, 200, sounds)
    source = CountingSource(data)
    assert len(index_matroska(source)) == 200
    assert source.bytes_read < 0.1 * frame_size * 200 / (4 if sounds == 0 else 1) + 1000


@given(st.integers(1, 3000), st.integers(0, 3))
def test_of_small_frames_many_headers_come_with_each_read(frame_size, sounds):
    data = file_of(frame_size, 200, sounds)
    source = CountingSource(data)
    assert len(index_matroska(source)) == 200
    assert source.bytes_read < 2 * len(data) + 10_000
    if frame_size < 1000:
        assert source.reads < 40 + len(data) / 15_000


def test_sizes_in_headers_take_no_memory():
    data = file_of(20_000, 20)
    tracemalloc.start()
    for at in range(0, 2000, 7):
        damaged = data[:at] + b"\x01\xff\xff\xff\xff\xff\xff\xfe" + data[at + 8 :]
        index_matroska(MemorySource(damaged))
    assert tracemalloc.get_traced_memory()[1] < 10 << 20
    tracemalloc.stop()


@pytest.mark.parametrize("name", ["h264_mkv", "h264_mkv_live", "hevc_mkv", "vp9_webm", "vp8_webm", "mpeg4_mkv"])
def test_a_file_cut_off_has_the_frames_of_a_full_decode(sample, name, tmp_path):
    data = sample(name).read_bytes()
    path = tmp_path / "cut.mkv"
    for percent in (30, 50, 70, 90, 99):
        path.write_bytes(data[: len(data) * percent // 100])
        truth = full_decode(path)
        try:
            index = build_index(path)
        except VideoLoaderError:
            assert truth.error
            continue
        assert index.frame_pts.tolist() == truth.pts


@pytest.mark.parametrize("name", ["h264_mkv", "vp9_webm"])
def test_a_file_cut_between_two_blocks_has_all_frames_before(sample, name):
    data, index = sample(name).read_bytes(), build_index(sample(name))
    ends = (index.packet_offset + index.packet_size).tolist()
    for number in (1, 7, 20, 59):
        cut = index_matroska(MemorySource(data[: ends[number]]))
        assert len(cut.packet_size) == number + 1
        assert cut.packet_pts.tolist() == index.packet_pts[: number + 1].tolist()


def test_decode_times_in_place_of_presentation_times(sample, tmp_path):
    source, path = build_index(sample("h264_mkv")), tmp_path / "times.mkv"
    payloads = [
        sample("h264_mkv").read_bytes()[at : at + size]
        for at, size in zip(source.packet_offset.tolist(), source.packet_size.tolist(), strict=True)
    ]
    blocks = [
        element(SIMPLE_BLOCK, block(1, 40 * number, [payload], flags=0x80 if key else 0))
        for number, (payload, key) in enumerate(zip(payloads, source.packet_key.tolist(), strict=True))
    ]
    private = element(0x63A2, source.stream.codec_configs[0])
    cluster = element(CLUSTER, uint(TIMESTAMP, 0), *blocks)
    path.write_bytes(matroska(cluster, tracks=[track(1, "V_MPEG4/ISO/AVC", private)]))
    index = build_index(path)
    assert index.method == "decoded"
    assert index.frame_packet.tolist() == source.frame_packet.tolist()


def test_pictures_in_the_order_of_their_coding_need_no_decoder(tmp_path):
    path = write_video(tmp_path / "plain.mkv", Recipe("mkv", "libx264", {"bf": "0", "g": "12"}))
    data = path.read_bytes()
    assert len(index_matroska(CountingSource(data))) == 60
