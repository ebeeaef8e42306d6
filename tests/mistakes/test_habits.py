"""Habits from other libraries that work."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from first_day import batch, data, first, loader, video

import videoloader as vl
from videoloader import VideoDataset as VD

SMALL = vl.Resize((16, 24))
HABITS: dict[str, tuple[Callable[[], object], object]] = {
    "a Path": (lambda: len(vl.Video(Path("a.mp4"), device="cpu")), 30),
    "bytes": (lambda: len(vl.Video(Path("a.mp4").read_bytes(), device="cpu")), 30),
    "PyTorch's device": (lambda: vl.Video("a.mp4", device=torch.device("cpu")).device.type, "cpu"),
    "the last frame": (lambda: torch.equal(video()[-1], video()[29]), True),
    "listed frames": (lambda: video()[[0, 5]].shape, (2, 3, 128, 160)),
    "frames of an array": (lambda: video()[np.array([1, 2])].shape, (2, 3, 128, 160)),
    "a frame of a tensor": (lambda: video()[torch.tensor(3)].shape, (3, 128, 160)),
    "seconds of a tensor": (lambda: torch.equal(video().at(torch.tensor(0.5)), video().at(0.5)), True),
    "seconds of an array": (lambda: torch.equal(video().at(np.array(0.5)), video().at(0.5)), True),
    "frames in reverse": (lambda: len(video()[::-7]), 5),
    "a slice after the end, as of a list": (lambda: len(video()[1000:2000]), 0),
    "a range for a mode": (lambda: video().read(range(0, 10, 3)).frame_numbers.tolist(), [0, 3, 6, 9]),
    "a tensor for a mode": (lambda: video().read(torch.arange(3)).frame_numbers.tolist(), [0, 1, 2]),
    "a loop over frames": (lambda: sum(1 for _ in video()), 30),
    "a video as an array": (lambda: np.asarray(video()).shape, (30, 3, 128, 160)),
    "a generator of paths": (lambda: len(VD.from_paths(path for path in Path("classes").rglob("*.mp4"))), 2),
    "labels of an array": (lambda: VD.from_paths(["a.mp4", "b.mp4"], np.array([0, 1])).labels.tolist(), [0, 1]),
    "labels of a tensor": (lambda: VD.from_paths(["a.mp4", "b.mp4"], torch.tensor([1, 0])).labels.tolist(), [1, 0]),
    "-1 for no label": (lambda: VD.from_paths(["a.mp4", "b.mp4"], [-1, 0]).labels.tolist(), [-1, 0]),
    "endings without a dot": (lambda: len(VD.from_folder("classes", extensions=["mp4"])), 2),
    "a list with spaces": (lambda: len(VD.from_csv("spaces.txt", header=["path", "label"], separator=" ")), 2),
    "a mode that is a list": (lambda: first([0, 1, 2]).frame_numbers.tolist(), [[0, 1, 2]] * 2),
    "one transform": (lambda: first(transforms=SMALL).frames.shape, (2, 4, 3, 16, 24)),
    "no transforms": (lambda: first(dataset=data()[:1], transforms=None).frames.shape, (1, 4, 3, 128, 160)),
    "a Compose": (lambda: first(transforms=vl.Compose([SMALL, vl.Normalize()])).frames.dtype, torch.float32),
    "a module": (lambda: first(transforms=[SMALL, torch.nn.Identity()]).frames.dtype, torch.uint8),
    "NumPy's dtype": (lambda: first(dtype=np.float32).frames.dtype, torch.float32),
    "PyTorch's dtype": (lambda: first(dtype=torch.float16).frames.dtype, torch.float16),
    "Normalize first": (lambda: first(transforms=[vl.Normalize(), SMALL]).frames.dtype, torch.float32),
    "lists in transforms": (lambda: vl.Normalize([0.5] * 3, [0.5] * 3) == vl.Normalize((0.5,) * 3, (0.5,) * 3), True),
    "the length of a batch": (lambda: len(batch()), 2),
    "the length of a loader": (lambda: len(loader()), 1),
    "a list of a loader": (lambda: len(list(loader())), 1),
    "the sum of data sets": (lambda: sum([data(), data(), data()]).labels.tolist(), [0, 1] * 3),
    "the length of a clip": (lambda: len(video().read([0, 5, 9])), 3),
    "a path among paths": (lambda: ("a.mp4" in data().paths, data().paths.index("b.mp4")), (True, 1)),
    "a row among rows": (lambda: data()[0] in data(), True),
    "enumerate": (lambda: [number for number, _ in enumerate(loader())], [0]),
    "a batch on a device": (lambda: batch().to("cpu").frames.device.type, "cpu"),
}


@pytest.mark.parametrize(("call", "expected"), HABITS.values(), ids=HABITS)
def test_a_habit_works(call: Callable[[], object], expected: object) -> None:
    found = call()
    assert (tuple(found) if isinstance(found, torch.Size) else found) == expected
