"""The stages of a batch: planned, being decoded, in the making, and made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple
from weakref import WeakSet

import numpy as np
import torch

from videoloader.batching.batch import TENSORS, Batch
from videoloader.batching.clip_plan import PlannedClip
from videoloader.batching.row_decoding import SubmittedJob
from videoloader.batching.rows import BatchRow, Collate
from videoloader.batching.stats import LoaderStats
from videoloader.batching.unopened import ImageRows, UnopenedClips
from videoloader.reading.cancellation import CancelToken
from videoloader.reading.clip_reader import ClipsReport
from videoloader.runtime.device import hand_over
from videoloader.runtime.threads import wait_for_all


@dataclass(frozen=True, eq=False)
class MadeBatch:
    """A finished batch and its statistics.

    Attributes:
        batch: the batch; None where none of its clips could be made.
        stats: the cost of making it.
        ready: the CUDA event after which its tensors are complete; None on the CPU.
    """

    batch: Batch | None
    stats: LoaderStats
    ready: torch.cuda.Event | None

    def hand_over(self) -> Batch | None:
        """The batch, ready for use on the current CUDA stream."""
        if self.batch is not None and self.ready is not None:
            fields = (getattr(self.batch, name) for name in TENSORS)
            tensors = chain.from_iterable(each if isinstance(each, list) else [each] for each in fields)
            hand_over(self.batch.labels.device, [self.ready], tensors)
        return self.batch


class BatchInMaking(NamedTuple):
    """A batch in the making, which can be waited for or given up.

    Attributes:
        planned: future of the decoding jobs of this batch and of those planned with it. It never raises. The set keeps
            no job alive, since the consumer would have to free the reports and CUDA events of a whole batch at once.
        made: future of a function that returns the batch, to be called in the consumer's thread; see ``result``.
        unreadable: clips of the batch that could not be made, and the errors; complete when ``made`` is done.
    """

    planned: Future[WeakSet[Future[ClipsReport]]]
    made: Future[Callable[[], MadeBatch]]
    unreadable: list[tuple[PlannedClip, str]]

    def is_made(self) -> bool:
        """Whether the batch is finished."""
        return self.made.done()

    def result(self) -> MadeBatch:
        """Wait for the batch. Modules among its transforms run now, in this thread."""
        return self.made.result()()

    def drop(self) -> None:
        """Cancel the jobs of this batch, and of those planned with it, that have not begun, and wait for the others."""
        wait_for_all([job for job in self.planned.result() if not job.cancel()])
        wait_for_all([self.made])


@dataclass(frozen=True, eq=False)
class BatchRequest:
    """The contents of one batch.

    Attributes:
        clips: returns the clips, one for each row or as columns. It is called in the planning thread.
        collate: the way to collate them; see ``COLLATE``.
        stand_ins: returns the clips to try in place of one that cannot be made; by default none.
        rng: returns the generator for mixing from the number of the batch's first clip; None for batches that are not
            mixed.
    """

    clips: Callable[[], Sequence[PlannedClip] | UnopenedClips]
    collate: Collate
    stand_ins: Callable[[PlannedClip], Iterator[PlannedClip]] = lambda clip: iter(())
    rng: Callable[[int], np.random.Generator] | None = None


@dataclass(eq=False)
class DecodingBatch:
    """A batch whose clips are being decoded.

    Attributes:
        request: the contents of the batch.
        stacked: memory of all its rows; None for a list.
        rows: the rows; empty while the clips are unopened files.
        unreadable: see ``BatchInMaking``.
        token: the token that cancels it.
        columns: the rows as columns; None where they are objects.
        by_job: ``columns``, divided by job. It is emptied when the jobs are done and one row had to become an object,
            since then all rows do.
        jobs: jobs that decode for it.
        shared: jobs that also decode for an earlier batch, which counts them in its statistics.
        seconds: seconds that planning took.
        replaced: number of rows that show another clip than the one planned.
    """

    request: BatchRequest
    stacked: torch.Tensor | None
    rows: list[BatchRow]
    unreadable: list[tuple[PlannedClip, str]]
    token: CancelToken
    columns: ImageRows | None = None
    by_job: list[ImageRows] = field(default_factory=list)
    jobs: list[SubmittedJob] = field(default_factory=list)
    shared: list[SubmittedJob] = field(default_factory=list)
    seconds: float = 0.0
    replaced: int = 0
