"""What batches have cost, and where the time went."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

from videoloader.reading.clip_reader import ClipsReport


@dataclass(frozen=True)
class LoaderStats:
    """What the batches given out so far have cost.

    Times are in seconds. Those of threads add up over the threads, so that they may exceed ``seconds``. On a CUDA
    device threads only put work on its streams; NVDEC's include waiting for pictures.

    Attributes:
        clips: clips made.
        frames: different frames in them.
        packets: packets decoded for them; ``packets / frames`` is the decode cost of a frame.
        seconds: that loops over the loader took until they had their last batch, with what was done in them.
        waiting: of these, for batches that were not ready. Near 0: the loader is faster than what uses it.
        planning: choosing frames, drawing transforms, handing out jobs; one thread.
        nvdec: jobs that NVDEC or the GPU's JPEG engines decoded, reading and conversion included.
        cpu: jobs that the CPU decoded, likewise.
        transforming: transforms after decoding, and putting batches together; one thread.
        corrupt: different frames that are damaged, or refer to damage; see ``Batch.corrupt``.

    Example:
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

    def __add__(self, more: LoaderStats) -> LoaderStats:
        """Both accounts in one."""
        return LoaderStats(*(getattr(self, each.name) + getattr(more, each.name) for each in fields(self)))

    def __sub__(self, before: LoaderStats) -> LoaderStats:
        """What has come since an earlier account."""
        return LoaderStats(*(getattr(self, each.name) - getattr(before, each.name) for each in fields(self)))

    def __str__(self) -> str:
        rate = self.clips / self.seconds if self.seconds else 0.0
        cost = self.packets / self.frames if self.frames else 0.0
        damaged = f" ({self.corrupt} corrupt)" if self.corrupt else ""
        waited = self.waiting / self.seconds if self.seconds else 0.0
        return (
            f"{self.clips} clips, {self.frames} frames{damaged} in {self.seconds:.2f} s: {rate:.1f} clips/s, "
            f"{cost:.1f} packets a frame, {waited:.0%} of the time waited for\n"
            f"thread seconds: planning {self.planning:.1f}, NVDEC {self.nvdec:.1f}, CPU {self.cpu:.1f}, "
            f"transforming {self.transforming:.1f}"
        )


def decoding_stats(clips: int, reports: Sequence[ClipsReport]) -> LoaderStats:
    """The account of decoding some clips."""
    return LoaderStats(
        clips,
        sum(report.frames for report in reports),
        sum(report.packets for report in reports),
        nvdec=sum(report.seconds for report in reports if report.by_gpu),
        cpu=sum(report.seconds for report in reports if not report.by_gpu),
        corrupt=sum(report.corrupt_frames for report in reports),
    )
