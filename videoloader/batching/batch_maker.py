"""Makes batches: plans and decodes their clips, then transforms and collates them.

One thread plans, many decode, and one finishes. Planning and finishing keep the order of the batches; the decoding jobs
between them run in any order. Modules among the transforms run in the thread that takes the batch. Batches that are
planned together decode a GOP that several of them need only once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from dataclasses import replace
from functools import partial
from itertools import chain
from queue import SimpleQueue
from weakref import WeakSet

import torch

from videoloader.batching.batch import Batch
from videoloader.batching.clip_plan import PlannedClip, drawn_if_unlike
from videoloader.batching.collate import collate_columns, collate_rows, row_labels
from videoloader.batching.completion import Completion, OnError
from videoloader.batching.image_clips import WantedImages
from videoloader.batching.image_rows import submit_images
from videoloader.batching.made_batch import BatchInMaking, BatchRequest, DecodingBatch, MadeBatch
from videoloader.batching.row_decoding import (
    SubmittedJob,
    submit_rows,
)
from videoloader.batching.rows import (
    COLLATE,
    BatchRow,
    about,
    arrange_rows,
    decoding_memory,
    transform_rows,
)
from videoloader.batching.stats import LoaderStats, clip_stats
from videoloader.batching.unopened import ImageRows, UnopenedClips, wanted_image
from videoloader.convert.spec import Layout
from videoloader.decoding.gop_cache import GopCache
from videoloader.errors import enough_memory
from videoloader.errors.of_handlers import is_of_handler
from videoloader.reading.cancellation import CancelToken
from videoloader.reading.clip_reader import ClipsReport
from videoloader.reading.corrupt_frames import OnCorrupt
from videoloader.reading.workers import DecodeWorkers
from videoloader.runtime.device import hand_over, on_stream, own_stream, profiler_range
from videoloader.runtime.forks import after_fork
from videoloader.runtime.threads import executor_of, works_now
from videoloader.transforms import Module, Operation
from videoloader.transforms.mixing import mixed
from videoloader.transforms.operations import BatchFunction
from videoloader.transforms.planning.pipeline import TransformPipeline


class BatchMaker:
    """Makes batches of planned clips.

    Args:
        workers: the threads that decode. If there are none, the calling thread does everything.
        transforms: the transforms.
        layout, device: order of dimensions and device of the finished frames.
        cache: see ``ReadRequest``.
        on_error, on_corrupt: see ``VideoLoader``.
    """

    def __init__(
        self,
        workers: DecodeWorkers,
        transforms: TransformPipeline,
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
        self._cache = cache
        self._completion = Completion(workers, transforms.decoded, self._memory, cache, on_error, on_corrupt)
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

    def start(self, requests: Sequence[BatchRequest], token: CancelToken) -> list[BatchInMaking]:
        """Start making consecutive batches, which are planned together so that they can share decoding.

        Args:
            requests: the batches, in order.
            token: the token that cancels them.
        """
        unreadable: list[list[tuple[PlannedClip, str]]] = [[] for _ in requests]
        # Planned batches go from the planning thread to the finishing thread in order. Nothing else refers to a batch
        # in the making, so its memory is freed as soon as it is no longer needed. Each call has its own queue: after a
        # Ctrl-C between the two ``submit`` calls, later batches must not receive this one's.
        decoding: SimpleQueue[DecodingBatch | BaseException] = SimpleQueue()
        plan_thread, finish_thread = self._start_threads()
        planned = plan_thread.submit(self._plan_and_submit, requests, unreadable, token, decoding)
        # Without threads, an error of a signal's handler may leave too few batches in the queue, or none.
        if planned.done() and (error := planned.exception()) is not None:
            raise error
        return [BatchInMaking(planned, finish_thread.submit(self._finish, decoding), errors) for errors in unreadable]

    def _plan_and_submit(
        self,
        requests: Sequence[BatchRequest],
        unreadable: Sequence[list[tuple[PlannedClip, str]]],
        token: CancelToken,
        decoding: SimpleQueue[DecodingBatch | BaseException],
    ) -> WeakSet[Future[ClipsReport]]:
        """Plan some batches, submit their decoding, and pass each batch, or its error, to the finishing thread."""
        batches: list[DecodingBatch] = []
        jobs: WeakSet[Future[ClipsReport]] = WeakSet()
        passed_on = 0
        try:
            self._workers.let_others_run()
            begin = time.perf_counter()
            try:
                with profiler_range("plan", self._device):
                    for request, errors in zip(requests, unreadable, strict=True):
                        token.raise_if_cancelled()
                        batches.append(self._arrange(request, errors, token))
            finally:  # if a batch cannot be planned, those before it are still made
                self._submit(batches, jobs, token)
                for batch in batches:
                    batch.seconds = (time.perf_counter() - begin) / len(batches)
                    decoding.put(batch)
                    passed_on += 1
            return jobs
        except BaseException as error:
            # The error of a signal's handler may come after a batch was passed on, and before it was counted.
            if passed_on == len(requests) or is_of_handler(error):
                raise
            for _ in requests[passed_on:]:
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

    def _arrange(
        self, request: BatchRequest, unreadable: list[tuple[PlannedClip, str]], token: CancelToken
    ) -> DecodingBatch:
        """Plan a batch and allocate its memory."""
        clips = request.clips()
        if isinstance(clips, UnopenedClips):
            rule, expected = clips.planner.rule, clips.planner.expected_views
            fits_engines = expected[0].shape[0] == 1 or not self.for_engines  # engines make single images
            if self.takes_unopened and COLLATE[request.collate].wants_one_shape and fits_engines:
                stacked = self._memory.allocate(len(clips.clips) * rule.num_views, expected[0].shape)
                columns = ImageRows(stacked, self._memory.layout, rule, clips.wanted(), clips=clips)
                return DecodingBatch(request, stacked, [], unreadable, token, columns)
            clips = clips.planned()
        memory, rows = arrange_rows(drawn_if_unlike(clips), request.collate, self._memory)
        return DecodingBatch(request, memory, rows, unreadable, token)

    def _submit(self, batches: Sequence[DecodingBatch], jobs: WeakSet[Future[ClipsReport]], token: CancelToken) -> None:
        """Submit the decoding of some batches' rows, and add the jobs to a set."""
        batch_of = {row: batch for batch in batches for row in batch.rows if row.clip.is_drawn}
        rows, output = list(batch_of), self._transforms.decoded
        for batch in batches:
            if images := batch.columns or self._images_of(batch.rows):
                batch.jobs, parts = submit_images(self._workers, images, self.for_engines, token)
                jobs.update(job.report for job in batch.jobs)
                batch.by_job = parts if batch.columns else []
        for job in submit_rows(self._workers, rows, output, self._cache, token):
            jobs.add(job.report)
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
            reports = self._completion.complete(decoding)
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
        stats = clip_stats(masks, own) + times + lost
        # Damage that is not kept is in no batch.
        return MadeBatch(batch, stats if self._completion.keeps_damage else replace(stats, corrupt=0), ready)

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
        assert decoding.request.rng is not None, "mixing draws"
        rng = decoding.request.rng(decoding.rows[0].clip.number)
        with about(rows), enough_memory():
            frames, labels = mixed(self._transforms.mixing, frames, row_labels(rows), self._layout, rng)
        return replace(batch, frames=frames, labels=labels)


def _is_module(operation: Operation) -> bool:
    return isinstance(operation, BatchFunction) and isinstance(operation.function, Module)
