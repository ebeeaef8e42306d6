"""Train a small 3-D convolutional network to tell motions apart, and test it.

Without a folder it writes its own data set first: a blob that moves left, right, up, down, in circles, or
grows. No single frame reveals the class, so a loader that mixes up frames cannot pass.

    python samples/action_recognition/train.py
    python samples/action_recognition/train.py /data/my_videos      # class sub-folders
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import defaultdict
from pathlib import Path

import torch
from torch import nn

import videoloader as vl

sys.path.insert(0, str(Path(__file__).parents[1]))
from make_videos import write_dataset

LENGTH, STRIDE, SIZE = 8, 3, 56  # frames in a clip, distance between them, pixels


def block(channels: int, out: int) -> nn.Sequential:
    """A convolution over space and time that halves the resolution in space."""
    return nn.Sequential(
        nn.Conv3d(channels, out, 3, stride=(1, 2, 2), padding=1, bias=False), nn.BatchNorm3d(out), nn.ReLU()
    )


def network(classes: int) -> nn.Sequential:
    """A network of about 0.2 M parameters for input [B, 3, T, H, W]."""
    return nn.Sequential(
        block(3, 16),
        block(16, 32),
        block(32, 64),
        block(64, 64),
        nn.AdaptiveAvgPool3d(1),
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.Linear(64, classes),
    )


@torch.no_grad()
def accuracy(model: nn.Module, loader: vl.VideoLoader, device: torch.device) -> float:
    """The share of videos that are classified correctly, with scores averaged over all their clips."""
    model.eval()
    votes: dict[str, torch.Tensor] = defaultdict(lambda: torch.zeros(()))
    labels: dict[str, int] = {}
    for batch in loader:
        scores = model(batch.frames.to(device)).softmax(1).cpu()
        for path, score, label in zip(batch.paths, scores, batch.labels.tolist(), strict=True):
            votes[path] = votes[path] + score
            labels[path] = label
    return sum(int(votes[path].argmax()) == label for path, label in labels.items()) / len(labels)


def main() -> int:
    parser = argparse.ArgumentParser(description="Train a small 3-D network on the motion in videos.")
    parser.add_argument("folder", type=Path, nargs="?", help="class sub-folders of videos")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--require-accuracy", type=float, default=0.0, help="exit with 1 below this (0 to 1)")
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    folder = args.folder
    if folder is None:
        folder = Path("motion_videos")
        if not folder.exists():
            written = write_dataset(folder, videos_per_class=48, sizes=[(160, 120)], seed=args.seed)
            print(f"wrote {len(written)} videos to {folder}/")
    train, validation = vl.VideoDataset.from_folder(folder).split(0.75, seed=args.seed, stratified=True)

    # No flip, because it would turn "left to right" into "right to left" without changing the label.
    crop = vl.RandomResizedCrop(SIZE, scale=(0.7, 1.0), ratio=(0.9, 1.33))
    train_loader = vl.VideoLoader(
        train,
        vl.RandomWindow(LENGTH, stride=STRIDE, clips=3),
        batch_size=16,
        device=args.device,
        num_workers=args.workers,
        transforms=[crop, vl.Normalize()],
        layout="CTHW",
        dtype="float32",
        shuffle=True,
        seed=args.seed,
    )
    validation_loader = vl.VideoLoader(
        validation,
        vl.EveryWindow(LENGTH, stride=STRIDE),
        batch_size=16,
        device=args.device,
        num_workers=args.workers,
        transforms=[vl.Resize(SIZE), vl.CenterCrop(SIZE), vl.Normalize()],
        layout="CTHW",
        dtype="float32",
    )

    device = torch.device(args.device)
    model = network(len(train.class_names)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.01)
    steps = args.epochs * len(train_loader)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=4e-3, total_steps=steps)
    print(f"{len(train)} videos to train on, {len(validation)} to validate, {len(train.class_names)} classes")

    reached = 0.0
    for epoch in range(args.epochs):
        began, losses = time.perf_counter(), []
        model.train()
        for batch in train_loader:
            loss = nn.functional.cross_entropy(model(batch.frames.to(device)), batch.labels.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            losses.append(loss.item())
        reached = accuracy(model, validation_loader, device)
        seconds = time.perf_counter() - began
        loss_now = sum(losses) / len(losses)
        print(f"epoch {epoch + 1:2}: loss {loss_now:.3f}, accuracy {reached:.1%}, {seconds:.1f} s")
    print(f"final validation accuracy: {reached:.1%}")
    return int(reached < args.require_accuracy)


if __name__ == "__main__":
    sys.exit(main())
