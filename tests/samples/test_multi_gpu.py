"""Training in several processes resumes in another number of them, with each clip once."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable
from pathlib import Path

from child_environment import child_environment
from forked_programs import Program

SAMPLE = Path(__file__).parents[2] / "samples" / "multi_gpu" / "train.py"


def train(folder: Path, processes: int, *settings: str) -> str:
    """What the processes say, each with the variables that torchrun gives it."""
    arguments = [folder, "--device=cpu", "--checkpoint", folder.with_suffix(".pt"), "--batch-size=2", *settings]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1])}
    shared = {**child_environment(), **meeting, "WORLD_SIZE": str(processes), "OMP_NUM_THREADS": "1"}
    ranks = [shared | {"RANK": rank, "LOCAL_RANK": rank} for rank in map(str, range(processes))]
    said = ""
    for program in [Program(SAMPLE, *arguments, env=variables) for variables in ranks]:
        output, errors = program.communicate()
        assert program.returncode == 0, errors
        said += output
    return said


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
    assert clips_in(train(tmp_path / "videos", 2, "--stop-after=2")) == [(1, 0, 4), (1, 1, 4)]
    said = train(tmp_path / "videos", 1, "--epochs=2")
    assert "going on with epoch 1, after step 2" in said
    assert clips_in(said) == [(1, 0, 6), (2, 0, 14)]
