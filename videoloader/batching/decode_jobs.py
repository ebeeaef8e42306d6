"""The decoding jobs of a batch: handed to worker threads, and what they made handed to the consumer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import NamedTuple

import numpy as np
import torch

from videoloader.batching.clip_plan import BatchRow, DecodeJob, decode_jobs
from videoloader.convert import OutputSpec
from videoloader.decoding import Decode
from videoloader.decoding.frame_cache import FrameCache
from videoloader.device import profiler_range
from videoloader.errors import DecodeError, SourceError, UnsupportedError
from videoloader.indexing.sources import reopen_source
from videoloader.reading.cancellation import Stop
from videoloader.reading.clip_reader import ClipReader, ClipsReport
from videoloader.reading.corrupt_frames import OnCorrupt, tell_of_corrupt
from videoloader.reading.workers import DecodeWorkers

# The video is to blame, not the caller: what ``on_error`` is about.
UNREADABLE = (DecodeError, SourceError, UnsupportedError)


class RowJob(NamedTuple):
    """A job under way: the report that it will give, and the rows that it writes to."""

    report: Future[ClipsReport]
    rows: list[BatchRow]


def decode_rows(
    job: DecodeJob,
    output: OutputSpec,
    cache: FrameCache | None,
    reader: ClipReader,
    decode: Decode,
    stop: Stop | None = None,
    on_corrupt: OnCorrupt = "warn",
) -> ClipsReport:
    """Decode frames of one video into the rows of a batch.

    Args:
        job: which frames, and their slots.
        output, cache, decode, stop: as for ``ClipReader.read``.
        reader: of the calling thread.
        on_corrupt: what is done about damaged frames besides marking them.

    Raises:
        StoppedError: see there.
        FrameRangeError, DecodeError, SourceError, StaleIndexError, UnsupportedError: as ``ClipReader.read``.
    """
    video = job.rows[0].clip.video
    source, slots = reopen_source(video.entry.path), [part.slots for part in job.parts]
    with profiler_range("decode", reader.device):
        report = reader.read(source, job.index, slots, output, decode=decode, cache=cache, stop=stop, state=video.state)
    for correct in report.corrections:  # other jobs may have learned something else meanwhile
        video.index = correct(video.index)
    for row, part, corrupt in zip(job.rows, job.parts, report.corrupt, strict=True):
        row.corrupt[part.slots.positions] = corrupt
    if report.corrupt_frames:
        numbers = [part.frame_numbers[corrupt] for part, corrupt in zip(slots, report.corrupt, strict=True)]
        tell_of_corrupt(job.index.source, np.concatenate(numbers), on_corrupt)
    return report


def submit_rows(
    workers: DecodeWorkers,
    rows: Sequence[BatchRow],
    output: OutputSpec,
    cache: FrameCache | None,
    stop: Stop | None = None,
    on_corrupt: OnCorrupt = "warn",
) -> list[RowJob]:
    """Have the rows of a batch decoded.

    Args:
        workers: who decode.
        rows: of the batch.
        output, cache, stop: as for ``ClipReader.read``.
        on_corrupt: as for ``decode_rows``.
    """
    submitted = []
    for job in decode_jobs(rows):
        make = partial(decode_rows, job, output, cache, stop=stop, on_corrupt=on_corrupt)
        submitted.append(RowJob(workers.submit(make, job.index, job.packets), job.rows))
        workers.let_others_run()
    return submitted


def hand_over(reports: Iterable[ClipsReport], frames: Iterable[torch.Tensor], device: torch.device) -> None:
    """Let the consumer's CUDA stream wait for frames, and their memory for that stream. Nothing to do on the CPU.

    Args:
        reports: of the jobs that made the frames.
        frames: allocations of their own, on the device.
        device: that they lie on.
    """
    if device.type != "cuda":
        return
    stream = torch.cuda.current_stream(device)
    for report in reports:
        for event in report.ready:
            stream.wait_event(event)
    for tensor in frames:
        tensor.record_stream(stream)
