"""Batches of clips that differ in length or size: padded, or as lists."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
from same_batches import assert_same_batches
from sample_videos import RECIPES, Recipe, write_video

import videoloader as vl

Sample = Callable[[str], Path]
LENGTHS = [20, 7, 60, 1, 33]
FILL = (200, 0, 7)


@pytest.fixture(scope="module")
def data(sample: Sample) -> vl.VideoDataset:
    """Parts of videos, of ``LENGTHS``."""
    names = ["h264_mp4", "hevc_mp4", "h264_mp4_vfr", "h264_mp4", "h264_ts"]
    starts = [5, 50, 0, 59, 11]
    return vl.VideoDataset(
        [
            vl.VideoEntry(str(sample(name)), label, start=start, stop=start + length)
            for label, (name, start, length) in enumerate(zip(names, starts, LENGTHS, strict=True))
        ]
    )


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A video of another size than the samples."""
    path = tmp_path_factory.mktemp("small") / "small.mp4"
    return write_video(path, Recipe("mp4", "libx264", RECIPES["h264_mp4"].options, size=(96, 64), frames=20))


def make(data: vl.VideoDataset, mode: vl.WholeVideo | vl.Keyframes, **settings: object) -> vl.VideoLoader:
    defaults = {"batch_size": 3, "device": "cpu", "num_workers": 2, "fill_value": FILL}
    return vl.VideoLoader(data, mode, **(defaults | settings))


def as_tchw(frames: torch.Tensor, layout: str) -> torch.Tensor:
    return frames.permute([layout.index(axis) for axis in "TCHW"])


def clip_of(entry: vl.VideoEntry, stride: int) -> vl.Clip:
    return vl.Video(entry.path, device="cpu").read(range(entry.start or 0, entry.stop or 0, stride))


@pytest.mark.parametrize("layout", ["TCHW", "CTHW", "THWC"])
def test_shorter_clips_are_filled_up_to_the_longest_of_their_batch(data: vl.VideoDataset, layout: str) -> None:
    batches = list(make(data, vl.WholeVideo(stride=2), collate="pad", layout=layout))
    assert [batch.mask.shape for batch in batches] == [(3, 30), (2, 17)]
    assert {type(batch) for batch in batches} == {vl.Batch}
    for batch in batches:
        assert batch.frames.shape[1 + layout.index("T")] == batch.mask.shape[1]
        for row, label in enumerate(batch.labels.tolist()):
            clip = clip_of(data[label], 2)
            length, frames = len(clip.frames), as_tchw(batch.frames[row], layout)
            assert torch.equal(frames[:length], clip.frames)
            assert (frames[length:] == torch.tensor(FILL, dtype=torch.uint8)[:, None, None]).all()
            assert batch.mask[row].tolist() == [True] * length + [False] * (len(frames) - length)
            assert batch.frame_numbers[row, :length].tolist() == clip.frame_numbers.tolist()
            assert batch.timestamps[row, :length].tolist() == clip.timestamps.tolist()
            assert (batch.frame_numbers[row, length:] == -1).all()
            assert np.isnan(batch.timestamps[row, length:]).all()
    assert not any(batch.corrupt.any() for batch in batches)


@pytest.mark.parametrize("layout", ["TCHW", "THWC"])
def test_clips_in_a_list_keep_their_length_and_size(data: vl.VideoDataset, small: Path, layout: str) -> None:
    mixed = vl.VideoDataset([*data, vl.VideoEntry(str(small), 5, start=0, stop=20)])
    batches = list(make(mixed, vl.WholeVideo(stride=3), collate="list", layout=layout, batch_size=4))
    assert [len(batch.frames) for batch in batches] == [4, 2]
    for batch in batches:
        assert isinstance(batch.to("cpu"), vl.ListBatch)
        for row, label in enumerate(batch.labels.tolist()):
            clip = clip_of(mixed[label], 3)
            assert torch.equal(as_tchw(batch.frames[row], layout), clip.frames)
            for name in ("frame_numbers", "timestamps", "mask", "corrupt"):
                assert getattr(batch, name)[row].tolist() == getattr(clip, name).tolist(), name
    assert batches[1].boxes.tolist() == [[0, 0, 128, 160], [0, 0, 64, 96]]


