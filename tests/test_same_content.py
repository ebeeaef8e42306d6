"""A batch does not depend on the number of threads or on prefetching."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

import videoloader as vl
from videoloader.transforms.mixing import CutMix, MixUp
from videoloader.transforms.time import Reverse, TemporalJitter
from videoloader.transforms.views import ThreeCrop

Sample = Callable[[str], Path]
GEOMETRY = [vl.RandomResizedCrop(48), vl.RandomHorizontalFlip()]


@pytest.fixture(scope="module")
def paths(sample: Sample) -> list[Path]:
    return [sample(name) for name in ("h264_mp4", "hevc_mp4", "h264_mp4_open_gop", "h264_ts")]


@pytest.fixture(scope="module")
def data(paths: list[Path]) -> vl.VideoDataset:
    return vl.VideoDataset.from_paths(paths, range(len(paths)))


@pytest.fixture(scope="module")
def damaged(paths: list[Path], tmp_path_factory: pytest.TempPathFactory) -> vl.VideoDataset:
    """The data set with a video of which only the first GOP can be decoded."""
    content = bytearray(paths[0].read_bytes())
    for start in vl.build_index(bytes(content)).packet_offset.tolist()[12:]:
        content[start : start + 4] = b"\xff\xff\xff\xff"  # the length of a NAL unit
    noise = tmp_path_factory.mktemp("damaged") / "noise.mp4"
    noise.write_bytes(content)
    return vl.VideoDataset.from_paths([noise, *paths], range(len(paths) + 1))


def noisy(frames: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return np.clip(frames + rng.integers(-20, 20, frames.shape), 0, 255).astype(np.uint8)


class Dropout(torch.nn.Module):
    """Random by PyTorch's global generator."""

    def forward(self, frames: torch.Tensor) -> torch.Tensor:
        return frames * (torch.rand(frames.shape[0], 1, 1, 1) < 0.5)


def load(data: vl.VideoDataset, **settings: object) -> list[vl.Batch]:
    mode = settings.pop("mode", vl.RandomWindow(4, stride=3, clips=2))
    defaults = {"batch_size": 3, "device": "cpu", "shuffle": True, "seed": 9}
    return list(vl.VideoLoader(data, mode, **(defaults | settings)))


def assert_same(one: list[vl.Batch], other: list[vl.Batch]) -> None:
    assert len(one) == len(other) > 0
    for a, b in zip(one, other, strict=True):
        assert a.paths == b.paths
        assert a.clips.tolist() == b.clips.tolist()
        assert a.views.tolist() == b.views.tolist()
        assert torch.equal(a.labels, b.labels)
        for of_a, of_b in ((a.frames, b.frames), (a.frame_numbers, b.frame_numbers), (a.mask, b.mask)):
            for row, same_row in zip(of_a, of_b, strict=True):
                assert np.array_equal(np.asarray(row), np.asarray(same_row))


def threads(data: vl.VideoDataset, **settings: object) -> list[list[vl.Batch]]:
    return [
        load(data, num_workers=workers, prefetch=prefetch, **settings)
        for workers, prefetch in ((1, 1), (1, 5), (4, 1), (4, 5), (0, 2))
    ]


SETTINGS = {
    "nothing": {},
    "conversion alone": {"transforms": GEOMETRY},
    "pixels": {"transforms": [*GEOMETRY, vl.ColorJitter(0.4, 0.4, 0.4), vl.GaussianBlur(3), vl.RandAugment()]},
    "time": {"transforms": [TemporalJitter(2), Reverse(p=0.5), *GEOMETRY]},
    "python": {"transforms": [*GEOMETRY, vl.PythonFunction(noisy)]},
    "module": {"transforms": [*GEOMETRY, vl.Module(Dropout()), vl.Normalize()], "dtype": "float32"},
    "mixing": {"transforms": [*GEOMETRY, vl.Normalize(), MixUp(1.0, num_classes=5)], "dtype": "float32"},
    "mixed pixels": {"transforms": [*GEOMETRY, vl.Posterize(4), CutMix(1.0, num_classes=5)]},
    "views and repeats": {"transforms": [vl.RandomHorizontalFlip(), vl.Resize(64), ThreeCrop(48)], "repeats": 2},
    "lists": {"transforms": [vl.ColorJitter(0.4)], "collate": "list", "mode": vl.WholeVideo(stride=7)},
    "padded": {"transforms": GEOMETRY, "collate": "pad", "mode": vl.WholeVideo(stride=9)},
    "one video in all rows": {"mode": vl.RandomWindow(5, clips=6), "shuffle": False},
}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_threads_and_look_ahead_change_nothing(data: vl.VideoDataset, settings: dict[str, object]) -> None:
    first, *others = threads(data, **settings)
    for other in others:
        assert_same(first, other)


