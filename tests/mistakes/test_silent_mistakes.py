"""Mistakes that would silently give wrong results raise an error, or a warning where they may be intended."""

# mypy: ignore-errors
from __future__ import annotations

import math
import random
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from first_day import Mistakes, check_answer, data, first, loader, video

import videoloader as vl
from videoloader import VideoDataset as VD

SMALL = vl.Resize((16, 24))


def table(text: str, name: str = "t.csv", **arguments: object) -> VD:
    Path(name).write_text(text)
    return VD.from_csv(name, **arguments)


def given(*transforms: object, **arguments: object) -> vl.Batch:
    return first(transforms=[SMALL, *transforms], **arguments)


def when(condition: Callable[[vl.ClipInfo], object], dataset: VD | None = None) -> vl.Batch:
    return given(vl.When(condition, vl.Invert()), dataset=dataset)


def changed(target: object, key: object = 0) -> None:
    target[key] = "b.mp4"


class NoPadding:
    def num_clips(self, video):
        return 1

    def frame_numbers(self, video, clip, rng):
        return np.arange(4)

    pad = None


MISTAKES: Mistakes = {
    "a path that is looked for": (
        lambda: "a.mp4" in data(),
        "only a VideoEntry can be in it, got 'a.mp4': data.paths has",
    ),
    "a path that is counted": (lambda: data().count("a.mp4"), "only a VideoEntry can be in it, got 'a.mp4'"),
    "a Path that is looked for": (lambda: Path("a.mp4") in data().paths, "only a str can be in it … write str(path)"),
    "a path that is not there": (lambda: data().paths.index("c.mp4"), "'c.mp4' is not in this sequence of 2 items"),
    "a row that is set": (lambda: changed(data()), "rows of a data set do not change: make another data set"),
    "a path that is set": (lambda: changed(data().paths), "rows of a data set do not change: make another data set"),
    "a path that is added": (lambda: data().paths.append("c.mp4"), "no attribute append: write data + VideoDataset."),
    "a row that is added": (lambda: data().append("c.mp4"), "no attribute append: write data + VideoDataset.from_"),
    "a start of -1 seconds": (
        lambda: table("path,start,end\na.mp4,-1,0.5\n"),
        "t.csv: line 2: a.mp4: start_seconds must be in the file, got start_seconds=-1.0 … no number counts from the",
    ),
    "a start of -1 seconds in a row": (lambda: vl.VideoEntry("a.mp4", start_seconds=-1), "leave start out to read"),
    "a rate that fills the memory": (lambda: video().between(0, 0.5, fps=1e9), "fps=1000000000.0 gives 500000000 fr"),
    "a mode without padding": (lambda: first(NoPadding()), 'NoPadding does not set pad: add pad = "edge"'),
    "a comment in a table": (lambda: table("# mine\npath\na.mp4\n"), "t.csv: the header begins with # … no comments"),
    "a comment among rows": (
        lambda: table("path,label\n# more\na.mp4,x\n"),
        "t.csv: line 2: 1 values, header of 2; a table has no comments",
    ),
    "JSON for a table": (lambda: table('[{"path": "a.mp4"}]'), "t.csv: begins as JSON does: a table of JSON has"),
    "a list of JSON": (
        lambda: table('[{"path": "a.mp4"}]', "t.json"),
        "t.json: line 1 is a list, not a JSON object … pandas makes it of a list",
    ),
    "a workbook": (lambda: table("PK\3\4\0\0", "t.xlsx"), "t.xlsx: is not text … save a workbook as CSV"),
}