def test_keyframes_go_into_one_batch(data: vl.VideoDataset) -> None:
    data = vl.VideoDataset([data[0], data[2], data[4]])
    keyframes = [keyframes_of(entry) for entry in data]
    assert len({len(frames) for frames in keyframes}) > 1
    (padded,) = make(data, vl.Keyframes(), collate="pad")
    (listed,) = make(data, vl.Keyframes(), collate="list")
    for row, frames in enumerate(keyframes):
        assert padded.frame_numbers[row][padded.mask[row]].tolist() == frames
        assert listed.frame_numbers[row].tolist() == frames
        assert torch.equal(padded.frames[row][torch.from_numpy(padded.mask[row])], listed.frames[row])


def keyframes_of(entry: vl.VideoEntry) -> list[int]:
    index = vl.build_index(entry.path)
    return [frame for frame in range(entry.start or 0, entry.stop or 0) if index.packet_key[index.frame_packet[frame]]]


@pytest.mark.parametrize("collate", ["pad", "list"])
def test_batches_do_not_depend_on_workers(data: vl.VideoDataset, collate: str) -> None:
    settings = {"collate": collate, "shuffle": True, "seed": 3}
    one = list(make(data, vl.WholeVideo(), num_workers=1, prefetch=1, **settings))
    assert_same_batches(one, list(make(data, vl.WholeVideo(), num_workers=3, **settings)))


def test_a_stack_of_clips_that_differ_is_an_error_that_says_what_to_do(data: vl.VideoDataset, small: Path) -> None:
    with pytest.raises(vl.ConfigurationError, match=r"have \[7, 20, 60\] frames: .* collate=\"pad\" or \"list\""):
        list(make(data, vl.WholeVideo()))
    sizes = vl.VideoDataset([data[0], vl.VideoEntry(str(small))])
    for collate in ("stack", "pad"):
        with pytest.raises(vl.ConfigurationError, match=r"\(20, 64, 96\).*Letterbox"):
            list(make(sizes, vl.WholeVideo(), collate=collate))
    with pytest.raises(vl.ConfigurationError, match="collate must be one of stack, pad, list, got 'ragged'"):
        make(data, vl.WholeVideo(), collate="ragged")


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect_101"])
def test_videos_of_any_size_and_length_fit_into_one_batch(sample: Sample, small: Path, mode: str) -> None:
    data = vl.VideoDataset.from_paths([sample("h264_mp4"), small])
    steps = [vl.Letterbox((64, 100), mode=mode, fill=50)]
    (batch,) = make(data, vl.WholeVideo(), collate="pad", transforms=steps)
    assert batch.frames.shape == (2, 60, 3, 64, 100)
    assert batch.boxes.tolist() == [[0, 10, 64, 80], [0, 2, 64, 96]]
    assert torch.equal(batch.frames[1, :20, :, :, 2:98], vl.Video(small, device="cpu")[:])
    assert (batch.frames[1, 20:, :, :, 2:98] == torch.tensor(FILL, dtype=torch.uint8)[:, None, None]).all()
    sides = batch.frames[1, :, :, :, :2]
    if mode == "constant":
        assert (sides == 50).all()
    else:
        columns = [2, 2] if mode == "edge" else [4, 3]
        assert torch.equal(sides, batch.frames[1][..., columns])


@vl.transforms.augmentation(draws=4)
def brighter_rows(frames: torch.Tensor, params: Mapping[str, np.ndarray]) -> torch.Tensor:
    added = params["random"].mean(1) * 60
    assert params["random"].shape == (len(frames), 4)
    return (frames.float() + torch.from_numpy(added)[:, None, None, None, None]).clamp(0, 255).to(torch.uint8)


