"""Makes rows that show image files, or folders of them, several with each job.

Files are not opened earlier. So an image costs the planning thread almost nothing, and where processes decode
(``ProcessPool``), they do all the work.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
import torch

from videoloader.batching.clip_plan import UNREADABLE
from videoloader.batching.image_clips import (
    IMAGE_INDEX,
    MadeImage,
    MadeImages,
    gather_images,
    joined_reports,
    make_images,
    prepare_images,
)
from videoloader.batching.row_decoding import SubmittedJob
from videoloader.batching.unopened import ImageRows
from videoloader.decoding.engine import uses_jpeg_engines
from videoloader.errors import DecodeError
from videoloader.reading.cancellation import CancelToken
from videoloader.reading.clip_reader import ClipReader, ClipsReport
from videoloader.reading.jpeg_lists import ViewMemory, list_decoder_of
from videoloader.reading.own_code import is_own
from videoloader.reading.process_pool import ProcessDied, ProcessReader
from videoloader.reading.workers import DecodeWorkers, Reader

# The most frames of one job: handing a job over costs a tenth of an image.
_MOST_FRAMES = 32
# Files that a GPU's engines get at once: fewer reduce their throughput, and more do not raise it.
FILES_OF_JOB = 64


def submit_images(
    workers: DecodeWorkers,
    images: ImageRows,
    for_engines: bool,
    token: CancelToken,
) -> tuple[list[SubmittedJob], list[ImageRows]]:
    """Submit rows of a batch whose clips are not drawn yet; their jobs draw and decode them.

    A row whose file cannot be read stays undrawn, and a clip that does not fit into its memory sets ``BatchRow.fits``
    to False.

    Args:
        workers: the threads that decode.
        images: the rows.
        for_engines: whether a GPU's engines make unopened clips.
        token: as in ``submit_rows``.

    Returns:
        The jobs, and the rows that each makes. If these are unopened clips, it is known only when a job is done which
        of them are objects.
    """
    # With this many clips in a part, every worker has one.
    together = max(min(-(-images.num_clips // max(workers.num_workers, 1)), _MOST_FRAMES // images.frames_each), 1)
    jobs, parts = [], []
    for part in images.parts(FILES_OF_JOB if for_engines and images.clips is not None else together):
        make = partial(_make_rows, part, token)
        jobs.append(SubmittedJob(workers.submit(make, IMAGE_INDEX, part.num_clips, in_process=True), part.rows))
        parts.append(part)
        workers.let_others_run()
    return jobs, parts


def _make_rows(part: ImageRows, token: CancelToken, reader: Reader) -> ClipsReport:
    try:
        made = _make(part, token, reader)
    except UNREADABLE:
        part.objects()  # each is then made by itself
        raise
    if part.clips is not None and not made.others:
        part.made = made
        return made.report
    part.objects()
    for outcome, rows in part.with_rows(made.outcomes()):
        if isinstance(outcome, MadeImage):  # or else its rows stay undrawn
            for row in rows:
                outcome.put_into(row)
    return made.report


def _make(part: ImageRows, token: CancelToken, reader: Reader) -> MadeImages:
    wanted, rule, layout = part.wanted, part.rule, part.layout
    # Columns pay off only with other processes: the work per image in this one costs more than row objects.
    by_columns = part.clips is not None
    local, process = (reader.local, reader) if isinstance(reader, ProcessReader) else (reader, None)
    if not rule.is_own or not (by_columns or all(not each.columns or is_own(dict(each.columns)) for each in wanted)):
        process = None
    try:
        if uses_jpeg_engines(local.device, local.decode):
            return _make_by_engines(part, process, local, token)
        if process is not None and local.device.type == "cpu":
            work = partial(make_images, wanted, layout, by_columns)
            frames = [part.frames] if isinstance(part.frames, torch.Tensor) else part.frames
            done: MadeImages | None = process.do(work, rule, frames, token, part.as_clips)
            if done is not None:
                return done
    except ProcessDied as error:
        if len(wanted) == 1:
            return gather_images({}, {0: DecodeError(error.message, wanted[0].path)})
        # One of the files killed the process: make each by itself.
        singles = [_make(each, token, reader) for each in part.parts(1)]
        outcomes = [outcome for each in singles for outcome in each.outcomes()]
        return gather_images({}, dict(enumerate(outcomes)), [each.report for each in singles])
    return make_images(wanted, layout, False, local, rule, list(part.frames), token)


def _make_by_engines(
    part: ImageRows, process: ProcessReader | None, local: ClipReader, token: CancelToken
) -> MadeImages:
    """Let a GPU's JPEG engines make all clips that they can at once; make the rest file by file."""
    wanted, rule, frames, views = part.wanted, part.rule, part.frames, part.rule.num_views
    engines = list_decoder_of(local.device)
    with engines.memory() as memory:
        # All clips that were not opened yet have memory of the same shape.
        shapes = [(tuple(each.shape), each.stride()) for each in frames[:views]]
        work = partial(prepare_images, wanted, part.layout, shapes)
        prepared = None if process is None else process.do(work, rule, [memory], token, part.as_clips)
        made, files = work(local, rule, [memory], token) if prepared is None else prepared
        begin = time.perf_counter()
        places = (np.array(made.places, np.int64)[:, None] * views + np.arange(views)).ravel()
        done = engines.make(files, _memory_of(frames, places), memory)
        seconds = time.perf_counter() - begin
    refused = [place for place, error in zip(made.places, done.errors, strict=True) if error is not None]
    count = len(made.places) - len(refused)
    # ``made.report`` counts what the processes have read from servers.
    reports = [made.report, ClipsReport(count, count, 0, IMAGE_INDEX, (), [done.ready], seconds, "jpeg")]
    others = {**made.others, **dict.fromkeys(refused)}
    for at in sorted(place for place, outcome in others.items() if outcome is None):
        there = list(frames[at * views : (at + 1) * views])
        single = make_images([wanted[at]], part.layout, False, local, rule, there, token)
        others[at] = single.others[0]
        reports.append(single.report)
    return made._replace(others=others, report=joined_reports(reports))


def _memory_of(frames: Sequence[torch.Tensor] | torch.Tensor, places: npt.NDArray[np.int64]) -> ViewMemory:
    """The memory of some rows."""
    if isinstance(frames, torch.Tensor):
        step = frames.stride(0) * frames.element_size()
        return ViewMemory(frames.data_ptr() + places * step, frames.dtype, [frames])
    some = [frames[at] for at in places.tolist()]
    return ViewMemory(np.array([each.data_ptr() for each in some], np.int64), frames[0].dtype, some)
