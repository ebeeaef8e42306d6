"""Damaged frames in every API: marked, reported once per file, counted, or refused."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Iterator
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
    with pytest.raises(vl.CorruptFramesError, match=r"damaged\.mp4: .* \(first: frame 12\)"):
        DOORS[door](video)
    assert not damage_told(lambda: video[:12])


def test_a_stream_gives_out_what_comes_before(damaged: Path) -> None:
    streamed = vl.Video(damaged, device="cpu", on_corrupt="raise").stream()
    given = [next(streamed) for _ in range(12)]
    with pytest.raises(vl.CorruptFramesError):
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
            corrupt_frames.tell_of_corrupt(str(number), np.array([1]), "keep")
    assert len(corrupt_frames._warned) == 3


def with_video(damaged: Path, value: object) -> None:
    vl.Video(damaged, device="cpu", on_corrupt=value)


def with_loader(damaged: Path, value: object) -> None:
    loader(damaged, damaged, on_corrupt=value)


def with_torch_loader(damaged: Path, value: object) -> None:
    ClipDataset(vl.VideoDataset.from_paths([damaged]), vl.EveryWindow(4), on_corrupt=value)


def with_requests(damaged: Path, value: object) -> None:
    DecodingLoader([], device="cpu", on_corrupt=value)


VALUES = {
    with_video: {"keep", "raise"},
    with_loader: {"keep", "raise", "skip", "replace"},
    with_torch_loader: {"keep", "raise"},
    with_requests: {"keep", "raise", "skip"},
}


@pytest.mark.parametrize("make", VALUES)
def test_each_front_end_takes_what_it_can_do(damaged: Path, make: Callable[[Path, object], None]) -> None:
    for value in ["keep", "raise", "skip", "replace", "error", "", None, True]:
        if value in VALUES[make]:
            make(damaged, value)
        else:
            with pytest.raises(vl.ConfigurationError, match=f"on_corrupt must be one of keep, raise.*, got {value!r}"):
                make(damaged, value)


@pytest.mark.parametrize("make", VALUES)
def test_words_of_before_are_answered_with_those_of_now(damaged: Path, make: Callable[[Path, object], None]) -> None:
    with pytest.raises(vl.ConfigurationError, match=re.escape("no longer 'warn': write \"keep\", which")):
        make(damaged, "warn")
    with pytest.raises(vl.ConfigurationError, match=re.escape('"keep", and warnings.simplefilter("ignore"')):
        make(damaged, "ignore")


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


def firsts(batches: Iterable[vl.Batch]) -> list[tuple[str, int]]:
    return [
        (path, int(row[0])) for batch in batches for path, row in zip(batch.paths, batch.frame_numbers, strict=True)
    ]


@pytest.mark.parametrize("on_error", ["raise", "skip", "replace"])
@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_does_with_them_what_it_is_told_whatever_it_does_about_errors(
    damaged: Path, sample: Sample, on_error: str, workers: int
) -> None:
    sound, settings = sample("h264_mp4"), {"on_error": on_error, "num_workers": workers}
    kept = firsts(loader(damaged, sound, **settings))
    with pytest.raises(vl.CorruptFramesError, match="damaged frames"):
        list(loader(damaged, sound, on_corrupt="raise", **settings))
    skipping = loader(damaged, sound, on_corrupt="skip", **settings)
    assert firsts(skipping) == [each for each in kept if each != (str(damaged), 12)]
    assert (skipping.stats().skipped, skipping.stats().replaced, skipping.stats().corrupt) == (1, 0, 0)
    replacing = loader(damaged, sound, on_corrupt="replace", **settings)
    batches = list(replacing)
    assert len(firsts(batches)) == len(kept)
    assert [one == other for one, other in zip(firsts(batches), kept, strict=True)].count(False) == 1
    assert not any(batch.corrupt.any() for batch in batches)
    assert (replacing.stats().skipped, replacing.stats().replaced, replacing.stats().corrupt) == (0, 1, 0)
    for each in (skipping, replacing):
        ((path, error),) = each.unreadable
        assert (path, "damaged frames" in error) == (str(damaged), True)


def test_a_loader_replaces_damaged_clips_while_files_that_do_not_decode_are_errors(
    damaged: Path, tmp_path: Path
) -> None:
    data = bytearray(damaged.read_bytes())
    for start in build_index(damaged).packet_offset.tolist()[12:]:
        data[start : start + 4] = b"\xff\xff\xff\xff"  # the length of a NAL unit
    (tmp_path / "noise.mp4").write_bytes(data)
    with pytest.raises(vl.DecodeError, match=r"noise\.mp4"):
        list(loader(damaged, tmp_path / "noise.mp4", on_corrupt="replace"))
    skipping = loader(damaged, tmp_path / "noise.mp4", on_corrupt="replace", on_error="skip")
    assert (str(damaged), 12) not in firsts(skipping)
    assert (skipping.stats().skipped, skipping.stats().replaced) == (4, 1)
    assert {Path(path).name for path, _ in skipping.unreadable} == {"damaged.mp4", "noise.mp4"}


def test_an_epoch_with_replaced_clips_resumes_exactly(damaged: Path, sample: Sample) -> None:
    def make() -> vl.VideoLoader:
        return loader(damaged, sample("h264_mp4"), on_corrupt="replace", shuffle=True, seed=2)

    whole, begun, resumed = firsts(make()), make(), make()
    for number, _ in enumerate(begun):
        if number == 1:
            break
    resumed.load_state_dict(begun.state_dict())
    assert firsts(resumed) == whole[4:]


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


def test_clips_of_a_torch_loader_may_be_refused(damaged: Path) -> None:
    clips = ClipDataset(vl.VideoDataset.from_paths([damaged]), vl.EveryWindow(4, step=12), on_corrupt="raise")
    assert not clips[0]["corrupt"].any()
    with pytest.raises(vl.CorruptFramesError):
        clips[1]


def test_batches_of_requests_may_be_refused_or_skipped(damaged: Path) -> None:
    batches = [[ClipRequest(damaged, [frame])] for frame in (3, 13, 30)]
    with pytest.raises(vl.CorruptFramesError):
        list(DecodingLoader(batches, device="cpu", on_corrupt="raise", on_error="skip"))
    skipping = DecodingLoader(batches, device="cpu", on_corrupt="skip", replace_with=lambda clips: clips)
    assert firsts(skipping) == [(str(damaged), 3), (str(damaged), 30)]
    assert skipping.stats().skipped == 1
    ((path, error),) = skipping.unreadable
    assert (path, "damaged frame" in error) == (str(damaged), True)