@pytest.mark.parametrize(
    "transform",
    [
        vl.GaussianNoise(std=10), vl.SaltAndPepper(0.1), vl.JpegCompression((20, 60)), vl.GaussianBlur(5),
        vl.Laplacian(3, (0.5, 1.0)), vl.GridMask((16, 32)), vl.RandomErasing(p=1), brighter_rows.at(),
        vl.RandomErasing(p=1, value="random", per_frame=True), vl.Rotate(vl.transforms.Linear(0, 30)),
        vl.Brightness(vl.transforms.Linear(0.5, 1.5)),
    ],
    ids=lambda transform: type(transform).__name__,
)  # fmt: skip
def test_padding_changes_no_pixel_of_a_clip(sample: Sample, transform: vl.PixelTransform) -> None:
    """Also where a clip has as many frames as an operation has other numbers."""
    path = str(sample("h264_mp4"))
    data = vl.VideoDataset([vl.VideoEntry(path, start=20, stop=20 + length) for length in (1, 2, 3, 4, 9)])
    (padded,) = make(data, vl.WholeVideo(), batch_size=5, collate="pad", transforms=[transform])
    for row, alone in enumerate(make(data, vl.WholeVideo(), batch_size=1, transforms=[transform])):
        assert torch.equal(padded.frames[row, : alone.frames.shape[1]], alone.frames[0])


@pytest.fixture(scope="module")
def damaged(sample: Sample, data: vl.VideoDataset, tmp_path_factory: pytest.TempPathFactory) -> vl.VideoDataset:
    """The data set with a part of 25 frames before its last, which cannot be decoded."""
    path = tmp_path_factory.mktemp("damaged") / "noise.mp4"
    content = bytearray(sample("h264_mp4").read_bytes())
    for start in vl.build_index(bytes(content)).packet_offset.tolist()[12:]:
        content[start : start + 4] = b"\xff\xff\xff\xff"  # the length of a NAL unit
    path.write_bytes(content)
    entries = list(data)
    return vl.VideoDataset([*entries[:4], vl.VideoEntry(str(path), 9, start=20, stop=45), entries[4]])


@pytest.mark.parametrize("collate", ["pad", "list"])
def test_what_cannot_be_read_is_left_out(damaged: vl.VideoDataset, collate: str) -> None:
    loader = make(damaged, vl.WholeVideo(), collate=collate, on_error="skip")
    batches = list(loader)
    assert [batch.labels.tolist() for batch in batches] == [[0, 1, 2], [3, 4]]
    assert [len(frames) for frames in batches[1].frames] == ([33, 33] if collate == "pad" else [1, 33])
    assert {Path(path).name for path, _ in loader.unreadable} == {"noise.mp4"}


@pytest.mark.parametrize("collate", ["pad", "list"])
def test_a_clip_of_another_length_stands_in(damaged: vl.VideoDataset, collate: str) -> None:
    # Clips 3, 4 and 5 have 1, 25 (which do not decode) and 33 frames.
    stand_ins = set()
    for seed in range(12):
        batch = list(make(damaged, vl.WholeVideo(), collate=collate, on_error="replace", seed=seed))[1]
        label = int(batch.labels[1])
        clip = clip_of(data_of(damaged, label), 1)
        stand_ins.add(len(clip.frames))
        assert torch.equal(batch.frames[1][: len(clip.frames)], clip.frames)
        assert len(batch.frames[1]) == (33 if collate == "pad" else len(clip.frames))
        assert batch.mask[1].sum() == len(clip.frames)
        assert batch.frame_numbers[1][batch.mask[1]].tolist() == clip.frame_numbers.tolist()
        assert not batch.corrupt[1].any()
        assert batch.labels.tolist()[::2] == [3, 4]
    # The one of 60 frames is too long for a batch that was planned with 33.
    assert len(stand_ins) > 1
    assert (60 in stand_ins) == (collate == "list")


def data_of(data: vl.VideoDataset, label: int) -> vl.VideoEntry:
    return next(entry for entry in data if entry.label == label)


def test_a_clip_that_nothing_can_stand_in_for_is_an_error(damaged: vl.VideoDataset) -> None:
    shortest = vl.VideoDataset([damaged[4], damaged[2]])
    loader = make(shortest, vl.WholeVideo(), batch_size=1, collate="pad", on_error="replace")
    with pytest.raises(vl.DecodeError, match=r"no clip can stand in for clip 0.*fit into the batch"):
        list(loader)
    assert {Path(path).name for path, _ in loader.unreadable} == {"noise.mp4"}
