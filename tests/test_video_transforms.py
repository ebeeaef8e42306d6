"""Clips of one video with transforms equal those of a loader."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import videoloader as vl

Sample = Callable[[str], Path]

FUSED = [vl.RandomResizedCrop(64), vl.RandomHorizontalFlip(), vl.Normalize()]
PIXELS = [vl.Resize(50), vl.CenterCrop(48), vl.RandAugment(), vl.Normalize()]


@pytest.fixture(scope="module")
def video(sample: Sample) -> vl.Video:
    return vl.Video(sample("h264_mp4"), device="cpu", fill_value=(255, 0, 0))


def loaded(video: vl.Video, mode: Any, **settings: Any) -> list[vl.Batch]:
    data = vl.VideoDataset.from_paths([video.index.source])
    loader = vl.VideoLoader(
        data, mode, batch_size=1, device=video.device, fill_value=(255, 0, 0), num_workers=1, **settings
    )
    return list(loader)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"dtype": "float16", "layout": "CTHW"},
        {"transforms": FUSED, "layout": "CTHW", "seed": 3},
        {"transforms": FUSED, "dtype": torch.float16, "seed": 4},
        {"transforms": [vl.SpeedChange((0.5, 2)), *PIXELS], "layout": "THWC", "seed": 5},
        {"transforms": vl.Compose(PIXELS[:-1]), "seed": 6},
        {"transforms": [vl.Resize((40, 60)), torch.nn.ReLU()]},
    ],
    ids=lambda settings: "-".join(settings) or "none",
)
def test_clips_are_those_of_a_loader_with_the_same_seed(video: vl.Video, settings: dict[str, Any]) -> None:
    mode = vl.RandomWindow(8, stride=9, clips=2, pad="constant")
    clips = video.read_clips(mode, **settings)
    for number, (clip, batch) in enumerate(zip(clips, loaded(video, mode, **settings), strict=True)):
        alone = video.read(mode, clip=number, **settings)
        for made in (clip, alone):
            assert made.frames.dtype == batch.frames.dtype
            assert torch.equal(made.frames, batch.frames[0])
            assert made.frames.device == batch.frames.device
            assert made.frame_numbers.tolist() == batch.frame_numbers[0].tolist()
            assert made.mask.tolist() == batch.mask[0].tolist()
            assert made.corrupt.tolist() == [False] * 8


def test_the_layout_is_the_order_of_the_dimensions(video: vl.Video) -> None:
    shapes = {layout: tuple(video.read([0, 1], layout=layout).frames.shape) for layout in ("TCHW", "CTHW", "THWC")}
    assert shapes == {"TCHW": (2, 3, 128, 160), "CTHW": (3, 2, 128, 160), "THWC": (2, 128, 160, 3)}


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"layout": "CHWT"}, "layout must be one of"),
        ({"dtype": "int8"}, "dtype"),
        ({"transforms": [vl.Normalize()], "dtype": "uint8"}, "uint8"),
        ({"transforms": [vl.FiveCrop(32)]}, "5 views of a clip"),
        ({"transforms": [vl.MixUp(0.8, num_classes=2)]}, "work only in loaders of batches"),
        ({"transforms": vl.Compose(FUSED, layout="CTHW")}, "the Compose has a layout: write layout="),
    ],
)
def test_what_one_clip_cannot_have_is_refused(video: vl.Video, settings: dict[str, Any], told: str) -> None:
    with pytest.raises(vl.ConfigurationError, match=told):
        video.read([0], **settings)
