"""What is measured, on which files, who takes part, and how much better ours is meant to be."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, NamedTuple

from footage import COPIES, LONG, REAL

CORES = len(os.sched_getaffinity(0))
# Figures of which less is better.
LESS_IS_BETTER = ("ms", "s", "GB")


class Entrant(NamedTuple):
    """One way to do a work: a function of a module in ``libraries``, and the arguments it may choose the best of."""

    label: str
    module: str
    function: str
    variants: tuple[dict[str, Any], ...] = ({},)


class Times(NamedTuple):
    """How many times better than the best of some others an entrant is to be."""

    entrant: str
    others: tuple[str, ...]
    least: float


class AtMost(NamedTuple):
    """What a figure of an entrant is not to exceed."""

    entrant: str
    figure: str
    most: float


class Work(NamedTuple):
    """One line of the comparison.

    Attributes:
        title: what is done.
        unit: the figure that decides.
        footage: name of the file.
        copies: how many paths to it.
        entrants: who takes part.
        bars: what is wanted.
        cores: only as many CPU cores are used; None for all.
        new_processes: every round begins in new ones, where what a process keeps would not be counted again.
        least_seconds: of counting, where what is counted comes in waves.
    """

    title: str
    unit: str
    footage: str
    copies: int
    entrants: tuple[Entrant, ...]
    bars: tuple[Times | AtMost, ...]
    cores: int | None = None
    new_processes: bool = False
    least_seconds: float = 0


def _threads(counts: Iterable[int], **arguments: Any) -> tuple[dict[str, Any], ...]:
    return tuple({**arguments, "threads": count} for count in counts)


# One and two for each NVDEC engine of a large GPU.
_SESSIONS = (7, 14)


def _every_frame(title: str, footage: str, share: float) -> Work:
    return Work(
        f"every frame of {COPIES} files to 224² float16, {title}",
        "frames/s",
        footage,
        COPIES,
        (
            Entrant("NVDEC's ceiling", "nvdec", "every_frame", _threads(_SESSIONS)),
            Entrant("ours", "ours", "every_frame"),
        ),
        (Times("ours", ("NVDEC's ceiling",), share),),
        # A file is a clip: as many as there are threads end at about the same time.
        least_seconds=12,
    )


def _random_clips(title: str, footage: str, *more_bars: Times) -> Work:
    operators = ("decoders.video", "decoders.video with index", "readers.video_resize", "experimental.readers.video")
    hybrid = tuple(
        {"device": "cuda", "decode": "auto", "cpu_workers": workers} for workers in (CORES, max(CORES // 2, 1))
    )
    return Work(
        f"random clips of 16 frames, 4 apart, GOP 250, to 224² float16, {title}",
        "clips/s",
        footage,
        COPIES,
        (
            Entrant("ours, NVDEC", "ours", "random_clips", ({"device": "cuda", "decode": "nvdec"},)),
            Entrant("ours, hybrid", "ours", "random_clips", hybrid),
            Entrant("torchcodec", "torchcodec", "random_clips", _threads(_SESSIONS, device="cuda")),
            Entrant("PyNvVideoCodec", "pynvvideocodec", "random_clips", _threads(_SESSIONS)),
            Entrant("DALI", "dali", "random_clips", tuple({"operator": operator} for operator in operators)),
        ),
        (
            Times("ours, NVDEC", ("torchcodec",), 1.6),
            Times("ours, NVDEC", ("PyNvVideoCodec",), 1.6),
            Times("ours, NVDEC", ("DALI",), 7),
            Times("ours, hybrid", ("ours, NVDEC",), 1),
            *more_bars,
        ),
    )


def _real_clips(batch: int) -> Work:
    """Sizes, codecs and GOPs are mixed, so that a batch waits for its slowest clip."""
    return Work(
        f"random clips of 16 frames, 4 apart, to 224² float16, real videos mixed, batch {batch}",
        "clips/s",
        REAL,
        1,
        tuple(
            Entrant(label, "ours", "random_clips", ({"device": "cuda", "decode": decode, "batch_size": batch},))
            for label, decode in (("ours, NVDEC", "nvdec"), ("ours, hybrid", "auto"))
        ),
        (Times("ours, hybrid", ("ours, NVDEC",), 1),),
    )


def _on_cpu(size: str, cores: int, least: float) -> Work:
    workers = (cores, 2 * cores)
    ours = tuple({"device": "cpu", "num_workers": count} for count in workers)
    torchcodec = (
        *_threads(workers, device="cpu", own_resize=True),
        *_threads((cores,), device="cpu", own_resize=False),
    )
    return Work(
        f"random clips of 16 frames, 4 apart, GOP 250, to 224² float16, {size}, on {cores} CPU cores",
        "clips/s",
        f"{size}-h264",
        COPIES,
        (
            Entrant("ours", "ours", "random_clips", ours),
            Entrant("ours, processes", "ours", "random_clips_of_processes", ({"processes": cores},)),
            Entrant("torchcodec", "torchcodec", "random_clips", torchcodec),
            Entrant("decord2", "decord", "random_clips", _threads(workers)),
            Entrant("SPDL", "spdl", "random_clips", (*_threads(workers, by="time"), *_threads((cores,), by="number"))),
        ),
        (
            Times("ours", ("torchcodec", "decord2", "SPDL"), least),
            Times("ours, processes", ("torchcodec", "decord2", "SPDL"), least),
        ),
        cores,
    )


def _frames_on_cpu(cores: int) -> Work:
    threads = _threads((1, cores))
    peers = ("torchcodec, slices", "decord2, slices", "SPDL, slices")
    return Work(
        f"every frame of one 1080p file in turn, full size, on {cores} CPU cores, one by one or 30 at a time",
        "frames/s",
        "1080p-h264",
        1,
        (
            Entrant("ours", "ours", "stream"),
            Entrant("ours, slices", "ours", "slices"),
            Entrant("torchcodec", "torchcodec", "stream", threads),
            Entrant("torchcodec, slices", "torchcodec", "slices", threads),
            Entrant("decord2, slices", "decord", "slices", threads),
            Entrant(
                "SPDL, slices",
                "spdl",
                "slices",
                tuple({**each, "at_once": way} for each in threads for way in (True, False)),
            ),
        ),
        (Times("ours", ("torchcodec", *peers), 1.1), Times("ours, slices", peers, 1.1)),
        cores,
    )


_CPU = {"2": min(2, CORES), "all": CORES}
_CLIPS = 32


def _opening(**arguments: Any) -> tuple[dict[str, Any], ...]:
    return ({**arguments, "reopen": False}, {**arguments, "reopen": True})


WORKS: dict[str, Work] = {
    "frames-1080p": _every_frame("1080p H.264", "1080p-h264", 0.97),
    "frames-hevc": _every_frame("1080p HEVC", "1080p-hevc", 0.95),
    "frames-360p": _every_frame("360p H.264", "360p-h264", 0.95),
    "clips-1080p": _random_clips("1080p", "1080p-h264", Times("ours, hybrid", ("torchcodec",), 2)),
    "clips-360p": _random_clips("360p", "360p-h264"),
    "clips-real-8": _real_clips(8),
    "clips-real-32": _real_clips(32),
    "long": Work(
        f"{_CLIPS} random clips of one long 1080p video, in one batch",
        "clips/s",
        LONG,
        1,
        (
            Entrant("ours", "ours", "clips_of_one_video", ({"clips": _CLIPS},)),
            Entrant(
                "torchcodec",
                "torchcodec",
                "clips_of_one_video",
                ({"clips": _CLIPS}, *_threads(_SESSIONS, clips=_CLIPS)),
            ),
        ),
        (AtMost("ours", "decoded/needed", 1.0), Times("ours", ("torchcodec",), 1)),
    ),
    "one-file": Work(
        "every frame of one 1080p file of 14 GOPs, full size",
        "frames/s",
        LONG,
        1,
        (
            Entrant("ours", "ours", "whole_video", ({"stream": False}, {"stream": True})),
            Entrant("torchcodec", "torchcodec", "whole_video", ({"at_once": 1 << 30}, {"at_once": 64})),
        ),
        (Times("ours", ("torchcodec",), 5),),
    ),
    "latency": Work(
        "one random clip after the other, 1080p, full size, one thread",
        "ms",
        "1080p-h264",
        COPIES,
        (
            Entrant("ours", "ours", "latency", _opening(device="cuda")),
            Entrant("torchcodec", "torchcodec", "latency", _opening(device="cuda")),
        ),
        (Times("ours", ("torchcodec",), 1),),
    ),
    "memory": Work(
        "GPU memory over the batches, random clips, 1080p, 14 workers",
        "GB",
        "1080p-h264",
        COPIES,
        (Entrant("ours", "ours", "gpu_memory", ({"num_workers": 14},)),),
        (AtMost("ours", "GB", 1.2),),
        new_processes=True,
    ),
    "cpu-latency": Work(
        "one random clip after the other, 1080p, full size, on the CPU",
        "ms",
        "1080p-h264",
        COPIES,
        (
            Entrant("ours", "ours", "latency", _opening(device="cpu")),
            Entrant(
                "torchcodec",
                "torchcodec",
                "latency",
                (*_opening(device="cpu"), *_opening(device="cpu", threads=CORES)),
            ),
        ),
        (Times("ours", ("torchcodec",), 1),),
    ),
    **{f"cpu-frames-{name}": _frames_on_cpu(cores) for name, cores in _CPU.items()},
    **{
        f"cpu-{size}-{name}": _on_cpu(size, cores, least)
        for name, cores in _CPU.items()
        for size, least in (("1080p", 1.7), ("720p", 1.4), ("360p", 1.5))
    },
}
