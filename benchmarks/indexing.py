"""Time to index an mp4: from its tables here, by a demux scan of PyAV, and by torchcodec where it is installed.

    python benchmarks/indexing.py [--runs 21]

A 1080p file of 300 frames and a small-pictured one of 30,000 (H.264 with B-frames) are written first. All reads
come from a warm page cache; figures are medians, and ratios are of medians of one run of this program.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import av
import numpy as np

from videoloader.indexing import build_index


def write_video(path: Path, frames: int, width: int, height: int) -> None:
    """H.264 with three B-frames and a keyframe every 250 frames: a noisy picture that moves."""
    noise = np.random.default_rng(0).integers(0, 256, (height, 2 * width, 3), np.uint8)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=30, options={"preset": "veryfast", "g": "250", "bf": "3"})
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


def median_ms(call: Callable[[], object], runs: int) -> float:
    call()
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        call()
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=21)
    runs = parser.parse_args().runs
    try:
        from torchcodec.decoders import VideoDecoder
    except (ImportError, RuntimeError, OSError):
        VideoDecoder = None
    print(f"{'file':>14} {'videoloader':>12} {'PyAV scan':>10} {'ratio':>7}   torchcodec exact, approximate")
    with tempfile.TemporaryDirectory() as folder:
        for frames, width, height in ((300, 1920, 1080), (30_000, 128, 96)):
            path = Path(folder) / f"{frames}.mp4"
            write_video(path, frames, width, height)
            assert len(build_index(path)) == scan(path) == frames
            ours = median_ms(lambda path=path: build_index(path), runs)
            theirs = median_ms(lambda path=path: scan(path), max(runs // 3, 3))
            peers = [
                median_ms(lambda path=path, mode=mode: VideoDecoder(str(path), seek_mode=mode), max(runs // 3, 3))
                for mode in (("exact", "approximate") if VideoDecoder else ())
            ]
            extra = ", ".join(f"{peer:.2f} ms ({peer / ours:.0f}x)" for peer in peers) or "not installed"
            print(f"{frames:>7} frames {ours:>9.3f} ms {theirs:>7.2f} ms {theirs / ours:>6.0f}x   {extra}")


if __name__ == "__main__":
    main()
