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
from collections.abc import Callable
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


def counters() -> list[Callable[[], int]]:
    """Functions that return the nanoseconds of the processor and, if they are counted, the releases and held time."""
    found: list[Callable[[], int]] = [time.process_time_ns]
    if "gil.so" in os.environ.get("LD_PRELOAD", ""):
        counts = ctypes.PyDLL(None)
        for name in ("gil_releases", "gil_held"):
            each = getattr(counts, name)
            each.restype = ctypes.c_longlong
            found.append(each)
    return found


def measure(work: str, folder: str, device: str, processes: int, warmup: float, seconds: float) -> dict[str, float]:
    """Load samples, and return what one of them takes in this process."""
    import torch

    import videoloader as vl

    if work == "images":
        data, mode = vl.VideoDataset.from_folder(folder, extensions=vl.IMAGE_EXTENSIONS), vl.FrameList([0])
        size, steps = 256, [vl.RandomResizedCrop(224), vl.RandomHorizontalFlip(), vl.Normalize()]
    else:
        data, mode = vl.VideoDataset.from_folder(folder), vl.RandomWindow(16, stride=4, clips=64)
        size, steps = 16, [vl.Resize((224, 224)), vl.Normalize()]
    given = {"batch_size": size, "transforms": steps, "dtype": "float16", "shuffle": True, "device": device}
    loader = vl.VideoLoader(data, mode, num_processes=processes, **given)

    def run(least: float) -> tuple[int, float]:
        count, begin = 0, time.perf_counter()
        while (taken := time.perf_counter() - begin) < least or not count:
            for batch in loader:
                if device == "cuda":
                    torch.cuda.current_stream().synchronize()
                count += len(batch.frames)
                if time.perf_counter() - begin > least:
                    break
        return count, taken

    run(warmup)
    known = counters()
    before = [each() for each in known]
    count, taken = run(seconds)
    spent = [(each() - old) / count for each, old in zip(known, before, strict=True)]
    names = ("cpu_ms", "releases", "held_ms")
    scale = {"releases": 1.0}
    found = {name: each * scale.get(name, 1e-6) for name, each in zip(names, spent, strict=False)}
    return {"rate": count / taken, **found}


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
    parser.add_argument("--processes", nargs="+", type=int, default=[0, max(len(os.sched_getaffinity(0)), 1)])
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
                counts = (
                    f"{seen['releases']:10.1f}{seen['held_ms']:9.3f} ms" if "releases" in seen else f"{'':10s}{'':12s}"
                )
                print(f"{work:10s}{processes:10d}{seen['rate']:10.1f}{counts}{seen['cpu_ms']:9.3f} ms", flush=True)


if __name__ == "__main__":
    main()
