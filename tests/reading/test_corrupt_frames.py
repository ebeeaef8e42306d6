"""Damaged frames at every door: marked, told of once a file, counted, or refused."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

import videoloader as vl
from videoloader.indexing import build_index
from videoloader.interop.torch import ClipDataset, ClipRequest, DecodingLoader, stack_clips
from videoloader.reading import corrupt_frames

Sample = Callable[[str], Path]


@pytest.fixture
def damaged(sample: Sample, tmp_path: Path) -> Path:
    """A video whose frames from 12 on are damaged up to the keyframe at 24."""
    index = build_index(sample("h264_mp4"))
    keyframe = int(np.flatnonzero(index.packet_key)[1])
    offset, size = int(index.packet_offset[keyframe]), int(index.packet_size[keyframe])
    data = bytearray(sample("h264_mp4").read_bytes())
    data[offset + size // 2 : offset + size] = bytes(size - size // 2)
    path = tmp_path / "damaged.mp4"
    path.write_bytes(data)
    return path


@pytest.fixture(autouse=True)
def nothing_told_yet() -> Iterator[None]:
    corrupt_frames._warned.clear()
    yield
    corrupt_frames._warned.clear()


def damage_told(read: Callable[[], object]) -> list[str]:
    """What is said of damage while something is read."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        read()
    return [str(each.message) for each in caught if issubclass(each.category, vl.CorruptFramesWarning)]


DOORS: dict[str, Callable[[vl.Video], object]] = {
    "frame": lambda video: video[12],
    "slice": lambda video: video[10:14],
    "iteration": lambda video: list(video),
    "stream": lambda video: list(video.stream(slice(8, 40))),
    "backwards": lambda video: list(video.stream(slice(40, 8, -1))),
    "read": lambda video: video.read([12, 3]),
    "read_clips": lambda video: video.read_clips(vl.EveryWindow(4, stride=2, step=8)),
}


@pytest.mark.parametrize("door", DOORS)
def test_every_door_of_a_video_warns_once_a_file(damaged: Path, door: str) -> None:
    video = vl.Video(damaged, device="cpu")
    (told,) = damage_told(lambda: DOORS[door](video))
    assert str(damaged) in told
    assert "(first: frame 12)" in told
    assert not damage_told(lambda: DOORS[door](video))


@pytest.mark.parametrize("door", DOORS)
def test_every_door_of_a_video_may_refuse_them(damaged: Path, door: str) -> None:
    video = vl.Video(damaged, device="cpu", on_corrupt="raise")
    with pytest.raises(vl.DecodeError, match=r"damaged\.mp4: .* \(first: frame 12\)"):
        DOORS[door](video)
    assert not damage_told(lambda: video[:12])


@pytest.mark.parametrize("door", DOORS)
def test_every_door_of_a_video_may_be_silent(damaged: Path, door: str) -> None:
    video = vl.Video(damaged, device="cpu", on_corrupt="ignore")
    assert not damage_told(lambda: DOORS[door](video))


def test_a_stream_gives_out_what_comes_before(damaged: Path) -> None:
    streamed = vl.Video(damaged, device="cpu", on_corrupt="raise").stream()
    given = [next(streamed) for _ in range(12)]
    with pytest.raises(vl.DecodeError):
        next(streamed)
    assert torch.equal(torch.stack(given), vl.Video(damaged, device="cpu")[:12])


def test_how_many_are_told(damaged: Path) -> None:
    video = vl.Video(damaged, device="cpu")
    assert damage_told(lambda: video.read([30, 13, 13, 12, 5]))[0].endswith("2 damaged frames (first: frame 12)")


def test_sound_frames_of_a_damaged_file_are_given_without_a_word(damaged: Path, sample: Sample) -> None:
    video, whole = vl.Video(damaged, device="cpu", on_corrupt="raise"), vl.Video(sample("h264_mp4"), device="cpu")
    frames = [*range(12), *range(24, 60)]
    assert torch.equal(video.read(frames).frames, whole.read(frames).frames)


