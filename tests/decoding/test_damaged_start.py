"""Keyframes that are damaged: after a seek to one the same frames come out as in a full decode."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
from truth import full_decode, hash_of

import videoloader as vl
from videoloader.decoding import CpuDecoder, decode_run
from videoloader.indexing import FileSource, MemorySource, build_index
from videoloader.packets import read_packets
from videoloader.planning import plan_frames

# Their decoders conceal from the pictures before. (H.264's also from memory that it uses again.)
NAMES = ["mpeg2_mkv", "mpeg4_mkv", "mpeg4_avi", "mpeg4_mp4"]


def with_damaged(path, index, packets):
    """The file with the second half of these packets lost."""
    data = bytearray(path.read_bytes())
    for offset, size in zip(index.packet_offset[packets].tolist(), index.packet_size[packets].tolist(), strict=True):
        data[offset + size // 2 : offset + size] = bytes(size - size // 2)
    return bytes(data)


def read_alone(source, index, frame, decoder):
    """(hash of a frame, whether it is called damaged, packets decoded for it)."""
    (run,) = plan_frames(index, [frame]).runs
    found = {}

    def take(packet, picture):
        assert packet not in found
        found[packet] = hash_of(picture), picture.is_corrupt

    fed = decode_run(decoder, index, run, partial(read_packets, source, index), take)
    ((hashed, damaged),) = found.values()
    return hashed, damaged, fed


@pytest.mark.parametrize("number", [1, 3])
@pytest.mark.parametrize("name", NAMES)
def test_each_frame_alone_is_as_in_a_full_decode(sample, tmp_path, name, number):
    whole = build_index(sample(name))
    keyframe = int(np.flatnonzero(whole.packet_key)[number])
    path = tmp_path / sample(name).name
    path.write_bytes(with_damaged(sample(name), whole, [keyframe]))
    source, index, truth = FileSource(path), build_index(path), full_decode(path).hashes
    alone = [read_alone(source, index, frame, CpuDecoder()) for frame in range(len(index))]
    assert [hashed for hashed, _, _ in alone] == truth
    assert [int(index.frame_packet[frame]) for frame, (_, damaged, _) in enumerate(alone) if damaged] == [keyframe]


def test_without_the_keyframe_before_they_would_differ_and_only_one_be_called_damaged(sample, tmp_path):
    whole = build_index(sample("mpeg2_mkv"))
    first = int(np.flatnonzero(whole.packet_key)[2])
    path = tmp_path / "damaged.mkv"
    path.write_bytes(with_damaged(sample("mpeg2_mkv"), whole, [first]))
    source, index, truth = FileSource(path), build_index(path), full_decode(path).hashes
    of_gop = [frame for frame in range(len(index)) if index.start_packet(frame) == first]
    differ, called_damaged = [], []
    (run,) = plan_frames(index, of_gop).runs

    def compare(packet, picture):
        frame = int(np.flatnonzero(index.frame_packet == packet)[0])
        differ.extend([frame] * (hash_of(picture) != truth[frame]))
        called_damaged.extend([frame] * picture.is_corrupt)

    CpuDecoder().decode(index, read_packets(source, index, run), compare)
    assert len(differ) > 5 > len(called_damaged) == 1


def test_a_video_reads_them_so(sample, tmp_path):
    whole = build_index(sample("mpeg4_mkv"))
    keyframe = int(np.flatnonzero(whole.packet_key)[2])
    path = tmp_path / "damaged.mkv"
    path.write_bytes(with_damaged(sample("mpeg4_mkv"), whole, [keyframe]))
    video = vl.Video(path, device="cpu")
    everything = video[:]
    for frame in range(len(video)):
        assert torch.equal(video[frame], everything[frame])


def test_where_all_keyframes_are_damaged_no_more_than_one_is_gone_back(sample):
    whole = build_index(sample("mpeg2_mkv"))
    keys = np.flatnonzero(whole.packet_key)
    source = MemorySource(with_damaged(sample("mpeg2_mkv"), whole, keys[1:]))
    index = build_index(source)
    for number in range(1, len(keys)):
        frame = int(np.flatnonzero(index.frame_packet == keys[number])[0])
        _, damaged, fed = read_alone(source, index, frame, CpuDecoder())
        assert damaged
        assert fed <= keys[number] - keys[number - 1] + 1


def test_h264_says_which_keyframe_is_damaged_and_gives_all_frames(sample):
    whole = build_index(sample("h264_mp4"))
    keyframe = int(np.flatnonzero(whole.packet_key)[1])
    source = MemorySource(with_damaged(sample("h264_mp4"), whole, [keyframe]))
    index = build_index(source)
    alone = [read_alone(source, index, frame, CpuDecoder()) for frame in range(len(index))]
    assert [int(index.frame_packet[frame]) for frame, (_, damaged, _) in enumerate(alone) if damaged] == [keyframe]


def test_where_the_gop_before_does_not_decode_the_damaged_keyframe_is_given_as_it_is(sample):
    whole = build_index(sample("h264_mp4"))
    keyframe = int(np.flatnonzero(whole.packet_key)[2])
    data = bytearray(with_damaged(sample("h264_mp4"), whole, [keyframe]))
    lost = keyframe - 5
    offset, size = int(whole.packet_offset[lost]), int(whole.packet_size[lost])
    data[offset : offset + size] = bytes(size)
    source = MemorySource(bytes(data))
    index = build_index(source)
    frame = int(np.flatnonzero(index.frame_packet == keyframe)[0])
    with pytest.raises(vl.DecodeError, match=f"packet {lost} does not decode"):
        read_alone(source, index, frame - 1, CpuDecoder())
    _, damaged, fed = read_alone(source, index, frame, CpuDecoder())
    assert (damaged, fed) == (True, 1)
