"""Write small videos of textures and shapes that move by fractions of a pixel, at regular and irregular times.

Half of them are H.264 with a variable frame rate, and half are folders of images in which some numbers are missing.
Each video has two scenes. ``train.csv`` and ``test.csv`` list the videos and the first frame of the second scene.

    python samples/make_motion.py moving --videos 40
"""

from __future__ import annotations

import argparse
import csv
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch.nn.functional import grid_sample, interpolate

SIZE = 96  # of the pictures, pixels
FPS = 30  # on average, and of the numbers of image files
SCENE = 20  # frames in a scene


def texture(rng: np.random.Generator) -> torch.Tensor:
    """float32[1, 3, 192, 192]: coarse and fine noise in random colours, values 0 … 255."""
    picture = torch.zeros(1, 3, 192, 192)
    for cells, weight in ((6, 90), (16, 60), (32, 40)):
        noise = torch.from_numpy(rng.uniform(-weight, weight, (1, 3, cells, cells)).astype(np.float32))
        picture += interpolate(noise, size=192, mode="bicubic", align_corners=False)
    return (picture + torch.from_numpy(rng.uniform(70, 185, (1, 3, 1, 1)))).clamp(0, 255).float()


def draw_scene(seconds: npt.NDArray[np.float64], rng: np.random.Generator) -> npt.NDArray[np.uint8]:
    """uint8[T, SIZE, SIZE, 3]: a background and three shapes with a texture and a velocity each, at these times."""
    y, x = torch.meshgrid(torch.arange(SIZE) - SIZE / 2, torch.arange(SIZE) - SIZE / 2, indexing="ij")
    time = torch.from_numpy(seconds - seconds.mean()).float()[:, None, None]
    frames = torch.zeros(len(seconds), 3, SIZE, SIZE)
    for layer in range(4):
        speed, angle = rng.uniform(0, 75 if layer else 30), rng.uniform(0, 2 * np.pi)  # pixels a second
        start = rng.uniform(-SIZE / 3, SIZE / 3, 2) if layer else (0.0, 0.0)
        along = x - start[0] - speed * np.cos(angle) * time  # [T, H, W], seen from the shape
        down = y - start[1] - speed * np.sin(angle) * time
        pattern = texture(rng).expand(len(seconds), -1, -1, -1)
        painted = grid_sample(
            pattern, torch.stack([along, down], 3) / 96, "bicubic", padding_mode="reflection", align_corners=False
        )
        radius, corners = rng.uniform(10, 24), rng.choice([2, 8])  # a disc, or nearly a square
        distance = (along.abs() ** corners + down.abs() ** corners) ** (1 / corners)
        cover = (radius - distance + 0.5).clamp(0, 1)[:, None] if layer else torch.ones(())
        frames = painted * cover + frames * (1 - cover)
    return frames.clamp(0, 255).round().byte().permute(0, 2, 3, 1).numpy()


def draw_scenes(seconds: npt.NDArray[np.float64], rng: np.random.Generator) -> npt.NDArray[np.uint8]:
    """Two scenes, one after the other."""
    return np.concatenate([draw_scene(seconds[:SCENE], rng), draw_scene(seconds[SCENE:], rng)])


def write_vfr(path: Path, frames: npt.NDArray[np.uint8], ticks: npt.NDArray[np.int64]) -> None:
    """An H.264 video whose frame n is shown at ``ticks[n]`` / 90000 s."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=FPS, options={"crf": "10", "preset": "veryfast"})
        assert isinstance(stream, av.VideoStream)
        stream.width, stream.height, stream.pix_fmt = SIZE, SIZE, "yuv444p"
        stream.codec_context.time_base = stream.time_base = Fraction(1, 90000)
        for picture, tick in zip(frames, ticks.tolist(), strict=True):
            frame = av.VideoFrame.from_ndarray(picture)
            frame.pts, frame.time_base = tick, stream.time_base
            container.mux(stream.encode(frame))
        container.mux(stream.encode())


def write_images(folder: Path, frames: npt.NDArray[np.uint8], numbers: npt.NDArray[np.int64]) -> None:
    """An image file for each frame, named by its number."""
    folder.mkdir()
    for number, picture in zip(numbers.tolist(), frames, strict=True):
        Image.fromarray(picture).save(folder / f"{number:04}.png")


def write_motion(folder: Path, videos: int, seed: int = 0) -> None:
    """Write videos, alternately as H.264 and as image files, and their lists. Every fifth video is for the test."""
    folder.mkdir(parents=True)
    lists: dict[str, list[tuple[str, int]]] = {"train": [], "test": []}
    for number in range(videos):
        rng, name = np.random.default_rng([seed, number]), f"{number:03}"
        if number % 2 == 0:
            ticks = np.cumsum(rng.integers(1500, 4500, 2 * SCENE))  # half to one and a half of 1 / FPS each
            path = f"{name}.mp4"
            write_vfr(folder / path, draw_scenes(ticks / 90000, rng), ticks)
        else:
            numbers = np.sort(rng.permutation(2 * SCENE * 7 // 6)[: 2 * SCENE])  # one in seven is missing
            path = f"{name}::fps={FPS}"
            write_images(folder / name, draw_scenes(numbers / FPS, rng), numbers)
        lists["test" if number % 5 == 4 else "train"].append((path, SCENE))
    for part, rows in lists.items():
        with open(folder / f"{part}.csv", "w", newline="") as file:
            csv.writer(file).writerows([("path", "cuts"), *rows])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Write a data set of moving textures and shapes.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--videos", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    write_motion(args.folder, args.videos, args.seed)
