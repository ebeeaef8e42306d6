"""Train on all GPUs of one or more machines, stop at any moment, and resume with any number of GPUs.

Without a folder it writes a small data set first. On a machine without GPUs, the processes train on the CPU.

    torchrun --nproc-per-node 4 samples/multi_gpu/train.py /data/my_videos      # class sub-folders
    torchrun --nproc-per-node 2 samples/multi_gpu/train.py /data/my_videos      # resumes where that run stopped
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import videoloader as vl

sys.path.insert(0, str(Path(__file__).parents[1]))
from make_videos import write_dataset

LENGTH, STRIDE, SIZE = 8, 3, 56  # frames in a clip, distance between them, pixels


def network(classes: int) -> nn.Sequential:
    """A network of a few thousand parameters for input [B, 3, T, H, W]."""
    return nn.Sequential(
        nn.Conv3d(3, 16, 3, stride=(1, 4, 4), padding=1),
        nn.ReLU(),
        nn.Conv3d(16, 32, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool3d(1),
        nn.Flatten(),
        nn.Linear(32, classes),
    )


def save(path: Path, checkpoint: dict[str, Any]) -> None:
    """Write a file completely or not at all, even if the process is killed."""
    unfinished = path.with_suffix(".unfinished")
    torch.save(checkpoint, unfinished)
    os.replace(unfinished, path)


def main() -> None:
    parser = argparse.ArgumentParser(description="Train a small network on all GPUs.")
    parser.add_argument(
        "folder", type=Path, nargs="?", default=Path("motion_videos"), help="class sub-folders of videos"
    )
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=8, help="clips per step and process")
    parser.add_argument("--checkpoint", type=Path, default=Path("multi_gpu.pt"))
    parser.add_argument("--save-every", type=int, default=10, help="steps between checkpoints")
    parser.add_argument("--stop-after", type=int, help="save and stop after this many steps, as if time were up")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()

    # torchrun gives each process its rank. A process that was started without it is alone.
    local_rank = int(os.environ.setdefault("LOCAL_RANK", "0"))
    for name, alone in {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}.items():
        os.environ.setdefault(name, alone)
    if args.device == "cuda":
        torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl" if args.device == "cuda" else "gloo")
    rank = dist.get_rank()

    # One process prepares the files that all processes read.
    index = args.folder.with_suffix(".db")
    if rank == 0:
        if not args.folder.exists():
            write_dataset(args.folder, videos_per_class=8, sizes=[(160, 120)])
        vl.VideoDataset.from_folder(args.folder).build_store(index)
    dist.barrier()
    data = vl.VideoDataset.from_folder(args.folder)

    # Each process gets its part of every epoch, and as many batches as the others, without further arguments.
    loader = vl.VideoLoader(
        data,
        vl.RandomWindow(LENGTH, stride=STRIDE, clips=2),
        batch_size=args.batch_size,
        device=args.device,
        index=index,
        transforms=[vl.RandomResizedCrop(SIZE, scale=(0.7, 1.0)), vl.Normalize()],
        layout="CTHW",
        dtype="float32",
        shuffle=True,
    )
    torch.manual_seed(0)
    device = loader.device
    model = DistributedDataParallel(network(len(data.class_names)).to(device))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    step, first_epoch = 0, 0
    if args.checkpoint.exists():
        checkpoint = torch.load(args.checkpoint, map_location=device, weights_only=True)
        model.module.load_state_dict(checkpoint["model"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        # The state may come from any process, and from a run with any number of them.
        loader.load_state_dict(checkpoint["loader"])
        step, first_epoch = checkpoint["step"], checkpoint["loader"]["epoch"]
        if rank == 0:
            print(f"going on with epoch {first_epoch + 1}, after step {step}", flush=True)

    def checkpoint_now() -> None:
        if rank == 0:
            state = {"model": model.module.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
            save(args.checkpoint, {**state, "loader": loader.state_dict()})

    for epoch in range(first_epoch, args.epochs):
        total = torch.zeros(2, device=device)  # loss, clips
        for batch in loader:
            loss = nn.functional.cross_entropy(model(batch.frames), batch.labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += torch.stack([loss.detach() * len(batch.labels), loss.new_tensor(len(batch.labels))])
            step += 1
            stop = step == args.stop_after
            if stop or step % args.save_every == 0:
                checkpoint_now()
            if stop:
                break
        if total[1]:
            mean = float(total[0] / total[1])
            print(f"epoch {epoch + 1}, process {rank}: {int(total[1])} clips, loss {mean:.3f}", flush=True)
        if step == args.stop_after:
            break
    else:
        checkpoint_now()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
