"""What a program sets as PyTorch's default device, default number type or autocast changes no result.

A GPU as the default device is the usual case. The device "meta" stands in for it, and whatever is made there by mistake
has no values to compare.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._device import _device_constructors
from torch.utils.data import DataLoader

import videoloader as vl
from videoloader.interop.torch import BatchStream, ClipDataset, ClipRequest, DecodingLoader, list_clips, stack_clips

ROOT = Path(__file__).parents[1]
# Functions of torch that put what they make on the default device.
CONSTRUCTORS = {each.__name__ for each in _device_constructors()}


@contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


DEFAULTS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "meta": partial(torch.device, "meta"),
    "float64": partial(default_dtype, torch.float64),
    "float16": partial(default_dtype, torch.float16),
    "autocast": partial(torch.autocast, "cpu", torch.bfloat16),
}
TRANSFORMS: dict[str, list[Any]] = {
    "none": [],
    "normalized": [vl.Resize((32, 40)), vl.Normalize()],
    "cropped": [vl.RandomResizedCrop(32), vl.RandomHorizontalFlip(1), vl.ToFloat("float16")],
    "bordered": [vl.Resize((32, 40)), vl.Pad((40, 48), fill=(0.3, 254.97, 9)), vl.Rotate((10, 20), fill=(1, 2, 3))],
    "reflected": [vl.RandomCrop(64), vl.Pad(80, mode="reflect"), vl.Perspective(p=1)],
    "colored": [vl.ColorJitter(0.4, 0.4, 0.4, 0.1), vl.ConvertColor("rgb", "hsv")],
    "filtered": [vl.CenterCrop(32), vl.Sharpness((0.3, 0.9)), vl.GaussianBlur(5, (1, 2)), vl.Laplacian()],
    "noisy": [vl.CenterCrop(32), vl.GaussianNoise(std=9.0), vl.SaltAndPepper(0.2), vl.JpegCompression((20, 50))],
    "erased": [
        vl.RandomErasing(p=1, value=(0.4, 9, 8)),
        vl.RandomErasing(p=1, value="random"),
        vl.Cutout(9),
        vl.GridMask(),
    ],
    "drawn": [vl.CenterCrop(32), vl.RandAugment(3, 9), vl.TrivialAugmentWide(), vl.AutoAugment()],
    "in time": [vl.Reverse(), vl.TemporalJitter(1), vl.CenterCrop(32)],
    "by a function": [vl.CenterCrop(32), vl.Module(torch.nn.AvgPool2d(3, 1, 1), values="float"), vl.Grayscale()],
}


class OneByOne(DataLoader[Any]):
    """A DataLoader that draws its seed on the CPU: PyTorch's own cannot begin on the device "meta"."""

    def __iter__(self) -> Any:
        with torch.device("cpu"):
            return super().__iter__()


def shown(batch: Any) -> list[Any]:
    """The tensors and arrays of batches or clips."""
    names = ["frames", "labels", "frame_numbers", "timestamps", "mask", "boxes", "source_matrix"]
    return [getattr(batch, name) for name in names if hasattr(batch, name)]


def data_of(path: Path) -> vl.VideoDataset:
    return vl.VideoDataset([vl.VideoEntry(path, label) for label in range(4)])


def loaded(path: Path, mode: vl.FrameMode | None = None, **settings: Any) -> list[Any]:
    wanted = {"batch_size": 2, "device": "cpu", "num_workers": 0, "shuffle": True, "seed": 5} | settings
    return [shown(batch) for batch in vl.VideoLoader(data_of(path), mode or vl.RandomWindow(3), **wanted)]


def following_slices(path: Path) -> list[torch.Tensor]:
    video = vl.Video(path, device="cpu")
    return [video[first : first + 2] for first in range(0, 8, 2)]


def with_roles(path: Path, collate: str) -> list[Any]:
    mode = vl.FrameTuples((0, 4), range(1, 4), random_targets=1)
    loader = vl.VideoLoader(data_of(path), mode, batch_size=2, device="cpu", num_workers=0, collate=collate)
    return [[batch.inputs, batch.targets, batch.target_times] for batch in islice(loader, 1)]


def clips_of_a_dataset(path: Path) -> list[Any]:
    clips = ClipDataset(data_of(path), vl.RandomWindow(3), transforms=TRANSFORMS["normalized"], seed=5)
    clips.set_epoch(1)
    samples = clips.__getitems__([0, 2])
    clips.set_epoch(2)
    loader = OneByOne(clips, batch_size=2, collate_fn=stack_clips)
    return [samples[0]["frames"], shown(stack_clips(samples)), shown(list_clips(samples)), *map(shown, loader)]


def batches_of_a_stream(path: Path) -> list[Any]:
    make = partial(vl.VideoLoader, data_of(path), vl.RandomWindow(3), batch_size=2, device="cpu", num_workers=0)
    return [shown(batch) for batch in BatchStream(make)]


