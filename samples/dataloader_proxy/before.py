"""A typical project: a PyTorch Dataset with its own logic, in a DataLoader whose workers decode.

    python samples/dataloader_proxy/before.py

It learns which of two clips of a video comes first. ``after.py`` is the same program with three lines changed.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

sys.path.insert(0, str(Path(__file__).parents[1]))
from dataloader_proxy.reader import read_clip
from make_videos import write_dataset

LENGTH, STRIDE, FRAMES = 4, 2, 40  # frames of a clip, distance between them, frames that every video has


class Pairs(Dataset[dict[str, Any]]):
    """Two clips of a video, in either order."""

    def __init__(self, paths: list[Path]) -> None:
        self.paths = paths

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, row: int) -> dict[str, Any]:
        path = str(self.paths[row])
        first, second = torch.randint(FRAMES - LENGTH * STRIDE, (2,)).tolist()
        clips = [read_clip(path, list(range(start, start + LENGTH * STRIDE, STRIDE))) for start in (first, second)]
        return {"first": clips[0], "second": clips[1], "in_order": float(first <= second)}


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.AdaptiveAvgPool3d((2, 8, 8)), nn.Flatten(), nn.Linear(3 * 128, 32), nn.ReLU())
        self.head = nn.Linear(64, 1)

    def forward(self, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        both = [self.body(clip.transpose(1, 2).float() / 255) for clip in (first, second)]
        scores: torch.Tensor = self.head(torch.cat(both, 1))[:, 0]
        return scores


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--videos", type=int, default=8, help="of each of six motions")
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()
    torch.manual_seed(0)
    folder = Path(f"pairs_{args.videos}")
    if not folder.exists():
        write_dataset(folder, args.videos, sizes=[(160, 120)], num_frames=(FRAMES, 80))
    paths = sorted(folder.glob("*/*"))
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = Network().to(device)
    optimizer = torch.optim.AdamW(model.parameters())
    loader = DataLoader(Pairs(paths), batch_size=4, shuffle=True, num_workers=args.workers)
    for epoch in range(args.epochs):
        losses = []
        for batch in loader:
            scores = model(batch["first"].to(device), batch["second"].to(device))
            loss = nn.functional.binary_cross_entropy_with_logits(scores, batch["in_order"].float().to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        print(f"epoch {epoch + 1}: loss {sum(losses) / len(losses):.3f}, {len(losses)} batches")


if __name__ == "__main__":
    main()
