"""What it takes a rank to open a loader over a data set of a million videos, and what it keeps in memory.

    python benchmarks/scale.py [--rows 10000 100000 1000000] [--ranks 1 8] [--in-turn 256] [--only "Keyframes()"]

No video is read: one of 300 frames is encoded and indexed, and its row in a store is cloned by SQL under as many
names, the files of which do not exist. Each rank is a process of its own, and a shard of as many. It makes a loader
from rows that it has already, and its state; or from a data set that was saved, which it opens first. Seconds are
those of its CPU. MB are those of its own, beyond those of a loader of ten rows, without files that are mapped, which
ranks share; "more at most" is beyond all it had before it made the loader, with such files. Where seconds a million
rows do not grow with the rows, a step is linear. Ranks in turn open the saved data set one after the other in one
process, so that its MB are those of the last one and of what the others left.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import subprocess
import sys
import tempfile
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

STEPS = ("whole videos", "start_seconds", "Triplets(even=True)", "Keyframes()")
_MILLION = 1_000_000
_ROOT = "/data/videos"


def name_of(number: int) -> str:
    return f"{number % 1000:03}/clip_{number:09}.mp4"


def make_store(path: Path, rows: int) -> None:
    """A store of as many videos, all of which are one that is encoded for it."""
    import av
    import numpy as np

    from videoloader.indexing import build_store

    video = path.with_name("clip_one.mp4")
    if not video.exists():
        with av.open(str(video), "w") as container:
            stream = container.add_stream("libx264", rate=30, options={"g": "60", "bf": "4", "preset": "ultrafast"})
            stream.width, stream.height, stream.pix_fmt = 64, 64, "yuv420p"
            for number in range(300):
                frame = av.VideoFrame.from_ndarray(np.full((96, 64), number % 256, np.uint8), "yuv420p")
                frame.pts, frame.time_base = number, Fraction(1, 30)
                container.mux(stream.encode(frame))
            container.mux(stream.encode())
    build_store([video], path, root=_ROOT, workers=1)
    with sqlite3.connect(path) as connection:
        columns = [name for _, name, *_ in connection.execute("PRAGMA table_info(videos)")]
        kept = ", ".join(columns[2:])
        names = "printf('%03d/clip_%09d.mp4', number % 1000, number)"
        numbers = f"WITH RECURSIVE n(number) AS (SELECT 0 UNION ALL SELECT number + 1 FROM n WHERE number < {rows - 1})"
        connection.execute(
            f"{numbers} INSERT INTO videos (id, source, {kept}) SELECT number + 2, {names}, {kept} FROM n, videos "
            "WHERE id = 1"
        )
        connection.execute(
            f"{numbers} INSERT INTO frame_tables SELECT number + 2, record, blob FROM n, frame_tables WHERE video = 1"
        )
    connection.close()


def data_of(rows: int, step: str) -> Any:
    """The data set of a step, in columns, as its readers make them."""
    import numpy as np

    from videoloader.dataset import VideoDataset
    from videoloader.dataset.columns import PackedStrings
    from videoloader.dataset.table import make_table

    paths = PackedStrings(f"{_ROOT}/{name_of(number)}" for number in range(rows))
    starts = np.random.default_rng(0).uniform(0, 8, rows).round(2)
    fields = {"start_seconds": starts, "stop_seconds": starts + 1} if step == "start_seconds" else {}
    return VideoDataset(make_table(paths, fields, {}, str))


def own_memory() -> float:
    """MB of this process, without files that are mapped."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Anonymous:")) / 1e3


def most_memory() -> float:
    """MB that this process has had at once, with files that are mapped."""
    # What the system counts as the resource usage of a process begins with that of the one that started it.
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1e3


