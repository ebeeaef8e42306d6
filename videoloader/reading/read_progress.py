"""Keep track of one read: what is left to decode, and corrections of the index found on the way."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from videoloader.decoding.gop_cache import GopCache
from videoloader.indexing import ByteSource, VideoIndex
from videoloader.indexing.configurations import decoded_otherwise
from videoloader.packets.decode_plan import DecodePlan, Run, plan_frames
from videoloader.packets.run_start import Correction, WrongIndexError
from videoloader.reading.cancellation import CancelToken
from videoloader.reading.clip_sink import ClipSink


@dataclass(eq=False)
class ReadProgress:
    """State of one read.

    Attributes:
        source: the video's source.
        index: the video's index, with all corrections so far.
        frames: int64[N], the frame numbers wanted.
        plan: decode plan of what is left, by this index; None if it is not made yet.
        sink: takes the pictures.
        token: cancels the read.
        threads: maximum number of threads that decode and convert on the CPU.
        cache: cache of decoded frames on the GPU; None to keep none.
        decoded: number of packets decoded.
        corrections: corrections of the index, in the order they were found.
        settled: wanted packets of runs that have been decoded.
    """

    source: ByteSource
    index: VideoIndex
    frames: npt.NDArray[np.int64]
    plan: DecodePlan | None
    sink: ClipSink
    token: CancelToken
    threads: int
    cache: GopCache | None
    decoded: int = 0
    corrections: list[Correction] = field(default_factory=list)
    settled: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))

    def runs(self) -> tuple[Run, ...]:
        """Return the runs that are left to decode."""
        if self.plan is None:
            has_come = np.isin(self.index.frame_packet[self.frames], self.settled)
            self.plan = plan_frames(self.index, self.frames[~has_come])
        return self.plan.runs

    def settle(self, packets: npt.NDArray[np.int64]) -> None:
        """Record that the pictures of some packets have arrived."""
        self.settled = np.concatenate([self.settled, packets])

    def correct(self, found: WrongIndexError) -> None:
        """Continue with a better index. Pictures that it decodes differently are expected again."""
        again = decoded_otherwise(self.index, found.index, self.settled)
        self.sink.forget(self.settled[again].tolist())
        self.index, self.plan, self.settled = found.index, None, self.settled[~again]
        self.corrections.append(found.correct)

    def start_again(self) -> None:
        """Expect all pictures again."""
        if len(self.settled):
            self.plan = None
        self.settled = self.settled[:0]
        self.sink.start_again()
