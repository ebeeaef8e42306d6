"""Display order from headers, wherever an index's ranks are not known to be right."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from corpus_files import GOOD_FILES

from videoloader.indexing import VideoIndex, build_index, open_source
from videoloader.indexing.bitstream.display_order import display_order
from videoloader.packets.decode_plan import PacketBytes, Run
from videoloader.packets.read_packets import read_packets
from videoloader.packets.run_start import WrongIndexError

Sample = Callable[[str], Path]
NAMES = ["h264_mp4", "h264_mp4_open_gop", "h264_mkv_interlaced", "hevc_mp4", "hevc_mkv", "mpeg2_mkv", "mpeg4_mkv"]


def whole(index: VideoIndex) -> Run:
    """All packets from the first keyframe on, and all their frames."""
    packets = np.arange(int(np.argmax(index.packet_key)), len(index.packet_size))
    return Run(packets, packets[np.isin(packets, index.frame_packet)])


def read(path: Path, index: VideoIndex, run: Run) -> list[PacketBytes]:
    return [*read_packets(open_source(path), index, run, places=True)]


def by_headers(index: VideoIndex, packets: list[PacketBytes]) -> list[int]:
    order = display_order(index.stream.codec, index.stream.codec_configs[index.packet_config[packets[0].number]])
    assert order is not None
    return [order.key(bytes(packet.data)) for packet in packets]


@pytest.mark.parametrize("name", NAMES)
def test_ranks_that_headers_agree_with_are_taken_and_remembered(sample: Sample, name: str) -> None:
    index = build_index(sample(name))
    packets = read(sample(name), index, whole(index))
    places = by_headers(index, packets)
    assert (np.argsort(places) == np.argsort(index.packet_rank[[packet.number for packet in packets]])).all()
    assert all(packet.place in (None, place) for packet, place in zip(packets, places, strict=True))
    assert {packet.place for packet in read(sample(name), index, whole(index))} == {None}


@pytest.mark.parametrize("name", ["h264_mp4", "hevc_mp4", "mpeg2_mkv"])
def test_wrong_ranks_are_never_taken(sample: Sample, name: str) -> None:
    good = build_index(sample(name))
    for packet in range(3, len(good.packet_pts) - 1, 5):
        times = good.packet_pts.copy()
        times[[packet, packet + 1]] = times[[packet + 1, packet]]
        index = replace(good, packet_pts=times)
        for _ in range(2):
            packets = read(sample(name), index, whole(index))
            assert [packet.place for packet in packets] == by_headers(index, packets)


@pytest.mark.parametrize("name", [name for name in GOOD_FILES if name.startswith(("h264", "hevc"))])
def test_where_the_ranks_of_a_real_file_are_taken_its_headers_say_the_same(corpus: Path, name: str) -> None:
    index = build_index(corpus / name)
    if index.stream.encrypted or index.method == "decoded" or not index.packet_key.any():
        pytest.skip("its packets get no places")
    try:
        packets = read(corpus / name, index, whole(index))
    except WrongIndexError:
        pytest.skip("leading pictures need what comes before")
    if all(packet.place is None for packet in packets):
        ranks = index.packet_rank[[packet.number for packet in packets]]
        assert (np.argsort(by_headers(index, packets), kind="stable") == np.argsort(ranks, kind="stable")).all()


def test_no_object_for_each_packet_is_kept_while_a_run_is_read(sample: Sample) -> None:
    """Python's garbage collector would run for every few clips, and the training loop would wait."""
    path, source = sample("h264_mp4"), open_source(sample("h264_mp4"))

    def most_objects(packets: int) -> int:
        index = build_index(path)
        run = Run(np.arange(packets), np.arange(packets))
        before = len(gc.get_objects())
        return max(len(gc.get_objects()) - before for _ in read_packets(source, index, run, places=True))

    most_objects(10)  # fills caches
    gc.collect()
    gc.disable()
    try:
        few = most_objects(10)
        assert most_objects(60) < few + 10
    finally:
        gc.enable()