def run_rank(store: str, rows: int, step: str, saved: str, first: int, stop: int, ranks: int) -> None:
    """Ranks from the first one in turn, each a loader over all rows; tells what they took at most as JSON.

    That is CPU seconds of one, MB kept after all, MB at most.
    """
    import videoloader as vl

    modes = {"Triplets(even=True)": vl.Triplets(even=True), "Keyframes()": vl.Keyframes()}
    settings: dict[str, Any] = {"device": "cpu", "num_workers": 1, "num_processes": 0, "batch_size": 8}
    settings |= {"num_shards": ranks, "last_batch": "uneven"}

    def open_loader(data: vl.VideoDataset, rank: int) -> vl.VideoLoader:
        mode = modes.get(step, vl.RandomWindow(16))
        store_of_rank = vl.IndexStore(store, verify=False)
        return vl.VideoLoader(data, mode, index=store_of_rank, shard_id=rank, **settings)

    # All that is imported.
    open_loader(data_of(10, step), 0).close()
    if saved:
        vl.VideoDataset.load(saved)
    before = own_memory()
    data = None if saved else data_of(rows, step)
    highest, seconds = most_memory(), 0.0
    for rank in range(first, stop):
        begin = time.process_time()
        loader = open_loader(vl.VideoDataset.load(saved) if data is None else data, rank)
        loader.state_dict()
        seconds = max(seconds, time.process_time() - begin)
    print(json.dumps((seconds, own_memory() - before, most_memory() - highest)))


def run_ranks(shards: list[tuple[int, int]], ranks: int, *arguments: str) -> list[float]:
    """What processes took at most that run at once, each some ranks in turn: CPU seconds, MB kept and MB at most."""
    command = [sys.executable, *(["-P"] if sys.flags.safe_path else []), __file__, "--as-rank", *arguments]
    running = [
        subprocess.Popen([*command, *map(str, (*shard, ranks))], stdout=subprocess.PIPE, text=True) for shard in shards
    ]
    told = [json.loads(process.communicate()[0]) for process in running]
    return [max(each) for each in zip(*told, strict=True)]


def measure(folder: Path, rows: int, ranks: list[int], in_turn: int, steps: list[str], saved_only: bool) -> None:
    from videoloader.indexing import IndexStore

    def tell(shards: list[tuple[int, int]], count: int, how: str, saved: str) -> None:
        seconds, kept, most = run_ranks(shards, count, str(store), str(rows), step, saved)
        print(
            f"    {how}: {seconds:.2f} s of CPU ({seconds / rows * _MILLION:.2f} a million), {kept:.0f} MB kept, "
            f"{most:.0f} more at most",
            flush=True,
        )

    store = folder / f"{rows}.db"
    make_store(store, rows)
    print(f"{rows} rows, a store of {store.stat().st_size / 1e6:.0f} MB")
    for step in steps:
        saved = folder / f"{rows}.arrow"
        begin = time.process_time()
        data_of(rows, step).save(saved, store=IndexStore(store, verify=False))
        seconds, size = time.process_time() - begin, saved.stat().st_size
        print(f"  {step}: saved in {seconds:.1f} s of CPU, {size / 1e6:.0f} MB")
        for count in ranks:
            shards = [(rank, rank + 1) for rank in range(count)]
            for how, path in (("from the store", ""), ("from the saved data set", str(saved))):
                if path or not saved_only:
                    tell(shards, count, f"{count} ranks at once, each {how}", path)
        if in_turn:
            tell([(0, in_turn)], in_turn, f"{in_turn} ranks in turn, from the saved data set", str(saved))
        saved.unlink()
    store.unlink()


def main() -> None:
    if sys.argv[1:2] == ["--as-rank"]:
        store, rows, step, saved, *numbers = sys.argv[2:]
        run_rank(store, int(rows), step, saved, *map(int, numbers))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000, _MILLION])
    parser.add_argument("--ranks", type=int, nargs="+", default=[1])
    parser.add_argument("--in-turn", type=int, default=0)
    parser.add_argument("--only", nargs="+", choices=STEPS, default=list(STEPS))
    parser.add_argument("--saved-only", action="store_true", help="no ranks from the store, some 0.2 GB a million rows")
    parser.add_argument("--folder", help="where stores go, some 0.7 GB a million rows; a temporary one unless given")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        for rows in arguments.rows:
            measure(Path(name), rows, arguments.ranks, arguments.in_turn, arguments.only, arguments.saved_only)


if __name__ == "__main__":
    main()
