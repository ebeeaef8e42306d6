"""Train an image classifier with ImageNet's usual recipe: folders of images, random resized crops, flips.

To the loader, an image is a video of one frame, so all of its options apply. Without a folder it writes its own
small data set: four patterns in any colours, sizes and blur.

    python samples/image_classification/train.py
    python samples/image_classification/train.py /data/imagenet --epochs 90 --size 224     # with train/ and val/
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageFilter
from torch import nn

import videoloader as vl

PATTERNS = ("checks", "dots", "lines_across", "lines_down")


def draw(pattern: str, rng: np.random.Generator) -> Image.Image:
    """Draw a pattern in two random colours, on a picture of random size."""
    height, width = rng.integers(60, 140, 2)
    period = rng.integers(10, 18)
    y, x = np.mgrid[:height, :width] + rng.integers(0, period, 2)[:, None, None]
    rows, columns = y // (period // 2) % 2, x // (period // 2) % 2
    marks = {
        "checks": rows ^ columns,
        "dots": (y % period - period / 2) ** 2 + (x % period - period / 2) ** 2 < (period / 3) ** 2,
        "lines_across": rows,
        "lines_down": columns,
    }[pattern].astype(bool)
    colors = rng.integers(0, 256, (2, 3))
    while np.abs(colors[0] - colors[1]).sum() < 200:
        colors = rng.integers(0, 256, (2, 3))
    pixels = np.where(marks[..., None], *colors) + rng.normal(0, 12, (height, width, 3))
    picture = Image.fromarray(pixels.clip(0, 255).astype(np.uint8))
    return picture.filter(ImageFilter.GaussianBlur(float(rng.uniform(0, 1.2))))


def write_images(folder: Path, training: int, validation: int, seed: int) -> None:
    """``folder/train/<pattern>/<number>.jpg`` and the same for ``val``, with this many images of each pattern."""
    rng = np.random.default_rng(seed)
    for part, images in (("train", training), ("val", validation)):
        for pattern in PATTERNS:
            (folder / part / pattern).mkdir(parents=True)
            for number in range(images):
                draw(pattern, rng).save(folder / part / pattern / f"{number}.jpg", quality=90)


def network(classes: int) -> nn.Sequential:
    """A network of about 0.1 M parameters for input [B, 3, H, W]. For ImageNet, use a ResNet instead."""

    def block(channels: int, out: int) -> nn.Sequential:
        return nn.Sequential(
            nn.Conv2d(channels, out, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(out), nn.ReLU()
        )

    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(96, classes)]
    return nn.Sequential(block(3, 24), block(24, 48), block(48, 96), *head)


@torch.no_grad()
def accuracy(model: nn.Module, loader: vl.VideoLoader, device: torch.device) -> float:
    """The share of images that are classified correctly."""
    model.eval()
    right = [int((model(batch.frames[:, 0].to(device)).argmax(1) == batch.labels.to(device)).sum()) for batch in loader]
    return sum(right) / loader.num_clips


def main() -> int:
    parser = argparse.ArgumentParser(description="Train an image classifier.")
    parser.add_argument(
        "folder", type=Path, nargs="?", help="folder with train/ and val/, which hold class folders of images"
    )
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--size", type=int, default=48, help="size of the network's input, in pixels")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--learning-rate", type=float, default=0.1)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--workers", type=int, help="decoding threads")
    parser.add_argument("--images", type=int, default=120, help="images of each class to write if no folder is given")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--require-accuracy", type=float, default=0.0, help="exit with 1 below this (0 to 1)")
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    folder = args.folder
    if folder is None:
        folder = Path("patterns")
        if not folder.exists():
            write_images(folder, args.images, max(args.images // 4, 1), args.seed)
            print(f"wrote images to {folder}/")
    train = vl.VideoDataset.from_folder(folder / "train", extensions=vl.IMAGE_EXTENSIONS)
    validation = vl.VideoDataset.from_folder(
        folder / "val", extensions=vl.IMAGE_EXTENSIONS, class_names=train.class_names
    )
    one_frame = vl.UniformFrames(1)
    train_loader = vl.VideoLoader(
        train,
        one_frame,
        batch_size=args.batch_size,
        device=args.device,
        num_workers=args.workers,
        transforms=[vl.RandomResizedCrop(args.size), vl.RandomHorizontalFlip(), vl.Normalize()],
        dtype="float32",
        shuffle=True,
        seed=args.seed,
        last_batch="drop",
    )
    validation_loader = vl.VideoLoader(
        validation,
        one_frame,
        batch_size=args.batch_size,
        device=args.device,
        num_workers=args.workers,
        transforms=[vl.Resize(args.size * 8 // 7), vl.CenterCrop(args.size), vl.Normalize()],  # 256 and 224
        dtype="float32",
    )

    device = torch.device(args.device)
    model = network(len(train.class_names)).to(device)
    loss_of = nn.CrossEntropyLoss(label_smoothing=0.1)
    optimizer = torch.optim.SGD(model.parameters(), args.learning_rate, momentum=0.9, weight_decay=1e-4, nesterov=True)
    steps = args.epochs * len(train_loader)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, args.learning_rate, total_steps=steps)
    print(f"{len(train)} images to train on, {len(validation)} to validate, {len(train.class_names)} classes")

    reached = 0.0
    for epoch in range(args.epochs):
        began, losses = time.perf_counter(), []
        model.train()
        for batch in train_loader:
            loss = loss_of(model(batch.frames[:, 0].to(device)), batch.labels.to(device))
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
