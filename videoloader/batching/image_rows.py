"""Rows that show image files, several of them made by one job.

Nobody opens the files before. So an image costs the thread that plans batches next to nothing, and where processes
decode (``ReaderProcesses``), all that is done for it is done there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

import numpy as np
import torch

from videoloader.batching.clip_plan import BatchRow, DrawRule, PlannedClip
from videoloader.batching.image_clips import SEEN, MadeImage, WantedImage, make_images, prepare_images
from videoloader.batching.row_decoding import SubmittedJob
from videoloader.convert import Layout
from videoloader.decoding import Decode
from videoloader.decoding.jpeg_engine import why_not_jpeg_engine
from videoloader.errors import DecodeError
from videoloader.indexing.sources.remote_reads import NO_READS
from videoloader.order.clip_table import EntryFrames, SameIndex
from videoloader.reading.cancellation import CancelToken
from videoloader.reading.clip_reader import ClipReader, ClipsReport
from videoloader.reading.corrupt_frames import OnCorrupt, tell_of_corrupt
from videoloader.reading.engine_files import engine_files_of
from videoloader.reading.own_code import is_own
from videoloader.reading.reader_processes import ProcessDied, ProcessReader
from videoloader.reading.workers import DecodeWorkers, Reader

# Files that one job reads at most: to hand a job over costs a tenth of what an image does.
_MOST_FILES = 32
_ALL_SEEN = SameIndex(SEEN)
T = TypeVar("T")


def submit_images(
    workers: DecodeWorkers,
    rows: Sequence[BatchRow],
    layout: Layout,
    token: CancelToken,
    on_corrupt: OnCorrupt,
    raises: Callable[[BaseException], bool],
) -> list[SubmittedJob]:
    """Have the rows of a batch made whose clips are not drawn yet. What they show is settled when their job is done.

    A row whose file cannot be read stays undrawn; one that does not fit into the memory it has says so.

    Args:
        workers: the threads that decode.
        rows: the rows, all views of a clip one after the other.
        layout: layout of the rows' memory.
        token, on_corrupt: as in ``submit_rows``.
        raises: whether an error ends the job.
    """
    clips: list[list[BatchRow]] = []
    for row in rows:
        if row.clip.view == 0 or not clips:
            clips.append([])
        clips[-1].append(row)
    together = max(min(-(-len(clips) // max(workers.num_workers, 1)), _MOST_FILES), 1)
    jobs = []
    for first in range(0, len(clips), together):
        some = clips[first : first + together]
        make = partial(_make_rows, some, layout, token, on_corrupt, raises)
        report = workers.submit(make, SEEN, len(some), in_process=True)
        jobs.append(SubmittedJob(report, [row for each in some for row in each]))
        workers.let_others_run()
    return jobs


def _make_rows(
    clips: Sequence[list[BatchRow]],
    layout: Layout,
    token: CancelToken,
    on_corrupt: OnCorrupt,
    raises: Callable[[BaseException], bool],
    reader: Reader,
    decode: Decode,
) -> ClipsReport:
    reports: dict[int, ClipsReport] = {}
    for rows, made in zip(clips, _make(clips, layout, token, reader, decode), strict=True):
        error = made.error or _settle(rows, made, on_corrupt)
        if error is not None and raises(error):
            raise error
        if made.report is not None:
            reports[id(made.report)] = made.report
    each_once = reports.values()
    packets, frames, corrupt, seconds = (
        sum([getattr(each, name) for each in each_once]) for name in ("packets", "frames", "corrupt_frames", "seconds")
    )
    ready = [event for each in each_once for event in each.ready]
    by_gpu = any(each.by_gpu for each in each_once)
    remote = sum((each.remote for each in each_once), NO_READS)
    return ClipsReport(packets, frames, corrupt, SEEN, (), ready, seconds, by_gpu, remote)


def _make(
    clips: Sequence[list[BatchRow]], layout: Layout, token: CancelToken, reader: Reader, decode: Decode
) -> list[MadeImage]:
    wanted = [_wanted(rows[0].clip) for rows in clips]
    frames = [row.frames for rows in clips for row in rows]
    rule = _rule_of(clips[0][0].clip)
    process = reader if isinstance(reader, ProcessReader) and rule.is_own and all(map(_is_own, wanted)) else None
    local = reader.local if isinstance(reader, ProcessReader) else reader
    try:
        if local.device.type == "cuda":
            return _make_by_engines(wanted, layout, process, local, rule, frames, token, decode)
        return _carry_out(partial(make_images, wanted, layout), process, local, rule, frames, token)
    except ProcessDied as error:
        if len(clips) == 1:
            return [MadeImage([], None, None, DecodeError(error.message, wanted[0].path))]
        # Each by itself: one of them is to blame.
        return [each for rows in clips for each in _make([rows], layout, token, reader, decode)]


def _carry_out(
    work: Callable[[Reader, DrawRule, Sequence[torch.Tensor], CancelToken], T],
    process: ProcessReader | None,
    local: ClipReader,
    rule: DrawRule,
    frames: Sequence[torch.Tensor],
    token: CancelToken,
) -> T:
    """Have some work done by another process, or here where none can."""
    done: T | None = None if process is None else process.do(work, rule, frames, token)
    return work(local, rule, frames, token) if done is None else done


def _make_by_engines(
    wanted: Sequence[WantedImage],
    layout: Layout,
    process: ProcessReader | None,
    local: ClipReader,
    rule: DrawRule,
    frames: Sequence[torch.Tensor],
    token: CancelToken,
    decode: Decode,
) -> list[MadeImage]:
    """Have a GPU's JPEG engines make what they can of some clips, all at once; the rest is made file by file."""
    views = rule.repeats * rule.transforms.views
    rows = [frames[first : first + views] for first in range(0, len(frames), views)]
    if decode != "auto" or why_not_jpeg_engine(local.device.index):
        return make_images(wanted, layout, local, rule, frames, token, decode)
    engines = engine_files_of(local.device)
    with engines.memory() as memory:
        work = partial(prepare_images, wanted, layout, [(tuple(each.shape), each.stride()) for each in frames])
        prepared = _carry_out(work, process, local, rule, [memory], token)
        begin = time.perf_counter()
        done = engines.make(prepared.files, [rows[at] for at in prepared.places], memory)
        seconds = time.perf_counter() - begin
    errors = dict(zip(prepared.places, done.errors, strict=True))
    decoded = sum(error is None for error in done.errors)
    report = ClipsReport(decoded, decoded, 0, SEEN, (), [done.ready], seconds, True)
    made: list[MadeImage] = []
    for at, (each, one, row) in enumerate(zip(prepared.images, wanted, rows, strict=True)):
        if each is None or errors.get(at) is not None:
            made += make_images([one], layout, local, rule, row, token, decode)
        elif at in errors:
            made.append(each._replace(report=report))
        else:
            made.append(each)
    return made


