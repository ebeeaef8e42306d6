"""Clips a second on one GPU, next to NVDEC's ceiling and, where they are installed, to other libraries.

    python benchmarks/decoding.py [--seconds 6] [--rounds 3] [--size 1080p 360p] [--footage some_video.mp4]

Writes H.264 files of 300 frames (GOP 250, three B-frames; 1080p at 5.7 Mb/s, 360p at 1 Mb/s), 32 copies each, and
measures on them:

- ceiling: frames a second of bare NVDEC sessions fed from memory, nothing converted, the best of 7 and 14 threads
- all frames: every frame of every file, to 224x224 float16, through VideoLoader
- clips: random clips of 16 frames, 4 apart, to 224x224 float16, normalised

Peers get the same clips and threads of their own; each library runs in a process of its own, since two of them
cannot share one. Figures are medians of the rounds.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np

LENGTH, STRIDE, FRAMES, COPIES = 16, 4, 300, 32
SIZES = {"1080p": (1920, 1080, 5_700_000), "360p": (640, 360, 1_000_000)}
THREADS = (7, 14)


def pictures(footage: str | None, width: int, height: int):
    """FRAMES pictures of a video, scaled; or a textured picture that drifts, with some noise."""
    import av

    if footage:
        with av.open(footage) as container:
            for frame in itertools.islice(container.decode(video=0), FRAMES):
                yield frame.reformat(width, height, "yuv420p")
        return
    rng = np.random.default_rng(0)
    coarse = rng.integers(0, 256, (height // 20 + 2, width // 10 + 2, 3), np.uint8)
    texture = np.kron(coarse, np.ones((20, 20, 1), np.uint8))
    for number in range(FRAMES):
        left = number * 2 % width
        picture = texture[:height, left : left + width] + rng.integers(0, 4, (height, width, 1), np.uint8)
        yield av.VideoFrame.from_ndarray(np.ascontiguousarray(picture), format="rgb24")


def write_files(folder: Path, size: str, footage: str | None = None) -> list[str]:
    """One file of FRAMES frames at the bit rate of its size, and its copies."""
    import av

    width, height, bit_rate = SIZES[size]
    first = folder / f"{size}_0.mp4"
    options = {"preset": "veryfast", "g": "250", "bf": "3", "b_strategy": "0", "sc_threshold": "0"}
    with av.open(str(first), "w") as container:
        stream = container.add_stream("libx264", rate=30, options=options)
        stream.width, stream.height, stream.pix_fmt, stream.bit_rate = width, height, "yuv420p", bit_rate
        stream.codec_context.thread_count = 0
        for number, picture in enumerate(pictures(footage, width, height)):
            picture.pts, picture.time_base = number, Fraction(1, 30)
            picture.pict_type = av.video.frame.PictureType.NONE
            container.mux(stream.encode(picture))
        container.mux(stream.encode(None))
    paths = [first, *(folder / f"{size}_{copy}.mp4" for copy in range(1, COPIES))]
    for path in paths[1:]:
        shutil.copy(first, path)
    return [str(path) for path in paths]


def rate(step: Callable[[], int], seconds: float, warmup: float) -> float:
    """Things a second that a step does, counted after a warm-up."""
    end = time.perf_counter() + warmup
    while time.perf_counter() < end:
        step()
    start, count = time.perf_counter(), 0
    while (now := time.perf_counter()) < start + seconds:
        count += step()
    return count / (now - start)


def rate_of_threads(make: Callable[[int], Callable[[], int]], threads: int, seconds: float, warmup: float) -> float:
    """Things a second that steps in several threads do together."""
    counts, stop, errors = [0] * threads, threading.Event(), []

    def work(number: int) -> None:
        try:
            step = make(number)
            while not stop.is_set():
                counts[number] += step()
        except Exception as error:
            errors.append(error)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    time.sleep(warmup)
    before, start = sum(counts), time.perf_counter()
    time.sleep(seconds)
    result = (sum(counts) - before) / (time.perf_counter() - start)
    stop.set()
    for worker in workers:
        worker.join()
    if errors:
        raise errors[0]
    return result


def measure_ceiling(files: list[str], seconds: float) -> float:
    """Bare sessions, packets from memory, frames left where NVDEC put them."""
    import torch

    from videoloader.decoding.annexb import parameter_sets, to_annex_b
    from videoloader.decoding.nvdec import _Session, _SessionKey, _size_class
    from videoloader.indexing import build_index, open_source
    from videoloader.indexing.bitstream.picture import picture_format

    index, source = build_index(files[0]), open_source(files[0])
    headers = parameter_sets("h264", index.stream.codec_configs[0])
    payloads = [
        bytes(to_annex_b(source.read(int(offset), int(size)), 4))
        for offset, size in zip(index.packet_offset, index.packet_size, strict=True)
    ]
    payloads[0] = headers + payloads[0]
    picture = picture_format(index.stream)
    assert picture is not None
    key = _SessionKey("h264", picture.chroma, 8, _size_class(picture.width), _size_class(picture.height))

    def make(number: int) -> Callable[[], int]:
        stream = torch.cuda.Stream()
        session = _Session(key, 0, stream.cuda_stream)

        def step() -> int:
            return sum(len(session.feed(payload)) for payload in payloads) + len(session.feed(b""))

        return step

    return max(rate_of_threads(make, threads, seconds, 3) for threads in THREADS)


def measure_ours(files: list[str], seconds: float, workload: str) -> float:
    import videoloader as vl

    whole = workload == "all frames"
    # Epochs long enough that filling the pipeline at their start does not count.
    data = vl.VideoDataset.from_paths(files * 16 if whole else files)
    loader = vl.VideoLoader(
        data,
        vl.EveryWindow(FRAMES) if whole else vl.RandomWindow(LENGTH, stride=STRIDE, clips=400),
        batch_size=2 if whole else 8,
        prefetch=8 if whole else 4,
        device="cuda",
        transforms=[vl.Resize((224, 224)), vl.Normalize()],
        dtype="float16",
        shuffle=True,
    )

    def batches():
        while True:
            yield from loader

    stream = batches()
    result = rate(lambda: next(stream).frames.shape[0] * (FRAMES if whole else 1), seconds, 5)
    stream.close()
    cost = loader.stats().packets / loader.stats().frames
    print(f"    decode cost: {cost:.2f} packets for each frame wanted", file=sys.stderr)
    return result


def measure_torchcodec(files: list[str], seconds: float) -> float:
    import torch
    from torchcodec.decoders import VideoDecoder

    def make(number: int) -> Callable[[], int]:
        rng, stream = np.random.default_rng(number), torch.cuda.Stream()

        def step() -> int:
            start = int(rng.integers(FRAMES - LENGTH * STRIDE))
            with torch.cuda.stream(stream):
                decoder = VideoDecoder(files[rng.integers(COPIES)], device="cuda", seek_mode="approximate")
                frames = decoder.get_frames_at([start + STRIDE * i for i in range(LENGTH)]).data
                resize(frames)
                stream.synchronize()
            return 1

        return step

    return max(rate_of_threads(make, threads, seconds, 4) for threads in THREADS)


def measure_pynvvideocodec(files: list[str], seconds: float) -> float:
    import PyNvVideoCodec as nvc
    import torch

    def make(number: int) -> Callable[[], int]:
        rng, stream = np.random.default_rng(number), torch.cuda.Stream()
        decoder = None

        def step() -> int:
            nonlocal decoder
            start, path = int(rng.integers(FRAMES - LENGTH * STRIDE)), files[rng.integers(COPIES)]
            with torch.cuda.stream(stream):
                if decoder is None:
                    decoder = nvc.SimpleDecoder(
                        path,
                        gpu_id=0,
                        use_device_memory=True,
                        output_color_type=nvc.OutputColorType.RGBP,
                        decoder_cache_size=4,
                        cuda_stream=stream.cuda_stream,
                    )
                else:
                    decoder.reconfigure_decoder(path)
                frames = decoder.get_batch_frames_by_index([start + STRIDE * i for i in range(LENGTH)])
                resize(torch.stack([torch.from_dlpack(frame) for frame in frames]))
                stream.synchronize()
            return 1

        return step

    return max(rate_of_threads(make, threads, seconds, 4) for threads in THREADS)


def resize(frames):
    """The peers' way to the same output."""
    import torch

    scaled = torch.nn.functional.interpolate(frames.half(), (224, 224), mode="bilinear", antialias=True)
    return (scaled / 255 - 0.45) / 0.225


