"""Frame folders on CUDA: the CPU decodes them, and says so once for all folders."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
import torch
from image_files import write_frames

import videoloader as vl

pytestmark = pytest.mark.gpu
if not torch.cuda.is_available():
    pytest.skip("needs an NVIDIA GPU", allow_module_level=True)


def test_frames_are_those_of_the_cpu_with_one_warning_for_all_folders(tmp_path: Path) -> None:
    folders = [write_frames(tmp_path / name, ["1.png", "2.png"]) for name in ("one", "two", "three")]
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("default")
        for folder in folders:
            assert torch.equal(vl.Video(folder, device="cuda")[:].cpu(), vl.Video(folder, device="cpu")[:])
    assert [str(warning.message).split(":")[0] for warning in seen] == ["png images"]
