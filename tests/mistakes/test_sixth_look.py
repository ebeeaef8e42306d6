"""Mistakes that only Python's, NumPy's or PyTorch's own errors answered, or that took minutes to be answered."""

# mypy: ignore-errors
from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
import pytest
from first_day import Mistakes, check_answer, data, first, loader, video

import videoloader as vl
from videoloader.interop.arrays import to_cupy

HUGE = range(10**12)
IN_NANOSECONDS = vl.AtRate(8, 4, start=1_700_000_000_000_000_000)


class OfBytes(os.PathLike):
    """A path of bytes, as ``os.scandir(b"…")`` yields them."""

    def __init__(self, path: str) -> None:
        self.path = path.encode()

    def __fspath__(self) -> bytes:
        return self.path


def store() -> vl.IndexStore:
    vl.build_store(["a.mp4", "b.mp4"], "sixth.db")
    return vl.IndexStore("sixth.db")


def resumed(**changed: object) -> None:
    made = loader()
    made.load_state_dict(made.state_dict() | changed)


TOO_FAR = "a.mp4: AtRate( … asks for times that no video reaches: start counts seconds from the range's first frame"
MISTAKES: Mistakes = {
    "a start in nanoseconds": (lambda: video().read(IN_NANOSECONDS), TOO_FAR),
    "a start in nanoseconds for a loader": (lambda: first(IN_NANOSECONDS, on_error="skip"), TOO_FAR),
    "the largest start": (lambda: video().read(vl.AtRate(8, 4, start=1e308)), TOO_FAR),
    "a rate of almost nothing": (lambda: video().read(vl.AtRate(1e-300, 4)), TOO_FAR),
    "saved columns with numbers": (
        lambda: vl.VideoDataset([vl.VideoEntry("a.mp4", columns={1: 2})]).save("sixth.arrow"),
        "sixth.arrow: column 1 cannot be saved: give columns names that are text",
    ),
    "a class of modes": (
        lambda: vl.NearKeyframes(vl.RandomWindow, within=3),
        "mode must be a frame mode, got <class … ; RandomWindow(16) is one",
    ),
    "more frames than memory": (lambda: video()[HUGE], "not enough memory for the numbers of range(0, 1000000000000)"),
    "more rows than memory": (lambda: data()[HUGE], "not enough memory for the numbers of range(0, 1000000000000)"),
    "more clips than memory": (lambda: first(shuffle=HUGE), "not enough memory for the sampler's clip numbers: give a"),
    "more repeats than numbers": (
        lambda: loader(repeats=2**62),
        "repeats must be an integer in [1, 4096], got 4611686018427387904",
    ),
    "masked frames": (
        lambda: vl.FrameList(np.ma.masked_array([1, 2], [0, 1])),
        "frames must be a list of one or more integers, got int64 of shape (2,)",
    ),
    "masked rows": (
        lambda: data()[np.ma.masked_array([0, 1], [0, 1])],
        "rows are chosen by numbers … got int64 of shape (2,)",
    ),
    "a folder of bytes": (
        lambda: vl.FolderSource(OfBytes("nothing")),
        "FolderSource's path must be a string or a Path, got ",
    ),
    "a store of bytes": (lambda: vl.IndexStore(OfBytes("a.db")), "IndexStore's path must be a string or a Path, got "),
    "a store of bytes in a loader": (
        lambda: loader(index=OfBytes("a.db")),
        "IndexStore's path must be a string or a Path, got ",
    ),
    "a store of bytes in a condition": (
        lambda: data().where("frames > 1", store=OfBytes("a.db")),
        "IndexStore's path must be a string or a Path, got ",
    ),
    "a data set of a store of bytes": (
        lambda: vl.VideoDataset.from_store(OfBytes("a.db")),
        "IndexStore's path must be a string or a Path, got ",
    ),
    "a new store of bytes": (
        lambda: vl.build_store(["a.mp4"], OfBytes("a.db")),
        "build_store's store must be a string or a Path, got ",
    ),
    "the root of a new store in bytes": (
        lambda: vl.build_store(["a.mp4"], "sixth.db", root=OfBytes(".")),
        "build_store's root must be a string or a Path, got ",
    ),
    "the root of a store in bytes": (
        lambda: vl.IndexStore(store().path, root=OfBytes(".")),
        "IndexStore's root must be a string or a Path, got ",
    ),
    "a look-up of bytes": (lambda: store().get(OfBytes("a.mp4")), "source must be a string or a Path or a ByteSource"),
    "a column that no store counts": (
        lambda: store().numbers(["a.mp4"], ["codec"]),
        "a name of numbers must be one of frames, … got 'codec'",
    ),
    "a list in place of a column": (
        lambda: store().numbers(["a.mp4"], [[0]]),
        "a name of numbers must be one of … [0]",
    ),
    "a state with an array": (
        lambda: resumed(fingerprint=np.array([1, 2])),
        "the state is of another data set, frame mode, order or seed than this loader",
    ),
    "a list for CuPy": (lambda: to_cupy([1]), "to_cupy's tensor must be a Tensor, got [1]"),
}


@pytest.mark.parametrize(("call", "words"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_answered(call: Callable[[], object], words: str) -> None:
    check_answer(call, words)


def test_a_store_counts_the_frames_of_an_array_of_names() -> None:
    counts, errors = store().frame_counts(np.array(["b.mp4", "a.mp4"]))
    assert (counts.tolist(), errors) == ([20, 30], {})


@pytest.mark.parametrize("factor", [2**62, 2**63, 2.0**63, 1e300])
@pytest.mark.filterwarnings("ignore:SpeedChange's factor")
def test_any_speed_may_be_an_integer(factor: float) -> None:
    assert vl.SpeedChange(factor).positions(np.random.default_rng(0), 3).tolist() == [0, 2, 2]
