"""Verify videos: decode each completely, and compare every way of reading it with that."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from typing import NamedTuple

import torch

from videoloader.dataset import VideoDataset
from videoloader.errors import ArgumentError
from videoloader.errors.argument_names import tells_of_arguments
from videoloader.errors.checks import check, check_positive_or_none, check_uint64
from videoloader.errors.short_text import short_text
from videoloader.indexing import Openable
from videoloader.indexing.limits import current_limits
from videoloader.indexing.sources.folder import is_image_name
from videoloader.indexing.store.processes import answer_in_processes
from videoloader.live_line import live_line
from videoloader.runtime.cores import available_cores
from videoloader.runtime.device import resolve_device
from videoloader.verification.checks import verify_file
from videoloader.verification.report import Fault, FileReport, VerifyReport


class _Task(NamedTuple):
    """One file for a worker process; ``number`` is its place among the files."""

    number: int
    path: str
    device: str
    threads: int
    seed: int


@tells_of_arguments
def verify(
    source: Openable | VideoDataset | Iterable[Openable],
    *,
    device: str | torch.device = "auto",
    workers: int | None = None,
    threads: int | None = None,
    seed: int = 0,
    progress: Callable[[int, int], object] | None = None,
) -> VerifyReport:
    """Decode a video, or all videos of a data set, completely, and compare every way of reading them with that.

    libavformat and libavcodec decode each video from start to end in one thread. That decode is compared with the index
    (the number of frames, and their times); with each keyframe, read by a new decoder that starts there; and with every
    frame read by random access, in shuffled clips that leave frames out, with one thread and with several, and with
    NVDEC on a CUDA device. A video is decoded about ten times, so use this once for files that you must be able to
    trust, not at each start of a training. It finds what reading clips cannot show, such as parameter sets inside a GOP
    that is never read.

    Args:
        source: source, data set, or several sources. A video, as ``Video`` takes it; a folder of videos (a folder with
            images in it is itself one video); a data set; or several videos.
        device: str or torch.device, default ``"auto"``. ``"cpu"``, ``"cuda"`` or ``"auto"``. On a CUDA device, videos
            are also read with NVDEC, which may round MPEG-1, 2 and 4 differently.
        workers: int, default one for each core, on a GPU at most four. The number of processes that verify several
            videos in parallel.
        threads: int, default as many as there are cores, at least two. The number of threads for reads in which several
            threads decode one clip.
        seed: int, default 0. The seed of the order in which clips are read.
        progress: function, default a live line in the terminal or notebook. It is called with (videos done, videos
            given).

    Returns:
        A report for each video, also for unreadable ones. Its ``ok`` is True if no video has a fault.

    Raises:
        ConfigurationError: there are no videos, a number is not positive, there is no such device, or the environment
            variable ``VIDEOLOADER_LIMITS`` is wrong.
        SourceError: the folder cannot be read.

    Examples:
        >>> print(verify("clip.mp4"))
        clip.mp4: ok: 300 frames, 12 keyframes, h264 in mp4
    """
    on = resolve_device(device)
    check_positive_or_none(workers=workers, threads=threads)
    check_uint64(seed=seed)
    current_limits()
    sources = _sources_of(source)
    check("source", source, sources, "at least one video", ": nothing would be verified")
    reports: list[FileReport | None] = [None] * len(sources)
    with live_line("verifying", progress) as tell:
        for done, (number, report) in enumerate(verify_each(sources, on, workers, threads, seed), 1):
            reports[number] = report
            tell(done, len(sources))
    return VerifyReport(tuple(report for report in reports if report is not None))


def verify_each(
    sources: Sequence[Openable],
    device: torch.device,
    workers: int | None = None,
    threads: int | None = None,
    seed: int = 0,
) -> Iterator[tuple[int, FileReport]]:
    """Yield the number and the report of each video as soon as it is verified; arguments as of ``verify``."""
    count = min(workers or (min(available_cores(), 4) if device.type == "cuda" else available_cores()), len(sources))
    paths = [os.fspath(each) if isinstance(each, (str, os.PathLike)) else None for each in sources]
    if count > 1 and all(path is not None for path in paths):
        tasks = [_Task(number, str(path), str(device), threads or 0, seed) for number, path in enumerate(paths)]
        for answers in answer_in_processes(([task] for task in tasks), count, _answer, _died_over):
            yield from answers
        return
    for number, each in enumerate(sources):
        yield number, verify_file(each, device, threads or 0, seed)


def _sources_of(source: Openable | VideoDataset | Iterable[Openable]) -> Sequence[Openable]:
    if isinstance(source, (str, os.PathLike)) and os.path.isdir(source) and not _holds_images(source):
        source = VideoDataset.from_folder(source)
    if isinstance(source, VideoDataset):
        return list(dict.fromkeys(source.table.path))
    if isinstance(source, str | os.PathLike | bytes) or hasattr(source, "seek") or hasattr(source, "read_ranges"):
        return [source]  # type: ignore[list-item]
    # Videos and loaders, which have a length, can be gone through, too, but give frames.
    is_iterator = isinstance(source, Iterator) and not hasattr(source, "__len__")
    if is_iterator or isinstance(source, Sequence | Set) or hasattr(source, "tolist"):
        return list(source)
    wanted = "a path, bytes or a file of one video, a folder, a list of videos or a VideoDataset"
    raise ArgumentError(f"source must be {wanted}, got {short_text(source)}")


def _holds_images(folder: str | os.PathLike[str]) -> bool:
    try:
        return any(map(is_image_name, os.listdir(folder)))
    except OSError:
        return False  # reading it as a data set raises the error


def _answer(task: _Task) -> tuple[int, FileReport]:
    # Processes run in parallel, each with the threads it was given: PyTorch's own would be too many.
    torch.set_num_threads(1)
    return task.number, verify_file(task.path, torch.device(task.device), task.threads, task.seed)


def _died_over(task: _Task, what: str) -> tuple[int, FileReport]:
    return task.number, FileReport(task.path, faults=(Fault("unreadable", f"the process that read it {what}"),))
