"""Kill builds of an index store at random moments, many times, and see that nothing is lost or half written.

    python tests/soak/kill_builds.py FOLDER [--kills 50] [--copies 600]

FOLDER holds videos; links to them make up the data set. Each killed build leaves a store that must open and hold
whole rows only, and never fewer than the build before it left; in the end it must be equal to one built in one go.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "helpers"))

from store_contents import contents, kill_build

from videoloader.dataset import VideoDataset
from videoloader.indexing import build_store


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--copies", type=int, default=600)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    rng = random.Random(arguments.seed)
    videos = [Path(entry.path).resolve() for entry in VideoDataset.from_folder(arguments.folder)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = []
        for number in range(arguments.copies):
            video = videos[number % len(videos)]
            paths.append(folder / f"{number}{video.suffix}")
            paths[-1].symlink_to(video)
        started = time.monotonic()
        build_store(paths, folder / "clean.db", workers=2)
        longest = 1.2 * (time.monotonic() - started)
        clean = contents(folder / "clean.db")
        kills = rounds = 0
        while kills < arguments.kills:
            rounds += 1
            store, rows = folder / f"{rounds}.db", 0
            while rows < len(paths) and kills < arguments.kills:
                left = kill_build(paths, store, rng.uniform(0, longest / 3))
                assert left >= rows, f"{rows - left} rows lost"
                rows, kills = left, kills + 1
                print(f"kill {kills}: {rows} of {len(paths)} rows")
            report = build_store(paths, store, workers=2)
            assert report.unchanged >= rows
            assert contents(store) == clean
            assert not store.with_name(store.name + "-wal").exists()
    print(f"{kills} builds killed, {rounds} stores finished, each equal to the clean one")


if __name__ == "__main__":
    main()
