"""Mistakes of another user's first day whose answers did not help, or that had none."""

# mypy: ignore-errors
from __future__ import annotations

import gzip
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from first_day import Mistakes, check_answer, first, loader, video

import videoloader as vl
from videoloader import VideoDataset as VD
from videoloader.interop.torch import ClipDataset


class NoPad:
    def num_clips(self, video):
        return 1

    def frame_numbers(self, video, clip, rng):
        return np.arange(4)


@vl.augmentation(magnitudes=(0, 1))
def fade(frames, params):
    return frames


@vl.augmentation()
def turn(frames, params):
    return frames


def opened(name: str, content: bytes) -> vl.Video:
    Path(name).write_bytes(content)
    return vl.Video(name, device="cpu")


def archive() -> vl.Video:
    with tarfile.open("videos.tar", "w") as file:
        file.add("a.mp4")
    return vl.Video("videos.tar", device="cpu")


def folder_of_archives() -> VD:
    Path("shards").mkdir(exist_ok=True)
    return VD.from_archives("shards")


def folder_without_rate() -> vl.Video:
    Path("images").mkdir(exist_ok=True)
    return vl.Video("images::fps=", device="cpu")


def late_part() -> vl.Batch:
    Path("late.csv").write_text("path,start,end\na.mp4,100,164\n")
    return first(dataset=VD.from_csv("late.csv"))


MISTAKES: Mistakes = {
    "an archive for a video": (
        archive,
        "videos.tar: is no video: it is an archive … 'videos.tar::clip.mp4'",
    ),
    "a compressed video": (lambda: opened("a.mp4.gz", gzip.compress(bytes(99))), "it is compressed (gzip): decompress"),
    "a short text for a video": (
        lambda: opened("t.mp4", b'{"a": 1}'),
        "t.mp4: libavformat cannot read it … it is text",
    ),
    "a folder of archives": (folder_of_archives, "shards: is a folder, and no LMDB database … as 'shards/*.tar'"),
    "a folder of images without a rate": (
        folder_without_rate,
        "images: is a folder, and no LMDB database … 'folder::fps=25'",
    ),
    "NVDEC for a video on the CPU": (
        lambda: vl.Video("a.mp4", device="cpu", decode="nvdec"),
        "decode is 'nvdec', but the device is 'cpu'",
    ),
    "a mode without a member": (
        lambda: loader(NoPad()),
        "NoPad lacks pad: a frame mode has pad, num_clips(self, video)",
    ),
    "an augmentation as it is": (lambda: first(transforms=[fade]), "not a transform: write fade.at(magnitude)"),
    "one without magnitudes": (lambda: first(transforms=[turn]), "not a transform: write turn.at()"),
    "a loader to verify": (lambda: vl.verify(loader()), "source must be a path … or a VideoDataset, got VideoLoader("),
    "a Video to verify": (lambda: vl.verify(video()), "a list of videos or a VideoDataset, got Video('a.mp4'"),
    "a number to verify": (lambda: vl.verify(5), "a list of videos or a VideoDataset, got 5"),
    "a margin in per cent": (lambda: vl.CropToBox(margin=20), "margin must be a share of the box's sides in [0, 10]"),
    "a part in frames, by seconds": (
        late_part,
        "no frames for start_seconds=100.0 … start_frame and end_frame are frames",
    ),
    "frames for a number": (
        lambda: vl.RandomWindow(torch.zeros(9, 9)),
        "length must be … got torch.float32 of shape (9, 9)",
    ),
}


@pytest.mark.parametrize(("call", "words"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_answered(call: Callable[[], object], words: str) -> None:
    check_answer(call, words)


@pytest.mark.parametrize(
    "sources",
    [lambda: (each for each in ["a.mp4"]), lambda: VD.from_paths(["a.mp4"]).paths, lambda: np.array(["a.mp4"])],
    ids=["generator", "column", "array"],
)
def test_any_list_of_videos_is_verified(sources: Callable[[], object]) -> None:
    report = vl.verify(sources(), device="cpu", workers=1)
    assert [each.source for each in report.files] == ["a.mp4"]
    assert report.ok


def test_an_archive_that_looks_like_a_video_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def found(source):
        raise vl.DecodeError("packet 1 does not decode", source.name)

    monkeypatch.setattr("videoloader.indexing.build.index_by_demuxing", found)
    check_answer(archive, "videos.tar: is no video: it is an archive, whose members are named as")
    with pytest.raises(vl.DecodeError, match="packet 1"):
        opened("noise.bin", bytes(range(1, 255)))


def test_a_sampler_that_repeats_clips_hears_what_to_do() -> None:
    clips = ClipDataset(VD.from_paths(["a.mp4"]), vl.RandomWindow(2))
    with pytest.warns(vl.VideoLoaderWarning, match=r"asked for again: .* by data\.weighted"):
        first_batch, second = clips.__getitems__([0]), clips.__getitems__([0])
    assert (first_batch[0]["frame_numbers"] == second[0]["frame_numbers"]).all()
