"""Training in several processes resumes in another number of them, with each clip once."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

SAMPLE = Path(__file__).parents[2] / "samples" / "multi_gpu" / "train.py"


TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")


def train(folder: Path, launch: tuple[str, ...], *settings: str) -> str:
    """What the processes say."""
    arguments = [str(folder), "--device=cpu", "--checkpoint", str(folder.with_suffix(".pt")), "--batch-size=2"]
    run = subprocess.run(
        [sys.executable, "-P", *launch, str(SAMPLE), *arguments, *settings],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


def clips_in(said: str) -> list[tuple[int, ...]]:
    """(epoch, process, clips) of each line."""
    return sorted(
        tuple(map(int, line)) for line in re.findall(r"epoch (\d+), process (\d+): (\d+) clips, loss \d", said)
    )


def test_training_stopped_in_two_processes_goes_on_in_one(sample: Callable[[str], Path], tmp_path: Path) -> None:
    for number, name in enumerate(("h264_mp4", "vp9_webm", "h264_ts", "hevc_mp4", "h264_mkv", "hevc_mkv", "vp8_webm")):
        folder = tmp_path / "videos" / f"class{number % 2}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / sample(name).name).symlink_to(sample(name))
    assert clips_in(train(tmp_path / "videos", TORCHRUN, "--stop-after=2")) == [(1, 0, 4), (1, 1, 4)]
    said = train(tmp_path / "videos", (), "--epochs=2")
    assert "going on with epoch 1, after step 2" in said
    assert clips_in(said) == [(1, 0, 6), (2, 0, 14)]
