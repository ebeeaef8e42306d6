"""What an index store costs: to build, to open, to look into, in bytes and in memory.

    python benchmarks/store.py FOLDER [--copies 5000] [--rows 100000] [--workers 2] [--parts 10]

FOLDER holds videos. The files of each container among them that are smaller than 2 MB, can be indexed without
decoding and begin with a keyframe (else their start is decoded) are linked until there are as many as wanted, and
indexed from a warm page cache, start of the processes included. Bytes are counted over all videos of the folder that
can be indexed. For opening, looking up and merging, stores of many rows are made of one index of 300 frames.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import timeit
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from videoloader import RandomWindow, VideoDataset
from videoloader.errors import VideoLoaderError
from videoloader.indexing import IndexStore, VideoIndex, build_index, build_store
from videoloader.indexing.store.building import StoreBuild
from videoloader.indexing.store.frame_table import pack_index
from videoloader.indexing.store.schema import Row, facts_of
from videoloader.indexing.store.tasks import Answer
from videoloader.order.clip_table import build_clip_table

_READER = """
import resource, sys
from videoloader.indexing import IndexStore
def resident(): return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize() / 1e6
before = resident()
store = IndexStore(sys.argv[1], verify=False)
for number in range(0, int(sys.argv[2]), 97):
    store.get(f"/data/videos/{number % 1000:03}/clip_{number:09}.mp4")
