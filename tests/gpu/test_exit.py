"""A process that has decoded on the GPU ends without a word."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from changing_streams import write_h264
from image_files import picture

from videoloader.decoding.jpeg_engine import why_not_jpeg_engine

pytestmark = pytest.mark.gpu
if not torch.cuda.is_available():
    pytest.skip("needs an NVIDIA GPU", allow_module_level=True)

_PROGRAM = """
import sys, threading
import videoloader as vl
threads = [threading.Thread(target=lambda: vl.Video(sys.argv[1], device="cuda")[:]) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
vl.Video(sys.argv[1], device="cuda")[:]
loader = vl.VideoLoader(vl.VideoDataset.from_paths([sys.argv[1]] * 8), vl.UniformFrames(1), batch_size=2, device="cuda")
print(next(iter(loader)).frames.shape[0])
"""


def test_a_process_with_open_sessions_ends_well(tmp_path: Path) -> None:
    assert_ends_well(write_h264(tmp_path / "video.mp4", 3))


def test_a_process_with_open_jpeg_engines_ends_well(tmp_path: Path) -> None:
    if reason := why_not_jpeg_engine(0):
        pytest.skip(reason)
    picture().save(tmp_path / "picture.jpg")
    assert_ends_well(tmp_path / "picture.jpg")


def assert_ends_well(path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-c", _PROGRAM, str(path)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.strip(), done.stderr.strip()) == (0, "2", "")
