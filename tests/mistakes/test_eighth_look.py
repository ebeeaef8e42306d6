"""Classes in place of lists, and wrong numbers for the methods of an index and for sources."""

# mypy: ignore-errors
from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import numpy as np
import pytest
import torch
from first_day import Mistakes, check_answer, data, video

import videoloader as vl
from videoloader.indexing import FileObjectSource, FileSource, MemorySource, PartSource


def index() -> vl.VideoIndex:
    return video().index


def cost(**wrong: object) -> None:
    vl.NearKeyframes(vl.RandomWindow(3), within=2).decode_cost(index(), **wrong)


# Converting it to an integer takes half a minute.
HUGE = Decimal("1E+999999")
MISTAKES: Mistakes = {
    "a class of numbers": (
        lambda: vl.Normalize(mean=np.float32),
        "Normalize's mean must be three numbers, for R, G and B, got <class 'numpy.float32'>",
    ),
    "a class of arrays": (lambda: vl.Resize(np.ndarray), "got <class 'numpy.ndarray'>"),
    "a class of tensors": (lambda: data().weighted(torch.Tensor), "VideoDataset.weighted's weights must be "),
    "frames without end": (lambda: index().start_packet(HUGE), "frames must be integers, got Decimal('1E+999999')"),
    "a range without end": (lambda: index().check_range(HUGE), "frames must be integers, got Decimal('1E+999999')"),
    "a part of a frame": (lambda: index().start_packet(1.9), "frames must be integers, got 1.9"),
    "a text of a number": (lambda: index().check_range("3"), "frames must be integers, got '3'"),
    "a gop of nothing": (lambda: index().gop_of(float("nan")), "packets must be integers, got nan"),
    "a packet that is a text": (
        lambda: index().keyframe_before("a"),
        "VideoIndex.keyframe_before's packet must be an integer, got 'a'",
    ),
    "a packet beyond the end": (lambda: index().config_at(10**6), "VideoIndex.config_at fails with what it was given"),
    "draws of a text": (lambda: cost(draws="a"), "draws must be a positive integer, got 'a'"),
    "no draws": (lambda: cost(draws=0), "draws must be a positive integer, got 0"),
    "a path of a file object": (
        lambda: FileObjectSource("clip.mp4"),
        "FileObjectSource's file must be a binary file, got 'clip.mp4'",
    ),
    "bytes that are a number": (lambda: MemorySource(3), "MemorySource's data must be bytes, got 3"),
    "a part of a path": (lambda: PartSource("clip.mp4", 0, 4, "x"), "PartSource's "),
    "a file that is a number": (lambda: FileSource(3), "FileSource's path must be a string or a Path, got 3"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_each_mistake_is_answered(mistake: str) -> None:
    call: Callable[[], object]
    call, message = MISTAKES[mistake]
    check_answer(call, message)


def test_arrays_of_any_integers_are_frames() -> None:
    for frames in (np.uint8([3, 4]), torch.tensor([3, 4]), [3, 4], range(3, 5)):
        assert index().start_packet(frames).shape == (2,)
    assert index().start_packet([]).dtype == np.int64
