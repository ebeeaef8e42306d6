"""``LoaderStats``: the cost of batches, and where the time went."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from videoloader.errors import counted
from videoloader.errors.attribute_names import tells_of_attributes
from videoloader.indexing.sources.remote_reads import Counts
from videoloader.reading.clip_reader import ClipsReport


@tells_of_attributes("stats")
@dataclass(frozen=True)
class LoaderStats(Counts):
    """The cost of the batches yielded so far.

    Times are in seconds. Thread times are summed over all threads, so they may exceed ``seconds``. On a CUDA device
    threads only queue work on streams; the times of NVDEC include waiting for frames.

    Attributes:
        clips: int. The clips that were made.
        frames: int. The distinct frames in them.
        packets: int. The packets decoded for them; ``packets / frames`` is the decode cost of a frame.
        seconds: float. The time from the start of loops over the loader to their last batch, including the work inside
            the loops.
        waiting: float. The part of ``seconds`` spent waiting for batches. Near 0, the loader is faster than its
            consumer.
        planning: float. The time for choosing frames, drawing transforms and submitting jobs, in one thread.
        nvdec: float. The time of jobs that NVDEC or the GPU's JPEG engines decoded, reading and conversion included.
        cpu: float. The time of jobs that the CPU decoded, likewise.
        transforming: float. The time for transforms after decoding and for collating, in one thread.
        corrupt: int. The distinct frames that are damaged, or refer to damaged ones; see ``Batch.corrupt``.
        shown: int. The frames of the clips, including repeats and padding.
        made_up: int. The frames that padding made up; see ``Batch.mask``.
        skipped: int. The clips that were left out because of ``on_error`` or ``on_corrupt``; see ``unreadable`` of the
            loader.
        replaced: int. The clips that were replaced by others for the same reasons.
        requests: int. The requested ranges of remote files, not counting retries.
        fetched: int. The bytes received for them.
        fetching: float. The time that threads waited for these bytes, which is part of ``nvdec`` and ``cpu``.

    Examples:
        >>> print(loader.stats())
        640 clips, 10240 frames in 8.61 s: 74.3 clips/s, 6.2 packets a frame, 1% of the time waited for
        thread seconds: planning 0.1, NVDEC 118.9, CPU 0.0, transforming 0.1
    """

    clips: int = 0
    frames: int = 0
    packets: int = 0
    seconds: float = 0.0
    waiting: float = 0.0
    planning: float = 0.0
    nvdec: float = 0.0
    cpu: float = 0.0
    transforming: float = 0.0
    corrupt: int = 0
    shown: int = 0
    made_up: int = 0
    skipped: int = 0
    replaced: int = 0
    requests: int = 0
    fetched: int = 0
    fetching: float = 0.0

    @property
    def made_up_share(self) -> float:
        """The fraction of the frames shown that padding made up."""
        return self.made_up / self.shown if self.shown else 0.0

    def __str__(self) -> str:
        rate = self.clips / self.seconds if self.seconds else 0.0
        cost = self.packets / self.frames if self.frames else 0.0
        special = [f"{self.corrupt} corrupt"] if self.corrupt else []
        special += [f"{self.made_up_share:.1%} of the frames shown are padding"] if self.made_up else []
        frames = counted(self.frames, "frame") + (f" ({', '.join(special)})" if special else "")
        lost = [f"{count} {what}" for count, what in [(self.skipped, "skipped"), (self.replaced, "replaced")] if count]
        clips = counted(self.clips, "clip") + (f" ({', '.join(lost)})" if lost else "")
        waited = self.waiting / self.seconds if self.seconds else 0.0
        return (
            f"{clips}, {frames} in {self.seconds:.2f} s: {rate:.1f} clips/s, "
            f"{cost:.1f} packets a frame, {waited:.0%} of the time waited for\n"
            f"thread seconds: planning {self.planning:.1f}, NVDEC {self.nvdec:.1f}, CPU {self.cpu:.1f}, "
            f"transforming {self.transforming:.1f}" + self._remote_reads()
        )

    def _remote_reads(self) -> str:
        if not self.requests:
            return ""
        made = max(self.clips, 1)
        what = f"{self.requests / made:.1f} requests, {self.fetched / made / 1e3:.0f} KB"
        return f"\nremote: {what} and {self.fetching / made:.3f} thread seconds a clip"


def clip_stats(masks: Sequence[npt.NDArray[np.bool_]], reports: Sequence[ClipsReport]) -> LoaderStats:
    """The statistics of some clips and their decoding.

    Args:
        masks: masks of the clips; see ``Batch.mask``.
        reports: reports of the jobs that decoded the clips.
    """
    shown = sum(map(len, masks))
    return LoaderStats(
        len(masks),
        sum(report.frames for report in reports),
        sum(report.packets for report in reports),
        nvdec=sum(report.seconds for report in reports if report.engine != "cpu"),
        cpu=sum(report.seconds for report in reports if report.engine == "cpu"),
        corrupt=sum(report.corrupt_frames for report in reports),
        shown=shown,
        made_up=shown - int(np.count_nonzero(np.concatenate(masks))) if masks else 0,
        requests=sum(report.remote.requests for report in reports),
        fetched=sum(report.remote.size for report in reports),
        fetching=sum(report.remote.seconds for report in reports),
    )
