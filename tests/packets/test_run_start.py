"""A run starts where the packets allow it, whatever the container says about keyframes and times."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from truth import full_decode, hash_of

from videoloader import Video
from videoloader.decoding.cpu import CpuDecoder
from videoloader.indexing import build_index, open_source
from videoloader.packets.decode_plan import plan_frames
from videoloader.packets.read_packets import read_packets
from videoloader.packets.run_start import WrongIndexError

OPEN = ["h264_mp4_open_gop", "hevc_mkv", "mpeg2_mkv", "mpeg4_mkv"]


def read_frame(source, index, decoder: CpuDecoder, frame: int) -> tuple[bytes, int]:
    """The frame's hash, and how often the index had to be corrected for it."""
    corrections = 0
    while True:
        hashes: dict[int, bytes] = {}
        try:
            for run in plan_frames(index, [frame]).runs:
                packets = read_packets(source, index, run)
                decoder.decode(index, packets, lambda packet, picture, to=hashes: to.update({packet: hash_of(picture)}))
            return hashes[int(index.frame_packet[frame])], corrections
        except WrongIndexError as found:
            index, corrections = found.index, corrections + 1
            assert corrections < 40


@pytest.mark.parametrize("name", OPEN)
def test_leading_frames_are_decoded_from_the_keyframe_before_though_times_call_them_trailing(sample, name):
    index, truth = build_index(sample(name)), full_decode(sample(name)).hashes
    # No packet seems to be shown before the keyframe that it follows.
    lying = replace(index, packet_pts=np.arange(len(index.packet_pts)))
    starts = index.packet_start[index.frame_packet]
    leading = np.flatnonzero(lying.packet_start[lying.frame_packet] != starts).tolist()
    assert leading
    source, decoder = open_source(sample(name)), CpuDecoder()
    assert [read_frame(source, lying, decoder, frame)[0] for frame in range(60)] == truth
    corrections = {frame: read_frame(source, lying, decoder, frame)[1] for frame in range(60)}
    assert {frame for frame, times in corrections.items() if times} <= set(leading)


@pytest.mark.parametrize("name", ["h264_mp4", *OPEN])
def test_frames_are_right_whatever_the_times(sample, name):
    index, truth = build_index(sample(name)), full_decode(sample(name)).hashes
    shuffled = replace(index, packet_pts=np.random.default_rng(1).permutation(index.packet_pts))
    source, decoder = open_source(sample(name)), CpuDecoder()
    assert [read_frame(source, shuffled, decoder, frame)[0] for frame in range(60)] == truth


@pytest.mark.parametrize("name", ["h264_mp4", "hevc_mp4", "mpeg4_mkv", "vp9_webm", "av1_mp4"])
@pytest.mark.parametrize("threads", [1, 4])
def test_every_packet_called_a_keyframe_costs_no_frame(sample, name, threads, monkeypatch):
    monkeypatch.setattr("torch.get_num_threads", lambda: threads)
    index = build_index(sample(name))
    expected = Video(sample(name), device="cpu")[:]
    believed = replace(index.with_keyframes(np.ones(len(index.packet_key), np.bool_)), keys_from="container")
    for frames in ([4, 5, 6, 7, 8], [31], list(range(20, 40)), [59, 0]):
        video = Video(sample(name), device="cpu", index=believed)
        assert torch.equal(video.read(frames).frames, expected[frames])
