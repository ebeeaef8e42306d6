"""A small sample of soak/mixed_clips.py on CUDA: NVDEC's sessions and the CPU take turns, and every frame is right."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from soak import mixed_clips

from videoloader.decoding.capabilities import why_not_nvdec
from videoloader.indexing import build_index

pytestmark = pytest.mark.gpu
if not torch.cuda.is_available():
    pytest.skip("needs an NVIDIA GPU", allow_module_level=True)


@pytest.fixture(scope="module")
def painted(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """All of them."""
    return mixed_clips.write_videos(tmp_path_factory.mktemp("painted"))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("decode", ["auto", "cpu"])
def test_every_frame_is_the_one_that_was_asked_for(painted: list[Path], decode: str) -> None:
    assert not mixed_clips.run(painted, 400, device="cuda", decode=decode).wrong


def test_nvdec_alone_gives_the_same(painted: list[Path]) -> None:
    takes = [path for path in painted if not why_not_nvdec(build_index(path), 0)]
    assert len(takes) > len(painted) // 2
    assert not mixed_clips.run(takes, 400, device="cuda", decode="nvdec").wrong