def requested(path: Path) -> list[Any]:
    requests = OneByOne([ClipRequest(path, [n, n + 1]) for n in range(4)], batch_size=2, collate_fn=list)
    return list(DecodingLoader(requests, device="cpu", num_workers=0, transforms=TRANSFORMS["normalized"]))


def composed(path: Path, transforms: list[Any]) -> list[Any]:
    """The clip and what goes with it, also without a seed, and from floats."""
    clip = vl.Video(path, device="cpu").read(range(3)).frames
    compose, (height, width) = vl.Compose(transforms), clip.shape[2:]
    torch.manual_seed(7)
    if any(isinstance(each, vl.Module) for each in transforms):
        return [compose(clip), compose(clip.float() / 255, seed=3)]
    others = {
        "mask": clip[:, 0],
        "flow": torch.from_numpy(np.ones((3, 2, height, width), np.float32)),
        "points": torch.from_numpy(np.array([[9, 9], [1, 60]])),
        "boxes": torch.from_numpy(np.array([[9.0, 9, 40, 50]], np.float32)),
    }
    return [compose(clip), compose(clip, apply_to=others), compose(clip.float() / 255, seed=3)]


DOORS: dict[str, Callable[[Path], Any]] = {
    "a frame": lambda path: vl.Video(path, device="cpu")[3],
    "a slice": lambda path: vl.Video(path, device="cpu")[2:9:3],
    "following slices": lambda path: [
        video[n : n + 2] for video in [vl.Video(path, device="cpu")] for n in range(0, 8, 2)
    ],
    "a time": lambda path: vl.Video(path, device="cpu").at(0.2),
    "a clip": lambda path: shown(vl.Video(path, device="cpu").read([0, 4])),
    "a stream": lambda path: list(vl.Video(path, device="cpu").stream(slice(2, 12))),
    "a stream backwards": lambda path: list(vl.Video(path, device="cpu").stream(slice(9, 5, -1))),
    "batches": loaded,
    "batches of threads": partial(loaded, num_workers=None),
    "padded clips": partial(loaded, mode=vl.WholeVideo(), collate="pad"),
    "lists of clips": partial(loaded, mode=vl.WholeVideo(), collate="list"),
    "constant padding": partial(loaded, mode=vl.FrameList([*range(9), 99], pad="constant"), fill_value=(1, 2, 3)),
    "mixed clips": partial(loaded, transforms=[vl.Normalize(), vl.MixUp(0.5, 5, label_smoothing=0.1)]),
    "clips cut into others": partial(loaded, transforms=[vl.VideoMix(0.5, 5)]),
    "inputs and targets": partial(with_roles, collate="stack"),
    "lists of inputs and targets": partial(with_roles, collate="list"),
    "ClipDataset": clips_of_a_dataset,
    "BatchStream": batches_of_a_stream,
    "DecodingLoader": requested,
    "verify": lambda path: [vl.verify(path).ok],
    **{f"{name}, in a loader": partial(loaded, transforms=each) for name, each in TRANSFORMS.items()},
    **{f"{name}, by Compose": partial(composed, transforms=each) for name, each in TRANSFORMS.items()},
}


@cache
def without(door: str, path: Path) -> Any:
    """What a door gives while PyTorch's own defaults hold."""
    return DOORS[door](path)


@pytest.mark.parametrize("default", DEFAULTS)
@pytest.mark.parametrize("door", DOORS)
def test_results_are_the_same_with_other_defaults(door: str, default: str, sample: Callable[[str], Path]) -> None:
    path = sample("h264_mp4")
    expected = without(door, path)
    with DEFAULTS[default]():
        given = DOORS[door](path)
    torch.testing.assert_close(given, expected, rtol=0, atol=0, equal_nan=True)


def test_randomness_from_elsewhere_is_told_with_another_default_device() -> None:
    frames = torch.zeros(2, 3, 8, 8, dtype=torch.uint8)

    def brighter(clip: torch.Tensor) -> torch.Tensor:
        return clip + random.randrange(200)

    with torch.device("meta"), pytest.warns(vl.VideoLoaderWarning, match="random"):
        vl.Compose([vl.Module(brighter)])(frames, seed=1)


def test_everything_made_names_its_device() -> None:
    """This covers what is only made for GPUs, too."""
    unnamed = [
        f"{path.relative_to(ROOT)}:{call.lineno}"
        for package in ("videoloader", "indexing", "padding")
        for path in sorted((ROOT / package).rglob("*.py"))
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call) and "device" not in {each.arg for each in call.keywords}
        for function in (call.func, *call.args)  # an argument of partial, too
        if isinstance(function, ast.Attribute)
        if ast.unparse(function.value) == "torch" and function.attr in CONSTRUCTORS
    ]
    assert not unnamed
