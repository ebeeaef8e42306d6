"""Reads the bytes of packets, whatever lies between them and in any order."""

from dataclasses import replace

import av
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic_index import make_index

from videoloader.errors import SourceError
from videoloader.indexing import MemorySource, build_index, open_source
from videoloader.indexing.index import DISPOSABLE_NO, DISPOSABLE_UNKNOWN, DISPOSABLE_YES
from videoloader.packets.decode_plan import Run, plan_frames
from videoloader.packets.read_packets import read_packets

# One NAL unit after its length: a picture that others refer to, and one that none does.
REFERENCE, DISPOSABLE = b"\0\0\0\2\x41\x9a", b"\0\0\0\2\x01\x9a"
IDR = b"\0\0\0\2\x65\x88"
AVCC = bytes([1, 100, 0, 10, 0xFF, 0xE1, 0])


@given(st.permutations(range(8)), st.lists(st.sampled_from([0, 3, 70_000]), min_size=8, max_size=8), st.data())
def test_packets_are_their_bytes_in_decode_order(layout, gaps, data):
    payloads = [bytes([number]) * (number + 1) for number in range(8)]
    content, offsets = b"", np.zeros(8, np.int64)
    for number, gap in zip(layout, gaps, strict=True):
        content += b"\xee" * gap
        offsets[number] = len(content)
        content += payloads[number]
    index = replace(
        make_index(list(range(8)), {0}, codec="prores"),
        packet_offset=offsets,
        packet_size=np.arange(1, 9, dtype=np.int32),
    )
    chosen = np.array(sorted(data.draw(st.sets(st.integers(0, 7), min_size=1))))
    wanted = chosen[-1:]
    packets = list(read_packets(MemorySource(content), index, Run(chosen, wanted)))
    assert [(packet.number, bytes(packet.data)) for packet in packets] == [(k, payloads[k]) for k in chosen.tolist()]
    assert [packet.wanted for packet in packets] == [False] * (len(chosen) - 1) + [True]


@pytest.mark.parametrize(
    ("payload", "said", "method", "kept"),
    [
        (DISPOSABLE, DISPOSABLE_UNKNOWN, "tables", False),
        (REFERENCE, DISPOSABLE_UNKNOWN, "tables", True),
        (DISPOSABLE, DISPOSABLE_NO, "tables", True),  # the index knows more of it than its first slice
        (REFERENCE, DISPOSABLE_YES, "tables", False),
        (DISPOSABLE, DISPOSABLE_UNKNOWN, "decoded", True),  # it may carry a part of another frame
    ],
)
def test_disposable_packets_are_told_by_the_index_then_by_their_own_bytes(payload, said, method, kept):
    index = make_index([0, 1, 2], {0}, disposable=[DISPOSABLE_UNKNOWN, said, DISPOSABLE_UNKNOWN], method=method)
    index = replace(
        index,
        packet_offset=np.array([0, 6, 12]),
        packet_size=np.full(3, 6, np.int32),
        stream=replace(index.stream, codec_configs=(AVCC,)),
    )
    source = MemorySource(IDR + payload + DISPOSABLE)
    (run,) = plan_frames(index, [2]).runs
    assert [packet.number for packet in read_packets(source, index, run)] == ([0, 1, 2] if kept else [0, 2])
    (run,) = plan_frames(index, [1, 2]).runs
    assert [packet.number for packet in read_packets(source, index, run)] == [0, 1, 2]


class _Ranges(MemorySource):
    """Notes what it is asked for."""

    def __init__(self, data, read_through):
        super().__init__(data)
        self.read_through, self.asked = read_through, []

    def read_ranges(self, offsets, sizes):
        self.asked.append(list(zip(offsets, sizes, strict=True)))
        return super().read_ranges(offsets, sizes)


@pytest.mark.parametrize(
    ("read_through", "asked"),
    [
        (99, [[(0, 10), (110, 10), (320, 10)]]),
        (100, [[(0, 120), (320, 10)]]),
        (200, [[(0, 330)]]),
    ],
)
def test_gaps_are_read_along_where_the_source_says_that_it_is_cheaper(read_through, asked):
    index = replace(
        make_index([0, 1, 2], {0}, codec="prores"),
        packet_offset=np.array([0, 110, 320]),
        packet_size=np.full(3, 10, np.int32),
    )
    source = _Ranges(bytes(330), read_through)
    assert len(list(read_packets(source, index, Run(np.arange(3), np.array([2]))))) == 3
    assert source.asked == asked


