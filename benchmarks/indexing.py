"""Time to index a video and bytes read for it, beside a demux scan of PyAV and torchcodec's ways to open a file.

    python benchmarks/indexing.py [--folder FOLDER] [--runs 9]

Without a folder, videos are encoded first: H.264 with B-frames, 300 frames of 720p and 10,000 small ones, in each of
the containers; with one, all files in it are taken that every library here can open. Warm figures come from the page
cache; for cold ones the file's pages are dropped before each run (which a file system may ignore: then both are the
same). Figures are medians over the runs, ratios are of medians of one run of this program, and a container's ratios
are medians over its files. Bytes are those that pass through the source.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
import warnings
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import av
import numpy as np

from videoloader.errors import VideoLoaderError
from videoloader.indexing import FileSource, build_index

try:
    from torchcodec.decoders import VideoDecoder
except (ImportError, RuntimeError, OSError):
    VideoDecoder = None

CONTAINERS = ("mp4", "mkv", "avi", "ts")


class CountingSource(FileSource):
    """A file that counts what is read of it."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.bytes_read = self.reads = 0

    def read(self, offset: int, size: int) -> bytes:
        data = super().read(offset, size)
        self.bytes_read += len(data)
        self.reads += 1
        return data


class Measured(NamedTuple):
    """Milliseconds of each way to open one file, and what ours read of it."""

    ours: float
    ours_cold: float
    scan: float
    scan_cold: float
    exact: float
    approximate: float
    bytes_read: int
    reads: int
    size: int
    frames: int
    container: str


def write_video(path: Path, frames: int, width: int, height: int) -> None:
    """H.264 with three B-frames (none in AVI, where they have no place) and a keyframe every 250 frames."""
    noise = np.random.default_rng(0).integers(0, 256, (height, 2 * width, 3), np.uint8)
    with av.open(str(path), "w") as container:
        options = {"preset": "veryfast", "g": "250", "bf": "0" if path.suffix == ".avi" else "3"}
        stream = container.add_stream("libx264", rate=30, options=options)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        stream.bit_rate = 3 * width * height
        for number in range(frames):
            left = (number * 3) % width
            picture = np.ascontiguousarray(noise[:, left : left + width])
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(stream.encode(None))


def scan(path: Path) -> int:
    """What a library without tables of its own must do: walk all packets."""
    with av.open(str(path)) as container:
        return sum(packet.size > 0 for packet in container.demux(video=0))


def drop_from_cache(path: Path) -> None:
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def median_ms(call: Callable[[], object], runs: int, before: Callable[[], object] = lambda: None) -> float:
    call()
    times = []
    for _ in range(runs):
        before()
        start = time.perf_counter()
        call()
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times)


def measure(path: Path, runs: int) -> Measured:
    source = CountingSource(path)
    index = build_index(source)
    few = max(runs // 3, 3)
    exact = approximate = float("nan")
    if VideoDecoder:
        exact = median_ms(lambda: VideoDecoder(str(path), seek_mode="exact"), few)
        approximate = median_ms(lambda: VideoDecoder(str(path), seek_mode="approximate"), few)
    return Measured(
        median_ms(lambda: build_index(path), runs),
        median_ms(lambda: build_index(path), few, lambda: drop_from_cache(path)),
        median_ms(lambda: scan(path), few),
        median_ms(lambda: scan(path), few, lambda: drop_from_cache(path)),
        exact,
        approximate,
        source.bytes_read,
        source.reads,
        source.size,
        len(index),
        index.container.split(",")[0],
    )


def report(measured: dict[str, Measured]) -> None:
    print(f"{'file':>40} {'frames':>6} {'ms':>8} {'read':>9}  times as long: scan, torchcodec exact, approximate")
    for name, m in measured.items():
        share = f"{m.bytes_read / 1024:,.0f} KiB = {m.bytes_read / m.size:.1%}"
        times = ", ".join(f"{each / m.ours:.1f}x" for each in (m.scan, m.exact, m.approximate))
        print(f"{name[-40:]:>40} {m.frames:>6} {m.ours:>8.3f} {share:>16}  {times}")
    print()
    by_container = defaultdict(list)
    for m in measured.values():
        by_container[m.container].append(m)
    print("medians over the files: ms, share of bytes read; times as long: scan, exact, approximate; scan, both cold")
    for container, rows in sorted(by_container.items()):

        def middle(of: Callable[[Measured], float], rows: list[Measured] = rows) -> float:
            return statistics.median(of(m) for m in rows)

        print(
            f"{container:>12} {len(rows):>4} files {middle(lambda m: m.ours):>8.3f} ms "
            f"{middle(lambda m: m.bytes_read / m.size):>7.2%} "
            f"{middle(lambda m: m.scan / m.ours):>7.1f}x {middle(lambda m: m.exact / m.ours):>7.1f}x "
            f"{middle(lambda m: m.approximate / m.ours):>7.1f}x {middle(lambda m: m.scan_cold / m.ours_cold):>7.1f}x"
        )


def opens(path: Path) -> bool:
    """Whether all libraries here can open the file."""
    try:
        scan(path)
        build_index(path)
        for mode in ("exact", "approximate") if VideoDecoder else ():
            VideoDecoder(str(path), seek_mode=mode)
    except (VideoLoaderError, av.FFmpegError, RuntimeError, ValueError):
        return False
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="index the files in it instead of encoded ones")
    parser.add_argument("--runs", type=int, default=9)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    av.logging.set_level(None)
    with tempfile.TemporaryDirectory() as made:
        if arguments.folder:
            paths = [path for path in sorted(arguments.folder.iterdir()) if path.is_file() and opens(path)]
        else:
            paths = []
            for frames, width, height in ((300, 1280, 720), (10_000, 128, 96)):
                for suffix in CONTAINERS:
                    paths.append(Path(made) / f"{frames}.{suffix}")
                    write_video(paths[-1], frames, width, height)
                    assert len(build_index(paths[-1])) == scan(paths[-1]) == frames
        report({path.name: measure(path, arguments.runs) for path in paths})


if __name__ == "__main__":
    main()
