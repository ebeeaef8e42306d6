"""Random clips of real files by every engine: their frames are those of a full libav decode, to the last sample.

    python tests/soak/identical_frames.py FOLDER [--clips 200] [--threads 16] [--part 1/3] [--only hevc]
    python tests/soak/identical_frames.py --lies [--seed 0] [--seconds 7200] [--only mkv] [--case 'CASE']

Each file is decoded once from start to end by libav: that is the truth, for the number of frames, their times and (by
hash) every sample. The CPU engine then decodes the whole video too, and each engine makes random clips of it
(``random_frames.py``) from the packets of the plan alone: the CPU engine, and NVDEC where there is one and it takes the
file. Samples must be identical, with two exceptions. The inverse DCT of MPEG-1, 2 and 4 may round either way: there
NVDEC may be off by 2 codes in a keyframe and, since errors add up from frame to frame, by 12 anywhere else, by 1 on
average. And a frame that the decoder calls damaged is only counted, in H.264 and on NVDEC: what conceals the damage
there depends on all that was decoded before.

With ``--lies`` the files are made here: small ones of every codec that FFmpeg encodes, and small real ones, that tell
lies (``tests/lies``) or are damaged. Each is looked at in a process of its own, with limits. ``stream()`` must give
libav's pictures one by one, with any number of threads; random clips from open and new videos must be the same bit for
bit, or marked (``soak/doors.py``). What is found is printed with a line that repeats it; ``--seed`` goes on where a run
ended.

Exit code 1 if any frame is wrong. ``tests/test_identical_frames.py`` and ``tests/gpu/test_identical.py`` run a small
sample of this.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

import av
import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "helpers"))

from soak.doors_on_cuda import IDCT_CODECS
from soak.lying import add_arguments, look_at_lies
from soak.random_frames import RandomFrames
from surfaces import surface_planes
from truth import full_decode, hash_planes, planes

import videoloader as vl
from videoloader.convert.surface import CudaSurface
from videoloader.decoding.capabilities import why_not_nvdec
from videoloader.decoding.cpu import CpuDecoder
from videoloader.decoding.damage import decode_run
from videoloader.decoding.nvdec import NvdecDecoder
from videoloader.errors import DecodeError, VideoLoaderError
from videoloader.indexing import FileSource, VideoIndex
from videoloader.indexing.bitstream.random_access import is_random_access
from videoloader.packets.decode_plan import Run, plan_frames
from videoloader.packets.read_packets import read_packets
from videoloader.sampling.mode import clip_frames, clip_rng
from videoloader.sampling.sampled_video import AllFrames

_KEYFRAME_TOLERANCE, _TOLERANCE, _MEAN_TOLERANCE = 2, 12, 1.0
_CLIPS_A_TASK = 10


class Picture(NamedTuple):
    """What came out of a decoder: samples of each plane, and whether the decoder calls them damaged."""

    planes: list[np.ndarray]
    damaged: bool


@dataclass(frozen=True, eq=False)
class File:
    """A file and the truth about it: hashes of its frames, in display order."""

    path: Path
    index: VideoIndex
    hashes: list[bytes]
    takes_nvdec: bool


@dataclass(eq=False)
class Account:
    """What was compared so far, and what was found."""

    clips: int = 0
    frames: Counter[str] = field(default_factory=Counter)
    packets: Counter[str] = field(default_factory=Counter)
    damaged: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    largest: dict[str, tuple[float, str]] = field(default_factory=dict)

    def add(self, other: Account) -> None:
        self.clips += other.clips
        self.frames += other.frames
        self.packets += other.packets
        self.damaged += other.damaged
        self.refused += other.refused
        self.wrong += other.wrong
        for kind, (value, name) in other.largest.items():
            self.note(kind, value, name)

    def note(self, kind: str, value: float, name: str) -> None:
        """Remember the largest difference of a kind, and its file."""
        self.largest[kind] = max(self.largest.get(kind, (0.0, "")), (value, name))


class Engines:
    """One thread's decoders, kept from file to file."""

    def __init__(self, *, cuda: bool) -> None:
        self._cpu = CpuDecoder()
        self._nvdec = NvdecDecoder(gpu=0) if cuda else None

    def by_cpu(self, file: File, frames: Sequence[int]) -> tuple[dict[int, Picture], int]:
        """The picture of each wanted packet, and how many packets were decoded for them."""
        found: dict[int, Picture] = {}

        def take(packet: int, frame: av.VideoFrame) -> None:
            assert packet not in found, f"packet {packet} comes out twice"
            found[packet] = Picture(planes(frame), frame.is_corrupt)

        return found, self._decode_by_cpu(file, frames, take)

    def whole_by_cpu(self, file: File) -> tuple[dict[int, bytes], set[int]]:
        """The hash of each packet's picture in a decode of the whole video, and the packets called damaged."""
        hashes: dict[int, bytes] = {}
        damaged: set[int] = set()

        def take(packet: int, frame: av.VideoFrame) -> None:
            assert packet not in hashes, f"packet {packet} comes out twice"
            hashes[packet] = hash_planes(planes(frame))
            if frame.is_corrupt:
                damaged.add(packet)

        self._decode_by_cpu(file, range(len(file.index)), take)
        return hashes, damaged

    def _decode_by_cpu(self, file: File, frames: Sequence[int], take: Callable[[int, av.VideoFrame], None]) -> int:
        source = FileSource(file.path)
        return sum(
            decode_run(self._cpu, index, run, partial(read_packets, source, index), take)[0]
            for index, run in _runs(file, frames)
        )

    def by_nvdec(self, file: File, frames: Sequence[int]) -> tuple[dict[int, Picture], int]:
        """The same by NVDEC, which may give a packet's picture again when it had to start anew."""
        assert self._nvdec is not None
        found: dict[int, Picture] = {}

        def take(packet: int, surface: CudaSurface, stream: torch.cuda.Stream) -> None:
            found[packet] = Picture(surface_planes(surface, stream), False)

        source = FileSource(file.path)
        fed = sum(
            self._nvdec.decode(index, partial(read_packets, source, index, run), take)
            for index, run in _runs(file, frames)
        )
        return found, fed