def test_a_long_run_is_read_in_parts_of_which_gaps_are_a_part():
    count = 40
    index = replace(
        make_index(list(range(count)), {0}, codec="prores"),
        packet_offset=np.arange(count) * (1 << 20),
        packet_size=np.full(count, 10, np.int32),
    )
    source = _Ranges(bytes(count << 20), 1 << 20)
    packets = read_packets(source, index, Run(np.arange(count), np.array([count - 1])))
    next(packets)
    assert len(source.asked) == 1
    assert len(list(packets)) == count - 1
    assert len(source.asked) == 3
    assert all(sum(size for _, size in together) <= 17 << 20 for together in source.asked)


def test_a_source_that_became_shorter_is_an_error():
    index = replace(
        make_index([0, 1], {0}, codec="prores"),
        packet_offset=np.array([0, 10]),
        packet_size=np.full(2, 10, np.int32),
    )
    with pytest.raises(SourceError, match="of the bytes 0 to 20 only 15 are there"):
        list(read_packets(MemorySource(bytes(15)), index, Run(np.arange(2), np.array([1]))))


def test_of_encrypted_streams_nothing_is_left_out():
    index = make_index([0, 1, 2], {0})
    stream = replace(index.stream, codec_configs=(AVCC,), encrypted=True)
    index = replace(index, packet_offset=np.array([0, 6, 12]), packet_size=np.full(3, 6, np.int32), stream=stream)
    (run,) = plan_frames(index, [2]).runs
    source = MemorySource(REFERENCE + DISPOSABLE + DISPOSABLE)
    assert [packet.number for packet in read_packets(source, index, run)] == [0, 1, 2]


def test_before_the_first_keyframe_nothing_is_left_out():
    index = make_index([0, 1, 2], set())
    stream = replace(index.stream, codec_configs=(AVCC,))
    index = replace(index, packet_offset=np.array([0, 6, 12]), packet_size=np.full(3, 6, np.int32), stream=stream)
    (run,) = plan_frames(index, [2]).runs
    source = MemorySource(REFERENCE + DISPOSABLE + DISPOSABLE)
    assert [packet.number for packet in read_packets(source, index, run)] == [0, 1, 2]


def test_parameter_sets_that_no_record_can_hold_do_not_make_a_run_be_planned_for_ever(sample):
    path = sample("h264_mp4")
    index = build_index(path)
    source = open_source(path)
    endless = b"\x68\xce" + b"\1" * 70_000  # a set of a kind and number that are known, longer than a record can say
    packet = source.read(*index.packet_range(0))
    content = len(endless).to_bytes(4, "big") + endless + packet
    alone = replace(
        index,
        packet_offset=np.append(0, index.packet_offset[1:]),
        packet_size=np.append(len(content), index.packet_size[1:]).astype(np.int32),
    )
    first = Run(np.zeros(1, np.int64), np.zeros(1, np.int64))
    (read,) = read_packets(MemorySource(content), alone, first)
    assert (read.number, read.headers, bytes(read.data)) == (0, True, content)


@pytest.mark.parametrize("part", [0, 0.5])
def test_a_file_whose_packets_are_gone_behind_its_headers_is_an_error(tmp_path, part):
    path, noise = tmp_path / "clip.asf", np.random.default_rng(1)
    with av.open(path, "w", format="asf") as out:
        stream = out.add_stream("mjpeg", 25)
        stream.width, stream.height, stream.pix_fmt = 128, 96, "yuvj420p"
        pictures = [noise.integers(0, 256, (96, 128, 3), np.uint8) for _ in range(20)]
        frames = [av.VideoFrame.from_ndarray(picture).reformat(format="yuvj420p") for picture in pictures]
        out.mux([packet for frame in [*frames, None] for packet in stream.encode(frame)])
    with av.open(path) as container:
        begin = next(packet.pos for packet in container.demux())
    index, content = build_index(path), path.read_bytes()
    assert not index.byte_ranges
    end = begin + int(part * (len(content) - begin))
    left = MemorySource(content[:end] + bytes(len(content) - end))
    with pytest.raises(SourceError, match=rf"has only {'[1-9]' if part else '0 packets'}.*, fewer than its index says"):
        list(read_packets(left, index, Run(np.arange(20), np.array([19]))))
