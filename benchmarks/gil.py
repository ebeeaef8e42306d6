"""What loading takes of the GIL in the process that trains: how often it is released, and how long it is held.

    python benchmarks/gil.py [--device cpu] [--works clips images] [--processes 0 4] [--seconds 6]

Clips are 16 frames, 4 apart, of 360p videos; images are JPEG files of 500×400; both become 224² float16. A library is
preloaded that counts (``gil.c``), for which a C compiler is needed, and a Python whose interpreter is a shared library
that can be interposed (``--enable-shared`` without ``-fno-semantic-interposition``); elsewhere, only the processor time
of the process is known, which bounds the time for which it holds the GIL.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path


def compile_counter(folder: Path) -> Path | None:
    """Compile the library that counts; None if it cannot count here."""
    flags = sysconfig.get_config_var("PY_CFLAGS_NODIST") or ""
    # Some systems build the library as well, but link the interpreter without it.
    if "libpython" not in Path("/proc/self/maps").read_text() or "-fno-semantic-interposition" in flags:
        return None
    library, source = folder / "gil.so", Path(__file__).with_suffix(".c")
    made = subprocess.run(["cc", "-O2", "-shared", "-fPIC", source, "-o", library, "-ldl"], check=False)
    return None if made.returncode else library


def counters() -> dict[str, Callable[[], int]]:
    """Functions that return the nanoseconds of the processor and, where they are counted, releases and time held."""
    found: dict[str, Callable[[], int]] = {"cpu": time.process_time_ns}
    if "gil.so" in os.environ.get("LD_PRELOAD", ""):
        counts = ctypes.PyDLL(None)
        for name in ("releases", "held"):
            count = found[name] = getattr(counts, f"gil_{name}")
            count.restype = ctypes.c_longlong
    return found


def clips(folder: str, device: str, processes: int) -> Iterator[int]:
    """Yield the number of clips of each batch, without end."""
    import torch

    import videoloader as vl

    loader = vl.VideoLoader(
        vl.VideoDataset.from_folder(folder),
        vl.RandomWindow(16, stride=4, clips=64),
        batch_size=16,
        transforms=[vl.Resize((224, 224)), vl.Normalize()],
        dtype="float16",
        shuffle=True,
        device=device,
        num_processes=processes,
    )
    while True:
        for batch in loader:
            if device == "cuda":
                torch.cuda.current_stream().synchronize()
            yield len(batch.frames)


def measure(work: str, folder: str, device: str, processes: int, warmup: float, seconds: float) -> dict[str, float]:
    """Load samples, and return how many come in a second, and what one of them takes in this process."""
    from libraries import image_loaders

    images = image_loaders.ours(folder, device, 1, processes)
    batches = images if work == "images" else clips(folder, device, processes)
    begin = time.perf_counter()
    while time.perf_counter() - begin < warmup:
        next(batches)
    known, count = counters(), 0
    before, begin = {name: read() for name, read in known.items()}, time.perf_counter()
    while (taken := time.perf_counter() - begin) < seconds or not count:
        count += next(batches)
    return {"rate": count / taken, **{name: (read() - before[name]) / count for name, read in known.items()}}


def write_data(work: str, folder: Path) -> Path:
    if work == "images":
        from images import write_images

        return write_images(folder, "jpg", 50000, 1)
    from footage import write_files

    write_files(folder, "360p-h264", 8, None)
    return folder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--works", nargs="+", choices=["clips", "images"], default=["clips", "images"])
    parser.add_argument("--processes", nargs="+", type=int, default=[0, len(os.sched_getaffinity(0))])
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--warmup", type=float, default=12, help="seconds for processes to start")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        work, folder, processes = given.child
        print(json.dumps(measure(work, folder, given.device, int(processes), given.warmup, given.seconds)), flush=True)
        os._exit(0)
    print(f"{'':10s}{'processes':>10s}{'a second':>10s}{'releases':>10s}{'held':>12s}{'CPU':>12s}  for each sample")
    with tempfile.TemporaryDirectory() as made:
        counter = compile_counter(Path(made))
        environment = {**os.environ, **({"LD_PRELOAD": str(counter)} if counter else {})}
        for work in given.works:
            place = Path(made, work)
            place.mkdir()
            folder = write_data(work, place)
            for processes in given.processes:
                command = [sys.executable, __file__, "--child", work, str(folder), str(processes)]
                command += ["--device", given.device]
                command += ["--seconds", str(given.seconds), "--warmup", str(given.warmup)]
                done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
                seen = json.loads(done.stdout.splitlines()[-1])
                counts = f"{'':22s}"
                if counter:
                    counts = f"{seen['releases']:10.1f}{seen['held'] / 1e6:9.3f} ms"
                print(f"{work:10s}{processes:10d}{seen['rate']:10.1f}{counts}{seen['cpu'] / 1e6:9.3f} ms", flush=True)


if __name__ == "__main__":
    main()