def _runs(file: File, frames: Sequence[int]) -> Iterator[tuple[VideoIndex, Run]]:
    """The plan's runs, none of which starts with what its container only calls a keyframe."""
    index, source = file.index, FileSource(file.path)
    position = 0
    while position < len(runs := plan_frames(index, frames).runs):
        first = next(read_packets(source, index, runs[position]))
        config = index.stream.codec_configs[index.packet_config[first.number]]
        unchecked = index.keys_from == "container" and index.packet_key[first.number]
        if unchecked and is_random_access(index.stream.codec, config, first.data) is False:
            index, position = index.without_keyframe(first.number), 0
        else:
            position += 1
    for run in runs:
        yield index, run


def open_file(path: Path, *, cuda: bool) -> File:
    """The index of a file and a full decode of it.

    Raises:
        AssertionError: they differ in the number of frames or in their times.
        VideoLoaderError: the file cannot be read.
    """
    index, truth = vl.build_index(path), full_decode(path)
    assert not truth.error, truth.error
    assert len(index) == len(truth.hashes), f"{len(index)} frames, of which libav gives {len(truth.hashes)}"
    known = [number for number, pts in enumerate(truth.pts) if pts is not None]
    # AVI holds no presentation times: libav gives reordered frames the numbers of their packets.
    assert index.frame_pts[known].tolist() == sorted(truth.pts[each] for each in known), "other times than libav's"
    return File(path, index, truth.hashes, cuda and not why_not_nvdec(index, 0))


