"""JPEG files for a GPU's engines, as far as no GPU is needed: their bytes travel through shared memory."""

from __future__ import annotations

import torch

from videoloader.convert.surface import SurfaceLayout
from videoloader.reading.engine_files import EngineFile, move_contents

LAYOUT = SurfaceLayout(8, 8, 8, 1, 0, "ycbcr", (0, 0), 8, 8, 1, 64, 128)


def file(content: bytes) -> EngineFile:
    return EngineFile(content, len(content), LAYOUT, [])


def test_contents_lie_one_after_the_other_in_memory() -> None:
    memory = torch.zeros(16, dtype=torch.uint8)
    moved = move_contents([file(b"abc"), file(b"defgh")], memory)
    assert [each.content for each in moved] == [0, 3]
    assert [each.size for each in moved] == [3, 5]
    assert bytes(memory[:8].tolist()) == b"abcdefgh"


def test_what_does_not_fit_travels_by_itself() -> None:
    memory = torch.zeros(8, dtype=torch.uint8)
    moved = move_contents([file(b"abc"), file(b"x" * 6), file(b"defgh"), file(b"y")], memory)
    assert [each.content for each in moved] == [0, b"x" * 6, 3, b"y"]
    assert bytes(memory.tolist()) == b"abcdefgh"
