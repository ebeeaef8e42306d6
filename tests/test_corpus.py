"""Every file of the corpus, frame by frame, against a full libav decode.

The corpus is a folder of real video files with a MANIFEST.tsv; without it these tests are skipped.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from corpus_files import GOOD_FILES
from truth import Truth, full_decode, hash_of

from videoloader.decoding.cpu import CpuDecoder
from videoloader.decoding.damage import decode_run
from videoloader.indexing import FileSource, VideoIndex, build_index
from videoloader.packets.decode_plan import plan_frames
from videoloader.packets.read_packets import read_packets

# Larger files are decoded whole by soak/identical_frames.py, and the longest at all where no build server waits.
_WHOLE_PIXELS, _MOST_PIXELS = (1 << 27, 1 << 31) if "CI" in os.environ else (1 << 30, 1 << 60)


@pytest.mark.parametrize("name", GOOD_FILES)
def test_frames_are_those_of_a_full_decode(name: str, corpus: Path) -> None:
    source = FileSource(corpus / name)
    index = build_index(source)
    pixels = len(index) * index.stream.width * index.stream.height
    if pixels > _MOST_PIXELS:
        pytest.skip("a full decode of it takes too long for a build server")
    rng = random.Random(name)
    wanted = chosen_frames(index, rng)
    # All at once, in one plan of several runs; some alone, each from its own keyframe; and the whole video, if small.
    whole = [range(len(index))] if pixels < _WHOLE_PIXELS else []
    truth = full_decode(corpus / name, None if whole else frozenset(wanted))
    assert not truth.error
    assert len(index) == len(truth.hashes)
    assert_same_times(index, truth)
    assert all(truth.hashes[frame] for frame in wanted)
    decoder = CpuDecoder()
    for frames in (wanted, *([frame] for frame in rng.sample(wanted, min(len(wanted), 3))), *whole):
        decoded = decode(decoder, source, index, frames)
        wrong = [frame for frame in frames if decoded.get(int(index.frame_packet[frame])) != truth.hashes[frame]]
        assert not wrong
    # By decoders that have seen nothing else of the video.
    for frame in {wanted[-1], rng.choice(wanted)}:
        packet = int(index.frame_packet[frame])
        assert decode_alone(source, index, frame)[packet] == truth.hashes[frame]


def decode_alone(source: FileSource, index: VideoIndex, frame: int) -> dict[int, bytes]:
    """As ``decode``, but with all that readers do about a damaged start."""
    found: dict[int, bytes] = {}
    for run in plan_frames(index, [frame]).runs:
        read = partial(read_packets, source, index)
        decode_run(CpuDecoder(), index, run, read, lambda packet, frame: found.update({packet: hash_of(frame)}))
    return found


def decode(decoder: CpuDecoder, source: FileSource, index: VideoIndex, frames: Sequence[int]) -> dict[int, bytes]:
    """The hash of each wanted packet's frame."""
    found: dict[int, bytes] = {}
    for run in plan_frames(index, frames).runs:
        packets = read_packets(source, index, run)
        decoder.decode(index, packets, lambda packet, frame: found.update({packet: hash_of(frame)}))
    return found


def chosen_frames(index: VideoIndex, rng: random.Random) -> list[int]:
    """First, last, 10 random ones, and the keyframes with their neighbours."""
    count = len(index)
    keyframes = np.flatnonzero(index.packet_key[index.frame_packet]).tolist()
    chosen = {0, count - 1, *(rng.randrange(count) for _ in range(10))}
    chosen |= {key + step for key in rng.sample(keyframes, min(len(keyframes), 20)) for step in (-1, 0, 1)}
    return sorted(frame for frame in chosen if 0 <= frame < count)


def assert_same_times(index: VideoIndex, truth: Truth) -> None:
    known = [number for number, pts in enumerate(truth.pts) if pts is not None]
    times = [truth.pts[number] for number in known]
    # AVI holds no presentation times: libav gives reordered frames the numbers of their packets. Frames come
    # in the right order all the same, so the same times in rising order are theirs.
    assert index.frame_pts[known].tolist() == sorted(times)
    if index.container != "avi":
        assert times == sorted(times)
    assert (np.diff(index.frame_pts) >= 0).all()
