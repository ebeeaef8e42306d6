"""Makes batches: plans and decodes their clips, then transforms and collates them.

One thread plans, many decode, and one finishes. Planning and finishing keep the order of the batches; the decoding jobs
between them run in any order. Modules among the transforms run in the thread that takes the batch. Batches that are
planned together decode a GOP that several of them need only once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, wait
from dataclasses import replace
from functools import partial
from itertools import chain
from queue import SimpleQueue
from typing import Literal

import torch

from videoloader.batching.batch import Batch
from videoloader.batching.clip_plan import UNREADABLE, PlannedClip, drawn_if_unlike, drawn_now
from videoloader.batching.collate import collate_columns, collate_rows, row_labels
from videoloader.batching.image_clips import IMAGE_INDEX, WantedImages
from videoloader.batching.image_rows import submit_images
from videoloader.batching.made_batch import BatchInMaking, BatchPlan, DecodingBatch, MadeBatch
from videoloader.batching.row_decoding import (
    SubmittedJob,
    apply_corrections,
    decode_rows,
    group_into_jobs,
    is_outdated,
    submit_rows,
)
from videoloader.batching.rows import BatchRow, about, arrange_rows, decoding_memory, show_instead, transform_rows
from videoloader.batching.stats import LoaderStats, clip_stats
from videoloader.batching.unopened import ImageRows, UnopenedClips, wanted_image
from videoloader.convert.spec import Layout
from videoloader.decoding.gop_cache import GopCache
from videoloader.errors import CorruptFramesError, DecodeError, enough_memory, reason_of
from videoloader.indexing import VideoIndex
from videoloader.reading.cancellation import CancelToken
from videoloader.reading.clip_reader import ClipsReport
from videoloader.reading.corrupt_frames import OnCorrupt
from videoloader.reading.workers import DecodeWorkers, Reader
from videoloader.runtime.device import hand_over, on_stream, own_stream, profiler_range
from videoloader.runtime.forks import after_fork
from videoloader.runtime.threads import executor_of, works_now
from videoloader.transforms import Module, Operation
from videoloader.transforms.mixing import mixed
from videoloader.transforms.operations import BatchFunction
from videoloader.transforms.planning.pipeline import TransformPlan

OnError = Literal["raise", "skip", "replace"]

# The most clips that may fail to decode in one place, including the planned one, before a batch is given up.
_MOST_FAILED = 16


class BatchMaker:
    """Makes batches of planned clips.

    Args:
        workers: the threads that decode. If there are none, the calling thread does everything.
        transforms: the plan of the transforms.
        layout, device: order of dimensions and device of the finished frames.
        cache: see ``ClipReader.read``.
        on_error, on_corrupt: see ``VideoLoader``.
    """

    def __init__(
        self,
        workers: DecodeWorkers,
        transforms: TransformPlan,
        layout: Layout,
        device: torch.device,
        *,
        cache: GopCache | None,
        on_error: OnError,
        on_corrupt: OnCorrupt,
    ) -> None:
        self._workers, self._transforms = workers, transforms
        self._layout, self._device = layout, device
        self._memory = decoding_memory(transforms, layout, device, workers.num_processes > 0)
        self._cache, self._on_error, self._on_corrupt = cache, on_error, on_corrupt
        self._corrected: set[str] = set()  # paths of videos whose index was corrected
        self._forget_threads()
        after_fork(self._forget_threads)
        self._stream = own_stream(self._device, self) if self._device.type == "cuda" else None

    def _forget_threads(self) -> None:
        self._threads: tuple[Executor, Executor] | None = None

    def _start_threads(self) -> tuple[Executor, Executor]:
        """The thread that plans batches, and the one that finishes them.

        A pool that is interrupted by Ctrl-C while it starts its thread starts another one later, and two threads could
        swap batches. So pools are kept only once their threads have answered.
        """
        if self._threads is None:
            each_has = min(self._workers.num_workers, 1)
            lent = self._device.type == "cpu"
            plan = executor_of(each_has, "videoloader-plan", lent=lent)
            threads = plan, executor_of(each_has, "videoloader-batch", lent=lent)
            for each in threads:
                each.submit(int).result()
            self._threads = threads
        return self._threads

    def close(self) -> None:
        """End the threads, once their work is done."""
        for each in self._threads or ():
            each.shutdown()
        self._workers.close()

    def works_now(self) -> bool:
        """Whether the current thread makes batches here, and would wait for itself if it waited for one."""
        return self._workers.works_now() or any(map(works_now, self._threads or ()))

    def start(self, plans: Sequence[BatchPlan], token: CancelToken) -> list[BatchInMaking]:
        """Start making consecutive batches, which are planned together so that they can share decoding.

        Args:
            plans: one plan for each batch, in order.
            token: the token that cancels them.
        """
        unreadable: list[list[tuple[PlannedClip, str]]] = [[] for _ in plans]
        # Planned batches go from the planning thread to the finishing thread in order. Nothing else refers to a batch
        # in the making, so its memory is freed as soon as it is no longer needed. Each call has its own queue: after a
        # Ctrl-C between the two ``submit`` calls, later batches must not receive this one's.
        decoding: SimpleQueue[DecodingBatch | BaseException] = SimpleQueue()
        plan_thread, finish_thread = self._start_threads()
        planned = plan_thread.submit(self._plan_and_submit, plans, unreadable, token, decoding)
        return [BatchInMaking(planned, finish_thread.submit(self._finish, decoding), errors) for errors in unreadable]

    def _plan_and_submit(
        self,
        plans: Sequence[BatchPlan],
        unreadable: Sequence[list[tuple[PlannedClip, str]]],
        token: CancelToken,
        decoding: SimpleQueue[DecodingBatch | BaseException],
    ) -> list[Future[ClipsReport]]:
        """Plan some batches, submit their decoding, and pass each batch, or its error, to the finishing thread."""
        begin = time.perf_counter()
        batches: list[DecodingBatch] = []
        jobs: list[Future[ClipsReport]] = []
        passed_on = 0
        try:
            try:
                with profiler_range("plan", self._device):
                    for plan, errors in zip(plans, unreadable, strict=True):
                        token.raise_if_cancelled()
                        batches.append(self._arrange(plan, errors, token))
            finally:  # if a batch cannot be planned, those before it are still made
                self._submit(batches, jobs, token)
                for batch in batches:
                    batch.seconds = (time.perf_counter() - begin) / len(batches)
                    decoding.put(batch)
                    passed_on += 1
        except BaseException as error:
            for _ in plans[passed_on:]:
                decoding.put(error)
        return jobs

    @property
    def takes_unopened(self) -> bool:
        """Whether processes make or prepare image files, and clips need no further transforms."""
        plain = self._transforms.fused and not self._transforms.modules and self._transforms.mixing is None
        return plain and self._workers.num_processes > 0

    @property
    def for_engines(self) -> bool:
        """Whether processes prepare image files for a GPU's engines."""
        return self.takes_unopened and self._device.type == "cuda"

    def _arrange(self, plan: BatchPlan, unreadable: list[tuple[PlannedClip, str]], token: CancelToken) -> DecodingBatch:
        """Plan a batch and allocate its memory."""
        clips = plan.clips()
        if isinstance(clips, UnopenedClips):
            rule, likely = clips.planner.rule, clips.planner.likely
            # Engines make single images.
            if self.takes_unopened and plan.collate == "stack" and (likely[0].shape[0] == 1 or not self.for_engines):
                stacked = self._memory.allocate(len(clips.clips) * rule.num_views, likely[0].shape)
                columns = ImageRows(stacked, self._memory.layout, rule, clips.wanted(), clips=clips)
                return DecodingBatch(plan, stacked, [], unreadable, token, columns)
            clips = clips.planned()
        memory, rows = arrange_rows(drawn_if_unlike(clips), plan.collate, self._memory)
        return DecodingBatch(plan, memory, rows, unreadable, token)

    def _submit(self, batches: Sequence[DecodingBatch], jobs: list[Future[ClipsReport]], token: CancelToken) -> None:
        """Submit the decoding of some batches' rows, and add the jobs to a list."""
        batch_of = {row: batch for batch in batches for row in batch.rows if row.clip.is_drawn}
        rows, output = list(batch_of), self._transforms.decoded
        for batch in batches:
            if images := batch.columns or self._images_of(batch.rows):
                more = self.for_engines, token, self._on_corrupt, self._is_raised
                batch.jobs, parts = submit_images(self._workers, images, *more)
                jobs += [job.report for job in batch.jobs]
                batch.by_job = parts if batch.columns else []
        for job in submit_rows(self._workers, rows, output, self._cache, token, self._on_corrupt):
            jobs.append(job.report)
            # Each batch refers only to its own rows, since a row keeps its batch's memory alive.
            rows_of: dict[DecodingBatch, list[BatchRow]] = {}
            for row in job.rows:
                rows_of.setdefault(batch_of[row], []).append(row)
            for number, (batch, theirs) in enumerate(rows_of.items()):
                (batch.shared if number else batch.jobs).append(SubmittedJob(job.report, theirs, job.planned_by))

    def _images_of(self, rows: Sequence[BatchRow]) -> ImageRows | None:
        """Those of a batch's rows whose clips are not drawn yet."""
        undrawn = [row for row in rows if not row.clip.is_drawn]
        draw = undrawn[0].clip.undrawn if undrawn else None
        if draw is None:
            return None
        wanted = WantedImages(wanted_image(row.clip) for row in undrawn[:: draw.rule.num_views])
        return ImageRows([row.frames for row in undrawn], self._memory.layout, draw.rule, wanted, undrawn)

    def _finish(self, planned: SimpleQueue[DecodingBatch | BaseException]) -> Callable[[], MadeBatch]:
        decoding = planned.get()
        if isinstance(decoding, BaseException):
            raise decoding
        with on_stream(self._stream):
            reports = self._wait_and_replace(decoding)
        complete = partial(self._complete, decoding, reports)
        # Modules draw from PyTorch's global generators, as the consumer does, so they run in the consumer's thread: in
        # two threads each would get numbers meant for the other.
        if self._transforms.modules or any(
            map(_is_module, chain(*(row.clip.drawn.operations for row in decoding.rows)))
        ):
            return complete
        made = complete()
        return lambda: made

    def _complete(self, decoding: DecodingBatch, reports: list[ClipsReport]) -> MadeBatch:
        with on_stream(self._stream):
            rows = [row for row in decoding.rows if not row.left_out]
            begin = time.perf_counter()
            decoding.token.raise_if_cancelled()
            with profiler_range("transform", self._device):
                batch = self._put_together(decoding, rows, reports) if rows or decoding.by_job else None
            ready = None if self._stream is None else self._stream.record_event()
        times = LoaderStats(planning=decoding.seconds, transforming=time.perf_counter() - begin)
        lost = LoaderStats(skipped=len(decoding.rows) - len(rows), replaced=decoding.replaced)
        shared = {job.report.result() for job in decoding.shared if job.report.exception() is None}
        own = [report for report in reports if report not in shared]
        masks = [] if batch is None else list(batch.mask)
        return MadeBatch(batch, clip_stats(masks, own) + times + lost, ready)

    def _wait_and_replace(self, decoding: DecodingBatch) -> list[ClipsReport]:
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
            reports, failed = reports + more, failed + [row for row in lost if row not in failed]
        failed += [row for row in self._outdated(used) if row not in failed]
        while failed:
            # A clip may be split over several jobs. Those that succeeded may still be writing on the GPU, and must not
            # overwrite the clip's replacement.
            for event in [event for report in reports for event in report.ready]:
                event.synchronize()
            for row in failed:
                planned, make = row.clip, partial(self._make_replaced, row, decoding)
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
            failed = self._outdated(used)
        return reports

    def _wait(
        self, used: dict[BatchRow, list[VideoIndex]], *jobs: SubmittedJob
    ) -> tuple[list[ClipsReport], list[BatchRow]]:
        """Wait for jobs, and return their reports and the rows that were not made.

        Args:
            used: receives, for each row that was made, the indexes by which its frames were decoded.
            jobs: the jobs.
        """
        reports: list[ClipsReport] = []
        failed: list[BatchRow] = []
        # Waiting for all at once spares this thread a wake-up for each, which would take the GIL from decoding threads.
        wait([job.report for job in jobs])
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
                failed += [row for row in rows if not row.clip.is_drawn]
            elif not self._is_raised(error) or self._was_by_an_outdated_index(job):
                failed += [row for row in rows if row not in failed]
            else:
                job.report.result()  # raises the error
        return reports, failed

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
        decoding.stacked, others = arrange_rows([row.clip for row in rows], decoding.plan.collate, self._memory)
        for row, other in zip(rows, others, strict=True):
            row.take_over(other)
        drawn, output = [row for row in rows if row.clip.is_drawn], self._transforms.decoded
        return submit_rows(self._workers, drawn, output, self._cache, decoding.token, self._on_corrupt)

    def _remedy(self, error: BaseException | None) -> OnError:
        """The remedy for a clip that ends with an error."""
        if isinstance(error, CorruptFramesError):
            assert self._on_corrupt != "keep", "then there is no error"
            return self._on_corrupt
        return self._on_error if isinstance(error, UNREADABLE) else "raise"

    def _is_raised(self, error: BaseException) -> bool:
        return self._remedy(error) == "raise"

    def _make_replaced(self, row: BatchRow, decoding: DecodingBatch, reader: Reader) -> ClipsReport | None:
        """Decode a clip of a failed job by itself; if that fails, skip it (None) or try other clips in its place."""
        planned, clip, failed, tried = row.clip, row.clip, 0, 1
        others = decoding.plan.stand_ins(planned)
        while True:
            decoding.token.raise_if_cancelled()
            try:
                drawn = drawn_now(clip)
                if drawn is planned or show_instead(row, drawn, decoding.plan.collate, self._memory):
                    job, _ = next(group_into_jobs([row]))
                    video, output, token = drawn.video, self._transforms.decoded, decoding.token
                    return decode_rows(job, video, output, self._cache, reader, token, self._on_corrupt)
            except UNREADABLE as error:
                remedy = self._remedy(error)
                if remedy == "raise":
                    raise
                decoding.unreadable.append((clip, reason_of(error, clip.video.entry.path)))
                if remedy == "skip" and clip is planned:
                    return None
                failed += 1
            following = next(others, None) if failed < _MOST_FAILED else None
            if following is None:
                break
            clip, tried = following, tried + 1
        raise DecodeError(
            f"no clip can stand in for clip {planned.number}: {failed} of {tried} tried do not decode, "
            "the others do not fit into the batch",
            planned.video.entry.path,
        )

    def _put_together(self, decoding: DecodingBatch, rows: list[BatchRow], reports: list[ClipsReport]) -> Batch:
        stacked = decoding.stacked
        ready = [event for report in reports for event in report.ready]
        hand_over(self._device, ready, [row.frames for row in rows] if stacked is None else [stacked])
        if stacked is not None and len(rows) < len(decoding.rows):
            kept = [number for number, row in enumerate(decoding.rows) if not row.left_out]
            stacked = stacked[torch.tensor(kept, device=self._device)]
        if decoding.by_job:
            assert stacked is not None
            return collate_columns(stacked, decoding.by_job, self._layout)
        frames = transform_rows(self._transforms, stacked, rows, self._layout)
        batch = collate_rows(frames, rows, self._layout)
        if self._transforms.mixing is None:
            return batch
        assert isinstance(frames, torch.Tensor), "a list is refused"
        assert decoding.plan.rng is not None, "mixing draws"
        rng = decoding.plan.rng(decoding.rows[0].clip.number)
        with about(rows), enough_memory():
            frames, labels = mixed(self._transforms.mixing, frames, row_labels(rows), self._layout, rng)
        return replace(batch, frames=frames, labels=labels)


def _is_module(operation: Operation) -> bool:
    return isinstance(operation, BatchFunction) and isinstance(operation.function, Module)
