"""Makes rows that show image files, several with each job.

Files are not opened earlier. So an image costs the planning thread almost nothing, and where processes decode
(``ReaderProcesses``), they do all the work.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import torch

from videoloader.batching.clip_plan import UNREADABLE, BatchRow, DrawRule, PlannedClip, Undrawn
from videoloader.batching.image_clips import (
    SEEN,
    MadeColumns,
    MadeImage,
    WantedImages,
    joined_reports,
    make_columns,
    make_images,
    prepare_images,
    show_view,
)
from videoloader.batching.listed import ListedClips, ListedRows
from videoloader.batching.row_decoding import SubmittedJob
from videoloader.convert import Layout
from videoloader.decoding import Decode
from videoloader.decoding.jpeg_engine import why_not_jpeg_engine
from videoloader.errors import DecodeError
from videoloader.reading.cancellation import CancelToken
from videoloader.reading.clip_reader import ClipReader, ClipsReport
from videoloader.reading.corrupt_frames import OnCorrupt, tell_of_corrupt
from videoloader.reading.engine_files import Slots, engine_files_of
from videoloader.reading.own_code import is_own
from videoloader.reading.reader_processes import ProcessDied, ProcessReader
from videoloader.reading.workers import DecodeWorkers, Reader

# The most files of one job: handing a job over costs a tenth of an image.
_MOST_FILES = 32
# Files that a GPU's engines get at once: fewer or more reduce their throughput.
FILES_OF_JOB = 64
T = TypeVar("T")


def submit_images(
    workers: DecodeWorkers,
    rows: Sequence[BatchRow],
    layout: Layout,
    token: CancelToken,
    on_corrupt: OnCorrupt,
    raises: Callable[[BaseException], bool],
) -> list[SubmittedJob]:
    """Submit the rows of a batch whose clips are not drawn yet; their job draws and decodes them.

    A row whose file cannot be read stays undrawn, and a clip that does not fit into its memory sets ``BatchRow.fits``
    to False.

    Args:
        workers: the threads that decode.
        rows: the rows, all views of a clip one after the other.
        layout: layout of the rows' memory.
        token, on_corrupt: as in ``submit_rows``.
        raises: says whether an error ends the job.
    """
    clips: list[list[BatchRow]] = []
    for row in rows:
        if row.clip.view == 0 or not clips:
            clips.append([])
        clips[-1].append(row)
    jobs = []
    together = _together(workers, len(clips))
    for first in range(0, len(clips), together):
        some = clips[first : first + together]
        make = partial(_make_rows, some, layout, token, on_corrupt, raises)
        report = workers.submit(make, SEEN, len(some), in_process=True)
        jobs.append(SubmittedJob(report, [row for each in some for row in each]))
        workers.let_others_run()
    return jobs


def _together(workers: DecodeWorkers, count: int) -> int:
    """The number of files for each job, so that all workers have a part of so many."""
    return max(min(-(-count // max(workers.num_workers, 1)), _MOST_FILES), 1)


def submit_listed(
    workers: DecodeWorkers,
    listed: ListedClips,
    stacked: torch.Tensor,
    for_engines: bool,
    layout: Layout,
    token: CancelToken,
    on_corrupt: OnCorrupt,
    raises: Callable[[BaseException], bool],
) -> tuple[list[SubmittedJob], list[ListedRows]]:
    """Submit listed clips to processes, and to the GPU's JPEG engines if there are any, as far as these can make them.

    Args:
        workers, layout, token, on_corrupt, raises: as in ``submit_images``.
        listed: the clips.
        stacked: memory of the batch, a row for each view.
        for_engines: whether the GPU's engines make them.

    Returns:
        The jobs, whose rows are known only when they are done, and the rows that each makes.
    """
    jobs, parts, count = [], [], len(listed.clips)
    together = FILES_OF_JOB if for_engines else _together(workers, count)
    for first in range(0, count, together):
        stop = min(first + together, count)
        rows = ListedRows(listed.part(first, stop), stacked[first * listed.views : stop * listed.views], layout)
        make = partial(_make_listed, rows, token, on_corrupt, raises)
        jobs.append(SubmittedJob(workers.submit(make, SEEN, stop - first, in_process=True), rows.left))
        parts.append(rows)
        workers.let_others_run()
    return jobs, parts


def _make_listed(
    rows: ListedRows,
    token: CancelToken,
    on_corrupt: OnCorrupt,
    raises: Callable[[BaseException], bool],
    reader: Reader,
    decode: Decode,
) -> ClipsReport:
    wanted, rule = rows.listed.wanted, rows.listed.rule
    local, process = _readers(reader)
    done: MadeColumns | None = None
    # Columns pay off only with other processes: the work per image in this one costs more than row objects.
    if process is not None:
        with suppress(*UNREADABLE):  # the rows are then made one by one, with an error for each
            if _by_engines(local, decode):
                done = _make_by_engines(wanted, rows.layout, process, local, rule, rows.frames, token, decode)
            elif local.device.type == "cpu":
                done = process.do(partial(make_columns, wanted, rows.layout), rule, [rows.frames], token)
    if done is None:
        return _make_rows(rows.leave(range(len(wanted))), rows.layout, token, on_corrupt, raises, reader, decode)
    rows.views = done.views
    left = rows.leave(done.others) if done.others else []
    return joined_reports([done.report, *_settle(left, list(done.others.values()), on_corrupt, raises)])


def _make_rows(
    clips: Sequence[list[BatchRow]],
    layout: Layout,
    token: CancelToken,
    on_corrupt: OnCorrupt,
    raises: Callable[[BaseException], bool],
    reader: Reader,
    decode: Decode,
) -> ClipsReport:
    return joined_reports(_settle(clips, _make(clips, layout, token, reader, decode), on_corrupt, raises))


def _settle(
    clips: Sequence[list[BatchRow]],
    images: Sequence[MadeImage],
    on_corrupt: OnCorrupt,
    raises: Callable[[BaseException], bool],
) -> list[ClipsReport]:
    """Set what rows show to what was made for them; return the reports, one for all clips decoded together."""
    reports: dict[int, ClipsReport] = {}
    for rows, made in zip(clips, images, strict=True):
        error = made.error or _damage(rows, made, on_corrupt)
        if error is None:
            for row, view in zip(rows, made.views, strict=True):
                show_view(row, view, made.known)
        elif raises(error):
            raise error
        if made.report is not None:
            reports[id(made.report)] = made.report
    return list(reports.values())


def _damage(rows: Sequence[BatchRow], made: MadeImage, on_corrupt: OnCorrupt) -> DecodeError | None:
    """Warn about damage in a clip, or return the error if ``on_corrupt`` makes it one."""
    if made.report is not None and made.report.corrupt_frames:
        damaged = [view.frame_numbers[view.corrupt] for view in made.views if view.corrupt is not None]
        try:
            tell_of_corrupt(rows[0].clip.video.entry.path, np.concatenate(damaged), on_corrupt)
        except DecodeError as error:
            return error
    return None


def _readers(reader: Reader) -> tuple[ClipReader, ProcessReader | None]:
    """The thread's own reader, and that of a process, if there are processes."""
    return (reader.local, reader) if isinstance(reader, ProcessReader) else (reader, None)


