"""Temporal transforms, several views of a clip, and mixed clips."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

import videoloader as vl
from videoloader.transforms.mixing import CutMix, MixUp
from videoloader.transforms.time import Reverse, SpeedChange
from videoloader.transforms.views import FiveCrop, ThreeCrop

Sample = Callable[[str], Path]


@pytest.fixture(scope="module")
def data(sample: Sample) -> vl.VideoDataset:
    names = ["h264_mp4", "hevc_mp4", "vp9_webm", "h264_ts"]
    return vl.VideoDataset.from_paths([sample(name) for name in names], range(len(names)))


def load(data: vl.VideoDataset, transforms: list[object], **settings: object) -> list[vl.Batch]:
    defaults = {"batch_size": 2, "device": "cpu", "num_workers": 2, "shuffle": True, "seed": 3}
    return list(vl.VideoLoader(data, vl.RandomWindow(4, stride=3), transforms=transforms, **(defaults | settings)))


def test_a_clip_that_is_played_backwards_has_its_frames_in_reverse(data: vl.VideoDataset) -> None:
    plain, backwards = load(data, []), load(data, [Reverse(p=1)])
    for one, other in zip(plain, backwards, strict=True):
        assert np.array_equal(one.frame_numbers[:, ::-1], other.frame_numbers)
        assert torch.equal(one.frames.flip(1), other.frames)
        assert np.array_equal(one.timestamps[:, ::-1], other.timestamps)


def test_frames_that_no_position_shows_are_not_decoded(data: vl.VideoDataset) -> None:
    settings = {"batch_size": 4, "device": "cpu", "num_workers": 1}
    loader = vl.VideoLoader(data, vl.RandomWindow(4), transforms=[SpeedChange(100)], **settings)
    (batch,) = loader
    assert (batch.frame_numbers[:, 1:] == batch.frame_numbers[:, 1:2]).all()
    assert loader.stats().frames == 8


def test_views_of_a_clip_are_rows_side_by_side(data: vl.VideoDataset) -> None:
    for whole, three in zip(load(data, []), load(data, [ThreeCrop(96)]), strict=True):
        assert three.frames.shape == (6, 4, 3, 96, 96)
        assert three.clips.tolist() == np.repeat(whole.clips, 3).tolist()
        assert three.views.tolist() == [0, 1, 2] * 2
        assert three.labels.tolist() == np.repeat(whole.labels.numpy(), 3).tolist()
        height, width = whole.frames.shape[-2:]
        for view, left in enumerate([0, round((width - 96) / 2), width - 96]):
            top = round((height - 96) / 2)
            assert torch.equal(three.frames[view], whole.frames[0, :, :, top : top + 96, left : left + 96])


def test_repeats_have_the_same_frames_and_other_crops(data: vl.VideoDataset) -> None:
    transforms = [vl.RandomResizedCrop(64)]
    for once, twice in zip(load(data, transforms), load(data, transforms, repeats=2), strict=True):
        assert torch.equal(twice.frames[::2], once.frames)
        assert np.array_equal(twice.frame_numbers, np.repeat(once.frame_numbers, 2, 0))
        assert not torch.equal(twice.frames[1], twice.frames[0])
        assert twice.views.tolist() == [0, 1, 0, 1]
    cost = vl.VideoLoader(data, vl.RandomWindow(4), batch_size=4, device="cpu", num_workers=1, repeats=3)
    list(cost)
    assert cost.stats().frames == 16, "each is decoded once"


def test_repeats_that_would_all_be_equal_are_warned_of(data: vl.VideoDataset) -> None:
    def warned(*transforms: object, repeats: int = 3) -> int:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            vl.VideoLoader(data, vl.RandomWindow(4), batch_size=4, device="cpu", transforms=transforms, repeats=repeats)
        return sum("repeats=3 gives equal copies of a clip" in str(each.message) for each in told)

    assert warned() == warned(vl.Resize(64), vl.CenterCrop(32), vl.Normalize()) == 1
    assert warned(vl.RandomCrop(32)) == warned(MixUp(0.8, num_classes=4)) == warned(repeats=1) == 0


def test_views_and_repeats_multiply(data: vl.VideoDataset) -> None:
    batch = load(data, [vl.RandomHorizontalFlip(), FiveCrop(32)], repeats=2)[0]
    assert len(batch.frames) == 2 * 2 * 5
    assert batch.views.tolist() == [*range(10), *range(10)]


@pytest.mark.parametrize("mixing", [MixUp(0.8, num_classes=4), CutMix(1.0, num_classes=4)])
def test_mixed_batches_have_soft_labels_and_repeat_exactly(data: vl.VideoDataset, mixing: object) -> None:
    transforms = [vl.Resize((64, 64)), vl.Normalize(), mixing]
    first = load(data, transforms, dtype="float32")
    again = load(data, transforms, dtype="float32", num_workers=1, prefetch=1)
    plain = load(data, transforms[:-1], dtype="float32")
    for one, other, unmixed in zip(first, again, plain, strict=True):
        assert torch.equal(one.frames, other.frames)
        assert torch.equal(one.labels, other.labels)
        assert one.labels.shape == (2, 4)
        assert one.labels.sum(1).tolist() == pytest.approx([1, 1])
        own = one.labels[torch.arange(2), unmixed.labels]
        if own.min() < 1:
            assert not torch.equal(one.frames, unmixed.frames)


def test_transforms_that_cannot_go_together_are_refused(data: vl.VideoDataset) -> None:
    mixup = MixUp(1.0, num_classes=4)
    for transforms, settings, reason in [
        ([mixup, vl.Resize(32)], {}, "mixing must be the last"),
        ([mixup, mixup], {}, "mixing must be the last"),
        ([mixup], {"collate": "list"}, "a list cannot be mixed"),
        ([len], {}, "number 0 of the transforms"),
        ([], {"repeats": 0}, "repeats must be an integer in .1, 4096., got 0"),
    ]:
        with pytest.raises(vl.ConfigurationError, match=reason):
            load(data, transforms, **settings)


def test_a_clip_in_place_of_a_broken_one_shows_the_same_view(data: vl.VideoDataset, tmp_path: Path) -> None:
    content = bytearray(Path(data[0].path).read_bytes())
    index = vl.build_index(data[0].path)
    for start in index.packet_offset.tolist()[12:]:
        content[start : start + 4] = b"\xff\xff\xff\xff"  # the length of a NAL unit
    broken = tmp_path / "noise.mp4"
    broken.write_bytes(content)
    paths = [broken, *(entry.path for entry in data)]
    settings = {"device": "cpu", "transforms": [vl.Resize((128, 160)), ThreeCrop(96)]}
    loader = vl.VideoLoader(
        vl.VideoDataset.from_paths(paths), vl.FrameList([5, 20]), batch_size=5, on_error="replace", **settings
    )
    (batch,) = loader
    assert loader.unreadable
    assert len(batch.frames) == 15
    for row, view in enumerate([0, 1, 2] * 5):
        video = vl.VideoDataset.from_paths([batch.paths[row]])
        (alone,) = vl.VideoLoader(video, vl.FrameList([5, 20]), batch_size=1, **settings)
        assert torch.equal(alone.frames[view], batch.frames[row])