@pytest.mark.parametrize("on_error", ["skip", "replace"])
@pytest.mark.parametrize("name", ["nothing", "pixels", "views and repeats", "lists", "mixing"])
def test_nor_do_they_where_clips_cannot_be_made(damaged: vl.VideoDataset, name: str, on_error: str) -> None:
    first, *others = threads(damaged, on_error=on_error, **SETTINGS[name])
    for other in others:
        assert_same(first, other)


def test_views_of_a_clip_are_replaced_by_views_of_one_other_clip(damaged: vl.VideoDataset) -> None:
    transforms = [vl.Resize((64, 80)), ThreeCrop(48)]
    settings = {"mode": vl.RandomWindow(4, stride=3, clips=4), "repeats": 2, "on_error": "replace"}
    batches = load(damaged, transforms=transforms, **settings)
    assert sum(len(batch.paths) for batch in batches) == 5 * 4 * 2 * 3
    for batch in batches:
        for first in range(0, len(batch.paths), 6):
            rows = slice(first, first + 6)
            assert batch.views[rows].tolist() == list(range(6))
            assert len(set(batch.clips[rows].tolist())) == len(set(batch.paths[rows])) == 1
            assert (batch.frame_numbers[rows] == batch.frame_numbers[first]).all()


def test_a_batch_of_which_nothing_is_left_is_passed_over(damaged: vl.VideoDataset) -> None:
    rows = vl.VideoDataset.from_paths([damaged[number].path for number in (1, 0, 0, 2, 3)])
    loader = vl.VideoLoader(rows, vl.FrameList([30, 40]), batch_size=1, device="cpu", num_workers=2, on_error="skip")
    assert [batch.clips.tolist() for batch in loader] == [[0], [3], [4]]
    assert len(loader.unreadable) == 1
    stats = loader.stats()
    assert (stats.clips, stats.frames, stats.skipped) == (3, 6, 2)
    loader.set_epoch(0)
    for number, _ in enumerate(loader):
        if number == 1:
            break
    resumed = vl.VideoLoader(rows, vl.FrameList([30, 40]), batch_size=1, device="cpu", on_error="skip")
    resumed.load_state_dict(loader.state_dict())
    assert [batch.clips.tolist() for batch in resumed] == [[4]]


def test_an_epoch_of_which_nothing_is_left_is_an_error(damaged: vl.VideoDataset) -> None:
    rows = vl.VideoDataset.from_paths([damaged[0].path] * 3)
    loader = vl.VideoLoader(rows, vl.FrameList([30]), batch_size=2, device="cpu", on_error="skip")
    with pytest.raises(vl.SourceError, match=r"noise\.mp4"):
        list(loader)
    assert len(loader.unreadable) == 1
    assert loader.stats().skipped == 3


def test_where_nothing_can_replace_a_clip_the_error_says_what_was_tried(damaged: vl.VideoDataset) -> None:
    rows = vl.VideoDataset.from_paths([damaged[0].path] * 3)
    loader = vl.VideoLoader(rows, vl.FrameList([30]), batch_size=2, device="cpu", on_error="replace")
    with pytest.raises(vl.DecodeError, match=r"noise\.mp4: no clip can stand in for clip 0: \d+ of \d+ tried"):
        list(loader)


def test_modules_and_the_consumer_draw_from_the_same_generator_without_disturbing_each_other(
    data: vl.VideoDataset,
) -> None:
    settings = {"batch_size": 1, "device": "cpu", "num_workers": 2, "prefetch": 3}
    transforms = [*GEOMETRY, vl.Module(SlowNoise()), vl.Normalize()]
    loader = vl.VideoLoader(data, vl.RandomWindow(2), transforms=transforms, dtype="float32", **settings)
    alone = list(loader)
    torch.manual_seed(1)
    expected = [torch.rand(()).item() for _ in range(400)]
    loader.set_epoch(0)
    torch.manual_seed(1)
    batches, drawn = [], []
    for batch in loader:
        batches.append(batch)
        for _ in range(100):
            drawn.append(torch.rand(()).item())
            time.sleep(0.0002)
    assert_same(alone, batches)
    assert drawn == expected


class SlowNoise(torch.nn.Module):
    """Draws many times from PyTorch's global generator."""

    def forward(self, frames: torch.Tensor) -> torch.Tensor:
        for _ in range(20):
            frames = (frames + torch.rand(frames.shape[0], 1, 1, 1) * 9).to(torch.uint8)
            time.sleep(0.0005)
        return frames
