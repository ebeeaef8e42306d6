"""Loaders of image files: videoloader, DALI, torchvision in a DataLoader, and SPDL in threads of one process.

Each is a generator that yields, without end, the number of samples of a batch that is ready on the device. A sample is
an image, or a clip: the first frames of a folder. It is cropped at random to 224², flipped, and normalised to float16.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch

SIDE = 224
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def batch_size(frames: int) -> int:
    return 256 if frames == 1 else 32


def samples(folder: str, frames: int) -> list[list[str]]:
    """The files of each sample: one file of a class folder, or the first ones of a folder of frames."""
    places = sorted(each for each in Path(folder).iterdir())
    if frames == 1:
        return [[entry.path] for place in places for entry in os.scandir(place)]
    return [[str(place / name) for name in sorted(os.listdir(place))[:frames]] for place in places]


def ours(folder: str, device: str, frames: int, processes: int | None = None) -> Iterator[int]:
    import videoloader as vl

    if frames == 1:
        data = vl.VideoDataset.from_folder(folder, extensions=vl.IMAGE_EXTENSIONS)
    else:
        data = vl.VideoDataset.from_frame_folders(folder)
    loader = vl.VideoLoader(
        data,
        vl.FrameList(list(range(frames))),
        batch_size=batch_size(frames),
        transforms=[vl.RandomResizedCrop(SIDE), vl.RandomHorizontalFlip(), vl.Normalize(MEAN, STD)],
        dtype="float16",
        shuffle=True,
        device=device,
        num_processes=processes,
    )
    while True:
        for batch in loader:
            if device == "cuda":
                torch.cuda.current_stream().synchronize()
            yield len(batch.frames)


def dali(folder: str, load: float) -> Iterator[int]:
    """DALI, with a share of the files on the JPEG engines; images only."""
    from nvidia.dali import fn, pipeline_def, types

    size = batch_size(1)

    @pipeline_def(batch_size=size, num_threads=max(len(os.sched_getaffinity(0)) - 2, 1), device_id=0)
    def pipeline():  # type: ignore[no-untyped-def]
        files, labels = fn.readers.file(file_root=folder, random_shuffle=True)
        pictures = fn.decoders.image_random_crop(files, device="mixed", output_type=types.RGB, hw_decoder_load=load)
        pictures = fn.resize(pictures, size=[SIDE, SIDE])
        mean, std = [255 * each for each in MEAN], [255 * each for each in STD]
        flips = fn.random.coin_flip()
        return fn.crop_mirror_normalize(pictures, dtype=types.FLOAT16, mean=mean, std=std, mirror=flips), labels

    made = pipeline()
    made.build()
    while True:
        made.run()
        torch.cuda.synchronize()
        yield size


class _Pictures(torch.utils.data.Dataset[torch.Tensor]):
    def __init__(self, folder: str, frames: int) -> None:
        from torchvision.transforms import v2

        self._samples = samples(folder, frames)
        steps = [v2.RandomResizedCrop(SIDE, antialias=True), v2.RandomHorizontalFlip()]
        self._change = v2.Compose([*steps, v2.ToDtype(torch.float16, scale=True), v2.Normalize(MEAN, STD)])

    def __len__(self) -> int:
        return len(self._samples)

    def __getitem__(self, number: int) -> torch.Tensor:
        from torchvision.io import ImageReadMode, decode_image

        pictures = torch.stack([decode_image(each, ImageReadMode.RGB) for each in self._samples[number]])
        changed: torch.Tensor = self._change(pictures)
        return changed


def torchvision(folder: str, device: str, frames: int) -> Iterator[int]:
    """torchvision in a DataLoader with a process for each core."""
    loader: torch.utils.data.DataLoader[torch.Tensor] = torch.utils.data.DataLoader(
        _Pictures(folder, frames),
        batch_size(frames),
        shuffle=True,
        num_workers=len(os.sched_getaffinity(0)),
        pin_memory=device == "cuda",
        persistent_workers=True,
    )
    while True:
        for pictures in loader:
            there = pictures.to(device, non_blocking=True)
            if device == "cuda":
                torch.cuda.synchronize()
            yield len(there)


def spdl(folder: str, frames: int) -> Iterator[int]:
    """SPDL with a thread for each core: FFmpeg's filters crop, flip and resize."""
    import spdl.io

    torch.set_num_threads(1)
    files = samples(folder, frames)
    mean, std = (torch.tensor(each, dtype=torch.float16)[:, None, None] for each in (MEAN, STD))

    def make(sample: list[str]) -> Any:
        area, ratio = random.uniform(0.08, 1), random.uniform(3 / 4, 4 / 3)
        left, top = random.random(), random.random()
        size = f"crop=w='min(iw,sqrt(iw*ih*{area * ratio}))':h='min(ih,sqrt(iw*ih*{area / ratio}))'"
        flip = "hflip," if random.random() < 0.5 else ""
        steps = f"{size}:x='(iw-ow)*{left}':y='(ih-oh)*{top}',scale={SIDE}:{SIDE}:flags=bilinear,{flip}"
        steps += "format=pix_fmts=rgb24"
        decoded = [spdl.io.decode_packets(spdl.io.demux_image(each), filter_desc=steps) for each in sample]
        pictures = spdl.io.to_torch(spdl.io.convert_frames(decoded)).permute(0, 3, 1, 2)
        return pictures.to(torch.float16).div_(255).sub_(mean).div_(std)

    size = batch_size(frames)
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as threads:
        # Three batches are in the making, so that no thread waits for the last clip of one.
        making = [[threads.submit(make, each) for each in random.sample(files, size)] for _ in range(3)]
        while True:
            done = torch.stack([each.result() for each in making.pop(0)])
            making.append([threads.submit(make, each) for each in random.sample(files, size)])
            yield len(done)