def in_own_process(library: str, workload: str, files: list[str], seconds: float) -> float | None:
    """One measurement in a fresh process; None where the library is not there."""
    request = json.dumps([library, workload, files, seconds])
    done = subprocess.run([sys.executable, __file__, "--measure", request], stdout=subprocess.PIPE, text=True)
    if done.returncode:
        return None
    return float(done.stdout.strip().splitlines()[-1])


def measure(library: str, workload: str, files: list[str], seconds: float) -> float:
    if library == "ours":
        return measure_ceiling(files, seconds) if workload == "ceiling" else measure_ours(files, seconds, workload)
    return {"torchcodec": measure_torchcodec, "pynvvideocodec": measure_pynvvideocodec}[library](files, seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--size", nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument("--footage", help="a video of 300 frames or more to re-encode instead of made-up pictures")
    parser.add_argument("--only", nargs="+", default=["ours", "torchcodec", "pynvvideocodec"])
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        print(measure(*json.loads(arguments.measure)))
        return
    with tempfile.TemporaryDirectory() as folder:
        for size in arguments.size:
            files = write_files(Path(folder), size, arguments.footage)
            kilobits = os.path.getsize(files[0]) * 8 / (FRAMES / 30) / 1000
            print(f"{size}: H.264, {FRAMES} frames, GOP 250, {kilobits:.0f} kb/s")
            results: dict[tuple[str, str], float] = {}
            work = [("ours", "ceiling"), ("ours", "all frames"), ("ours", "clips")]
            work += [(peer, "clips") for peer in ("torchcodec", "pynvvideocodec")]
            for library, workload in work:
                if library in arguments.only:
                    rounds = [
                        in_own_process(library, workload, files, arguments.seconds) for _ in range(arguments.rounds)
                    ]
                    good = [value for value in rounds if value is not None]
                    if good:
                        results[library, workload] = statistics.median(good)
                        unit = "clips/s" if workload == "clips" else "frames/s"
                        print(f"  {library:>15} {workload:<11} {results[library, workload]:>9.1f} {unit}", flush=True)
                    else:
                        print(f"  {library:>15} {workload:<11} not to be had")
            ceiling, every = results.get(("ours", "ceiling")), results.get(("ours", "all frames"))
            if ceiling and every:
                print(f"  all frames / ceiling: {every / ceiling:.3f}")
            for peer in ("torchcodec", "pynvvideocodec"):
                if (peer, "clips") in results and ("ours", "clips") in results:
                    print(f"  clips / {peer}: {results['ours', 'clips'] / results[peer, 'clips']:.2f}")


if __name__ == "__main__":
    main()