def _by_engines(reader: ClipReader, decode: Decode) -> bool:
    return reader.device.type == "cuda" and decode == "auto" and not why_not_jpeg_engine(reader.device.index)


def _make(
    clips: Sequence[list[BatchRow]], layout: Layout, token: CancelToken, reader: Reader, decode: Decode
) -> list[MadeImage]:
    wanted = _wanted([rows[0].clip for rows in clips])
    frames = [row.frames for rows in clips for row in rows]
    rule = _undrawn(clips[0][0].clip).rule
    local, process = _readers(reader)
    if not rule.is_own or not all(not each or is_own(dict(each)) for each in wanted.columns):
        process = None
    try:
        if _by_engines(local, decode):
            done = _make_by_engines(wanted, layout, process, local, rule, frames, token, decode)
            views, each = done.views.each(), len(clips[0])
            return [
                done.others.get(at) or MadeImage(list(islice(views, each)), done.report, None, None)
                for at in range(len(clips))
            ]
        if local.device.type == "cuda":
            return make_images(wanted, layout, local, rule, frames, token, decode)
        return _carry_out(partial(make_images, wanted, layout), process, local, rule, frames, token)
    except ProcessDied as error:
        if len(clips) == 1:
            return [MadeImage([], None, None, DecodeError(error.message, wanted.paths[0]))]
        # One of the files killed the process: make each by itself.
        return [each for rows in clips for each in _make([rows], layout, token, reader, decode)]


