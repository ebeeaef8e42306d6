"""Image files: ours beside DALI, torchvision in a DataLoader and SPDL.

    python benchmarks/images.py [--device cuda] [--kind jpg] [--frames 1] [--rounds 3] [--only ours DALI]
    python benchmarks/images.py --first-batch 1280000 [--device cuda]

Random crops of 224², flipped, float16, normalised, in an order that is shuffled: batches of 256 images of class
folders, or with ``--frames 8`` batches of 32 clips of 8 frames, each from a folder of frames. The files are links to
400 pictures of about 500×400 pixels (as JPEG 42 KB), which are made here, so that it is not the disk that is measured.
They are so many that an epoch lasts longer than the measurement, as with real data sets: with 20,000 of them, a GPU
would begin an epoch each second.
Each library has a process of its own, and begins to count after ``--warmup`` seconds, when its own processes have
started. The libraries take turns, and medians are printed, each with its ratio to ours. What is not installed is left
out with a message.
``--first-batch`` prints the seconds from the start of a program until our first batch of so many listed files.
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

_PICTURES, _CLASSES = 400, 100


def write_images(folder: Path, kind: str, count: int, frames: int) -> Path:
    """Write the pictures, and so many links to them, in class folders or folders of frames."""
    import numpy as np
    from PIL import Image

    rng, pictures, places = np.random.default_rng(0), folder / "pictures", folder / "places"
    pictures.mkdir()
    for number in range(_PICTURES):
        # All frames of a folder have one size.
        size = number if frames == 1 else number // frames
        width, height = 500 - size % 7 * 12, 400 - size % 5 * 14
        coarse = rng.integers(0, 256, (height // 14 + 2, width // 14 + 2, 3), np.uint8)
        smooth = np.asarray(Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)).astype(int)
        noisy = (smooth + rng.integers(-3, 4, smooth.shape)).clip(0, 255).astype(np.uint8)
        made = {"quality": 90, "subsampling": 2} if kind == "jpg" else {}
        Image.fromarray(noisy).save(pictures / f"{number}.{kind}", **made)
    for number in range(count):
        place = places / (f"{number % _CLASSES:03}" if frames == 1 else f"{number // frames:06}")
        place.mkdir(parents=True, exist_ok=True)
        os.link(pictures / f"{number % (_PICTURES // frames * frames)}.{kind}", place / f"{number:08}.{kind}")
    return places


def entrants(device: str, kind: str, frames: int) -> dict[str, Callable[[str], Iterator[int]]]:
    from libraries import image_loaders as by

    found: dict[str, Callable[[str], Iterator[int]]] = {"ours": lambda folder: by.ours(folder, device, frames)}
    if device == "cuda" and kind == "jpg" and frames == 1:
        for load in (0.0, 0.65, 0.9):
            found[f"DALI, {load} of the load on the engines"] = lambda folder, load=load: by.dali(folder, load)  # type: ignore[misc]
    found["torchvision in a DataLoader"] = lambda folder: by.torchvision(folder, device, frames)
    if device == "cpu":
        found["SPDL"] = lambda folder: by.spdl(folder, frames)
    return found


def measure(batches: Iterator[int], warmup: float, seconds: float) -> float:
    """Samples a second after the warm-up."""
    begin, count, start = time.perf_counter(), 0, None
    for made in batches:
        now = time.perf_counter()
        if start is None:
            start = now if now - begin > warmup else None
            continue
        count += made
        if now - start > seconds:
            return count / (now - start)
    raise AssertionError("they never end")


def run(given: argparse.Namespace, folder: Path, name: str) -> float | None:
    """Start a program that measures one library; print why if it fails."""
    command = [sys.executable, __file__, "--entrant", name, "--folder", str(folder), "--device", given.device]
    command += ["--kind", given.kind, "--frames", str(given.frames)]
    command += ["--seconds", str(given.seconds), "--warmup", str(given.warmup)]
    command += ["--first-batch", "1"] if given.first_batch else []
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"{name} ended with {done.returncode}:", done.stderr[-2000:], flush=True)
        return None
    return float(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda")
    parser.add_argument("--kind", choices=["jpg", "png"], default="jpg")
    parser.add_argument("--frames", type=int, default=1, help="frames of a clip; 1 for images of class folders")
    parser.add_argument("--images", type=int, default=200000)
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--warmup", type=float, default=15)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="folder of class folders to read in place of made files")
    parser.add_argument("--only", nargs="+", default=[""], help="entrants with one of these in their names")
    parser.add_argument("--first-batch", type=int, metavar="FILES", help="time our first batch of so many files")
    parser.add_argument("--entrant", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.entrant:
        batches = entrants(given.device, given.kind, given.frames)[given.entrant](str(given.folder))
        if given.first_batch:
            next(batches)
            print(json.dumps(time.time()), flush=True)
        else:
            print(json.dumps(measure(batches, given.warmup, given.seconds)), flush=True)
        os._exit(0)  # endless loops are left, with their processes
    with tempfile.TemporaryDirectory() as made:
        images = given.first_batch or given.images
        folder = given.folder or write_images(Path(made), given.kind, images, given.frames)
        if given.first_batch:
            for _ in range(given.rounds):
                begin = time.time()
                if (end := run(given, folder, "ours")) is not None:
                    print(f"the first batch came after {end - begin:.1f} s", flush=True)
            return
        seen: dict[str, list[float]] = {}
        for _ in range(given.rounds):
            for name in entrants(given.device, given.kind, given.frames):
                if any(each in name for each in given.only) and (rate := run(given, folder, name)) is not None:
                    seen.setdefault(name, []).append(rate)
    medians = {name: statistics.median(each) for name, each in seen.items()}
    what = "images/s" if given.frames == 1 else "clips/s"
    for name, median in medians.items():
        figure = f"{median:9.0f} {what}" if given.device == "cuda" else ""
        print(f"{name:45s}{figure}  ours / theirs {medians.get('ours', float('nan')) / median:.2f}")


if __name__ == "__main__":
    main()
