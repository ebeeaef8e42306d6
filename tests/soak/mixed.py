"""Hours of everything in one process: what it holds and how fast it is stay what they were.

    python tests/soak/mixed.py [--seconds 7200] [--device cuda] [--corpus FOLDER] [--videos FOLDER] [--only exact]

A round does each piece of work of ``WORK`` once: clips whose every frame is checked, real files (of VIDEOLOADER_CORPUS,
unless FOLDER is given), damaged files, files behind a server that is now and then busy, archives, loops that are left
early, videos that nobody closes, workers of a DataLoader, processes forked while a loop is under way; with another
frame mode, seed and choice of files in each round. After each round memory, open files, threads and the C library's own
numbers of its heaps are printed. From the first to the last fifth of what comes after the first rounds, the medians may
grow by no more than ``footprint.growth`` says. Clips for a second of processor time (that of child processes included)
may become fewer, from the median of the first tenth to that of the last, by no more than the rounds of the first tenth
differ; a tenth has five rounds at least. Exit code 1 otherwise, and if any frame is wrong or any other error comes up.

``tests/test_mixed_soak.py`` runs a small sample of this.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import resource
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

import av
import numpy as np
import torch
from torch.utils.data import DataLoader

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "helpers"))

from archive_writing import recordio_bytes, tar_bytes, tfrecord_bytes, zip_bytes
from corpus_files import CORPUS
from faults import in_child
from range_server import serve
from soak import mixed_clips
from soak.footprint import Footprint, footprint, growth, header, leaks, told

import videoloader as vl
from videoloader.interop.torch import ClipDataset, stack_clips

# Small and of several codecs and containers; painted_videos.py says which.
VIDEOS = ("h264_intra", "h264_open_ts", "hevc_intra", "vp9_odd_mp4", "mpeg4_mp4")
WARM_UP, _LEAST_TENTH = 5, 5  # rounds
_FILES, _CLIPS = 6, 8  # of a piece of work
_LARGEST = 8 << 20  # bytes of a corpus file
MODES: list[vl.FrameMode] = [
    vl.RandomWindow(4, stride=2), vl.EveryWindow(3, stride=3), vl.Segments(3), vl.UniformFrames(4),
    vl.AtRate(10, 3), vl.Keyframes(), vl.FrameTuples((0, 2), 1),
]  # fmt: skip


@dataclass
class World:
    """What rounds work on.

    Attributes:
        painted: videos whose frames carry their numbers.
        real: files of a corpus.
        damaged, archived, remote: rows of these kinds.
        rng: says what comes next.
        device: where loaders and videos put their frames; workers of a DataLoader and forked processes use the CPU.
    """

    painted: list[Path]
    real: list[str]
    damaged: list[str]
    archived: list[str]
    remote: list[str]
    rng: random.Random
    device: str = "cpu"


@contextmanager
def made_world(folder: Path, corpus: Path, names: Sequence[str] = VIDEOS, *, device: str = "cpu") -> Iterator[World]:
    """The files, in a folder, and the server, while the context lasts."""
    painted = mixed_clips.write_videos(folder, names)
    contents = {path.name: path.read_bytes() for path in painted}
    rng = random.Random(0)
    damaged = []
    for name, content in contents.items():
        noisy = bytearray(content)
        for _ in range(4):
            at = rng.randrange(len(noisy) // 3, len(noisy) - 16)
            noisy[at : at + 16] = rng.randbytes(16)
        for kind, data in (("noise", bytes(noisy)), ("cut", content[: len(content) * 2 // 3]), ("empty", b"")):
            damaged.append(str(folder / f"{kind}-{name}"))
            Path(damaged[-1]).write_bytes(data)
    archives = {
        "a.tar": (tar_bytes(contents), list(contents)), "a.zip": (zip_bytes(contents), list(contents)),
        "a.tfrecord": (tfrecord_bytes(contents.values()), range(len(contents))),
        "a.rec": (recordio_bytes(contents.values())[0], range(len(contents))),
    }  # fmt: skip
    archived = []
    for name, (data, members) in archives.items():
        (folder / name).write_bytes(data)
        archived += [f"{folder / name}::{member}" for member in members]
    real = [str(path) for path in sorted(corpus.rglob("*")) if path.is_file() and path.stat().st_size < _LARGEST]
    real = [path for path in real if not path.endswith((".tsv", ".md", ".txt"))] or [str(path) for path in painted]
    with _served(contents) as url:
        yield World(painted, real, damaged, archived, [url + name for name in contents], rng, device)


@contextmanager
def _served(contents: dict[str, bytes]) -> Iterator[str]:
    """Give the URL of a server in a process of its own: its connections and threads are not what is measured."""
    context = multiprocessing.get_context("fork")  # so early that there are no threads yet
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve_busily, args=(contents, theirs), daemon=True)
    process.start()
    try:
        yield ours.recv()
    finally:
        process.terminate()
        process.join()


def _serve_busily(contents: dict[str, bytes], pipe: Connection) -> None:
    rng = random.Random(1)
    with serve(contents) as server:
        pipe.send(server.url)
        while True:
            server.refusals = [(503, {"Retry-After": "0"})] * rng.randrange(3)
            server.forget()
            time.sleep(1)


def _loader(world: World, rows: Sequence[str], mode: vl.FrameMode | None = None) -> vl.VideoLoader:
    some = world.rng.sample(rows, min(_FILES, len(rows)))
    return vl.VideoLoader(
        vl.VideoDataset.from_paths(some),
        mode or world.rng.choice(MODES),
        batch_size=4,
        device=world.device,
        num_workers=2,
        num_processes=0,
        shuffle=True,
        seed=world.rng.randrange(1 << 30),
        transforms=[vl.RandomResizedCrop(64), vl.RandomHorizontalFlip()],
        collate="list",
        on_error="skip",
    )


def _some_clips(world: World, rows: Sequence[str]) -> int:
    """Of the first clips of an epoch, how many came; none if no clip of them can be made."""
    try:
        with _loader(world, rows) as loader:
            return sum(len(batch) for batch in islice(loader, _CLIPS // 4))
    except vl.VideoLoaderError:
        return 0


def exact(world: World) -> int:
    """An epoch of which every frame is the one that was asked for."""
    outcome = mixed_clips.run(world.painted, 1, device=world.device, num_workers=2, seed=world.rng.randrange(1 << 20))
    assert not outcome.wrong, outcome.wrong[:5]
    return outcome.frames // mixed_clips.MODE.length


def real(world: World) -> int:
    return _some_clips(world, world.real)


def damaged(world: World) -> int:
    return _some_clips(world, world.damaged)


def remote(world: World) -> int:
    return _some_clips(world, world.remote)


def archived(world: World) -> int:
    return _some_clips(world, world.archived)


def left_early(world: World) -> int:
    """Loops that end after one batch: by a break, by an error in their body, and by being forgotten."""
    loader = _loader(world, [str(path) for path in world.painted], vl.EveryWindow(2))
    for _ in loader:
        break
    try:
        for _ in loader:
            raise KeyError("of the body")
    except KeyError:
        pass
    next(iter(loader))
    return 12


def unclosed(world: World) -> int:
    """Videos that are read, and forgotten."""
    for path in world.painted:
        video = vl.Video(path, device=world.device)  # type: ignore[arg-type]
        assert len(video.read([0, len(video) // 2, len(video) - 1]).frames) == 3
    return len(world.painted)


def torch_workers(world: World) -> int:
    clips = ClipDataset(
        vl.VideoDataset.from_paths(world.painted), vl.RandomWindow(2), transforms=[vl.RandomResizedCrop(32)]
    )
    loader = DataLoader(clips, batch_size=2, num_workers=1, collate_fn=stack_clips)
    return sum(len(batch) for batch in loader)


def forked(world: World) -> int:
    """A process forked while a loop is under way reads frames of its own."""

    def read() -> None:
        with vl.Video(world.painted[0], device="cpu") as video:
            assert video[1].shape == video.shape[1:]

    with _loader(world, [str(path) for path in world.painted], vl.EveryWindow(2)) as loader:
        loop = iter(loader)
        next(loop)
        assert in_child(read) == 0
        next(loop)
    return 9


WORK: dict[str, Callable[[World], int]] = {
    function.__name__: function
    for function in (exact, real, damaged, remote, archived, left_early, unclosed, torch_workers, forked)
}


class Round(NamedTuple):
    """What the process held after a round, its clips, and seconds of processor time."""

    held: Footprint
    clips: int
    seconds: float


def run(
    world: World, seconds: float, only: Sequence[str] = (), progress: Callable[[Round], object] = id
) -> list[Round]:
    """Rounds for so many seconds, one at least."""
    rounds: list[Round] = []
    end = time.monotonic() + seconds
    while not rounds or time.monotonic() < end:
        begin = _processor_time()
        clips = sum(WORK[name](world) for name in only or WORK)
        rounds.append(Round(footprint(len(rounds) + 1, torch.device(world.device)), clips, _processor_time() - begin))
        progress(rounds[-1])
    return rounds


def _processor_time() -> float:
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)


class Rates(NamedTuple):
    """Clips for a second of processor time.

    Attributes:
        first, last: medians of the first tenth after the warm-up, and of the last.
        spread: how far the rounds of the first tenth lie apart.
    """

    first: float
    last: float
    spread: float


def rates_of(rounds: Sequence[Round]) -> Rates | None:
    """The rates of the two tenths; None of fewer rounds than both need."""
    rates = np.array([each.clips / each.seconds for each in rounds[WARM_UP:]])
    tenth = max(len(rates) // 10, _LEAST_TENTH)
    if len(rates) < 2 * tenth:
        return None
    first, last = rates[:tenth], rates[-tenth:]
    return Rates(float(np.median(first)), float(np.median(last)), float(np.ptp(first)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=7200)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--corpus", type=Path, default=CORPUS)
    parser.add_argument("--videos", type=Path, help="folder that keeps the made files for another run")
    parser.add_argument("--only", nargs="+", choices=WORK, default=())
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    av.logging.set_level(None)
    os.environ.setdefault("SVT_LOG", "1")
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.videos or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        with made_world(folder, arguments.corpus, device=arguments.device) as world:
            print(header("rounds"), "  clips  clips/s of processor time")

            def show(done: Round) -> None:
                print(done.held, f"{done.clips:7} {done.clips / done.seconds:8.2f}", flush=True)

            begin = time.monotonic()
            rounds = run(world, arguments.seconds, arguments.only, show)
    rise = growth([each.held for each in rounds], WARM_UP)
    bad = leaks(rise)
    clips = sum(each.clips for each in rounds)
    print(f"{len(rounds)} rounds, {clips} clips in {time.monotonic() - begin:.0f} s; {told(rise)}")
    if rates := rates_of(rounds):
        told_of = "in the first tenth {:.2f}, in the last {:.2f}; the rounds of the first lie {:.2f} apart"
        print("clips for a second of processor time:", told_of.format(*rates))
        bad += ["slower"] * (rates.last < rates.first - rates.spread)
    print("FAILED" if bad else "passed", *bad)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