def _carry_out(
    work: Callable[[Reader, DrawRule, Sequence[torch.Tensor], CancelToken], T],
    process: ProcessReader | None,
    local: ClipReader,
    rule: DrawRule,
    frames: Sequence[torch.Tensor],
    token: CancelToken,
) -> T:
    """Do some work in another process, or here if no process can."""
    done: T | None = None if process is None else process.do(work, rule, frames, token)
    return work(local, rule, frames, token) if done is None else done


def _make_by_engines(
    wanted: WantedImages,
    layout: Layout,
    process: ProcessReader | None,
    local: ClipReader,
    rule: DrawRule,
    frames: Sequence[torch.Tensor] | torch.Tensor,
    token: CancelToken,
    decode: Decode,
) -> MadeColumns:
    """Let a GPU's JPEG engines make all clips that they can at once; make the rest file by file."""
    count, views = len(wanted), len(frames) // len(wanted)
    engines = engine_files_of(local.device)
    with engines.memory() as memory:
        # All clips that were not opened yet have memory of the same shape.
        shapes = [(tuple(each.shape), each.stride()) for each in frames[:views]]
        prepared = _carry_out(partial(prepare_images, wanted, layout, shapes), process, local, rule, [memory], token)
        begin = time.perf_counter()
        there = np.array([at for at in range(count) if at not in prepared.others], np.int64)
        places = (there[:, None] * views + np.arange(views)).ravel()
        done = engines.make(prepared.files, _slots(frames, places), memory)
        seconds = time.perf_counter() - begin
    fine = np.array([error is None for error in done.errors], np.bool_)
    made = prepared.views if fine.all() else prepared.views.some(np.repeat(fine, views))
    report = ClipsReport(int(fine.sum()), int(fine.sum()), 0, SEEN, (), [done.ready], seconds, True)
    others: dict[int, MadeImage] = {}
    for at in sorted([*prepared.others, *there[~fine].tolist()]):
        other, memory_of_one = prepared.others.get(at), list(frames[at * views : (at + 1) * views])
        if other is None:
            (other,) = make_images(wanted.at(at), layout, local, rule, memory_of_one, token, decode)
        others[at] = other
    return MadeColumns(others, made, report)


def _slots(frames: Sequence[torch.Tensor] | torch.Tensor, places: npt.NDArray[np.int64]) -> Slots:
    """The memory of some rows."""
    if isinstance(frames, torch.Tensor):
        step = frames.stride(0) * frames.element_size()
        return Slots(frames.data_ptr() + places * step, frames.dtype, [frames])
    some = [frames[at] for at in places.tolist()]
    return Slots(np.array([each.data_ptr() for each in some], np.int64), frames[0].dtype, some)


def _wanted(clips: Sequence[PlannedClip]) -> WantedImages:
    entries, draws = [clip.video.entry for clip in clips], [_undrawn(clip) for clip in clips]
    return WantedImages(
        draws[0].epoch,
        [clip.number for clip in clips],
        [draw.clip_in_video for draw in draws],
        [clip.video.row for clip in clips],
        [entry.path for entry in entries],
        [entry.label for entry in entries],
        [entry.columns for entry in entries],
        [entry.times for entry in entries],
    )


def _undrawn(clip: PlannedClip) -> Undrawn:
    assert clip.undrawn is not None
    return clip.undrawn
