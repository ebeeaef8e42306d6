"""What damage of a packet reaches."""

from __future__ import annotations

import numpy as np
import pytest

from videoloader.indexing import FileSource, build_index
from videoloader.indexing.bitstream.damage_reach import DamageReach
from videoloader.indexing.bitstream.disposable import is_disposable
from videoloader.packets.decode_plan import Run
from videoloader.packets.read_packets import read_packets


@pytest.fixture
def gop(sample):
    """``gop(name)``: codec, configuration record and payloads of a video's first GOP."""

    def of(name):
        index = build_index(sample(name))
        numbers = np.arange(np.flatnonzero(index.packet_key)[1])
        packets = read_packets(FileSource(sample(name)), index, Run(numbers, numbers))
        return index.stream.codec, index.stream.codec_configs[0], [bytes(packet.data) for packet in packets]

    return of


def reach_of(codec, config, payloads):
    reach = DamageReach(codec, config)
    for number, payload in enumerate(payloads):
        reach.add(number, payload)
    return reach


@pytest.mark.parametrize("name", ["h264_mp4", "mpeg2_mkv", "mpeg4_mkv"])
def test_where_references_are_not_named_all_that_follows_what_may_be_one(gop, name):
    codec, config, payloads = gop(name)
    reach = reach_of(codec, config, payloads)
    alone = {number for number, payload in enumerate(payloads) if is_disposable(codec, config, payload)}
    assert alone
    for number in range(len(payloads)):
        assert reach.of(number) == ({number} if number in alone else set(range(number, len(payloads))))


@pytest.mark.parametrize("name", ["hevc_mkv", "vp8_webm", "vp9_webm", "av1_mkv"])
def test_of_a_keyframe_everything_and_of_the_last_packet_nothing_else(gop, name):
    codec, config, payloads = gop(name)
    reach = reach_of(codec, config, payloads)
    assert reach.of(0) == set(range(len(payloads)))
    assert reach.of(len(payloads) - 1) == {len(payloads) - 1}


def test_where_references_are_named_only_what_refers_to_it(gop):
    codec, config, payloads = gop("hevc_mkv")
    reach = reach_of(codec, config, payloads)
    assert any(len(reach.of(number)) == 1 for number in range(1, len(payloads) - 1))


def test_from_a_packet_that_cannot_be_read_on_everything(gop):
    codec, config, payloads = gop("hevc_mkv")
    alone = next(number for number in range(1, 8) if len(reach_of(codec, config, payloads).of(number)) == 1)
    payloads[alone + 1] = bytes(8)
    reach = reach_of(codec, config, payloads)
    assert reach.of(alone) == {alone, *range(alone + 1, len(payloads))}


def test_without_a_record_that_can_be_read_everything(gop):
    codec, _, payloads = gop("hevc_mkv")
    assert reach_of(codec, b"\x01\x02", payloads).of(3) == set(range(3, len(payloads)))
