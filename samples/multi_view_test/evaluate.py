"""Test a classifier as papers do: several clips of each video, three crops of each clip, one average per video.

    python samples/multi_view_test/evaluate.py
    python samples/multi_view_test/evaluate.py /data/my_videos      # class sub-folders

The classifier here is a ridge regression on how far things move from frame to frame, which trains in seconds. Replace
it by your own network: ``evaluate`` takes any function from float32[B, 3, T, H, W] to scores [B, classes].
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import videoloader as vl

sys.path.insert(0, str(Path(__file__).parents[1]))
from make_videos import write_dataset

# Frames in a clip, distance between them, pixels; the largest shift from frame to frame that is tried.
LENGTH, STRIDE, SIZE, FARTHEST = 8, 3, 48, 8

Model = Callable[[torch.Tensor], torch.Tensor]


def features(frames: torch.Tensor) -> torch.Tensor:
    """float32[B, F] of float32[B, 3, T, H, W]: how well a frame fits the next one, for each shift."""
    gray = frames.mean(1)
    # The mean over time holds whatever does not move.
    spectrum = torch.fft.fft2(gray - gray.mean(1, keepdim=True))
    fits = torch.fft.ifft2(spectrum[:, :-1].conj() * spectrum[:, 1:]).real.mean(1)
    near = fits.roll((FARTHEST, FARTHEST), (1, 2))[:, : 2 * FARTHEST + 1, : 2 * FARTHEST + 1].flatten(1)
    shares: torch.Tensor = near / near.norm(dim=1, keepdim=True).clamp(min=1e-6)
    return shares


def fitted(loader: vl.VideoLoader, classes: int) -> Model:
    """A ridge regression from features to classes, fitted in one pass over the loader."""
    given, wanted = [], []
    for batch in loader:
        given.append(features(batch.frames).cpu())
        wanted.append(torch.nn.functional.one_hot(batch.labels.cpu(), classes).float())
    inputs = torch.cat(given)
    mean = inputs.mean(0)
    inputs = inputs - mean
    square = inputs.T @ inputs + torch.eye(inputs.shape[1])
    weights = torch.linalg.solve(square, inputs.T @ torch.cat(wanted))
    return lambda frames: (features(frames).cpu() - mean) @ weights


@torch.no_grad()
def evaluate(model: Model, loader: vl.VideoLoader, data: vl.VideoDataset) -> tuple[float, int]:
    """The top-1 accuracy with scores averaged over all views of each video, and the number of views per video."""
    sums = torch.zeros(len(data), data.num_classes)
    views = torch.zeros(len(data), dtype=torch.int64)
    for batch in loader:
        # Each row of a batch is a view. batch.rows says which video it belongs to, batch.views which crop it is.
        rows = torch.from_numpy(batch.rows)
        sums.index_add_(0, rows, model(batch.frames).float().cpu())
        views.index_add_(0, rows, torch.ones_like(rows))
    assert (views == views[0]).all(), "every video has the same number of views"
    right = sums.argmax(1) == torch.tensor(data.labels)
    return right.float().mean().item(), int(views[0])


def main() -> int:
    parser = argparse.ArgumentParser(description="Test a classifier on several views of each video.")
    parser.add_argument("folder", type=Path, nargs="?", help="class sub-folders of videos")
    parser.add_argument("--videos", type=int, default=32, help="videos of each class to write if no folder is given")
    parser.add_argument("--clips", type=int, default=5, help="clips of each video in the test on several views")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--require-accuracy", type=float, default=0.0, help="exit with 1 below this (0 to 1)")
    args = parser.parse_args()

    folder = args.folder
    if folder is None:
        folder = Path("multi_view_videos")
        if not folder.exists():
            write_dataset(folder, args.videos, sizes=[(160, 120)])
    train, test = vl.VideoDataset.from_folder(folder).split(0.75, stratified=True)

    def loader(data: vl.VideoDataset, mode: vl.FrameMode, *crop: Any) -> vl.VideoLoader:
        return vl.VideoLoader(
            data,
            mode,
            batch_size=8,
            device=args.device,
            transforms=[vl.Resize(SIZE), *crop, vl.Normalize()],
            layout="CTHW",
        )

    random_windows = vl.RandomWindow(LENGTH, stride=STRIDE, clips=4)
    model = fitted(loader(train, random_windows, vl.RandomCrop(SIZE)), train.num_classes)
    reached = 0.0
    for name, clips, crop in (
        ("the middle of one clip", 1, vl.CenterCrop(SIZE)),
        ("several views", args.clips, vl.ThreeCrop(SIZE)),
    ):
        views = loader(test, vl.EvenWindows(LENGTH, stride=STRIDE, clips=clips), crop)
        reached, count = evaluate(model, views, test)
        print(f"{name}: {count} × {len(test)} videos, top-1 accuracy {reached:.1%}")
    return int(reached < args.require_accuracy)


if __name__ == "__main__":
    sys.exit(main())
