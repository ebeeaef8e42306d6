"""Data sets of frame folders as they are laid out in the world, read as videos."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from image_files import encoded, picture, rgb, write_frames

import videoloader as vl
from videoloader.indexing import build_index


def pictures(*numbers: int) -> np.ndarray:
    return np.stack([rgb(encoded(picture(number), "PNG")) for number in numbers])


@pytest.fixture(scope="module")
def vimeo(tmp_path_factory):
    """Vimeo-90K: sequences/00001/0001/im1.png, … im3.png."""
    root = tmp_path_factory.mktemp("vimeo") / "sequences"
    for group in (1, 2):
        for clip in (1, 2, 10):
            write_frames(
                root / f"{group:05}" / f"{clip:04}", ["im1.png", "im2.png", "im3.png"], first=10 * clip + group
            )
    return root


@pytest.fixture(scope="module")
def reds(tmp_path_factory):
    """REDS: train_sharp/000/00000000.png, …."""
    root = tmp_path_factory.mktemp("reds") / "train_sharp"
    for clip in range(3):
        write_frames(root / f"{clip:03}", [f"{number:08}.png" for number in range(12)], first=20 * clip)
    return root


@pytest.fixture(scope="module")
def actions(tmp_path_factory):
    """Frames of UCF-101, Kinetics and the like: class/clip/frame_000001.jpg, …, of several sizes."""
    root = tmp_path_factory.mktemp("actions")
    for label, name in enumerate(("archery", "bowling")):
        for clip in range(3):
            frames = [f"frame_{number:06}.jpg" for number in range(1, 9 + clip)]
            write_frames(root / name / f"v_{clip}", frames, size=(48 + 16 * clip, 32 + 8 * label), first=100 * clip)
    return root


def test_frames_are_numbered_as_files_in_natural_order(tmp_path):
    folder = write_frames(tmp_path, ["im8.png", "im9.png", "im10.png", "im11.png"])
    video = vl.Video(folder, device="cpu")
    assert len(video) == 4
    for frame in range(4):
        assert np.array_equal(video[frame].numpy(), rgb(folder / f"im{frame + 8}.png"))
    assert np.array_equal(video.read([3, 0, 0, -2]).frames.numpy(), pictures(3, 0, 0, 2))


def test_a_wanted_frame_costs_its_own_packet_and_no_other(reds):
    index = build_index(reds / "000")
    for frames in ([5], [0, 11], [1, 2, 3], [0, 2, 4, 6], range(12)):
        assert vl.plan_frames(index, frames).packets == len(frames)


def test_without_a_rate_seconds_are_frame_numbers(reds):
    assert vl.Video(reds / "000", device="cpu").timestamps.tolist() == list(range(12))


def test_a_rate_gives_times(reds):
    video = vl.Video(vl.FolderSource(reds / "000", fps=24), device="cpu")
    assert np.allclose(video.timestamps, np.arange(12) / 24, rtol=0, atol=1e-12)
    assert (video.index.average_fps, video.index.is_vfr) == (24, False)
    assert video.index.frame_at([0, 0.1, 0.25, 9]).tolist() == [0, 2, 6, 11]


def test_two_sequences_of_one_folder(tmp_path):
    write_frames(tmp_path, [f"left_{number}.png" for number in range(3)])
    write_frames(tmp_path, [f"right_{number}.png" for number in range(3)], first=50)
    assert np.array_equal(vl.Video(tmp_path / "right_*.png", device="cpu")[:].numpy(), pictures(50, 51, 52))
    data = vl.VideoDataset.from_paths([tmp_path / "left_*.png", tmp_path / "right_*.png"])
    (batch,) = vl.VideoLoader(data, vl.EveryWindow(3), batch_size=2, device="cpu", num_workers=1)
    assert np.array_equal(batch.frames.numpy(), np.stack([pictures(0, 1, 2), pictures(50, 51, 52)]))


def test_triplets_are_exact(vimeo):
    data = vl.VideoDataset.from_frame_folders(vimeo)
    assert [entry.path for entry in data] == [
        str(vimeo / group / clip) for group in ("00001", "00002") for clip in ("0001", "0002", "0010")
    ]
    loader = vl.VideoLoader(data, vl.EveryWindow(3), batch_size=4, device="cpu", num_workers=2, shuffle=True)
    seen = 0
    for batch in loader:
        for frames, path in zip(batch.frames, batch.paths, strict=True):
            group, clip = (int(part) for part in path.split("/")[-2:])
            first = 10 * clip + group
            assert np.array_equal(frames.numpy(), pictures(first, first + 1, first + 2))
            seen += 1
    assert seen == len(data) == 6


def test_folders_right_below_the_root_have_no_labels(reds):
    data = vl.VideoDataset.from_frame_folders(reds)
    assert [(entry.path, entry.label) for entry in data] == [(str(reds / f"{clip:03}"), None) for clip in range(3)]
    assert data.class_names == ()


def test_a_frame_folder_is_a_data_set_of_one_video(reds):
    data = vl.VideoDataset.from_frame_folders(reds / "001")
    assert [entry.path for entry in data] == [str(reds / "001")]


def test_folders_of_folders_are_classes(actions):
    data = vl.VideoDataset.from_frame_folders(actions)
    assert data.class_names == ("archery", "bowling")
    assert [(entry.path, entry.label) for entry in data] == [
        (str(actions / name / f"v_{clip}"), label)
        for label, name in enumerate(data.class_names)
        for clip in range(3)
    ]  # fmt: skip
    named = vl.VideoDataset.from_frame_folders(actions, class_names=["bowling", "skating", "archery"])
    assert [entry.label for entry in named] == [2, 2, 2, 0, 0, 0]


def test_what_is_no_image_makes_no_video(actions, tmp_path):
    write_frames(tmp_path / "class" / "clip", ["1.png"])
    (tmp_path / "class" / "flow").mkdir()
    (tmp_path / "class" / "flow" / "1.flo").touch()
    (tmp_path / "README.md").touch()
    (tmp_path / "class" / "loop").symlink_to(tmp_path)
    assert [entry.path for entry in vl.VideoDataset.from_frame_folders(tmp_path)] == [str(tmp_path / "class" / "clip")]


def test_roots_that_make_no_sense(tmp_path, reds, actions):
    (tmp_path / "empty").mkdir()
    with pytest.raises(vl.ConfigurationError, match="no folder in this one holds image files"):
        vl.VideoDataset.from_frame_folders(tmp_path)
    with pytest.raises(vl.SourceError, match="cannot be read"):
        vl.VideoDataset.from_frame_folders(tmp_path / "missing")
    with pytest.raises(vl.ConfigurationError, match="class_names are given"):
        vl.VideoDataset.from_frame_folders(reds, class_names=["000"])
    with pytest.raises(vl.ConfigurationError, match="'bowling' is not in class_names"):
        vl.VideoDataset.from_frame_folders(actions, class_names=["archery"])


def test_a_loader_trains_on_frame_folders_of_many_sizes(actions):
    data = vl.VideoDataset.from_frame_folders(actions)
    loader = vl.VideoLoader(
        data,
        vl.RandomWindow(4, stride=2, pad="reflect_101", clips=2),
        batch_size=5,
        device="cpu",
        num_workers=2,
        transforms=[vl.RandomResizedCrop(24), vl.RandomHorizontalFlip()],
        shuffle=True,
    )
    batches = list(loader)
    assert sum(len(batch.paths) for batch in batches) == 12
    assert all(batch.frames.shape[1:] == (4, 3, 24, 24) for batch in batches)
    # A frame that both clips of a folder want is decoded once, if they are in one batch.
    once = 0
    for batch in batches:
        clips = zip(batch.paths, batch.frame_numbers.tolist(), strict=True)
        once += len({(path, number) for path, numbers in clips for number in numbers})
    assert loader.stats().packets == loader.stats().frames == once


def test_imagenet_is_videos_of_one_frame(tmp_path):
    for label, name in enumerate(("n01440764", "n01443537")):
        write_frames(tmp_path / name, [f"{name}_{number}.JPEG" for number in range(3)], first=10 * label)
    data = vl.VideoDataset.from_folder(tmp_path, extensions=vl.IMAGE_EXTENSIONS)
    assert data.class_names == ("n01440764", "n01443537")
    assert len(data) == 6
    for batch in vl.VideoLoader(data, vl.EveryWindow(1), batch_size=4, device="cpu", num_workers=2, shuffle=True):
        for frames, label, path in zip(batch.frames, batch.labels, batch.paths, strict=True):
            assert data.class_names[label] in path
            assert np.abs(frames[0].numpy().astype(int) - rgb(path)).max() <= 6


def test_frames_outside_the_folder_are_padded(vimeo):
    clip = vl.Video(vimeo / "00001" / "0001", device="cpu").read(vl.RandomWindow(5, pad="edge"))
    assert sorted(set(clip.frame_numbers.tolist())) == [0, 1, 2]
    assert clip.mask.sum() == 3


def test_damaged_clips_are_replaced_and_named(tmp_path):
    for clip in range(4):
        write_frames(tmp_path / f"{clip}", ["1.jpg", "2.jpg", "3.jpg"])
    broken = tmp_path / "2" / "2.jpg"
    broken.write_bytes(broken.read_bytes()[:-200])
    data = vl.VideoDataset.from_frame_folders(tmp_path)
    loader = vl.VideoLoader(data, vl.EveryWindow(3), batch_size=4, device="cpu", num_workers=2, on_error="replace")
    (batch,) = loader
    assert torch.equal(batch.frames[0], batch.frames[1])
    assert len(batch.paths) == 4
    assert str(tmp_path / "2") not in batch.paths
    (path, error), *_ = loader.unreadable
    assert path == str(tmp_path / "2")
    assert error.startswith(f"{broken}: packet 1")


@dataclass(frozen=True)
class OwnMode:
    """A frame mode of a user, which chooses a frame by its time."""

    pad = "edge"
    in_seconds = True

    def num_clips(self, video):
        return 1

    def frame_numbers(self, video, clip, rng):
        return video.index.frame_at(np.array([0.5]))


@pytest.mark.parametrize(
    ("mode", "ends", "fps", "is_told"),
    [
        (vl.AtRate(2, 2), {}, None, True),
        (vl.Timestamps([0.5]), {}, None, True),
        (OwnMode(), {}, None, True),
        (vl.NearKeyframes(OwnMode(), within=1), {}, None, True),
        (vl.RandomWindow(2), {}, None, False),
        ([0], {"stop_seconds": 2.5}, None, True),
        ([0], {"stop": 2}, None, False),
        (vl.AtRate(2, 2), {}, 1, False),
        (vl.AtRate(2, 2), {}, 25, False),
    ],
)
def test_a_warning_tells_where_seconds_meet_files_without_a_rate(reds, mode, ends, fps, is_told):
    rows = [replace(entry, **ends) for entry in vl.VideoDataset.from_frame_folders(reds, fps=fps)]
    with warnings.catch_warnings(record=True, action="always") as warned:
        vl.VideoLoader(vl.VideoDataset(rows), mode, batch_size=1, device="cpu")
    told = [str(each.message) for each in warned if "as one second" in str(each.message)]
    assert len(told) == is_told
    assert all(text.startswith(f"{rows[0].path} and {len(rows) - 1} more: ") and "::fps=25" in text for text in told)
