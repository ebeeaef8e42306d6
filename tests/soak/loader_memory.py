"""Tens of thousands of batches in one process: what it and the GPU hold must not grow.

    python tests/soak/loader_memory.py [--batches 24000] [--device cuda] [--loader DecodingLoader] [--anew]

One loader gives two small clips a batch, augmented, over many epochs, or with ``--anew`` one for each epoch. After each
epoch memory, open files, threads and the C library's own numbers of its heaps are printed; between the first and the
last fifth of what comes after the first 1,000 batches, the medians may grow by no more than ``footprint.growth`` says.
Exit code 1 if they do. Let nothing else run on the GPU meanwhile.

``tests/test_loader_memory.py`` runs a small sample of this.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "helpers"))

from soak.footprint import Footprint, footprint, growth, header, leaks, told
from soak.mixed_clips import write_videos

import videoloader as vl
from videoloader.interop.torch import ClipRequest, DecodingLoader

WARM_UP = 1000
BATCH = 2
# Codecs that NVDEC takes and one that it does not, with few packets to decode for a frame.
VIDEOS = ("h264_intra", "h264_open_ts", "h264_refresh", "h264_444", "hevc_intra", "vp9_odd_mp4", "mpeg4_mp4")
MODE = vl.RandomWindow(2, stride=2)
PIXELS: dict[str, Any] = {
    "transforms": [vl.RandomResizedCrop(64), vl.RandomHorizontalFlip(), vl.RandAugment(2, 9), vl.Normalize()],
    "dtype": "float16",
}


class _Requests(torch.utils.data.Dataset[ClipRequest]):
    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = paths

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, row: int) -> ClipRequest:
        return ClipRequest(self._paths[row], MODE)


def run(
    paths: Sequence[Path],
    batches: int,
    progress: Callable[[Footprint], object] = id,
    *,
    loader: str = "VideoLoader",
    epoch: int = 200,
    anew: bool = False,
    **settings: Any,
) -> list[Footprint]:
    """Go through so many batches at least, and say what was held after each epoch.

    Args:
        paths: of videos, each of which is often in the data set.
        batches: how many.
        progress: called with each row.
        loader: ``"VideoLoader"``, or ``"DecodingLoader"`` over a torch DataLoader without workers.
        epoch: batches in an epoch.
        anew: whether each epoch has a loader of its own.
        settings: of the loader.
    """
    names = [str(path) for path in paths]
    rows = [names[row % len(names)] for row in range(epoch * BATCH)]

    def make() -> vl.VideoLoader | DecodingLoader:
        if loader == "VideoLoader":
            data = vl.VideoDataset.from_paths(rows)
            return vl.VideoLoader(data, MODE, batch_size=BATCH, shuffle=True, **PIXELS, **settings)
        return DecodingLoader(DataLoader(_Requests(rows), BATCH, shuffle=True), **PIXELS, **settings)

    made = make()
    curve: list[Footprint] = []
    done = 0
    while done < batches:
        for _ in made:
            done += 1
        device = made.device
        if anew:
            del made
        # Between two epochs nothing is under way.
        curve.append(footprint(done, device))
        progress(curve[-1])
        if anew:
            made = make()
    return curve


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=24_000)
    parser.add_argument("--epoch", type=int, default=200, help="batches in an epoch")
    parser.add_argument("--anew", action="store_true", help="make a loader for each epoch")
    parser.add_argument("--loader", choices=("VideoLoader", "DecodingLoader"), default="VideoLoader")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--decode", choices=("nvdec", "cpu", "auto"), default="auto")
    parser.add_argument("--workers", type=int, help="decoding threads; the loader's default unless given")
    parser.add_argument("--only", nargs="+", metavar="VIDEO", default=VIDEOS, help="names in painted_videos.PAINTED")
    parser.add_argument("--videos", type=Path, help="folder that keeps the videos for another run")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.videos or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        paths = write_videos(folder, arguments.only)
        print(header("batches"))
        begin = time.perf_counter()
        curve = run(
            paths,
            arguments.batches,
            partial(print, flush=True),
            loader=arguments.loader,
            epoch=arguments.epoch,
            anew=arguments.anew,
            device=arguments.device,
            decode=arguments.decode,
            num_workers=arguments.workers,
        )
        seconds = time.perf_counter() - begin
    rise = growth(curve, WARM_UP)
    print(f"{curve[-1].done} batches in {seconds:.0f} s; {told(rise)}")
    print("FAILED" if leaks(rise) else "passed", *leaks(rise))
    return 1 if leaks(rise) else 0


if __name__ == "__main__":
    sys.exit(main())
