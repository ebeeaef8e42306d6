"""Random clips of real files through loaders that must agree in every pixel, whatever the engine and the batch.

    python tests/soak/identical_batches.py FOLDER [--clips 8] [--threads 16] [--part 1/3] [--only hevc]

With CUDA one kernel converts what ``decode="nvdec"``, ``"cpu"`` and ``"auto"`` decode, the last with idle cores taking
clips. Some loaders have the clips of a file in one batch, so that they are decoded together. Without CUDA it is such
batches against single clips. The inverse DCT of MPEG-1, 2 and 4 may round either way: there NVDEC may be off by one
code on average; frames that a decoder calls damaged are left out. Exit code 1 if anything differs.

``tests/test_identical_frames.py`` and ``tests/gpu/test_identical.py`` run a small sample of this.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import av
import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "helpers"))

from soak.identical_frames import IDCT_CODECS, files_of
from soak.random_frames import RandomFrames

import videoloader as vl
from videoloader.decoding.capabilities import why_not_nvdec
from videoloader.errors import DecodeError

_TRANSFORMS = (vl.RandomResizedCrop(112, scale=(0.3, 1)), vl.RandomHorizontalFlip())
_MEAN_TOLERANCE = 1


def compare_loaders(paths: Sequence[Path], clips: int, ways: dict[str, dict[str, Any]], seed: int = 0) -> list[str]:
    """Load clips of all files in several ways that must not matter.

    Args:
        paths: of the files.
        clips: of each file.
        ways: settings of the loader by name; the first is what the others are compared with. It must be one that
            knows which frames are damaged, which are left out.

    Returns:
        A line for each clip that is another.
    """
    data = vl.VideoDataset.from_paths(paths)
    indexes = {str(path): vl.build_index(path) for path in paths}
    expected: dict[int, tuple[np.ndarray, np.ndarray]] = {}
    wrong = []
    for way, settings in ways.items():
        settings = {"batch_size": 8, "shuffle": True, "transforms": _TRANSFORMS, "seed": seed} | settings
        seen = 0
        loader = vl.VideoLoader(data, RandomFrames(4, clips), **settings)
        for batch in loader:
            for path, clip, frames, corrupt in zip(
                batch.paths, batch.clips.tolist(), batch.frames.cpu().numpy(), batch.corrupt, strict=True
            ):
                seen += 1
                others, damaged = expected.setdefault(clip, (frames.copy(), corrupt))
                difference = np.abs(frames.astype(np.int16) - others)[~damaged]
                by_two_idcts = indexes[path].stream.codec in IDCT_CODECS and settings["device"] == "cuda"
                if difference.size and (difference.mean() > _MEAN_TOLERANCE if by_two_idcts else difference.any()):
                    wrong.append(
                        f"{way}: {Path(path).name} clip {clip} {batch.frame_numbers[batch.clips == clip]}: differs by "
                        f"{difference.max()}, {difference.mean():.3f} on average, from {next(iter(ways))}"
                    )
        assert seen + loader.stats().skipped == clips * len(paths) == len(expected)
        # Only the first packets of such streams tell that they are not for NVDEC.
        wrong += [f"{way}: {error}" for path, error in loader.unreadable if indexes[path].method != "decoded"]
    return wrong


def compare_videos(path: Path, frames: int = 3, seed: int = 0) -> list[str]:
    """Read whole frames of a file on CUDA by each engine; a line for each that differs."""
    index = vl.build_index(path)
    numbers = np.random.default_rng(seed).integers(0, len(index), frames).tolist()
    pictures: dict[str, torch.Tensor] = {}
    for decode in ("cpu", "auto", *([] if why_not_nvdec(index, 0) else ["nvdec"])):
        try:
            pictures[decode] = vl.Video(path, device="cuda", index=index, decode=decode).read(numbers).frames.cpu()
        except DecodeError:
            if decode != "nvdec" or index.method != "decoded":
                raise
    lines = []
    for decode, picture in pictures.items():
        difference = (picture.int() - pictures["cpu"].int()).abs()
        if difference.float().mean() > _MEAN_TOLERANCE if index.stream.codec in IDCT_CODECS else difference.any():
            lines.append(f"{path.name} frames {numbers}, {decode}: differs by {int(difference.max())} from cpu")
    return lines


def _groups(paths: list[Path], *, cuda: bool) -> list[tuple[list[Path], dict[str, dict[str, Any]]]]:
    """Files, and the ways in which to load them: NVDEC alone only what it takes."""
    in_order = {"shuffle": False}  # so that clips of one file meet in a batch
    if not cuda:
        return [(paths, {"single": {"batch_size": 1}, "in order": in_order})]
    takes = [path for path in paths if not why_not_nvdec(vl.build_index(path), 0)]
    others = [path for path in paths if path not in takes]
    by_any = {"cpu": {"decode": "cpu"}, "auto": {}, "auto in order": in_order}
    by_nvdec = {"nvdec in order": {"decode": "nvdec", "on_error": "skip"} | in_order}
    return [(takes, by_any | by_nvdec), (others, by_any)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--clips", type=int, default=8, help="of each file, through each loader")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--part", default="1/1", help="K/N: only the files of one of N equal parts")
    parser.add_argument("--only", default="", help="files with this in their name")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cuda", action=argparse.BooleanOptionalAction, default=torch.cuda.is_available())
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")  # of what NVDEC does not decode, of HDR, of encrypted files
    av.logging.set_level(None)
    paths = files_of(arguments.folder, arguments.only, arguments.part)
    settings = {"device": "cuda" if arguments.cuda else "cpu", "num_workers": arguments.threads}
    wrong: list[str] = []
    for some, ways in _groups(paths, cuda=arguments.cuda):
        begin = time.perf_counter()
        if some:
            all_ways = {name: settings | way for name, way in ways.items()}
            wrong += compare_loaders(some, arguments.clips, all_ways, arguments.seed)
        print(f"{len(some)} files, {arguments.clips} clips each by {', '.join(ways)}: ", end="")
        print(f"{time.perf_counter() - begin:.0f} s, {len(wrong)} wrong so far", flush=True)
    if arguments.cuda:
        begin = time.perf_counter()
        wrong += [line for path in paths for line in compare_videos(path, seed=arguments.seed)]
        print(f"whole frames: {time.perf_counter() - begin:.0f} s")
    print(*wrong[:40], sep="\n")
    print("FAILED" if wrong else "passed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
