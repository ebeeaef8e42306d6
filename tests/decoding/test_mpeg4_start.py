"""Interlaced MPEG-4 with B pictures, whose first one decides on how libavcodec predicts the others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from sample_videos import Recipe, write_video

import videoloader as vl

# mp4, mkv and avi have one copy of the headers, a transport stream has one before each keyframe.
SUFFIXES = ("mp4", "mkv", "avi", "ts")
FRAMES = 48


def waves(number: int, width: int, height: int) -> np.ndarray:
    """A picture of moving waves and noise, in which encoders use every kind of prediction."""
    y, x = np.mgrid[:height, :width]
    grey = 128 + 70 * np.sin((x * 1.3 + number) / 11) * np.sin((y - 2 * number) / 8)
    noise = np.random.default_rng(number // 17).integers(0, 16, (height, width))
    picture = np.repeat((grey + noise).clip(0, 255).astype(np.uint8)[..., None], 3, axis=2)
    top, left = 5 * number % (height - 21), 7 * number % (width - 21)
    picture[top : top + 21, left : left + 21] = 37 * number % 256
    return picture


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    folder = tmp_path_factory.mktemp("interlaced")
    options = {"bf": "2", "g": "9", "b": "1M"}
    for suffix in SUFFIXES:
        recipe = Recipe(suffix, "mpeg4", options | {"flags": "+ildct+ilme"}, size=(96, 64), frames=FRAMES)
        write_video(folder / f"fields.{suffix}", recipe, waves)
    write_video(folder / "plain.mp4", Recipe("mp4", "mpeg4", options, size=(96, 64), frames=FRAMES), waves)
    return lambda name: folder / name


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_each_frame_alone_is_that_of_a_decode_from_the_start(video: Callable[[str], Path], suffix: str) -> None:
    path = video(f"fields.{suffix}")
    expected = list(vl.Video(path, device="cpu").stream())
    assert len(expected) == FRAMES
    assert vl.verify(path, device="cpu").ok
    read = vl.Video(path, device="cpu")
    for number in np.random.default_rng(1).permutation(FRAMES).tolist():
        clip = vl.Video(path, device="cpu").read([number])
        assert not clip.corrupt.any()
        assert torch.equal(clip.frames[0], expected[number]), number
        assert torch.equal(read.read([number]).frames[0], expected[number]), number
    for first in range(7, FRAMES - 3, 7):  # runs begin before and after keyframes
        clip = read.read([first, first + 3])
        assert torch.equal(clip.frames, torch.stack([expected[first], expected[first + 3]]))


def test_only_interlaced_streams_need_all_b_pictures(video: Callable[[str], Path]) -> None:
    indexes = {suffix: vl.build_index(video(f"fields.{suffix}")) for suffix in SUFFIXES}
    assert {suffix: index.stream.first_b_distance for suffix, index in indexes.items()} == dict.fromkeys(SUFFIXES, 1)
    assert vl.build_index(video("plain.mp4")).stream.first_b_distance == 0