def test_names_of_files_take_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corrupt_frames, "_MOST_REMEMBERED", 3)
    for number in range(10):
        with pytest.warns(vl.CorruptFramesWarning):
            corrupt_frames.tell_of_corrupt(str(number), np.array([1]), "warn")
    assert len(corrupt_frames._warned) == 3


@pytest.mark.parametrize("value", ["error", "", None, True])
def test_other_values_are_refused(damaged: Path, value: object) -> None:
    with pytest.raises(vl.ConfigurationError, match="on_corrupt"):
        vl.Video(damaged, device="cpu", on_corrupt=value)
    with pytest.raises(vl.ConfigurationError, match="on_corrupt"):
        loader(damaged, damaged, on_corrupt=value)


def loader(damaged: Path, sound: Path, **settings: object) -> vl.VideoLoader:
    """Clips of which the second video's first is sound, its second damaged."""
    defaults = {"batch_size": 2, "device": "cpu", "num_workers": 2}
    data = vl.VideoDataset.from_paths([sound, damaged])
    return vl.VideoLoader(data, vl.EveryWindow(4, stride=2, step=12), **(defaults | settings))


def test_a_loader_marks_counts_and_warns_of_them(damaged: Path, sample: Sample) -> None:
    given = loader(damaged, sample("h264_mp4"))
    batches: list[vl.Batch] = []
    (told,) = damage_told(lambda: batches.extend(given))
    assert "(first: frame 12)" in told
    marked = {
        (path, int(numbers[0]))
        for batch in batches
        for path, numbers, corrupt in zip(batch.paths, batch.frame_numbers, batch.corrupt, strict=True)
        if corrupt.all()
    }
    assert marked == {(str(damaged), 12)}
    assert sum(int(batch.corrupt.sum()) for batch in batches) == given.stats().corrupt == 4
    assert "(4 corrupt)" in str(given.stats())
    assert not loader(sample("h264_mp4"), sample("h264_mp4")).stats().corrupt


def test_a_loader_treats_them_as_unreadable_where_it_should(damaged: Path, sample: Sample) -> None:
    with pytest.raises(vl.DecodeError, match="damaged frames"):
        list(loader(damaged, sample("h264_mp4"), on_corrupt="raise"))
    skipping = loader(damaged, sample("h264_mp4"), on_corrupt="raise", on_error="skip")
    shown = [clip for batch in skipping for clip in zip(batch.paths, batch.frame_numbers[:, 0].tolist(), strict=True)]
    assert (str(damaged), 0) in shown
    assert (str(damaged), 12) not in shown
    assert (str(damaged), 24) in shown
    ((path, error),) = skipping.unreadable
    assert (path, "damaged frames" in error) == (str(damaged), True)
    replacing = loader(damaged, sample("h264_mp4"), on_corrupt="raise", on_error="replace")
    assert not any(batch.corrupt.any() for batch in replacing)
    assert not damage_told(lambda: list(loader(damaged, damaged, on_corrupt="ignore")))


def test_the_clips_of_a_torch_loader_are_marked(damaged: Path) -> None:
    clips = ClipDataset(vl.VideoDataset.from_paths([damaged]), vl.EveryWindow(4, stride=2, step=12))
    batches: list[vl.Batch] = []
    assert len(damage_told(lambda: batches.extend(DataLoader(clips, batch_size=5, collate_fn=stack_clips)))) == 1
    assert batches[0].corrupt.all(axis=1).tolist() == [False, True, False, False, False]
    assert clips[1]["corrupt"].all()


def test_what_stands_for_requests_is_marked(damaged: Path) -> None:
    requests = DataLoader([ClipRequest(damaged, [2, 13]), ClipRequest(damaged, [11, 12])], batch_size=2)
    made: list[vl.Batch] = []
    decoding = DecodingLoader(requests, device="cpu", replace_with=lambda clips: clips)
    assert len(damage_told(lambda: made.extend(decoding))) == 1
    assert made[0].corrupt.tolist() == [[False, True], [False, True]]
    assert decoding.stats().corrupt == 2
