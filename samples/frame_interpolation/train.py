"""Train a small network to make the frame at any time between two others, and compare it with blending them.

Without a folder it writes its own data set first: textures and shapes that move by fractions of a pixel, as videos with
a variable frame rate and as folders of images with missing numbers. The network receives the time of its target.

    python samples/frame_interpolation/train.py
    python samples/frame_interpolation/train.py --test-folder /data/my_videos    # trained on its own, tested on these
    python samples/frame_interpolation/train.py /data/my_videos                  # trained and tested on these
"""

from __future__ import annotations

import argparse
import sys
import time
from itertools import chain, islice, pairwise, product, repeat
from pathlib import Path

import torch
from torch import nn
from torch.nn.functional import avg_pool2d, grid_sample, interpolate

import videoloader as vl

sys.path.insert(0, str(Path(__file__).parents[1]))
from make_motion import write_motion

SIZE = 96  # shorter side of the pictures, in pixels
REACH = 3  # the largest motion that is searched for, in units of four pixels


def warp(frames: torch.Tensor, motion: torch.Tensor) -> torch.Tensor:
    """Take each pixel of [B, 3, H, W] from where ``motion`` [B, 2, H, W] (x and y, in pixels) points."""
    height, width = frames.shape[-2:]
    y, x = torch.meshgrid(*(torch.arange(n, device=frames.device) for n in (height, width)), indexing="ij")
    place = torch.stack([(x + motion[:, 0] + 0.5) * 2 / width - 1, (y + motion[:, 1] + 0.5) * 2 / height - 1], 3)
    return grid_sample(frames, place, padding_mode="border", align_corners=False)


