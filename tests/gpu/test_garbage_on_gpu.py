"""As on the CPU, what lives as long as a clip is not there once for each frame."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from painted_videos import write_painted
from test_garbage import most_objects

pytestmark = pytest.mark.gpu
if not torch.cuda.is_available():
    pytest.skip("needs an NVIDIA GPU", allow_module_level=True)


@pytest.mark.parametrize("repeats", [1, 3])
def test_a_clip_has_no_objects_for_each_frame(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, repeats: int) -> None:
    path = write_painted(tmp_path, "h264_long_gop")
    # Those of a call's packets and pictures come and go together.
    assert most_objects(path, torch.device("cuda", 0), monkeypatch, repeats) < 1
