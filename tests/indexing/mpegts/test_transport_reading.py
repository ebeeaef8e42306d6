"""Clips of transport streams are read by position: only the bytes around them, and none that changed since."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from example_count import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from transport_samples import split

from videoloader import Video
from videoloader.errors import SourceError
from videoloader.indexing import MemorySource, build_index
from videoloader.indexing.mpegts.extract import read_transport_packets

SAMPLES = ["h264_sound", "h264_m2ts", "h264_long_pes", "hevc_sound", "mpeg2_no_b", "h264_constant_rate"]


class CountingSource(MemorySource):
    """Bytes in memory that note which of them were read."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data, "counted.ts")
        self.reads: list[tuple[int, int]] = []

    def read(self, offset: int, size: int) -> bytes:
        self.reads.append((offset, size))
        return super().read(offset, size)


@settings(max_examples=examples(60))
@given(name=st.sampled_from(SAMPLES), data=st.data())
def test_any_packets_in_rising_order(transport, name, data):
    source = CountingSource(transport(name).read_bytes())
    index = build_index(source)
    every = [bytes(packet) for packet in read_transport_packets(source, index, np.arange(len(index.packet_size)))]
    chosen = sorted(data.draw(st.sets(st.integers(0, len(every) - 1), min_size=1)))
    found = [bytes(packet) for packet in read_transport_packets(source, index, np.array(chosen))]
    assert found == [every[number] for number in chosen]


@pytest.mark.parametrize("name", SAMPLES)
def test_a_clip_takes_one_read_of_its_own_part(transport, name):
    source = CountingSource(transport(name).read_bytes())
    index = build_index(source)
    source.reads.clear()
    list(read_transport_packets(source, index, np.arange(20, 25)))
    ((offset, size),) = source.reads
    stride = index.transport.stride
    assert index.packet_offset[20] - stride < offset <= index.packet_offset[20]
    assert index.packet_offset[25] <= offset + size <= index.packet_offset[25] + stride


def test_what_lies_far_between_is_not_read(transport):
    source = CountingSource(transport("h264_constant_rate").read_bytes())
    index = build_index(source)
    source.reads.clear()
    list(read_transport_packets(source, index, np.array([0, 40])))
    assert len(source.reads) == 2
    assert sum(size for _, size in source.reads) < source.size / 5


def test_the_last_packet_ends_where_its_bytes_do(transport):
    source = CountingSource(
        transport("h264_constant_rate").read_bytes() + b"".join([b"\x47\x1f\xff\x10" + bytes(184)] * 5000)
    )
    index = build_index(source)
    source.reads.clear()
    (packet,) = read_transport_packets(source, index, np.array([len(index.packet_size) - 1]))
    assert len(packet) == index.packet_size[-1]
    assert sum(size for _, size in source.reads) < source.size / 5


def test_a_video_gives_the_frames_that_a_demuxer_gives(transport):
    path = transport("h264_sound")
    index = build_index(path)
    by_position = Video(path, device="cpu")
    demuxed = Video(path, device="cpu", index=dataclasses.replace(index, transport=None))
    assert by_position.index.transport is not None
    assert torch.equal(by_position[5:30:3], demuxed[5:30:3])


@pytest.mark.parametrize(
    "change",
    [
        lambda packets: packets[: len(packets) // 2],
        lambda packets: packets[:9] + [packet[:1] + b"\x1f\xff" + packet[3:] for packet in packets[9:]],
        lambda packets: [bytes(len(packet)) for packet in packets],
        lambda packets: [packet[:4] + bytes(184) for packet in packets],
        lambda packets: packets[:40] + [packet[:3] + b"\x20\xb7\0" + packet[6:] for packet in packets[40:]],
    ],
    ids=["shorter", "other pid", "no sync", "no headers", "no payload"],
)  # fmt: skip
def test_a_file_that_has_changed_since(transport, change):
    packets = split(transport("h264").read_bytes())
    index = build_index(transport("h264"))
    source = MemorySource(b"".join(change(packets)), "changed.ts")
    with pytest.raises(SourceError, match=r"changed\.ts: "):
        list(read_transport_packets(source, index, np.arange(len(index.packet_size))))
    with pytest.raises(SourceError, match=r"changed\.ts: "):
        list(read_transport_packets(source, index, np.array([len(index.packet_size) - 1])))
