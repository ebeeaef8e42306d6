"""A Video on CUDA: the clips that a loader gives there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import videoloader as vl

pytestmark = pytest.mark.gpu
if not torch.cuda.is_available():
    pytest.skip("needs an NVIDIA GPU", allow_module_level=True)

FUSED = [vl.RandomResizedCrop(64), vl.RandomHorizontalFlip(), vl.Normalize()]
PIXELS = [vl.Resize(50), vl.CenterCrop(48), vl.RandAugment(), vl.Normalize()]


@pytest.mark.parametrize("transforms", [FUSED, PIXELS])
def test_clips_are_those_of_a_loader_with_the_same_seed(sample_folder: Path, transforms: list[Any]) -> None:
    data = vl.VideoDataset.from_folder(sample_folder)
    mode = vl.RandomWindow(8, stride=9, clips=2, pad="constant")
    settings: dict[str, Any] = {"transforms": transforms, "dtype": "float16", "layout": "CTHW", "seed": 3}
    for row in range(len(data)):
        video = vl.Video(data.paths[row], device="cuda")
        with torch.cuda.stream(torch.cuda.Stream()):
            clips = video.read_clips(mode, **settings)
            loader = vl.VideoLoader(data[[row]], mode, batch_size=1, device="cuda", **settings)
            for clip, batch in zip(clips, loader, strict=True):
                assert torch.equal(clip.frames, batch.frames[0])
