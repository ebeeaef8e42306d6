"""The loader on CUDA gives the clips that it gives on the CPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import videoloader as vl

pytestmark = pytest.mark.gpu
if not torch.cuda.is_available():
    pytest.skip("needs an NVIDIA GPU", allow_module_level=True)


@pytest.mark.parametrize(("layout", "workers"), [("TCHW", 6), ("CTHW", 6), ("TCHW", 0)])
def test_batches_are_those_of_the_cpu(sample_folder: Path, layout: str, workers: int) -> None:
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

    for cpu, gpu in zip(batches("cpu", 2), batches("cuda", workers), strict=True):
        assert gpu.frames.is_cuda
        assert gpu.paths == cpu.paths
        assert np.array_equal(gpu.frame_numbers, cpu.frame_numbers)
        assert torch.equal(gpu.labels.cpu(), cpu.labels)
        # 2/255 before the division by a deviation of 0.22.
        assert (gpu.frames.cpu() - cpu.frames).abs().max() <= 2.01 / 255 / 0.22


@pytest.mark.parametrize("collate", ["stack", "list"])
def test_inputs_targets_and_their_times_lie_on_the_gpu(sample_folder: Path, collate: Any) -> None:
    data = vl.VideoDataset.from_folder(sample_folder)
    # Targets in an order that no view of the frames has.
    mode = vl.FrameTuples((0, 6), (4, 1, 2), clips=2)
    settings: dict[str, Any] = {"transforms": [vl.Resize((64, 80)), vl.Reverse()], "layout": "CTHW", "seed": 3}

    def batches(device: str) -> list[vl.Batch]:
        return list(vl.VideoLoader(data, mode, batch_size=4, device=device, collate=collate, **settings))

    for cpu, gpu in zip(batches("cpu"), batches("cuda"), strict=True):
        for row in range(len(cpu)):
            for name in ("inputs", "targets", "target_times"):
                there, here = getattr(gpu, name)[row], getattr(cpu, name)[row]
                assert there.is_cuda
                assert there.shape == here.shape
                assert (there.cpu().float() - here.float()).abs().max() <= (2 if name != "target_times" else 0)


@pytest.mark.parametrize(
    "transforms",
    [
        [vl.RandomResizedCrop(64), vl.RandAugment(2, 9), vl.RandomErasing(), vl.Normalize()],
        [
            vl.Resize((72, 96)),
            vl.Rotate((-20, 20)),
            vl.RandomCrop(64),
            vl.ColorJitter(0.4, 0.4, 0.4, 0.1),
            vl.ToFloat(),
        ],
        [vl.Reverse(), vl.FiveCrop(48), vl.GaussianBlur(5), vl.TrivialAugmentWide(), vl.MixUp(0.8, num_classes=64)],
    ],
)
@pytest.mark.parametrize("layout", ["TCHW", "CTHW", "THWC"])
def test_transformed_batches_are_those_of_the_cpu(sample_folder: Path, transforms: list[Any], layout: str) -> None:
    data = vl.VideoDataset.from_folder(sample_folder)

    def batches(device: str) -> list[vl.Batch]:
        mode = vl.RandomWindow(6, stride=3, pad="reflect_101")
        settings = {"transforms": transforms, "layout": layout, "dtype": "float32", "shuffle": True, "seed": 3}
        return list(vl.VideoLoader(data, mode, batch_size=4, device=device, **settings))

    for cpu, gpu in zip(batches("cpu"), batches("cuda"), strict=True):
        assert gpu.frames.is_cuda
        assert gpu.frames.shape == cpu.frames.shape
        assert torch.allclose(gpu.labels.cpu().float(), cpu.labels.float())
        assert gpu.views.tolist() == cpu.views.tolist()
        # Decoded pixels differ by 2/255 at most, mostly not at all; steep operations make more of it in few places.
        assert (gpu.frames.cpu() - cpu.frames).abs().mean() <= 1.0 / 255 / 0.22


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


@pytest.mark.parametrize("collate", ["pad", "list"])
@pytest.mark.parametrize("mode", ["constant", "edge", "reflect_101"])
def test_borders_and_clips_of_any_length_are_those_of_the_cpu(sample_folder: Path, mode: str, collate: str) -> None:
    paths = [entry.path for entry in vl.VideoDataset.from_folder(sample_folder)]
    data = vl.VideoDataset([vl.VideoEntry(path, stop=5 + number % 7) for number, path in enumerate(paths)])

    def batches(device: str) -> list[vl.Batch]:
        return list(
            vl.VideoLoader(
                data,
                vl.WholeVideo(),
                batch_size=4,
                device=device,
                transforms=[vl.Letterbox((75, 64), mode=mode, fill=(200, 90, 3)), vl.RandomHorizontalFlip()],
                collate=collate,
                fill_value=20,
            )
        )

    for cpu, gpu in zip(batches("cpu"), batches("cuda"), strict=True):
        assert np.array_equal(gpu.boxes, cpu.boxes)
        for row, (expected, frames) in enumerate(zip(cpu.frames, gpu.frames, strict=True)):
            assert frames.is_cuda
            assert np.array_equal(gpu.mask[row], cpu.mask[row])
            assert (frames.cpu().int() - expected.int()).abs().max() <= 2
        top, left, height, width = gpu.boxes[0].tolist()
        picture = gpu.frames[0][..., top : top + height, left : left + width].cpu().numpy()
        margins = ((0, 0), (0, 0), (top, 75 - top - height), (left, 64 - left - width))
        if mode != "constant":
            around = np.pad(picture, margins, "edge" if mode == "edge" else "reflect")
            assert np.array_equal(gpu.frames[0].cpu().numpy(), around)


def test_predictions_on_the_gpu_go_back_to_their_videos(sample_folder: Path) -> None:
    data = vl.VideoDataset.from_folder(sample_folder)[:2]
    loader = vl.VideoLoader(data, vl.FrameList([0]), batch_size=2, device="cuda", transforms=[vl.Letterbox(64)])
    (batch,) = loader
    boxes = torch.tensor([[3.0, 20.0, 40.0, 50.0]]).repeat(2, 1)
    mapped = batch.to_source(boxes.cuda(), torch.tensor([1, 0]).cuda())
    assert mapped.is_cuda
    assert torch.equal(mapped.cpu(), batch.to_source(boxes, [1, 0]))
