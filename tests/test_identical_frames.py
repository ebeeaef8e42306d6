"""A small sample of soak/identical_frames.py and identical_batches.py: random clips are as in a full decode."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from soak.identical_batches import compare_loaders
from soak.identical_frames import Engines, compare_clips, compare_whole, open_file

Sample = Callable[[str], Path]
NAMES = [
    "h264_mp4_open_gop", "h264_mp4_intra_refresh", "h264_mkv_interlaced", "h264_ts", "hevc_mkv", "vp9_webm",
    "vp8_webm", "av1_mkv", "mpeg2_ts", "mpeg4_avi",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_random_clips_have_the_samples_of_a_full_decode(name: str, sample: Sample) -> None:
    file, engines = open_file(sample(name), cuda=False), Engines(cuda=False)
    account = compare_clips(file, engines, range(24))
    assert not account.wrong
    assert not compare_whole(file, engines).wrong
    assert account.frames["cpu"] >= 24
    assert not account.damaged


def test_a_wrong_frame_is_noticed_and_named(sample: Sample) -> None:
    file = open_file(sample("h264_ts"), cuda=False)
    shifted = replace(file, hashes=[*file.hashes[1:], file.hashes[0]])
    wrong = compare_clips(shifted, Engines(cuda=False), range(8)).wrong
    assert len(wrong) >= 8
    assert "is frame" in wrong[0]
    assert len(compare_whole(shifted, Engines(cuda=False)).wrong) == len(file.hashes)


def test_clips_do_not_depend_on_their_batch(sample: Sample) -> None:
    settings = {"device": "cpu", "num_workers": 2}
    ways = {"single": settings | {"batch_size": 1}, "shuffled": settings, "in order": settings | {"shuffle": False}}
    assert not compare_loaders([sample(name) for name in NAMES], 4, ways)
