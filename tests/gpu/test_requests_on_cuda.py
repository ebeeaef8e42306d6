"""DecodingLoader on CUDA: the frames of a VideoLoader, asked for by worker processes that know nothing of CUDA."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

import videoloader as vl

pytestmark = pytest.mark.gpu
if not torch.cuda.is_available():
    pytest.skip("needs an NVIDIA GPU", allow_module_level=True)

from videoloader.interop.torch import ClipRequest, DecodingLoader  # noqa: E402

LENGTH = 6


class Whole(torch.utils.data.Dataset[Any]):
    """The first frames of each video, and whether the process that asks for them has touched CUDA."""

    def __init__(self, data: vl.VideoDataset) -> None:
        self.data = data

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, row: int) -> tuple[ClipRequest, bool]:
        if row >= len(self):
            raise IndexError(row)
        return ClipRequest(self.data[row], range(LENGTH)), torch.cuda.is_initialized()


@pytest.mark.parametrize("workers", [0, 2])
def test_frames_are_those_of_a_video_loader(sample_folder: Path, workers: int) -> None:
    data = vl.VideoDataset.from_folder(sample_folder)
    settings: dict[str, Any] = {"device": "cuda", "transforms": [vl.Resize((96, 96))], "dtype": "float16"}
    expected = vl.VideoLoader(data, vl.FrameList(range(LENGTH)), batch_size=4, **settings)
    loader = DecodingLoader(DataLoader(Whole(data), batch_size=4, num_workers=workers), **settings)
    for _ in range(3):
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for (frames, touched), batch in zip(loader, expected, strict=True):
                assert frames.is_cuda
                assert torch.equal(frames, batch.frames)
                assert not (workers and touched.any())
        stream.synchronize()
