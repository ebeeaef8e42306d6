"""The loader on CUDA gives the clips that it gives on the CPU."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import videoloader as vl

pytestmark = pytest.mark.gpu
if not torch.cuda.is_available():
    pytest.skip("no CUDA device", allow_module_level=True)


@pytest.mark.parametrize("layout", ["TCHW", "CTHW"])
def test_batches_are_those_of_the_cpu(sample_folder: Path, layout: str) -> None:
    data = vl.VideoDataset.from_folder(sample_folder)

    def batches(device: str, workers: int) -> list[vl.Batch]:
        return list(
            vl.VideoLoader(
                data,
                vl.RandomWindow(6, stride=3, clips=4, pad="reflect_101"),
                batch_size=5,
                device=device,
                num_workers=workers,
                transforms=[vl.RandomResizedCrop(64), vl.RandomHorizontalFlip(), vl.Normalize()],
                layout=layout,
                dtype="float32",
                shuffle=True,
                seed=3,
            )
        )

    for cpu, gpu in zip(batches("cpu", 2), batches("cuda", 6), strict=True):
        assert gpu.frames.is_cuda
        assert gpu.paths == cpu.paths
        assert np.array_equal(gpu.frame_numbers, cpu.frame_numbers)
        assert torch.equal(gpu.labels.cpu(), cpu.labels)
        # 2/255 before the division by a deviation of 0.22.
        assert (gpu.frames.cpu() - cpu.frames).abs().max() <= 2.01 / 255 / 0.22


def test_frames_are_ready_on_the_callers_stream(sample_folder: Path) -> None:
    path = vl.VideoDataset.from_folder(sample_folder)[0].path
    video = vl.Video(path, device="cuda")
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        first = video[0:8].float().mean((1, 2, 3))
    stream.synchronize()
    assert torch.equal(first, vl.Video(path, device="cuda")[0:8].float().mean((1, 2, 3)))


def test_a_batch_lives_until_the_callers_stream_is_done_with_it(sample_folder: Path) -> None:
    data = vl.VideoDataset.from_folder(sample_folder)

    def sums(busy_cycles: int) -> list[float]:
        loader = vl.VideoLoader(
            data,
            vl.EveryWindow(4, step=4),
            batch_size=2,
            device="cuda",
            transforms=[vl.Resize((96, 96))],
            shuffle=True,
            last_batch="drop",
        )
        found = []
        for batch in loader:
            # The caller is far behind: the sum runs long after the batch is dropped here.
            torch.cuda._sleep(busy_cycles)
            found.append(batch.frames.sum(dtype=torch.int64))
            del batch
        return [int(each) for each in found]

    assert sums(50_000_000) == sums(0)
