"""Packets that say another size than their stream are found, and those of a sound stream never contradict it."""

from __future__ import annotations

from pathlib import Path

import pytest
from corpus_files import GOOD_FILES
from sample_videos import RECIPES, Recipe, write_video

from videoloader.decoding.capabilities import section_format
from videoloader.decoding.picture_changes import contradiction
from videoloader.indexing import FileSource, build_index
from videoloader.packets.decode_plan import plan_frames
from videoloader.packets.read_packets import read_packets

CODECS = ("vp8", "vp9", "av1", "mpeg1video", "mpeg2video", "mpeg4")
NAMES = ("vp8_webm", "vp9_webm", "av1_mkv", "av1_mp4", "mpeg2_ts", "mpeg2_mkv", "mpeg4_mkv", "mpeg4_avi", "mpeg4_mp4")
MOST_PACKETS = 120


def packets_and_format(path: Path):
    source, index = FileSource(path), build_index(path)
    plan = plan_frames(index, range(min(len(index), MOST_PACKETS)))
    packets = [packet for run in plan.runs for packet in read_packets(source, index, run)]
    return index.stream, packets, section_format(index.stream, 0)


@pytest.mark.parametrize("name", NAMES)
def test_a_sound_stream_does_not_contradict_itself(name, sample):
    stream, packets, picture = packets_and_format(sample(name))
    assert packets
    assert {contradiction(stream.codec, packet.data, picture) for packet in packets} == {""}


@pytest.mark.parametrize("name", [name for name in GOOD_FILES if name.startswith(("vp", "av1", "mpeg"))] or GOOD_FILES)
def test_nor_do_real_files(name, corpus):
    stream, packets, picture = packets_and_format(corpus / name)
    if stream.codec not in CODECS or stream.size_varies or picture is None:
        pytest.skip("not for NVDEC")
    assert {contradiction(stream.codec, packet.data, picture) for packet in packets} == {""}


@pytest.mark.parametrize("name", NAMES)
def test_a_packet_of_another_size_is_found(name, sample, tmp_path):
    recipe: Recipe = RECIPES[name]
    larger = Recipe(recipe.suffix, recipe.encoder, recipe.options, size=(192, 144), frames=13)
    stream, packets, _ = packets_and_format(write_video(tmp_path / f"larger.{recipe.suffix}", larger))
    _, _, picture = packets_and_format(sample(name))
    if name in ("mpeg4_mkv", "mpeg4_mp4"):
        assert b"\0\0\1\x20" not in bytes(packets[0].data), "these have their headers in the container"
        return
    assert "192×144" in contradiction(stream.codec, packets[0].data, picture)


def test_a_damaged_superframe_is_found(sample):
    stream, packets, picture = packets_and_format(sample("vp9_webm"))
    # One frame of 200 bytes, where there are four (VP9 bitstream specification, annex B).
    damaged = bytes(packets[0].data[:4]) + b"\xc0\xc8\xc0"
    assert contradiction(stream.codec, damaged, picture) == "a frame ends after its superframe"
