"""Completes batches whose jobs are submitted: waits for them, and makes clips again, or others in their place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Literal

from videoloader.batching.clip_plan import UNREADABLE, PlannedClip, drawn_now
from videoloader.batching.image_clips import IMAGE_INDEX
from videoloader.batching.made_batch import DecodingBatch
from videoloader.batching.row_decoding import (
    SubmittedJob,
    apply_corrections,
    decode_rows,
    group_into_jobs,
    is_outdated,
    submit_rows,
)
from videoloader.batching.rows import BatchRow, FrameMemory, arrange_rows, show_instead
from videoloader.convert.spec import OutputSpec
from videoloader.decoding.gop_cache import GopCache
from videoloader.errors import CorruptFramesError, DecodeError, VideoLoaderError, reason_of
from videoloader.errors.of_handlers import error_of_handler
from videoloader.indexing import VideoIndex
from videoloader.reading.clip_reader import ClipsReport
from videoloader.reading.corrupt_frames import OnCorrupt, tell_of_corrupt
from videoloader.reading.workers import DecodeWorkers, Reader
from videoloader.runtime.threads import wait_for_all

OnError = Literal["raise", "skip", "replace"]

# The most clips that may fail to decode in one place, including the planned one, before a batch is given up.
_MOST_FAILED = 16


class Completion:
    """Completes batches of one loader.

    Args:
        workers: the threads that decode.
        output, cache: see ``ReadRequest``.
        memory: the kind of memory that frames are decoded to.
        on_error, on_corrupt: see ``VideoLoader``.
    """

    def __init__(
        self,
        workers: DecodeWorkers,
        output: OutputSpec,
        memory: FrameMemory,
        cache: GopCache | None,
        on_error: OnError,
        on_corrupt: OnCorrupt,
    ) -> None:
        self._workers, self._output, self._memory, self._cache = workers, output, memory, cache
        self._on_error, self._on_corrupt = on_error, on_corrupt
        self._corrected: set[str] = set()  # paths of videos whose index was corrected

    @property
    def keeps_damage(self) -> bool:
        """Whether batches may hold damaged frames."""
        return self._on_corrupt == "keep"

    def complete(self, decoding: DecodingBatch) -> list[ClipsReport]:
        """Wait for the decoding jobs; then decode clips of failed jobs one by one, or others in their place.

        Jobs that ran side by side may have decoded frames without knowing what others found about the video at the same
        time. Those clips are decoded again, too.
        """
        used: dict[BatchRow, list[VideoIndex]] = {}
        reports, failed = self._wait(used, *decoding.jobs, *decoding.shared)
        if any(part.rows for part in decoding.by_job):
            decoding.rows = [row for part in decoding.by_job for row in part.objects()]
            decoding.by_job = []
        if not all(row.fits for row in decoding.rows):
            more, lost = self._wait(used, *self._arrange_again(decoding))
            reports, failed = reports + more, failed | lost
        failed |= dict.fromkeys(self._outdated(used))
        while failed:
            # A clip may be split over several jobs. Those that succeeded may still be writing on the GPU, and must not
            # overwrite the clip's replacement.
            for event in [event for report in reports for event in report.ready]:
                event.synchronize()
            for row, damage in failed.items():
                planned, make = row.clip, partial(self._make_replaced, row, decoding, damage)
                index = planned.video.index if planned.is_drawn else IMAGE_INDEX
                again = self._workers.submit(make, index, 0).result()
                used.pop(row, None)
                if again is None:
                    row.left_out = True
                else:
                    self._apply_corrections(row, again)
                    used[row] = [again.index]
                    reports.append(again)
                    decoding.replaced += row.clip.number != planned.number
            failed = dict.fromkeys(self._outdated(used))
        return reports

    def _wait(
        self, used: dict[BatchRow, list[VideoIndex]], *jobs: SubmittedJob
    ) -> tuple[list[ClipsReport], dict[BatchRow, CorruptFramesError | None]]:
        """Wait for jobs, and return their reports, and the rows that were not made, or whose damage is not kept.

        Args:
            used: receives, for each row that was made, the indexes by which its frames were decoded.
            jobs: the jobs.
        """
        reports: list[ClipsReport] = []
        failed: dict[BatchRow, CorruptFramesError | None] = {}
        # Waiting for all at once spares this thread a wake-up for each, which would take the GIL from decoding threads.
        wait_for_all([job.report for job in jobs])
        for job in jobs:
            # Exceptions are not raised here: their traceback would keep this frame, and with it the whole batch, alive.
            if job.report.exception() is None and job.rows:
                self._apply_corrections(job.rows[0], job.report.result())
        for job in jobs:
            error, rows = job.report.exception(), job.rows
            if error is None:
                report = job.report.result()
                reports.append(report)
                if job.planned_by is not None:
                    for row in rows:
                        used.setdefault(row, []).append(report.index)
                failed |= dict.fromkeys(row for row in rows if not row.clip.is_drawn)
                if report.corrupt_frames:
                    failed |= self._refused(rows)
            elif not self._is_raised(error) or self._was_by_an_outdated_index(job):
                failed |= dict.fromkeys(rows)
            else:
                job.report.result()  # raises the error
        return reports, failed

    def _refused(self, rows: Sequence[BatchRow]) -> dict[BatchRow, CorruptFramesError | None]:
        """The rows whose damage is not kept, each with its error.

        Raises:
            CorruptFramesError: damage ends the loop.
        """
        refused: dict[BatchRow, CorruptFramesError | None] = {}
        for row in rows:
            try:
                self._tell_of_damage(row)
            except CorruptFramesError as error:
                if self._is_raised(error):
                    raise
                refused[row] = error.with_traceback(None)
        return refused

    def _tell_of_damage(self, row: BatchRow) -> None:
        """Warn of a clip's damaged frames, or raise CorruptFramesError unless they are kept."""
        tell_of_corrupt(row.clip.video.entry.path, row.clip.frame_numbers[row.corrupt], self._on_corrupt)

    def _apply_corrections(self, row: BatchRow, report: ClipsReport) -> None:
        if apply_corrections(row, report):
            self._corrected.add(row.clip.video.entry.path)

    def _was_by_an_outdated_index(self, job: SubmittedJob) -> bool:
        """Whether a failed job may succeed by the index of its video as it is now."""
        if job.planned_by is None or not isinstance(job.report.exception(), UNREADABLE):
            return False
        return bool(self._outdated({row: [job.planned_by] for row in job.rows}))

    def _outdated(self, used: dict[BatchRow, list[VideoIndex]]) -> list[BatchRow]:
        """The rows whose frames would be decoded differently by now."""
        if not self._corrected:
            return []
        rows = [row for row in used if row.clip.video.entry.path in self._corrected]
        return [row for row in rows if is_outdated(row, used[row])]

    def _arrange_again(self, decoding: DecodingBatch) -> list[SubmittedJob]:
        """Decode a batch again whose clips turned out to have other shapes than its memory."""
        rows = decoding.rows
        if decoding.stacked is None:
            rows = [row for row in rows if not row.fits]
        like = next(row.clip for row in rows if row.clip.is_drawn)
        for row in rows:
            if not row.clip.is_drawn:
                row.clip = replace(row.clip, frame_numbers=like.frame_numbers, mask=like.mask, drawn=like.drawn)
        decoding.stacked, others = arrange_rows([row.clip for row in rows], decoding.request.collate, self._memory)
        for row, other in zip(rows, others, strict=True):
            row.take_over(other)
        drawn = [row for row in rows if row.clip.is_drawn]
        return submit_rows(self._workers, drawn, self._output, self._cache, decoding.token)

    def _remedy(self, error: BaseException | None) -> OnError:
        """The remedy for a clip that ends with an error."""
        if isinstance(error, CorruptFramesError):
            assert self._on_corrupt != "keep", "then there is no error"
            return self._on_corrupt
        return self._on_error if isinstance(error, UNREADABLE) else "raise"

    def _is_raised(self, error: BaseException) -> bool:
        return error_of_handler(error) is not None or self._remedy(error) == "raise"

    def _make_replaced(
        self, row: BatchRow, decoding: DecodingBatch, damage: CorruptFramesError | None, reader: Reader
    ) -> ClipsReport | None:
        """Decode a clip of a failed job by itself; if that fails, skip it (None) or try other clips in its place.

        Args:
            row, decoding: its row and batch.
            damage: error of a clip that was decoded, but is not kept.
            reader: the calling thread's reader.
        """
        planned, failed, tried = row.clip, 0, 0
        for clip in chain([planned], decoding.request.stand_ins(planned)):
            decoding.token.raise_if_cancelled()
            tried += 1
            error: VideoLoaderError | None = damage if clip is planned else None
            if error is None:
                try:
                    if (report := self._make_alone(row, clip, decoding, reader)) is not None:
                        return report
                    continue
                except UNREADABLE as found:
                    if self._is_raised(found):
                        raise
                    error = found.with_traceback(None)
            decoding.unreadable.append((clip, reason_of(error, clip.video.entry.path)))
            failed += 1
            if clip is planned and self._remedy(error) == "skip":
                return None
            if failed == _MOST_FAILED:
                break
        raise DecodeError(
            f"no clip can stand in for clip {planned.number}: {failed} of {tried} tried do not decode, "
            "the others do not fit into the batch",
            planned.video.entry.path,
        )

    def _make_alone(
        self, row: BatchRow, clip: PlannedClip, decoding: DecodingBatch, reader: Reader
    ) -> ClipsReport | None:
        """Decode a clip by itself into a row; None if it does not fit."""
        drawn = drawn_now(clip)
        if drawn is not row.clip and not show_instead(row, drawn, decoding.request.collate, self._memory):
            return None
        job, _ = next(group_into_jobs([row]))
        report = decode_rows(job, drawn.video, self._output, self._cache, reader, decoding.token)
        self._tell_of_damage(row)
        return report
