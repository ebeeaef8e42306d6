"""Mistakes with modes, transforms and names that users make on their second day."""

# mypy: ignore-errors
from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from first_day import Mistakes, check_answer, data, first, loader, video

import videoloader as vl
from videoloader import VideoDataset as VD
from videoloader.interop import torch as torch_parts

SMALL, WINDOW = vl.Resize((16, 24)), vl.RandomWindow(4)


def frames() -> torch.Tensor:
    return torch.zeros(4, 3, 32, 48, dtype=torch.uint8)


def table(text: str) -> VD:
    Path("t.csv").write_text(text)
    return VD.from_csv("t.csv")


def shape(*transforms: object) -> torch.Size:
    return first(transforms=[SMALL, *transforms]).frames.shape


def composed(*transforms: object, x: object = None) -> object:
    return vl.Compose(list(transforms))(frames() if x is None else x)


MISTAKES: Mistakes = {
    "more frames than memory": (
        lambda: loader(vl.RandomWindow(10**12)),
        "length must be an integer in [1, 16777216], got 1000000000000",
    ),
    "a rate of a window, once more": (
        lambda: vl.RandomWindow(4, fps=8),
        "RandomWindow has no argument fps: write AtRate(fps, length), a mode of its own",
    ),
    "an overlap": (
        lambda: vl.EveryWindow(4, overlap=2),
        "EveryWindow has no argument overlap: it takes length, stride, step, pad",
    ),
    "a length of a whole video": (
        lambda: vl.WholeVideo(16),
        "WholeVideo takes nothing by position and all else by name: write stride=16, if that is what is meant",
    ),
    "tuples in a frame list": (
        lambda: vl.FrameList([[0, 1], [2, 3]]),
        "frames must be a list of one or more integers, got [[0, 1], [2, 3]]",
    ),
    "a mask for a frame list": (
        lambda: vl.FrameList([True, False]),
        "frames must be a list of one or more integers, got [True, False]",
    ),
    "a word in a column of frames": (
        lambda: first(vl.FrameList("f"), table('path,f\na.mp4,"1,2,x"\n')),
        "a.mp4: column 'f' must be a list of integers, got '1,2,x'",
    ),
    "milliseconds for seconds": (
        lambda: first(vl.Timestamps([500])),
        "a.mp4: no frame of 0 to 29 is at or near 500.0 s: they last 0–1.2 s",
    ),
    "a step of random clips": (
        lambda: vl.AtRate(8, 4, step=2),
        "step needs a start of 0 s or more, got start='random': write start=0",
    ),
    "several clips of one start": (
        lambda: vl.AtRate(8, 4, start=0, clips=4),
        "clips=4 needs start='random' or 'even', got start=0: … from a start write step=, in seconds",
    ),
    "a gap that fits no video": (
        lambda: first(vl.Triplets(gap=50)),
        "Triplets(gap=50, step=1, even=False, cuts=None, … makes up those that are missing)",
    ),
    "inputs alone": (lambda: vl.FrameTuples((0, 2)), "FrameTuples needs the argument targets"),
    "a target among inputs": (
        lambda: vl.FrameTuples((0, 1, 2), 1),
        "position 1 is both an input and a target: remove it from one",
    ),
    "dropped frames of triplets": (
        lambda: first(vl.Triplets(), transforms=[SMALL, vl.DropFrames(0.5)]),
        "DropFrames changes which frames are inputs and targets … transform of time that keeps them",
    ),
    "width and height by position": (
        lambda: vl.Resize(16, 24),
        "Resize takes size by position and all else by name: write Resize((16, 24))",
    ),
    "a crop larger than the frames": (
        lambda: shape(vl.CenterCrop(100)),
        "a.mp4: row 0 of the data set: a crop of 100×100 does not fit into frames of 16×24",
    ),
    "nearest-exact": (
        lambda: vl.RandomResizedCrop(16, interpolation="nearest-exact"),
        "RandomResizedCrop's interpolation must be one of bilinear, bicubic, nearest, got 'nearest-exact'",
    ),
    "a crop by position": (
        lambda: vl.Crop(0, 0, 16, 16),
        "Crop takes size by position and all else by name: write top=0, if that is what is meant",
    ),
    "boxes that always cover all": (
        lambda: shape(vl.Cutout(500)),
        "a.mp4: row 0 of the data set: Cutout's boxes of 500×500 always cover the whole of frames of 16×24",
    ),
    "a flip that is certain, with p": (
        lambda: vl.HorizontalFlip(p=0.5),
        "HorizontalFlip has no argument p: it takes none",
    ),
    "one mean for all": (
        lambda: vl.Normalize(0.5, 0.5),
        "Normalize's mean must be three numbers, for R, G and B, got 0.5",
    ),
    "ToFloat before Normalize": (
        lambda: shape(vl.ToFloat(), vl.Normalize()),
        "there is more than one Normalize or ToFloat among the … since Normalize makes floats itself",
    ),
    "a jitter after Normalize": (
        lambda: shape(vl.Normalize(), vl.ColorJitter(0.4)),
        "ColorJitter comes after Normalize, which only modules … follow once pixels are transformed",
    ),
    "a shift in pixels": (
        lambda: vl.Affine(0, translate=(10, 10)),
        "Affine's translate must be in [0, 1], or a range (low, high) or a curve of such values, got 10",
    ),
    "torchvision's expand": (
        lambda: vl.Rotate(45, expand=True),
        "Rotate has no argument expand: it takes degrees, center, interpolation, fill",
    ),
    "a probability first": (
        lambda: vl.RandomApply(0.5, [vl.Invert()]),
        "each of RandomApply's transforms must be a transform of pixels or a geometric one, got 0.5",
    ),
    "a choice of time": (
        lambda: vl.RandomChoice([vl.Reverse()]),
        "each of RandomChoice's transforms must be a transform of pixels or a geometric one, got Reverse(p=0.5)",
    ),
    "a condition that is computed at once": (
        lambda: vl.When(data()[0].label == 1, vl.Invert()),
        "When's predicate must be a function of a ClipInfo, got False",
    ),
    "a condition in words": (
        lambda: vl.When("label == 3", vl.Invert()),
        "When's predicate must be a function of a ClipInfo, got 'label == 3'",
    ),
    "one mixing to choose from": (
        lambda: vl.MixChoice(vl.MixUp(0.8, 2)),
        "MixChoice's choices must be a list of ways to mix, got … p=1.0, label_smoothing=0.0)",
    ),
    "mixings of different classes": (
        lambda: vl.MixChoice([vl.MixUp(0.8, 2), vl.CutMix(1, 3)]),
        "num_classes of MixChoice's choices must be the same in all, got [2, 3]",
    ),
    "a function that moves axes": (
        lambda: shape(vl.PythonFunction(lambda f, rng: f.transpose(0, 2, 3, 1))),
        "<lambda> gave uint8 of shape (4, 16, 24, 3) for uint8 of shape (4, 3, 16, 24)",
    ),
    "a function that makes floats": (
        lambda: shape(vl.PythonFunction(lambda f, rng: f / 255)),
        "<lambda> gave float64 of shape (4, 3, 16, 24) for uint8 of shape (4, 3, 16, 24)",
    ),
    "a border by its width": (
        lambda: shape(vl.Pad(4)),
        "a.mp4: row 0 of the data set: frames of 16×24 do not fit into 4×4: add a Resize, or take a Letterbox",
    ),
    "torchvision's num_output_channels": (
        lambda: vl.Grayscale(num_output_channels=1),
        "Grayscale has no argument num_output_channels: it takes none",
    ),
    "an array for Compose": (
        lambda: composed(SMALL, x=np.zeros((4, 3, 8, 8), np.uint8)),
        "frames must be a tensor, got ndarray: torch.from_numpy … array, and video.read has transforms=",
    ),
    "channels last for Compose": (
        lambda: composed(SMALL, x=torch.zeros(4, 8, 8, 3, dtype=torch.uint8)),
        "frames must be uint8 or floats [T, 3, H, W] or [B, T, 3, H, W], got torch.uint8 [4, 8, 8, 3]",
    ),
    "a batch for Compose": (
        lambda: composed(SMALL, x=first()),
        "frames must be a tensor, got Batch: give its frames, batch.frames",
    ),
    "a mixing in Compose": (
        lambda: composed(SMALL, vl.MixUp(0.8, 2)),
        "MixUp, CutMix and MixChoice work only in loaders of batches: leave them out",
    ),
    "transforms of Compose by position": (
        lambda: vl.Compose(SMALL, vl.Normalize()),
        "Compose takes transforms by position and all else by … Normalize(mea...0.224, 0.225))))",
    ),
    "a video for Compose": (
        lambda: composed(SMALL, x=video()),
        "frames must be a tensor, got Video: torch.from_numpy takes an array, and video.read has transforms=",
    ),
    "a clip after the end": (
        lambda: torch_parts.ClipDataset(data(), WINDOW)[99],
        "clip 99 does not exist: there are 2",
    ),
    "a slice of clips": (
        lambda: torch_parts.ClipDataset(data(), WINDOW)[0:1],
        "clips are asked for by number, as clips[0], got slice(0, 1, None)",
    ),
    "a device of workers": (
        lambda: torch_parts.ClipDataset(data(), WINDOW, device="cuda"),
        "ClipDataset has no argument device: it takes dataset, … on_corrupt, index, on_indexed",
    ),
    "a number for a request": (
        lambda: torch_parts.ClipRequest(3, [0]),
        "video must be a path, bytes, a binary file object or a VideoEntry, got 3",
    ),
    "a Dataset": (lambda: vl.Dataset, "module videoloader has no attribute Dataset: write … .from_csv or .from_paths"),
    "a reader without its class": (
        lambda: vl.from_folder("classes"),
        "module videoloader has no attribute from_folder: write … .from_csv or .from_paths",
    ),
    "a video that is loaded": (lambda: vl.load("a.mp4"), "module videoloader has no attribute load: write Video(path)"),
    "decord's bridge": (
        lambda: vl.bridge.set_bridge("torch"),
        "module videoloader has no attribute bridge: leave it out, frames are tensors always",
    ),
}


@pytest.mark.parametrize(("call", "words"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_answered(call: Callable[[], object], words: str) -> None:
    check_answer(call, words)