print(f"{resident() - before:.1f} MB more than without a store")
"""

# What the system counts as the resource usage of a process begins with that of the one that started it.
_MERGER = """
import sys
from videoloader.indexing import merge_stores
*parts, merged = sys.argv[1:]
merge_stores(parts, merged)
(most,) = (line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM:"))
print(f"{int(most) / 1e3:.0f} MB")
"""


def indexable(folder: Path) -> dict[Path, VideoIndex]:
    found = {}
    for entry in VideoDataset.from_folder(folder):
        try:
            found[Path(entry.path).resolve()] = build_index(entry.path)
        except VideoLoaderError:
            continue
    return found


def bytes_a_frame(indexes: dict[Path, VideoIndex]) -> None:
    sizes = np.array([len(pack_index(index).blob) for index in indexes.values()])
    frames = np.array([len(index) for index in indexes.values()])
    long = frames >= 100
    print(
        f"bytes a frame: {sizes.sum() / frames.sum():.2f} over all {len(frames)} videos; "
        f"of the {long.sum()} with 100 frames or more: median {np.median(sizes[long] / frames[long]):.2f}, "
        f"most {(sizes[long] / frames[long]).max():.2f}"
    )


def processor_seconds() -> NDArray[np.float64]:
    """CPU seconds of this process, which writes the store, and of those it started that have ended, which index."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return np.array([each.ru_utime + each.ru_stime for each in used])


def building(indexes: dict[Path, VideoIndex], folder: Path, ending: str, copies: int, workers: int) -> None:
    small = [
        path
        for path, index in indexes.items()
        if path.suffix == ending and index.method != "decoded" and index.packet_key[0] and path.stat().st_size < 2 << 20
    ]
    paths = [folder / f"{number}{ending}" for number in range(copies)]
    for number, path in enumerate(paths):
        path.symlink_to(small[number % len(small)])
    store = folder / f"built{ending}.db"
    begin = processor_seconds()
    report = build_store(paths, store, workers=workers)
    built = processor_seconds()
    again = build_store(paths, store, workers=workers)
    passed = processor_seconds()
    frames = IndexStore(store).query("SELECT sum(frames) FROM videos")[0][0]
    print(
        f"building: {copies / report.seconds:.0f} files a second, {copies / (built - begin).sum():.0f} a second of a "
        f"core ({copies} links to {len(small)} {ending} files of {frames / copies:.0f} frames, {workers} processes), "
        f"{copies / (built - begin)[0]:.0f} of the one that writes; again, unchanged: {copies / again.seconds:.0f}, "
        f"{copies / (passed - built).sum():.0f} of a core"
    )
    print(f"the store as a file: {store.stat().st_size / frames:.2f} bytes a frame with paths and facts")


def merging(folder: Path, index: VideoIndex, rows: int, parts: int) -> None:
    stores = [folder / f"part-{part}.db" for part in range(parts)]
    for part, store in enumerate(stores):
        large_store(store, index, range(rows * part // parts, rows * (part + 1) // parts))
    command = [sys.executable, *(["-P"] if sys.flags.safe_path else []), "-c", _MERGER, *map(str, stores)]
    merged = folder / "merged.db"
    begin, start = processor_seconds(), time.perf_counter()
    told = subprocess.run([*command, str(merged)], capture_output=True, text=True, check=True).stdout.strip()
    seconds, (_, used_seconds) = time.perf_counter() - start, processor_seconds() - begin
    assert IndexStore(merged, verify=False).query("SELECT count(*) FROM videos") == [(rows,)]
    print(f"merging {parts} parts of {rows} rows in all: {seconds:.1f} s, {used_seconds:.1f} s of CPU, at most {told}")


def large_store(path: Path, index: VideoIndex, rows: range) -> None:
    facts, packed = facts_of(index), pack_index(index)
    with StoreBuild([], path, root="/data/videos") as build:
        for first in range(0, len(rows), 1000):
            names = (f"{number % 1000:03}/clip_{number:09}.mp4" for number in rows[first : first + 1000])
            build.add(Answer(name, Row(name, None, facts=facts, packed=packed)) for name in names)


def most_memory() -> float:
    """MB that this process has had at once."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def reading(path: Path, rows: int) -> None:
    opening = [min(timeit.repeat(lambda: IndexStore(path, verify=False), number=1, repeat=1)) for _ in range(21)]
    print(f"{rows} rows, {path.stat().st_size / 1e6:.0f} MB: opened in {statistics.median(opening) * 1e3:.2f} ms")
    store = IndexStore(path, verify=False)
    rng = np.random.default_rng(0)
    names = [f"/data/videos/{number % 1000:03}/clip_{number:09}.mp4" for number in rng.integers(0, rows, 2000)]
    times = []
    for name in names:
        start = time.perf_counter()
        index = store.get(name)
        times.append(time.perf_counter() - start)
    print(f"look-up with expansion of {len(index)} frames: median {statistics.median(times) * 1e6:.0f} µs")
    data = VideoDataset.from_paths([f"/data/videos/{n % 1000:03}/clip_{n:09}.mp4" for n in range(rows)])
    before, start = most_memory(), time.perf_counter()
    build_clip_table(data, RandomWindow(16, stride=4), store=store, workers=1, skip_unreadable=False)
    seconds = time.perf_counter() - start
    print(f"clips of a loader over all rows: {seconds:.2f} s, at most {most_memory() - before:.0f} MB more than before")
    command = [sys.executable, *(["-P"] if sys.flags.safe_path else []), "-c", _READER, str(path), str(rows)]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    print(f"memory of a reader after {len(range(0, rows, 97))} look-ups: {told}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--copies", type=int, default=5000)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--parts", type=int, default=10)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    indexes = indexable(arguments.folder)
    bytes_a_frame(indexes)
    with tempfile.TemporaryDirectory() as name:
        for ending in (".mp4", ".mkv", ".avi", ".ts"):
            building(indexes, Path(name), ending, arguments.copies, arguments.workers)
        typical = min(indexes.values(), key=lambda index: (abs(len(index) - 300), -len(pack_index(index).blob)))
        large_store(Path(name) / "large.db", typical, range(arguments.rows))
        reading(Path(name) / "large.db", arguments.rows)
        merging(Path(name), typical, arguments.rows, arguments.parts)


if __name__ == "__main__":
    main()
