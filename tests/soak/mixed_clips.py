"""Thousands of clips of mixed videos through one loader: every frame the right one, and no memory lost on the way.

    python tests/soak/mixed_clips.py [--clips 10000] [--device cuda] [--videos FOLDER]
    python tests/soak/mixed_clips.py --lies [--seed 0] [--seconds 7200] [--case 'CASES']

The videos differ in codec, size, chroma, bit depth, kind of GOP and container (``tests/helpers/painted_videos.py``);
they are made in FOLDER unless they are there. Clips are windows and lists of all kinds, cut and flipped at random;
each frame carries its number and its video's in its pixels, which are read back. What the process and the GPU hold is
printed after each epoch and must be flat: between the first and the last fifth of what comes after the first 1,000
clips, the medians may not grow by more than ``footprint.growth`` allows. Exit code 1 if they do, or if any frame is
wrong.

With ``--lies`` two or three files at a time are read in turn in one thread, in a process of its own: encodes that have
their first configuration record in common, alone and joined, now and then with a file that lies (``soak/lying.py``).
Every frame must be libav's, whatever was read before.

``tests/test_mixed_clips.py`` and ``tests/gpu/test_mixed.py`` run a small sample of this.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import av

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "helpers"))

from painted_videos import NUMBERS, PAINTED, read_frames, write_painted
from planned_geometry import plan_geometry
from soak.footprint import Footprint, footprint, growth, header, leaks, told
from soak.lying import add_arguments, look_at_groups
from soak.random_frames import RandomFrames

import videoloader as vl
from videoloader.sampling.mode import clip_frames, clip_rng
from videoloader.sampling.sampled_video import AllFrames

WARM_UP = 1000
MODE = RandomFrames(6, clips=4)
TRANSFORMS = (vl.RandomResizedCrop(112, scale=(0.5, 1)), vl.RandomHorizontalFlip())


class Outcome(NamedTuple):
    """Of a run: its frames, what was wrong with any, the curve of footprints, the loader's own account."""

    frames: int
    wrong: list[str]
    curve: list[Footprint]
    stats: vl.LoaderStats


def write_videos(folder: Path, names: Iterable[str] = PAINTED) -> list[Path]:
    """The paths of painted videos, encoded where they are not in the folder yet."""

    def write(name: str) -> Path:
        path = folder / f"{name}.{PAINTED[name].suffix}"
        return path if path.is_file() else write_painted(folder, name)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(write, names))


def run(paths: list[Path], clips: int, progress: Callable[[Footprint], object] = id, **settings: Any) -> Outcome:
    """Whole epochs of the videos, until at least so many clips were looked at.

    Args:
        paths: of painted videos.
        clips: how many.
        progress: called with each row of the curve.
        settings: of the loader.
    """
    data = vl.VideoDataset.from_paths(paths, [NUMBERS[path.stem] for path in paths])
    seed = settings.setdefault("seed", 0)
    loader = vl.VideoLoader(data, MODE, **{"batch_size": 8, "shuffle": True, "transforms": TRANSFORMS} | settings)
    wrong: list[str] = []
    curve: list[Footprint] = []
    seen = epoch = 0
    while seen < clips:
        for batch in loader:
            wrong += _wrong_clips(batch, epoch, seed)
            seen += len(batch.clips)
        # Between two epochs nothing is under way.
        curve.append(footprint(seen, loader.device))
        progress(curve[-1])
        epoch += 1
    return Outcome(seen * MODE.length, wrong, curve, loader.stats())


@cache
def _video(path: str) -> AllFrames:
    return AllFrames(vl.build_index(path))


def _wrong_clips(batch: vl.Batch, epoch: int, seed: int) -> list[str]:
    """A line for each clip in which not every frame is the one that its generator chose."""
    found = []
    pixels = batch.frames.float().cpu().numpy()
    for row, clip in enumerate(batch.clips.tolist()):
        video = _video(batch.paths[row])
        rng = clip_rng(seed, epoch, clip)
        chosen = clip_frames(MODE, video, 0, rng)[0].tolist()
        size = video.index.stream.display_size
        painted = read_frames(pixels[row], plan_geometry(TRANSFORMS, size, rng), size)
        label = int(batch.labels[row])
        if painted != [(label, number) for number in chosen] or batch.frame_numbers[row].tolist() != chosen:
            name = Path(batch.paths[row]).name
            found.append(f"{name} (video {label}) epoch {epoch} clip {clip}: frames {chosen} show {painted}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clips", type=int, default=10_000)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--decode", help="nvdec, cpu or auto")
    parser.add_argument("--cpu-workers", type=int, help="cores that may take part in decoding for CUDA")
    parser.add_argument("--workers", type=int, help="decoding threads; the loader's default unless given")
    parser.add_argument(
        "--decoder-memory",
        type=int,
        metavar="MB",
        help="that sessions of NVDEC may take, so that they soon stop growing",
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--videos", type=Path, help="folder that keeps the videos for another run")
    parser.add_argument("--seconds", type=float, default=7200, help="of --lies")
    parser.add_argument("--only", default="", help="bases and families with this in their name; of --lies")
    add_arguments(parser)
    arguments = parser.parse_args()
    if arguments.lies:
        return look_at_groups(arguments, "tests/soak/mixed_clips.py")
    warnings.simplefilter("ignore")  # of what NVDEC does not decode
    av.logging.set_level(None)
    os.environ.setdefault("SVT_LOG", "1")
    optional = {"decode": arguments.decode, "cpu_workers": arguments.cpu_workers, "num_workers": arguments.workers}
    settings = {name: value for name, value in optional.items() if value is not None}
    if arguments.decoder_memory:
        vl.set_decoder_memory(arguments.decoder_memory * 1_000_000, arguments.device)
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.videos or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        begin = time.perf_counter()
        paths = write_videos(folder)
        made = time.perf_counter()
        print(f"{len(paths)} videos in {made - begin:.0f} s")
        print(header("clips"))
        show = partial(print, flush=True)
        outcome = run(paths, arguments.clips, show, device=arguments.device, seed=arguments.seed, **settings)
        seconds = time.perf_counter() - made
    rise = growth(outcome.curve, WARM_UP)
    leaking = leaks(rise)
    print(*outcome.wrong[:20], sep="\n")
    print(f"{outcome.frames} frames in {seconds:.0f} s ({outcome.stats}); {len(outcome.wrong)} wrong clips")
    print(told(rise))
    print("FAILED" if outcome.wrong or leaking else "passed", *leaking)
    return 1 if outcome.wrong or leaking else 0


if __name__ == "__main__":
    sys.exit(main())
