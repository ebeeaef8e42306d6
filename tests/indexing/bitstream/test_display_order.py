"""The order in which a decoder gives pictures out, by their packets' headers alone: that of a full decode."""

from __future__ import annotations

import numpy as np
import pytest
from corpus_files import GOOD_FILES
from sample_videos import RECIPES

from videoloader.indexing import build_index, open_source
from videoloader.indexing.bitstream.display_order import display_order
from videoloader.indexing.bitstream.nal import parameter_sets
from videoloader.packets.decode_plan import Run
from videoloader.packets.read_packets import read_packets

CODECS = ("h264", "hevc", "mpeg1video", "mpeg2video", "mpeg4")


def payloads(path) -> tuple:
    """The index of a video, and its packets."""
    index = build_index(path)
    everything = np.arange(len(index.packet_size))
    return index, [packet.data for packet in read_packets(open_source(path), index, Run(everything, everything))]


def assert_order_is_that_of_a_decode(path) -> None:
    index, packets = payloads(path)
    order = display_order(index.stream.codec, index.stream.codec_configs[0])
    keys = np.array([order.key(packet) for packet in packets])
    shown = np.argsort(keys, kind="stable")
    assert shown[np.isin(shown, index.frame_packet)].tolist() == index.frame_packet.tolist()


@pytest.mark.parametrize("name", [name for name in RECIPES if name.startswith(("h264", "hevc", "mpeg"))])
def test_pictures_come_as_a_full_decode_gives_them(sample, name):
    assert_order_is_that_of_a_decode(sample(name))


@pytest.mark.parametrize("name", [name for name in GOOD_FILES if name.startswith(("h264", "hevc", "mpeg", "people"))])
def test_pictures_of_real_files_come_as_a_full_decode_gives_them(corpus, name):
    index = build_index(corpus / name)
    if index.stream.codec not in CODECS or index.stream.encrypted or index.method == "decoded":
        pytest.skip("its order is not told by whole pictures of these codecs")
    if not index.packet_key.any():
        pytest.skip("decoding starts at none of its packets")
    if len(np.unique(index.frame_packet)) < len(index):
        pytest.skip("an edit list shows packets twice")
    assert_order_is_that_of_a_decode(corpus / name)


def test_codecs_that_are_not_reordered_or_not_known_have_no_such_order():
    assert display_order("vp9", b"") is None
    assert display_order("no_such_codec", b"") is None


@pytest.mark.parametrize("codec", ["h264", "hevc"])
def test_what_cannot_be_told_is_said(sample, codec):
    index, packets = payloads(sample(f"{codec}_mp4"))
    record = index.stream.codec_configs[0]
    assert parameter_sets(codec, record)
    with pytest.raises(ValueError, match="parameter set that is not there"):
        display_order(codec, record[:22] + b"\0" if codec == "hevc" else record[:5] + b"\xe0\0").key(packets[0])
    with pytest.raises(ValueError, match=r"has no picture|first slice"):
        display_order(codec, record).key(bytes(packets[0][:4]) + bytes(20))


def test_numbers_of_h264_frames_that_go_back_are_said(sample):
    index, packets = payloads(sample("h264_mp4"))
    order = display_order("h264", index.stream.codec_configs[0])
    references = [packet for packet in packets[:12] if packet[4] & 0x60]
    order.key(references[0])
    order.key(references[3])  # pictures may be left out
    with pytest.raises(ValueError, match="do not follow"):
        order.key(references[1])
