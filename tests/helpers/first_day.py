"""What users try on their first day: files, objects made from them, and what counts as a good answer."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from sample_videos import X264, Recipe, write_video

import videoloader as vl

# The user's code, and the words that the answer must contain, in this order, separated by ….
Mistakes: TypeAlias = dict[str, tuple[Callable[[], object], str]]

_TABLES = {
    "backwards.csv": "path,label,start,end\na.mp4,x,5,3\n",
    "clock.csv": "path,label,start,end\na.mp4,x,00:00:01,00:00:02\n",
    "gone.csv": "path,label\na.mp4,x\nnot_here.mp4,y\n",
    "headless.csv": "a.mp4,x\nb.mp4,y\n",
    "one_label.csv": "path,label\na.mp4,x\nb.mp4,\n",
    "other_names.csv": "clip,kind\na.mp4,walk\n",
    "plain.csv": "path,label\na.mp4,x\nb.mp4,y\n",
    "spaces.txt": "a.mp4 0\nb.mp4 1\n",
}


def make_files(folder: Path) -> None:
    """Two videos of different sizes, damaged ones, and tables of several kinds."""
    write_video(folder / "a.mp4", Recipe("mp4", "libx264", X264, frames=30))
    write_video(folder / "b.mp4", Recipe("mp4", "libx264", X264, frames=20, size=(96, 64)))
    for name, text in _TABLES.items():
        (folder / name).write_text(text)
    for name in ("classes/run", "classes/walk", "nothing", "others"):
        (folder / name).mkdir(parents=True)
    shutil.copy(folder / "a.mp4", folder / "classes/run/1.mp4")
    shutil.copy(folder / "b.mp4", folder / "classes/walk/2.mp4")
    shutil.copy(folder / "a.mp4", folder / "others/a.xyz")
    (folder / "empty.mp4").touch()
    (folder / "text.mp4").write_text("no video\n" * 100)
    (folder / "half.mp4").write_bytes((folder / "a.mp4").read_bytes()[: (folder / "a.mp4").stat().st_size // 2])


@cache
def video() -> Any:
    """A video of 30 frames."""
    return vl.Video("a.mp4", device="cpu")


def data() -> Any:
    """Two labelled videos."""
    return vl.VideoDataset.from_paths(["a.mp4", "b.mp4"], ["x", "y"])


def loader(mode: Any = None, dataset: Any = None, **arguments: Any) -> Any:
    """A loader of small clips with the user's arguments."""
    mode, dataset = vl.RandomWindow(4) if mode is None else mode, data() if dataset is None else dataset
    small = {"batch_size": 2, "device": "cpu", "num_workers": 1, "transforms": [vl.Resize((16, 24))]}
    return vl.VideoLoader(dataset, mode, **(small | arguments))


def first(*given: Any, **arguments: Any) -> Any:
    """The first batch of a ``loader``."""
    return next(iter(loader(*given, **arguments)))


@cache
def batch() -> Any:
    """A batch of two clips."""
    return first()


def check_answer(call: Callable[[], object], words: str) -> None:
    """Assert that the library answers a mistake in one line that contains these words."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(Exception) as raised:  # noqa: PT011
            call()
    error, place = raised.value, 0
    assert isinstance(error, vl.VideoLoaderError), repr(error)
    assert "\n" not in str(error)
    for part in words.split(" … "):
        assert part in str(error)[place:], str(error)
        place = str(error).index(part, place) + len(part)
