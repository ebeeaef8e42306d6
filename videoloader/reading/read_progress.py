"""How far a read has come, and what it has learned of the video's index on the way."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from videoloader.indexing import VideoIndex
from videoloader.indexing.configurations import decoded_otherwise
from videoloader.packets.decode_plan import DecodePlan, Run, plan_frames
from videoloader.packets.run_start import Correction, IndexCorrection
from videoloader.reading.clip_sink import ClipSink


class ReadProgress:
    """How far the frames of one read have come.

    Args:
        index: the video's index.
        frames: int64[N], the frame numbers wanted.
        plan: the decode plan of these frames by this index; None where it is not made yet.
        sink: takes their pictures.

    Attributes:
        index: as it is known now.
        plan: the decode plan of what is left, by this index; None where it is not made yet.
        sink: takes the pictures.
        packets: number of packets decoded.
        corrections: what was learned of the index, in this order.
    """

    def __init__(
        self, index: VideoIndex, frames: npt.NDArray[np.int64], plan: DecodePlan | None, sink: ClipSink
    ) -> None:
        self.index, self.plan, self.sink = index, plan, sink
        self.packets = 0
        self.corrections: list[Correction] = []
        self._frames = frames
        self._settled = np.zeros(0, np.int64)  # the packets wanted from runs that have ended

    def runs(self) -> tuple[Run, ...]:
        """What is left to decode."""
        if self.plan is None:
            has_come = np.isin(self.index.frame_packet[self._frames], self._settled)
            self.plan = plan_frames(self.index, self._frames[~has_come])
        return self.plan.runs

    def settle(self, packets: npt.NDArray[np.int64]) -> None:
        """Take the pictures of some packets as they have come."""
        self._settled = np.concatenate([self._settled, packets])

    def correct(self, found: IndexCorrection) -> None:
        """Go on by a better index; what it would decode otherwise comes again."""
        again = decoded_otherwise(self.index, found.index)[self._settled]
        self.sink.forget(self._settled[again].tolist())
        self.index, self.plan, self._settled = found.index, None, self._settled[~again]
        self.corrections.append(found.correct)

    def start_again(self) -> None:
        """Have everything come again."""
        if len(self._settled):
            self.plan = None
        self._settled = self._settled[:0]
        self.sink.start_again()
