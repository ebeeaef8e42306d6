"""Kill a process that loads batches at random moments, resume it each time, and see that no clip is lost or repeated.

    python tests/soak/kill_loader.py FOLDER [--kills 20] [--copies 4]

FOLDER holds videos. After each batch the process writes the loader's state and what it has seen to a file, at once or
not at all, as a training job writes its checkpoints. In the end the clips seen, and all their pixels, must be those of
an epoch without kills.

``tests/test_killed_loader.py`` runs a small sample of this.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

# Each batch waits for a line, or an epoch could end before it is killed; once no more lines can come, none waits.
SCRIPT = """
import hashlib, json, os, sys
import videoloader as vl

folder, workers = sys.argv[1], int(sys.argv[2])
paths = json.load(open(f"{folder}/paths.json"))
loader = vl.VideoLoader(
    vl.VideoDataset.from_paths(paths),
    vl.RandomWindow(3, stride=2, clips=4),
    batch_size=3,
    device="cpu",
    num_workers=workers,
    transforms=[vl.RandomResizedCrop(32), vl.RandomHorizontalFlip()],
    shuffle=True,
    index=f"{folder}/index.db",
)
seen = []
if os.path.exists(f"{folder}/checkpoint.json"):
    checkpoint = json.load(open(f"{folder}/checkpoint.json"))
    seen = checkpoint["seen"]
    loader.load_state_dict(checkpoint["loader"])
print("ready", flush=True)
# Killed after its last batch, an epoch has ended, too.
for batch in loader if loader.state_dict()["epoch"] == 0 else ():
    sys.stdin.readline()
    for clip, frames in zip(batch.clips.tolist(), batch.frames):
        seen.append([clip, hashlib.blake2b(frames.numpy().tobytes(), digest_size=8).hexdigest()])
    with open(f"{folder}/writing.json", "w") as file:
        json.dump({"loader": loader.state_dict(), "seen": seen}, file)
    os.replace(f"{folder}/writing.json", f"{folder}/checkpoint.json")
"""


def start(script: str, *arguments: str) -> subprocess.Popen[str]:
    """A program of its own."""
    command = [sys.executable, "-P", "-c", script, *arguments]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def kill_epoch(folder: Path, kills: int, seed: int = 0, start: Callable[..., Any] = start) -> int:
    """Load an epoch of the videos in ``folder/paths.json``, with the process killed so many times at most.

    Returns:
        How often it was killed.
    """
    rng, killed = random.Random(seed), 0
    while True:
        process = start(SCRIPT, str(folder), str(rng.randint(1, 3)))
        assert process.stdout.readline() == "ready\n"
        if killed < kills:
            process.stdin.write("batch\n" * rng.randint(0, 3))
            process.stdin.flush()
            time.sleep(rng.uniform(0, 0.1))
            process.send_signal(signal.SIGKILL)
        process.communicate()
        if process.returncode == 0:
            assert json.loads((folder / "checkpoint.json").read_text())["loader"]["epoch"] == 1
            return killed
        assert process.returncode == -signal.SIGKILL
        killed += 1


def seen_in(folder: Path) -> list[Any]:
    """(clip, hash of its pixels) of all clips seen, in their order."""
    seen: list[Any] = json.loads((folder / "checkpoint.json").read_text())["seen"]
    return seen


def prepare(folder: Path, paths: Sequence[Path]) -> None:
    """What ``kill_epoch`` needs for these videos."""
    import videoloader as vl

    folder.mkdir(parents=True)
    (folder / "paths.json").write_text(json.dumps([str(path) for path in paths]))
    vl.VideoDataset.from_paths(paths).build_store(folder / "index.db", workers=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--copies", type=int, default=4, help="how often each video is in the data set")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    videos = sorted(path.resolve() for path in arguments.folder.iterdir() if path.is_file())
    with tempfile.TemporaryDirectory() as name:
        clean = Path(name, "clean")
        prepare(clean, videos * arguments.copies)
        kill_epoch(clean, 0)
        expected, kills, epochs = seen_in(clean), 0, 0
        while kills < arguments.kills:
            folder = Path(name, str(epochs))
            prepare(folder, videos * arguments.copies)
            kills += kill_epoch(folder, arguments.kills - kills, arguments.seed + epochs)
            epochs += 1
            assert seen_in(folder) == expected
            print(f"{kills} kills in {epochs} epochs of {len(expected)} clips, each equal to one without", flush=True)


if __name__ == "__main__":
    main()
