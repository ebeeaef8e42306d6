"""Batches in the making: planned, decoded, transformed and put together, each step in threads of its own.

Planning and finishing keep the order of the batches; the decoding jobs between them run as they come. Batches that are
planned together share the decoding of the GOPs that several of them need.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Literal

import numpy as np
import torch

from videoloader.batching.batch import Batch, collate_rows, row_labels
from videoloader.batching.clip_plan import BatchRow, PlannedClip, decode_jobs
from videoloader.batching.decode_jobs import UNREADABLE, RowJob, decode_rows, hand_over, submit_rows
from videoloader.batching.rows import Collate, arrange_rows, decoding_memory, show_instead, transform_rows
from videoloader.batching.stats import LoaderStats, decoding_stats
from videoloader.convert import Layout
from videoloader.decoding import Decode
from videoloader.decoding.frame_cache import FrameCache
from videoloader.device import own_stream, profiler_range
from videoloader.errors import ConfigurationError, DecodeError
from videoloader.indexing.forks import after_fork
from videoloader.reading.cancellation import Stop
from videoloader.reading.clip_reader import ClipReader, ClipsReport
from videoloader.reading.corrupt_frames import OnCorrupt
from videoloader.reading.workers import DecodeWorkers
from videoloader.transforms import Module, Operation, TransformPlan
from videoloader.transforms.operations import BatchFunction

OnError = Literal["raise", "skip", "replace"]

# Clips that do not decode, tried for one that cannot be made.
_REPLACEMENTS = 16


@dataclass(frozen=True, eq=False)
class MadeBatch:
    """A batch, and the account of its making.

    Attributes:
        batch: None where no clip of it could be made.
        stats: what it took.
        ready: the CUDA event after which its tensors are there; None on the CPU.
    """

    batch: Batch | None
    stats: LoaderStats
    ready: torch.cuda.Event | None

    def hand_over(self) -> Batch | None:
        """The batch, for work on the current CUDA stream."""
        if self.batch is not None and self.ready is not None:
            stream = torch.cuda.current_stream(self.batch.labels.device)
            stream.wait_event(self.ready)
            frames = self.batch.frames
            for tensor in [self.batch.labels, *(frames if isinstance(frames, list) else [frames])]:
                tensor.record_stream(stream)
        return self.batch


@dataclass(eq=False)
class BatchInMaking:
    """What can be waited for, or given up.

    Attributes:
        planned: the rows of this batch and of those planned with it, until they are waited for; or why one could not
            be planned.
        made: gives the batch.
        unreadable: (path, error) of its clips that could not be made; complete when ``made`` is.
        stop: of the making.
    """

    planned: Future[list[_DecodingRows | Exception | None]]
    made: Future[Callable[[], MadeBatch]]
    unreadable: list[tuple[str, str]]
    stop: Stop

    def result(self) -> MadeBatch:
        """Wait for the batch. Modules among its transforms are called now, in this thread."""
        return self.made.result()()

    def cancel(self) -> None:
        """Give the batch up, with all that have the same ``stop``, and wait until nothing is under way for it."""
        self.stop.call()
        if not self.planned.cancel():
            wait([self.planned])
            planned = [] if self.planned.exception() else self.planned.result()
            for rows in planned:
                if isinstance(rows, _DecodingRows):
                    wait([job.report for job in rows.jobs if not job.report.cancel()])
        if not self.made.cancel():
            wait([self.made])


@dataclass(eq=False)
class _DecodingRows:
    """Rows of a batch whose clips are being decoded, all in one tensor unless they make a list."""

    stacked: torch.Tensor | None
    rows: list[BatchRow]
    jobs: list[RowJob]
    # Jobs that decode for an earlier batch, too, which accounts for them.
    shared: list[RowJob]
    # Clips to try in place of one that cannot be made; see BatchMaker.start.
    stand_ins: Callable[[PlannedClip], Iterator[PlannedClip]]
    rng: Callable[[int], np.random.Generator]
    unreadable: list[tuple[str, str]]
    stop: Stop
    seconds: float  # that planning took


class BatchMaker:
    """Makes batches of planned clips.

    Args:
        workers: who decode.
        transforms: of the frames.
        collate: how clips go together.
        layout, device: of the frames that are given out.
        cache: see ``ClipReader.read``.
        on_error, on_corrupt: see ``VideoLoader``.
    """

    def __init__(
        self,
        workers: DecodeWorkers,
        transforms: TransformPlan,
        collate: Collate,
        layout: Layout,
        device: torch.device,
        *,
        cache: FrameCache | None,
        on_error: OnError,
        on_corrupt: OnCorrupt,
    ) -> None:
        self._workers, self._transforms, self._collate = workers, transforms, collate
        if transforms.mixing is not None and collate == "list":
            raise ConfigurationError('clips of a list cannot be mixed: take collate="stack" or "pad"')
        self._layout, self._device = layout, device
        self._memory = decoding_memory(transforms, layout, device)
        self._cache, self._on_error, self._on_corrupt = cache, on_error, on_corrupt
        self._start_threads()
        after_fork(self._start_threads)
        self._stream = own_stream(self._device, self) if self._device.type == "cuda" else None

    def _start_threads(self) -> None:
        self._planner = ThreadPoolExecutor(1, "videoloader-plan")
        self._finisher = ThreadPoolExecutor(1, "videoloader-batch")

    def start(
        self,
        plans: Sequence[Callable[[], Sequence[PlannedClip]]],
        stand_ins: Callable[[PlannedClip], Iterator[PlannedClip]],
        rng: Callable[[int], np.random.Generator],
        stop: Stop,
    ) -> list[BatchInMaking]:
        """Have batches made that follow one another.

        Args:
            plans: one for each batch, called in a thread; gives the clips, one for each row.
            stand_ins: gives clips to try in place of one that cannot be made, as many as are worth trying.
            rng: gives the generator of what is drawn for a whole batch, from the number of its first clip.
            stop: whether the batches are still wanted.
        """
        unreadable: list[list[tuple[str, str]]] = [[] for _ in plans]

        def decode() -> list[_DecodingRows | Exception | None]:
            begin = time.perf_counter()
            stop.check()
            batches: list[_DecodingRows] = []
            failed: Exception | None = None
            with profiler_range("plan", self._device):
                for plan, theirs in zip(plans, unreadable, strict=True):
                    try:
                        stacked, rows = arrange_rows(plan(), self._collate, self._memory)
                    except Exception as error:  # of this batch; those before it are made
                        failed = error
                        break
                    batches.append(_DecodingRows(stacked, rows, [], [], stand_ins, rng, theirs, stop, 0))
            self._submit(batches, stop)
            for batch in batches:
                batch.seconds = (time.perf_counter() - begin) / len(batches)
            return [*batches, *([failed] * (len(plans) - len(batches)) if failed else [])]

        planned = self._planner.submit(decode)
        return [
            BatchInMaking(planned, self._finisher.submit(self._finish, planned, number), theirs, stop)
            for number, theirs in enumerate(unreadable)
        ]

    def _submit(self, batches: Sequence[_DecodingRows], stop: Stop) -> None:
        """Have the rows of some batches decoded."""
        batch_of = {row: batch for batch in batches for row in batch.rows}
        rows, output = list(batch_of), self._transforms.decoded
        for job in submit_rows(self._workers, rows, output, self._cache, stop, self._on_corrupt):
            # No batch keeps another's rows, and with them its memory.
            rows_of: dict[_DecodingRows, list[BatchRow]] = {}
            for row in job.rows:
                rows_of.setdefault(batch_of[row], []).append(row)
            for number, (batch, theirs) in enumerate(rows_of.items()):
                (batch.shared if number else batch.jobs).append(RowJob(job.report, theirs))

    def _finish(self, planned: Future[list[_DecodingRows | Exception | None]], number: int) -> Callable[[], MadeBatch]:
        batches = planned.result()
        decoding, batches[number] = batches[number], None
        if isinstance(decoding, Exception):
            raise decoding
        assert decoding is not None, "a batch is finished once"
        with self._on_stream():
            reports = self._wait(decoding)
        complete = partial(self._complete, decoding, reports)
        # Modules draw from PyTorch's global generators. So does the consumer: in another thread than its own they
        # would get each other's numbers.
        if self._transforms.modules or any(
            map(_is_module, chain(*(row.clip.drawn.operations for row in decoding.rows)))
        ):
            return complete
        made = complete()
        return lambda: made

    def _on_stream(self) -> AbstractContextManager[object]:
        return nullcontext() if self._stream is None else torch.cuda.stream(self._stream)

    def _complete(self, decoding: _DecodingRows, reports: list[ClipsReport]) -> MadeBatch:
        with self._on_stream():
            rows = [row for row in decoding.rows if not row.left_out]
            begin = time.perf_counter()
            decoding.stop.check()
            with profiler_range("transform", self._device):
                batch = self._put_together(decoding, rows, reports) if rows else None
            ready = None if self._stream is None else self._stream.record_event()
        times = LoaderStats(planning=decoding.seconds, transforming=time.perf_counter() - begin)
        shared = {job.report.result() for job in decoding.shared if not job.report.exception()}
        own = [report for report in reports if report not in shared]
        return MadeBatch(batch, decoding_stats(len(rows), own) + times, ready)

    def _wait(self, decoding: _DecodingRows) -> list[ClipsReport]:
        """Wait for the decoding jobs, and for others in place of those that failed."""
        reports: list[ClipsReport] = []
        failed: list[BatchRow] = []
        jobs = [*decoding.jobs, *decoding.shared]
        # All at once: this thread would wake up for each, and take Python's lock from those that decode the others.
        wait([job.report for job in jobs], return_when=FIRST_EXCEPTION)
        for job in jobs:
            # Raised here, an error that is dealt with would hold this frame, and with it the whole batch.
            if self._on_error == "raise" or not isinstance(job.report.exception(), UNREADABLE):
                reports.append(job.report.result())
            else:
                failed += [row for row in job.rows if row not in failed]
        if failed:
            # What other parts of these clips wrote must not come after what replaces it.
            for event in [event for report in reports for event in report.ready]:
                event.synchronize()
        for row in failed:
            make = partial(self._make_replaced, row, decoding)
            again = self._workers.submit(make, row.clip.video.index, 0).result()
            if again is None:
                row.left_out = True
            else:
                reports.append(again)
        return reports

    def _make_replaced(
        self, row: BatchRow, decoding: _DecodingRows, reader: ClipReader, decode: Decode
    ) -> ClipsReport | None:
        """Decode a clip that could not be made with others by itself, or, where it may be replaced, another one."""
        planned, clip, failed, tried = row.clip, row.clip, 0, 1
        others = decoding.stand_ins(planned)
        while True:
            decoding.stop.check()
            if clip is planned or show_instead(row, clip, self._collate, self._memory):
                try:
                    job = next(decode_jobs([row]))
                    output, stop = self._transforms.decoded, decoding.stop
                    return decode_rows(job, output, self._cache, reader, decode, stop, self._on_corrupt)
                except UNREADABLE as error:
                    decoding.unreadable.append((clip.video.entry.path, str(error)))
                    if self._on_error == "skip":
                        return None
                    failed += 1
            following = next(others, None) if failed < _REPLACEMENTS else None
            if following is None:
                break
            clip, tried = following, tried + 1
        raise DecodeError(
            f"no clip can stand in for clip {planned.number}: {failed} of {tried} tried do not decode, "
            "the others do not fit into the batch",
            planned.video.entry.path,
        )

    def _put_together(self, decoding: _DecodingRows, rows: list[BatchRow], reports: list[ClipsReport]) -> Batch:
        stacked = decoding.stacked
        hand_over(reports, [row.frames for row in rows] if stacked is None else [stacked], self._device)
        if stacked is not None and len(rows) < len(decoding.rows):
            kept = [number for number, row in enumerate(decoding.rows) if not row.left_out]
            stacked = stacked[torch.tensor(kept, device=self._device)]
        frames = transform_rows(self._transforms, stacked, rows, self._layout)
        batch = collate_rows(frames, rows, list if stacked is None else np.stack)
        if self._transforms.mixing is None:
            return batch
        assert isinstance(frames, torch.Tensor), "a list is refused"
        rng = decoding.rng(decoding.rows[0].clip.number)
        frames, labels = self._transforms.mixing.mix(frames, row_labels(rows), self._layout, rng)
        return replace(batch, frames=frames, labels=labels)


def _is_module(operation: Operation) -> bool:
    return isinstance(operation, BatchFunction) and isinstance(operation.function, Module)
