"""Image files: ours beside DALI and torchvision in a DataLoader, on files of class folders.

    python benchmarks/images.py [--device cuda] [--images 200000] [--rounds 3] [--only ours DALI]

Random crops of 224², flipped, float16, normalised, in batches of 256 whose order is shuffled. The files are links to
400 JPEG pictures of about 500×400 pixels and 42 KB, which are made here, so that it is not the disk that is measured.
They are so many that an epoch lasts longer than the measurement, as with real data sets: with 20,000 of them, a GPU
would begin an epoch each second.
Each library has a process of its own, and begins to count after ``--warmup`` seconds, when its own processes have
started. The libraries take turns, and medians are printed, each with its ratio to ours. What is not installed is left
out with a message.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

_PICTURES, _CLASSES, _BATCH, _SIDE = 400, 100, 256, 224
_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def write_images(folder: Path, count: int) -> None:
    """Write the pictures, and so many links to them in class folders."""
    import numpy as np
    from PIL import Image

    rng, pictures = np.random.default_rng(0), folder / "pictures"
    pictures.mkdir()
    for number in range(_PICTURES):
        width, height = 500 - number % 7 * 12, 400 - number % 5 * 14
        coarse = rng.integers(0, 256, (height // 14 + 2, width // 14 + 2, 3), np.uint8)
        smooth = np.asarray(Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)).astype(int)
        noisy = (smooth + rng.integers(-3, 4, smooth.shape)).clip(0, 255).astype(np.uint8)
        Image.fromarray(noisy).save(pictures / f"{number}.jpg", quality=90, subsampling=2)
    for number in range(count):
        place = folder / "classes" / f"{number % _CLASSES:03}"
        place.mkdir(parents=True, exist_ok=True)
        os.link(pictures / f"{number % _PICTURES}.jpg", place / f"{number}.jpg")


def ours(folder: str, device: str) -> Iterator[int]:
    import torch

    import videoloader as vl

    loader = vl.VideoLoader(
        vl.VideoDataset.from_folder(folder, extensions=vl.IMAGE_EXTENSIONS),
        vl.FrameList([0]),
        batch_size=_BATCH,
        transforms=[vl.RandomResizedCrop(_SIDE), vl.RandomHorizontalFlip(), vl.Normalize(_MEAN, _STD)],
        dtype="float16",
        shuffle=True,
        device=device,
    )
    while True:
        for batch in loader:
            if device == "cuda":
                torch.cuda.current_stream().synchronize()
            yield len(batch.frames)


def dali(folder: str, load: float) -> Iterator[int]:
    """DALI, with a share of the files on the JPEG engines."""
    import torch
    from nvidia.dali import fn, pipeline_def, types

    @pipeline_def(batch_size=_BATCH, num_threads=max(len(os.sched_getaffinity(0)) - 2, 1), device_id=0)
    def pipeline():  # type: ignore[no-untyped-def]
        files, labels = fn.readers.file(file_root=folder, random_shuffle=True)
        pictures = fn.decoders.image_random_crop(files, device="mixed", output_type=types.RGB, hw_decoder_load=load)
        pictures = fn.resize(pictures, size=[_SIDE, _SIDE])
        mean, std = [255 * each for each in _MEAN], [255 * each for each in _STD]
        flips = fn.random.coin_flip()
        return fn.crop_mirror_normalize(pictures, dtype=types.FLOAT16, mean=mean, std=std, mirror=flips), labels

    made = pipeline()
    made.build()
    while True:
        made.run()
        torch.cuda.synchronize()
        yield _BATCH


def torchvision(folder: str, device: str) -> Iterator[int]:
    """ImageFolder in a DataLoader with a process for each core."""
    import torch
    from torchvision.datasets import ImageFolder
    from torchvision.io import decode_image
    from torchvision.transforms import v2

    steps = [
        v2.RandomResizedCrop(_SIDE, antialias=True),
        v2.RandomHorizontalFlip(),
        v2.ToDtype(torch.float16, scale=True),
    ]
    data = ImageFolder(folder, transform=v2.Compose([*steps, v2.Normalize(_MEAN, _STD)]), loader=decode_image)
    workers = len(os.sched_getaffinity(0))
    loader = torch.utils.data.DataLoader(
        data, _BATCH, shuffle=True, num_workers=workers, pin_memory=device == "cuda", persistent_workers=True
    )
    while True:
        for pictures, _ in loader:
            there = pictures.to(device, non_blocking=True)
            if device == "cuda":
                torch.cuda.synchronize()
            yield len(there)


def entrants(device: str) -> dict[str, Callable[[str], Iterator[int]]]:
    found: dict[str, Callable[[str], Iterator[int]]] = {"ours": lambda folder: ours(folder, device)}
    if device == "cuda":
        for load in (0.0, 0.65, 0.9):
            found[f"DALI, {load} of the load on the engines"] = lambda folder, load=load: dali(folder, load)  # type: ignore[misc]
    found["torchvision in a DataLoader"] = lambda folder: torchvision(folder, device)
    return found


def measure(batches: Iterator[int], warmup: float, seconds: float) -> float:
    """Images a second after the warm-up."""
    begin, count, start = time.perf_counter(), 0, None
    for images in batches:
        now = time.perf_counter()
        if start is None:
            start = now if now - begin > warmup else None
            continue
        count += images
        if now - start > seconds:
            return count / (now - start)
    raise AssertionError("they never end")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda")
    parser.add_argument("--images", type=int, default=200000)
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--warmup", type=float, default=15)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="folder of class folders to read in place of made files")
    parser.add_argument("--only", nargs="+", default=[""], help="entrants with one of these in their names")
    parser.add_argument("--entrant", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.entrant:
        batches = entrants(given.device)[given.entrant](str(given.folder))
        print(json.dumps(measure(batches, given.warmup, given.seconds)), flush=True)
        os._exit(0)  # endless loops are left, with their processes
    with tempfile.TemporaryDirectory() as made:
        folder = given.folder
        if folder is None:
            write_images(Path(made), given.images)
            folder = Path(made, "classes")
        seen: dict[str, list[float]] = {}
        for _ in range(given.rounds):
            for name in filter(lambda name: any(each in name for each in given.only), entrants(given.device)):
                command = [
                    sys.executable,
                    __file__,
                    "--entrant",
                    name,
                    "--folder",
                    str(folder),
                    "--device",
                    given.device,
                ]
                command += ["--seconds", str(given.seconds), "--warmup", str(given.warmup)]
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                if done.returncode:
                    print(f"{name} ended with {done.returncode}:", done.stderr[-2000:])
                else:
                    seen.setdefault(name, []).append(json.loads(done.stdout.splitlines()[-1]))
    medians = {name: statistics.median(each) for name, each in seen.items()}
    for name, median in medians.items():
        figure = f"{median:9.0f} images/s" if given.device == "cuda" else ""
        print(f"{name:45s}{figure}  ours / theirs {medians.get('ours', float('nan')) / median:.2f}")


if __name__ == "__main__":
    main()
