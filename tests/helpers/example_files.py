"""The files that examples in the documentation name, and definitions that they leave to the reader."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from sample_videos import X264, X265, Recipe, write_video
from synthetic_index import make_index
from torch.utils.data import DataLoader

import videoloader as vl
from videoloader.indexing import VideoIndex
from videoloader.sampling.sampled_video import AllFrames

CLIP = Recipe("mp4", "libx264", X264 | {"preset": "ultrafast", "g": "25"}, size=(640, 360), frames=300)
VIDEOS = (
    "a.mp4",
    "b.mp4",
    "clips/a.mp4",
    "kinetics/a.mp4",
    "kinetics/train/running/b.mp4",
    "kinetics/train/walking/a.mp4",
    "k400/train/running/abcdefghijk_000010_000020.mp4",
    "k400/train/walking/bcdefghijkl_000020_000030.mp4",
)
IMAGES = (
    "davis/bear/00000.png",
    "davis/bear/00001.png",
    "stereo/left_0.png",
    "stereo/left_1.png",
    *(f"scenes/street/{number:04}.png" for number in (1, 2, 3, 4, 7, 8, 9, 10)),  # two are missing
    *(f"vimeo_triplet/sequences/00001/0001/im{number}.png" for number in (1, 2, 3)),
    *(f"imagenet/{part}/{name}.png" for part in ("train", "val") for name in ("cat/a", "cat/b", "dog/a", "dog/b")),
)
KINETICS = """\
label,youtube_id,time_start,time_end,split
running,abcdefghijk,10,20,train
walking,bcdefghijkl,20,30,train
"""
MISSING = "walking,is_not_here,20,30,train\n"


def write_example_files(folder: Path) -> None:
    """Write ``clip.mp4`` and all other files that examples read, under the names used there."""
    picture = np.random.default_rng(0).integers(0, 256, (45, 80, 3), np.uint8).repeat(8, 0).repeat(8, 1)
    write_video(folder / "clip.mp4", CLIP, lambda number, width, height: np.roll(picture, 3 * number, 1))
    write_video(folder / "hevc.mp4", Recipe("mp4", "libx265", X265))
    for name in VIDEOS:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        os.link(folder / "clip.mp4", folder / name)
    (folder / "kinetics/broken.mp4").write_bytes(b"\0\0\0\x10ftypisom\0\0\0\0")
    (folder / "k400/train.csv").write_text(KINETICS + MISSING)
    (folder / "k400/val.csv").write_text(KINETICS)
    os.symlink("train", folder / "k400/val")
    for name in IMAGES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (64, 48)).save(folder / name)
    (folder / "vimeo_triplet/tri_trainlist.txt").write_text("00001/0001\n")
    vl.build_store([folder / name for name in VIDEOS], folder / "all.db", workers=1)
    for name in ("k400.db", "kinetics.db", "train.db", "part-0.db", "part-1.db"):
        os.link(folder / "all.db", folder / name)
    of_kinetics = [folder / name for name in VIDEOS if name.startswith("kinetics/")]
    vl.build_store(of_kinetics, folder / "kinetics/index.db", workers=1)


def names_of_examples(folder: Path) -> dict[str, Any]:
    """Names that examples use without defining them: a data set, a model, other parts of a loop."""
    index, hevc = vl.build_index(folder / "clip.mp4"), vl.build_index(folder / "hevc.mp4")
    data = vl.VideoDataset.from_folder(folder / "kinetics/train")
    mode = vl.RandomWindow(4, stride=4)
    loader = vl.VideoLoader(data, mode, batch_size=2, device="cpu")
    return {
        "data": data,
        "train_data": data,
        "val_data": data,
        "ssv2": data,
        "paths": [entry.path for entry in data],
        "mode": mode,
        "loader": loader,
        "batch": next(iter(loader)),
        "index": index,
        "three_frames": AllFrames(make_index([0, 1, 2], {0})),
        "video": vl.Video(folder / "clip.mp4", device="cpu"),
        "store": vl.IndexStore(folder / "kinetics.db"),
        "avcc": index.stream.codec_configs[0],
        "hvcc": hevc.stream.codec_configs[0],
        "packets": first_packets(index, folder / "clip.mp4"),
        "hevc_packets": first_packets(hevc, folder / "hevc.mp4"),
        "torch_loader": [vl],
        "DataLoader": lambda rows, num_workers=0, **settings: DataLoader(rows, **settings),
        "model": lambda frames, *more: frames,
        "denoiser": torch.nn.Identity(),
        "train": lambda frames, labels: None,
        "show": lambda frame: None,
        "detect": lambda frames: (torch.tensor([[0.0, 0.0, 8.0, 8.0]]), torch.tensor([1])),
        "read_mask": lambda path, number: torch.zeros(360, 640, dtype=torch.uint8),
    }


def first_packets(index: VideoIndex, path: Path) -> list[bytes]:
    content = path.read_bytes()
    places = zip(index.packet_offset[:25].tolist(), index.packet_size[:25].tolist(), strict=True)
    return [content[offset : offset + size] for offset, size in places]