def _wanted(clip: PlannedClip) -> WantedImage:
    assert clip.undrawn is not None
    _, epoch, clip_in_video = clip.undrawn
    video, entry = clip.video, clip.video.entry
    return WantedImage(
        clip.number, epoch, clip_in_video, video.row, entry.path, entry.label, entry.columns, entry.times
    )


def _is_own(wanted: WantedImage) -> bool:
    return not wanted.columns or is_own(dict(wanted.columns))


def _rule_of(clip: PlannedClip) -> DrawRule:
    assert clip.undrawn is not None
    return clip.undrawn.rule


def _settle(rows: Sequence[BatchRow], made: MadeImage, on_corrupt: OnCorrupt) -> DecodeError | None:
    """Let rows show what was made for them; or the error that damage in it is."""
    path = rows[0].clip.video.entry.path
    if made.report is not None and made.report.corrupt_frames:
        damaged = [view.frame_numbers[view.corrupt] for view in made.views if view.corrupt is not None]
        try:
            tell_of_corrupt(path, np.concatenate(damaged), on_corrupt)
        except DecodeError as error:
            return error
    video = rows[0].clip.video
    video = EntryFrames(video.entry, 0, 1, SameIndex(made.known) if made.known else _ALL_SEEN, video.row)
    for row, view in zip(rows, made.views, strict=True):
        old = row.clip  # ``replace`` takes four times as long
        made_clip = PlannedClip(
            old.number, video, view.frame_numbers, view.mask, view.drawn, old.view, old.repeated, old.roles
        )
        row.settle(made_clip, view.corrupt)
    return None