def compare_whole(file: File, engines: Engines) -> Account:
    """Decode the whole video by the CPU engine, and compare its frames with the truth."""
    hashes, damaged = engines.whole_by_cpu(file)
    concealed = damaged if file.index.stream.codec == "h264" else set()
    packets = file.index.frame_packet.tolist()
    wrong = [
        f"cpu: {file.path.name} whole: frame {frame} (packet {packet}) "
        + ("is another one" if packet in hashes else "does not come out")
        for frame, (packet, truth) in enumerate(zip(packets, file.hashes, strict=True))
        if hashes.get(packet) != truth and packet not in concealed
    ]
    return Account(frames=Counter({"cpu, whole": len(packets)}), wrong=wrong)


def compare_clips(file: File, engines: Engines, clips: range, seed: int = 0) -> Account:
    """Make these random clips of a file by each engine, and compare their samples with the truth."""
    account = Account(len(clips))
    codec, name = file.index.stream.codec, file.path.name
    for clip in clips:
        mode = RandomFrames(1 + clip % 8)
        frames = np.unique(clip_frames(mode, AllFrames(file.index), 0, clip_rng(seed, 0, clip))[0]).tolist()
        where = f"{name} clip {clip} {frames}"
        by_cpu, fed = engines.by_cpu(file, frames)
        damaged = {packet for packet, picture in by_cpu.items() if picture.damaged}
        concealed = damaged if codec == "h264" else set()
        account.damaged[name] += len(damaged)
        account.frames["cpu"] += len(frames)
        account.packets["cpu"] += fed
        account.wrong += [f"cpu: {where}: {line}" for line in _differences(file, frames, by_cpu, concealed)]
        if not file.takes_nvdec:
            continue
        try:
            by_nvdec, fed = engines.by_nvdec(file, frames)
        except DecodeError as error:
            # Refusing is right where it is loud: such a clip goes to the CPU. It must stay the exception.
            account.refused[name] += 1
            if file.index.method != "decoded":
                account.wrong.append(f"nvdec: {where}: {error}")
            continue
        account.frames[f"nvdec {codec}"] += len(frames)
        account.packets["nvdec"] += fed
        differ = (
            _idct_differences(file, by_nvdec, by_cpu, damaged, account)
            if codec in IDCT_CODECS
            else _differences(file, frames, by_nvdec, damaged)
        )
        account.wrong += [f"nvdec: {where}: {line}" for line in differ]
    account.damaged = +account.damaged
    return account


def _differences(file: File, frames: list[int], found: dict[int, Picture], damaged: set[int]) -> Iterator[str]:
    """A line for each frame that is not as in the full decode."""
    packets = file.index.frame_packet[frames].tolist()
    for frame, packet in zip(frames, packets, strict=True):
        given = hash_planes(found[packet].planes) if packet in found else b""
        if given != file.hashes[frame] and not (given and packet in damaged):
            same = [number for number, known in enumerate(file.hashes) if known == given]
            what = f"is frame {same}" if same else "is like no frame" if given else "does not come out"
            yield f"frame {frame} (packet {packet}) {what}"
    if extra := found.keys() - set(packets):
        yield f"packets {extra} come out, which nobody wants"


def _idct_differences(
    file: File, found: dict[int, Picture], expected: dict[int, Picture], damaged: set[int], account: Account
) -> Iterator[str]:
    """A line for each picture that differs by more than an inverse DCT may."""
    if found.keys() != expected.keys():
        yield f"packets {sorted(found)} come out instead of {sorted(expected)}"
    for packet in found.keys() & expected.keys() - damaged:
        ours, theirs = found[packet].planes, expected[packet].planes
        if [plane.shape for plane in ours] != [plane.shape for plane in theirs]:
            yield f"packet {packet} has planes of another size"
            continue
        key = bool(file.index.packet_key[packet])
        kind = f"{file.index.stream.codec} {'keyframes' if key else 'others'}"
        for one, other in zip(ours, theirs, strict=True):
            difference = np.abs(one.astype(np.int16) - other)
            most, mean = int(difference.max()), float(difference.mean())
            account.note(f"{kind}, most", most, file.path.name)
            account.note(f"{kind}, mean", mean, file.path.name)
            if most > (_KEYFRAME_TOLERANCE if key else _TOLERANCE) or mean > _MEAN_TOLERANCE:
                yield f"packet {packet} differs by {most} codes, {mean:.2f} on average"