def differences(first: torch.Tensor, second: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
    """[B, 49, H, W]: how much the inputs differ where a pixel comes from and where it goes to, for each motion."""
    found = []
    for y, x in product(range(-REACH, REACH + 1), repeat=2):
        motion = torch.tensor([x, y], device=first.device)[None, :, None, None].expand(len(t), 2, *first.shape[-2:])
        found.append((warp(first, -t * motion) - warp(second, (1 - t) * motion)).abs().mean(1, keepdim=True))
    return torch.cat(found, 1)


class Stage(nn.Sequential):
    """Finds 5 channels: motion from the first input and to the second (x and y each), and which of the two is seen."""

    def __init__(self, channels: int) -> None:
        widths = (channels, 64, 64, 64, 48)
        layers = [(nn.Conv2d(before, after, 3, 1, 1), nn.PReLU(after)) for before, after in pairwise(widths)]
        super().__init__(*(part for layer in layers for part in layer), nn.Conv2d(48, 5, 3, 1, 1))


class Interpolator(nn.Module):
    """About 0.25 M parameters: motion is found at a quarter of the size, and made better at a half."""

    def __init__(self) -> None:
        super().__init__()
        self.coarse = Stage((2 * REACH + 1) ** 2 + 7)
        self.fine = Stage(18)

    def forward(self, inputs: torch.Tensor, times: torch.Tensor) -> torch.Tensor:
        """[B, 3, H, W] at ``times`` (float[B], 0 is the first input's, 1 the second's) from [B, 2, 3, H, W]."""
        first, second = inputs.unbind(1)
        t = times[:, None, None, None]
        small = [avg_pool2d(frames, 4) for frames in (first, second)]
        seen = [differences(small[0], small[1], t), *small, t.expand(-1, 1, *small[0].shape[-2:])]
        found = interpolate(self.coarse(torch.cat(seen, 1)), scale_factor=4, mode="bilinear")
        moved = warp(first, -4 * t * found[:, :2]), warp(second, 4 * (1 - t) * found[:, 2:4])
        seen = [avg_pool2d(frames, 2) for frames in (first, second, *moved, found, t.expand(-1, 1, *first.shape[-2:]))]
        found = found + interpolate(self.fine(torch.cat(seen, 1)), scale_factor=2, mode="bilinear")
        moved = warp(first, -4 * t * found[:, :2]), warp(second, 4 * (1 - t) * found[:, 2:4])
        weights = (1 - t) * torch.sigmoid(found[:, 4:]), t * torch.sigmoid(-found[:, 4:])
        return (moved[0] * weights[0] + moved[1] * weights[1]) / (weights[0] + weights[1])


def blend(inputs: torch.Tensor, times: torch.Tensor) -> torch.Tensor:
    """The result without a network: both inputs, weighted by how close they are in time."""
    return torch.lerp(inputs[:, 0], inputs[:, 1], times[:, None, None, None])


def psnr(made: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """float[B], decibels; at most 60."""
    return -10 * (made - wanted).square().mean((1, 2, 3)).clamp(min=1e-6).log10()


@torch.no_grad()
def test(model: nn.Module, loader: vl.VideoLoader) -> tuple[float, float]:
    """PSNR of the network and of blending, averaged over all targets."""
    found = []
    for batch in loader:
        times, wanted = batch.target_times[:, 0], batch.targets[:, 0]
        found.append(torch.stack([psnr(method(batch.inputs, times), wanted) for method in (model, blend)]))
    ours, blended = torch.cat(found, 1).mean(1).tolist()
    return ours, blended


def main() -> int:
    parser = argparse.ArgumentParser(description="Train a small network to interpolate frames.")
    parser.add_argument(
        "folder", type=Path, nargs="?", help="folder of videos; a fifth of them is held out for the test"
    )
    parser.add_argument("--test-folder", type=Path, help="folder of videos to test on, in place of those held out")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--write-videos", type=int, default=40, help="number of videos to write if no folder is given")
    parser.add_argument(
        "--require-gain", type=float, default=-100.0, help="exit with 1 if the gain is smaller, in decibels"
    )
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    if args.folder is None:
        folder = Path("moving_textures")
        if not folder.exists():
            write_motion(folder, args.write_videos, args.seed)
        train, held_out = (vl.VideoDataset.from_csv(folder / f"{part}.csv") for part in ("train", "test"))
    else:
        train, held_out = vl.VideoDataset.from_folder(args.folder).split(0.8, seed=args.seed)

    if args.test_folder:
        held_out = vl.VideoDataset.from_folder(args.test_folder)

    def loader(data: vl.VideoDataset, clips: int, transforms: list[vl.Transform], shuffle: bool) -> vl.VideoLoader:
        # Random groups of five frames in one scene: the outer two are the inputs, one of the others is the target.
        cuts = "cuts" if "cuts" in data[0].columns else None
        return vl.VideoLoader(
            data,
            vl.FrameTuples((0, 4), (1, 2, 3), random_targets=1, clips=clips, cuts=cuts),
            batch_size=args.batch_size,
            device=args.device,
            num_workers=args.workers,
            transforms=[vl.Resize(SIZE), *transforms, vl.ToFloat()],
            shuffle=shuffle,
            seed=args.seed,
            on_error="skip",
        )

    # All frames of a clip get the same crop, flip and direction.
    train_loader = loader(train, 32, [vl.RandomCrop(64), vl.RandomHorizontalFlip(), vl.Reverse()], shuffle=True)
    test_loader = loader(held_out, 8, [vl.CenterCrop(SIZE)], shuffle=False)
    print(f"{len(train)} videos to train on, {len(held_out)} to test")

    model = Interpolator().to(args.device)
    optimizer = torch.optim.AdamW(model.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=2e-3, total_steps=args.steps)
    began = time.perf_counter()
    epochs = chain.from_iterable(repeat(train_loader))
    for step, batch in enumerate(islice(epochs, args.steps), 1):
        times, wanted = batch.target_times[:, 0], batch.targets[:, 0]
        made = model(batch.inputs, times)
        optimizer.zero_grad()
        (made - wanted).abs().mean().backward()
        optimizer.step()
        schedule.step()
        if step % 50 == 0:
            ours, blended = (float(psnr(each.detach(), wanted).mean()) for each in (made, blend(batch.inputs, times)))
            seconds = time.perf_counter() - began
            print(f"step {step:4}: {ours:.2f} dB, blending {blended:.2f} dB, {seconds:.0f} s", flush=True)
    ours, blended = test(model, test_loader)
    print(f"held-out videos: {ours:.2f} dB, blending {blended:.2f} dB, gain {ours - blended:+.2f} dB")
    return int(ours - blended < args.require_gain)


if __name__ == "__main__":
    sys.exit(main())
