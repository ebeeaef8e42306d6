"""Embed the videos of a folder on a Ray cluster, and write one vector per clip to Parquet files.

Decoding and the network run at the same time, in separate actors. Ray Data streams clips from one to the other,
restarts workers that die, and repeats their unfinished work. Without a folder, the program writes a few videos first.

    python samples/embeddings/embed.py embeddings
    python samples/embeddings/embed.py embeddings /data/my_videos --frames 16 --gpus 1
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
import ray
import torch
from torch import nn

import videoloader as vl
from videoloader.interop.ray import SkippedClips, read_clips

sys.path.insert(0, str(Path(__file__).parents[1]))
from make_videos import write_dataset

SIZE, FEATURES = 64, 32


def network() -> nn.Sequential:
    """An untrained network, the same everywhere: [B, 3, T, H, W] to [B, FEATURES]. Replace it by a trained one."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv3d(3, 16, 3, stride=2),
        nn.ReLU(),
        nn.Conv3d(16, FEATURES, (1, 3, 3), stride=(1, 2, 2)),
        nn.ReLU(),
        nn.AdaptiveAvgPool3d(1),
        nn.Flatten(),
    )


class Embed:
    """An actor that holds the network."""

    def __init__(self, device: str) -> None:
        self.device = torch.device(device)
        self.network = network().to(self.device).eval()

    @torch.no_grad()
    def __call__(self, clips: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        frames = torch.as_tensor(clips["frames"], device=self.device).float() / 255
        return {
            "path": clips["path"],
            "start": clips["timestamps"][:, 0],
            "embedding": self.network(frames).cpu().numpy(),
        }


def main() -> int:
    parser = argparse.ArgumentParser(description="Embed the videos of a folder, one vector a clip.")
    parser.add_argument("output", type=Path, help="folder for the Parquet files")
    parser.add_argument("folder", type=Path, nargs="?", help="videos, in any sub-folders")
    parser.add_argument("--frames", type=int, default=8, help="frames in a clip")
    parser.add_argument("--stride", type=int, default=4, help="distance between the frames of a clip")
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--gpus", type=float, default=0, help="for decoding and for the network, each")
    args = parser.parse_args()

    folder = args.folder
    if folder is None:
        folder = Path("videos_to_embed")
        if not folder.exists():
            write_dataset(folder, videos_per_class=1, motions=("up", "clockwise"), sizes=[(160, 120)])

    ray.init(ignore_reinit_error=True)
    skipped = SkippedClips()
    length = args.frames * args.stride
    clips = read_clips(
        vl.VideoDataset.from_folder(folder.resolve()),
        vl.EveryWindow(args.frames, stride=args.stride, step=length, pad="edge"),
        transforms=[vl.Resize(SIZE), vl.CenterCrop(SIZE)],
        layout="CTHW",
        batch_size=args.batch_size,
        num_gpus=args.gpus,
        on_error="skip",
        skipped=skipped,
    )
    embeddings = clips.map_batches(
        Embed,
        fn_constructor_args=["cuda" if args.gpus else "cpu"],
        batch_size=args.batch_size,
        compute=ray.data.ActorPoolStrategy(size=1),
        num_gpus=args.gpus,
        num_cpus=1,
    )
    embeddings.write_parquet(str(args.output.resolve()))
    for path, error in skipped.entries():
        print(f"left out {path}: {error}")
    written = ray.data.read_parquet(str(args.output.resolve()))
    print(f"{written.count()} clips embedded into {args.output}/")
    return 0


if __name__ == "__main__":
    sys.exit(main())
