"""NVDEC is not given a run that begins in the middle of things."""

from __future__ import annotations

import pytest

from videoloader.decoding.nvdec import _check_start
from videoloader.errors import DecodeError
from videoloader.indexing import FileSource, build_index
from videoloader.packets.decode_plan import plan_frames
from videoloader.packets.read_packets import read_packets


@pytest.mark.parametrize("name", ["h264_mp4", "h264_ts", "hevc_mp4", "vp9_webm", "vp8_webm", "mpeg2_mkv", "av1_mp4"])
def test_a_run_may_begin_with_what_is_a_keyframe_whatever_the_container_says(name, sample):
    source, index = FileSource(sample(name)), build_index(sample(name))
    packets = list(read_packets(source, index, plan_frames(index, range(len(index))).runs[0]))
    unmarked = index.without_keyframe(0)
    _check_start(index, packets[0])
    _check_start(unmarked, packets[0])
    others = [packet for packet in packets[1:24] if not index.packet_key[packet.number]]
    assert len(others) > 10
    for packet in others:
        with pytest.raises(DecodeError, match=f"packet {packet.number}, where decoding starts, is not a keyframe"):
            _check_start(index, packet)
