"""Groups the clips of a batch into decoding jobs, so that clips with a common GOP share a job, and submits them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from videoloader.batching.rows import BatchRow
from videoloader.convert.spec import OutputSpec
from videoloader.decoding.gop_cache import GopCache
from videoloader.indexing import VideoIndex
from videoloader.indexing.configurations import decoded_otherwise
from videoloader.indexing.sources.remote_reads import reads_so_far
from videoloader.order.video_range import VideoRange
from videoloader.packets.decode_plan import gops_in_common
from videoloader.padding.pad import real_frames
from videoloader.reading.cancellation import CancelToken
from videoloader.reading.clip_reader import ClipsReport
from videoloader.reading.decode_job import DecodeJob, split_clips, whole_job
from videoloader.reading.fetch_ahead import FetchAhead, Fetching
from videoloader.reading.read_request import ReadRequest
from videoloader.reading.workers import DecodeWorkers, Reader
from videoloader.runtime.device import profiler_range


class SubmittedJob(NamedTuple):
    """A submitted job, and the rows of a batch that it writes to.

    Attributes:
        report: future of the job's report.
        rows: the rows. For ``UnopenedClips`` the list is empty, and is filled when the job ends if its clips had to
            become objects.
        planned_by: index by which the job was planned; None for image files.
    """

    report: Future[ClipsReport]
    rows: list[BatchRow]
    planned_by: VideoIndex | None = None


def apply_corrections(row: BatchRow, report: ClipsReport) -> bool:
    """Correct the index of a row's video by what decoding has shown, for later clips; return whether it had to be."""
    if report.corrections:
        row.clip.video.index = report.corrected(row.clip.video.index)
    return bool(report.corrections)


def is_outdated(row: BatchRow, used: Iterable[VideoIndex]) -> bool:
    """Whether the row's frames would be decoded differently by the index of its video as it is now.

    Args:
        row: the row.
        used: indexes by which its frames were decoded. Other jobs may have corrected the index since then.
    """
    known, frames = row.clip.video.index, row.clip.frame_numbers
    packets = known.frame_packet[real_frames(frames)]
    return any(decoded_otherwise(index, known, packets).any() for index in used)


def group_into_jobs(rows: Sequence[BatchRow]) -> Iterator[tuple[DecodeJob, list[BatchRow]]]:
    """The decoding jobs of a batch, each with its rows, one for each of its parts.

    A clip that shares no GOP with another is a job by itself. Clips that share a GOP form one job, or where there is
    much to decode, several jobs cut at keyframes, so that more decoders can take part.
    """
    by_path: dict[str, list[BatchRow]] = {}
    for row in rows:
        by_path.setdefault(row.clip.video.entry.path, []).append(row)
    for of_one_video in by_path.values():
        index = of_one_video[0].clip.video.index
        for group in _groups(index, of_one_video):
            if len(group) == 1:
                yield whole_job(index, group[0].slots), group
                continue
            for job in split_clips(index, [row.slots for row in group]):
                yield job, [group[clip] for clip in job.clip_of_part]


def _groups(index: VideoIndex, rows: list[BatchRow]) -> list[list[BatchRow]]:
    if len(rows) == 1:
        return [rows]
    numbers = [row.clip.frame_numbers for row in rows]
    groups = gops_in_common(index, [real_frames(frames) for frames in numbers])
    return [[rows[clip] for clip in group] for group in groups]


def decode_rows(
    job: DecodeJob,
    video: VideoRange,
    output: OutputSpec,
    cache: GopCache | None,
    reader: Reader,
    token: CancelToken,
    fetching: Fetching | None = None,
) -> ClipsReport:
    """Decode frames of one video into the rows of a batch.

    Args:
        job: the job.
        video: its video.
        output, cache, token: see ``ReadRequest`` and ``ClipReader.read``.
        reader: the calling thread's reader.
        fetching: bytes of the video that are being fetched; None if none are.

    Raises:
        ReadCancelled: the read was cancelled.
        FrameRangeError, DecodeError, SourceError, StaleIndexError, UnsupportedError: as in ``ClipReader.read``.
    """
    source = video.entry.path if video.source is None else video.source
    read_before = reads_so_far()
    if fetching is not None:
        source = fetching.source(token)
    with profiler_range("decode", reader.device):
        report = reader.read(ReadRequest(source, job.index, job.parts, output, job.plan, cache), token)
    return report if fetching is None else replace(report, remote=reads_so_far() - read_before)


def submit_rows(
    workers: DecodeWorkers,
    rows: Sequence[BatchRow],
    output: OutputSpec,
    cache: GopCache | None,
    token: CancelToken,
) -> list[SubmittedJob]:
    """Submit the decoding of a batch's rows.

    Args:
        workers: the threads that decode.
        rows: the rows of the batch.
        output, cache, token: see ``ReadRequest`` and ``ClipReader.read``.
    """
    submitted = []
    for job, shown in group_into_jobs(rows):
        video = shown[0].clip.video
        make = partial(decode_rows, job, video, output, cache, token=token)
        ahead = None
        # With a cache, frames may not have to be read at all.
        if workers.num_workers and cache is None and video.source is None:
            ahead = workers.fetch_ahead.begin(video.entry.path, job.index, job.plan, token)
        fetching, size = ahead or (None, 0)
        report = workers.submit(partial(make, fetching=fetching), job.index, job.plan.packets)
        if fetching is not None:
            report.add_done_callback(partial(_release, workers.fetch_ahead, size))
        submitted.append(SubmittedJob(report, shown, job.index))
        workers.let_others_run()
    return submitted


def _release(fetch_ahead: FetchAhead, size: int, job: Future[ClipsReport]) -> None:
    fetch_ahead.release(size)