def files_of(folder: Path, only: str, part: str) -> list[Path]:
    """The files of a folder with ``only`` in their name, of these the K-th of N equal parts, dearest first."""
    paths = [path for path in folder.iterdir() if path.is_file() and path.suffix != ".tsv" and only in path.name]

    def cost(path: Path) -> tuple[int, str]:
        index = vl.build_index(path)
        return len(index) * index.stream.width * index.stream.height, path.name

    number, parts = map(int, part.split("/"))
    return sorted(paths, key=cost, reverse=True)[number - 1 :: parts]


def _compare_files(
    paths: list[Path], clips: int, threads: int, seed: int, seconds: float, *, cuda: bool
) -> tuple[Account, int]:
    """The account over all files, and how many clips there was no time for."""
    own, lock = threading.local(), threading.Lock()
    total, left = Account(), 0
    end = time.perf_counter() + seconds

    def compare(file: File, some: range) -> None:
        """The clips of these numbers; the first with the whole video."""
        nonlocal left
        if time.perf_counter() > end:
            with lock:
                left += len(some)
            return
        if not hasattr(own, "engines"):
            own.engines = Engines(cuda=cuda)
        try:
            account = compare_clips(file, own.engines, some, seed)
            if not some.start:
                account.add(compare_whole(file, own.engines))
        except (AssertionError, VideoLoaderError) as error:
            account = Account(wrong=[f"{file.path.name} clips {some.start} to {some.stop}: {error}"])
        with lock:
            total.add(account)

    with ThreadPoolExecutor(threads) as pool:

        def open_and_submit(path: Path) -> list[Future[None]]:
            try:
                file = open_file(path, cuda=cuda)
            except (AssertionError, VideoLoaderError) as error:
                with lock:
                    total.wrong.append(f"{path.name}: {error}")
                return []
            starts = range(0, clips, _CLIPS_A_TASK)
            return [pool.submit(compare, file, range(start, min(start + _CLIPS_A_TASK, clips))) for start in starts]

        for opened in [pool.submit(open_and_submit, path) for path in paths]:
            for compared in opened.result():
                compared.result()
    return total, left


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?")
    add_arguments(parser)
    parser.add_argument("--clips", type=int, default=200, help="of each file, by each engine")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--part", default="1/1", help="K/N: only the files of one of N equal parts")
    parser.add_argument("--only", default="", help="files with this in their name")
    parser.add_argument("--seconds", type=float, default=1e9, help="after which no more random clips are begun")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cuda", action=argparse.BooleanOptionalAction, default=torch.cuda.is_available())
    arguments = parser.parse_args()
    if arguments.lies:
        return look_at_lies(arguments, "tests/soak/identical_frames.py")
    if arguments.folder is None:
        parser.error("a folder, or --lies")
    warnings.simplefilter("ignore")  # of what NVDEC does not decode, of encrypted files
    av.logging.set_level(None)
    paths = files_of(arguments.folder, arguments.only, arguments.part)
    begin = time.perf_counter()
    total, left = _compare_files(
        paths, arguments.clips, arguments.threads, arguments.seed, arguments.seconds, cuda=arguments.cuda
    )
    print(f"{len(paths)} files, {total.clips} clips in {time.perf_counter() - begin:.0f} s, {len(total.wrong)} wrong")
    print(f"frames {dict(total.frames)}, packets decoded {dict(total.packets)}")
    print(f"damaged frames {dict(total.damaged)}, clips that NVDEC refuses {dict(total.refused)}")
    print("largest differences by IDCT:", *sorted(total.largest.items()), sep="\n  ")
    print(*total.wrong[:40], sep="\n")
    print("FAILED" if total.wrong else "passed", f"but {left} clips were left out for want of time" if left else "")
    return 1 if total.wrong or left else 0


if __name__ == "__main__":
    sys.exit(main())