@pytest.mark.parametrize(("call", "words"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_answered(call: Callable[[], object], words: str) -> None:
    check_answer(call, words)


def of_numpy(frames, rng):
    frames[...] = np.random.randint(256, size=frames.shape)  # noqa: NPY002
    return frames


def of_python(frames, rng):
    frames[...] = np.frombuffer(random.randbytes(frames.size), np.uint8).reshape(frames.shape)
    return frames


class NumpyModule(torch.nn.Module):
    def forward(self, frames):
        return frames + torch.from_numpy(np.random.randint(1, 200, frames.shape)).to(frames.dtype)  # noqa: NPY002


class Drawn(vl.PixelTransform):
    def __init__(self, own: bool) -> None:
        self.own = own

    def draw(self, rng, clip):
        return vl.Brightness(0.5 + (np.random.default_rng() if self.own else rng).random()).draw(rng, clip)


class Anywhere:
    pad = "edge"

    def __init__(self, own: bool) -> None:
        self.own = own

    def num_clips(self, video):
        return 1

    def frame_numbers(self, video, clip, rng):
        return (np.random.default_rng() if self.own else rng).integers(0, 20, 8)


class Coin:
    """Falls to its other side once, so that only one clip of several shows that nobody can repeat it."""

    def __init__(self) -> None:
        self.tosses = 0

    def __call__(self, *_: object) -> bool:
        random.random()
        self.tosses += 1
        return self.tosses != 5

    def flips(self, frames, rng):
        return frames if self() else frames[:, :, ::-1].copy()


WARNINGS: dict[str, tuple[Callable[[], object], str]] = {
    "two kinds of starts": (
        lambda: table("path,start,start_frame\na.mp4,0.4,5\n"),
        "start is not read, because start_frame gives the start in frames: give columns=",
    ),
    "clips that are mixed alone": (lambda: given(vl.MixUp(0.8, 2), batch_size=1), "MixUp mixes the clips of a batch"),
    "several labels in one": (lambda: table('path,label\na.mp4,"1,2"\nb.mp4,3\n'), "label '1,2' is taken for the name"),
    "an angle in radians": (
        lambda: vl.Rotate((-math.pi / 12, math.pi / 12)),
        "Rotate's degrees: (-0.26179938779914",
    ),
    "a scale in per cent": (
        lambda: vl.Affine(scale=(80, 120)),
        "Affine's scale is a factor, not a difference of pixel",
    ),
    "a mean for a deviation": (
        lambda: vl.Normalize((0.229, 0.224, 0.225), (0.485, 0.456, 0.406)),
        "Normalize's mean and std seem to be swapped, got mean=(0.229, 0.224, 0.225), std=(0.485, 0.456, 0.406)",
    ),
    "boxes in shares of the frame": (
        lambda: given().replay(0, torch.tensor([[0.1, 0.2, 0.5, 0.9]]), "boxes"),
        "boxes are in pixels of the video, got [0.1",
    ),
    "a brightness in pixel values": (lambda: vl.Brightness(32), "Brightness's factor is a factor, not a difference"),
    "a function with numpy's randomness": (lambda: given(vl.PythonFunction(of_numpy)), "of_numpy gives another result"),
    "a function with Python's": (lambda: given(vl.PythonFunction(of_python)), "of_python gives another result for"),
    "a module with numpy's": (lambda: given(NumpyModule()), "NumpyModule gives another result for the same clip"),
    "a class by name in a condition": (
        lambda: when(lambda clip: clip.label == "x"),
        "a label is compared with 'x', but labels are numbers, and equal no text: data.class_names.index('x')",
    ),
    "a class by name that is left out": (
        lambda: data().filter(lambda entry: entry.label != "x"),
        "a label is compared with 'x', but labels are numbers, and equal no text: data.class_names.index('x')",
    ),
    "a function that tosses a coin": (
        lambda: list(loader(dataset=VD.from_paths(["a.mp4"] * 6), transforms=[SMALL, vl.PythonFunction(Coin().flips)])),
        "flips gives another result for the same clip and seed",
    ),
    "a condition that tosses a coin": (lambda: when(Coin()), "a transform's draw gives another result for the same"),
    "a transform with its own": (lambda: given(Drawn(own=True)), "a transform's draw gives another result for the"),
    "a mode with its own": (lambda: first(Anywhere(own=True)), "Anywhere gives another result for the same clip"),
}


@pytest.mark.parametrize(("call", "words"), WARNINGS.values(), ids=WARNINGS)
def test_what_may_be_meant_is_a_warning(call: Callable[[], object], words: str) -> None:
    with pytest.warns(vl.VideoLoaderWarning) as told:
        call()
    # Python shows one of those that are alike.
    assert [words in message for message in {str(each.message) for each in told}] == [True]


def in_place(frames, rng):
    random.random()  # which changes nothing of the result
    frames[rng.random(len(frames)) < 0.5] //= 2
    return frames


def seeded(frames, rng):
    np.random.seed(int(rng.integers(1 << 31)))  # noqa: NPY002
    return frames if np.random.rand() < 0.5 else frames[:, :, ::-1].copy()  # noqa: NPY002


CLEAN: dict[str, Callable[[], object]] = {
    "a function that seeds numpy by the clip": lambda: given(vl.PythonFunction(seeded)),
    "means and deviations of all kinds": lambda: [
        vl.Normalize((mean,) * 3, (std,) * 3)
        for mean, std in [(0.5, 0.5), (0, 1), (0, 1 / 255), (0.45, 0.225), (0.2, 1)]
    ],
    "angles of all sizes": lambda: [vl.Rotate(degrees) for degrees in (0, 0.26, 1, 15, 355, (-10, 10), 0.5, 1e-3)],
    "boxes of no width": lambda: given().replay(0, torch.tensor([[0.0, 0, 0, 0], [1, 1, 1, 1]]), "boxes"),
    "a condition by number": lambda: when(lambda clip: clip.label == 1) and when(lambda clip: clip.label in (None, 0)),
    "a label among signs for none": lambda: data().filter(lambda entry: entry.label not in ("", None)),
    "what no data set holds": lambda: None in data().paths or 5 in data().paths or None in data(),
    "a last batch of one": lambda: list(
        loader(dataset=VD.from_paths(["a.mp4"] * 3, [0, 1, 0]), transforms=[SMALL, vl.MixUp(0.8, 2)])
    ),
    "a function with the clip's randomness": lambda: given(vl.PythonFunction(in_place)),
    "a module with PyTorch's": lambda: given(vl.Normalize(), torch.nn.Dropout(0.5)) and given(torch.nn.Identity()),
    "a transform among others": lambda: given(Drawn(own=False), vl.RandAugment(), vl.GaussianNoise(0, 9), vl.Rotate(9)),
    "a mode of one's own": lambda: first(Anywhere(own=False)),
    "a column that is chosen": lambda: table("path,start,start_frame\na.mp4,0.4,5\n", columns={"start": "start_frame"}),
    "a start just before the file": lambda: table("path,start,end\na.mp4,-0.02,0.5\n"),
}


@pytest.mark.parametrize("call", CLEAN.values(), ids=CLEAN)
def test_what_is_right_says_nothing(call: Callable[[], object]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        call()
