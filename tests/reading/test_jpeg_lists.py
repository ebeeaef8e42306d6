"""JPEG files for a GPU's engines travel through shared memory; the part that needs no GPU."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from videoloader.convert.cuda import PICTURE_PLAN
from videoloader.convert.surface import SurfaceLayout
from videoloader.decoding.jpeg_engine import coded_file
from videoloader.reading.jpeg_lists import EngineFile, _bounded, pack_files

LAYOUT = SurfaceLayout(8, 8, 8, 1, 0, "ycbcr", (0, 0), 8, 8, 1, 64, 128)


def file(content: bytes, views: int = 1) -> EngineFile:
    plans = [np.zeros((), PICTURE_PLAN) for _ in range(views)]
    for number, plan in enumerate(plans):
        plan["grid"] = len(content), number
    return EngineFile(content, coded_file(len(content), LAYOUT), plans)


def test_contents_lie_one_after_the_other_in_memory() -> None:
    memory = torch.zeros(16, dtype=torch.uint8)
    listed = pack_files([file(b"abc"), file(b"defgh")], memory)
    assert listed.places.tolist() == [0, 3]
    assert listed.files["size"].tolist() == [3, 5]
    assert listed.files["nbytes"].tolist() == [192, 192]
    assert bytes(memory[:8].tolist()) == b"abcdefgh"


def test_what_does_not_fit_travels_by_itself() -> None:
    memory = torch.zeros(8, dtype=torch.uint8)
    listed = pack_files([file(b"abc"), file(b"x" * 6), file(b"defgh"), file(b"y")], memory)
    assert listed.places.tolist() == [0, -1, 3, -1]
    assert listed.contents == [b"x" * 6, b"y"]
    assert bytes(memory.tolist()) == b"abcdefgh"


def test_plans_of_views_follow_one_another() -> None:
    listed = pack_files([file(b"abc", 2), file(b"defgh", 2)], torch.zeros(8, dtype=torch.uint8))
    assert listed.plans["grid"].tolist() == [[3, 0], [3, 1], [5, 0], [5, 1]]


@pytest.mark.parametrize("count", [1, 2, 7, 100])
def test_pictures_are_decoded_in_parts_of_bounded_size(count: int) -> None:
    sizes = np.random.default_rng(count).integers(1 << 20, 80 << 20, count)
    parts = list(_bounded(sizes))
    assert [number for first, stop in parts for number in range(first, stop)] == list(range(count))
    assert all(sizes[first : stop - 1].sum() < 192 << 20 for first, stop in parts)
