"""Read slices of a video that follow one another with one decoder, which goes on where the last slice ended.

Otherwise each slice is decoded from its keyframe on: with GOPs of 250 frames, ``video[i]`` for each frame in turn would
decode each packet 125 times.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from weakref import ref

import numpy as np
import numpy.typing as npt
import torch

from videoloader.convert.spec import OutputSpec
from videoloader.decoding.frame_threads import UnsureError, suits_threads
from videoloader.device import allocate
from videoloader.errors import VideoLoaderError, enough_memory
from videoloader.indexing import ByteSource, VideoIndex
from videoloader.indexing.sources.state import check_unchanged
from videoloader.packets.decode_plan import plan_frames
from videoloader.packets.run_start import WrongIndexError
from videoloader.reading.cancellation import CancelToken, ReadCancelled
from videoloader.reading.stream import stream_in_threads
from videoloader.reading.workers import share_of_cores

# The most decoders that wait for a next slice in a process, since each has threads of its own.
_MOST_WAITING = 8


@dataclass(eq=False)
class _Memory:
    """The memory of frames in order: that of a slice as far as it reaches, then memory of their own.

    Attributes:
        size: size of a frame, [3, H, W].
        dtype: type of its values.
        given: number of the next frame that needs memory.
        slots: memory of the next frames, where a slice has asked for them.
    """

    size: tuple[int, ...]
    dtype: torch.dtype
    given: int
    slots: deque[torch.Tensor] = field(default_factory=deque)

    def __call__(self) -> torch.Tensor:
        self.given += 1
        return self.slots.popleft() if self.slots else torch.empty(self.size, dtype=self.dtype)


@dataclass(eq=False)
class _Going:
    """A decoder that goes on.

    Attributes:
        index: index by which it decodes.
        position: number of the next frame.
        frames: the frames from there on.
        memory: their memory.
    """

    index: VideoIndex
    position: int
    frames: Iterator[torch.Tensor]
    memory: _Memory

    def read(self, count: int) -> torch.Tensor | None:
        """The next frames, [T, 3, H, W]; None if there are not as many."""
        made = allocate((count, *self.memory.size), self.memory.dtype, torch.device("cpu"))
        slots = made.unbind(0)
        own = max(self.memory.given - self.position, 0)  # so many frames came out before this slice was asked for
        self.memory.slots.extend(slots[own:])
        for number, slot in enumerate(slots):
            frame = next(self.frames, None)
            if frame is None:
                return None
            if number < own:
                slot.copy_(frame)
        self.position += count
        return made


class FollowingSlices:
    """The slices of one video, untransformed and on the CPU.

    Any thread may ask for them: the decoder is taken out while it is in use, and another thread's slice is read in
    another way.
    """

    def __init__(self) -> None:
        self._token = CancelToken()
        self._end = -1  # of the last slice
        self._kept: list[_Going] = []

    def close(self) -> None:
        """Drop the decoder. No slice is read any more."""
        self._token.cancel()
        self._kept.clear()

    def read(
        self, source: ByteSource, index: VideoIndex, frames: npt.NDArray[np.int64], output: OutputSpec
    ) -> torch.Tensor | None:
        """Return the frames, [T, 3, H, W]; None if they do not follow the last slice, or one thread must decode them.

        An error counts as None, too: a read from the keyframe on tells what is wrong, and may correct the index.

        Args:
            source: source of the video.
            index: index of the video.
            frames: frame numbers.
            output: the pixel values wanted.
        """
        first, stop = (int(frames[0]), int(frames[-1]) + 1) if len(frames) else (0, 0)
        follows, self._end = first == self._end, -1
        going = None
        with suppress(IndexError):  # another thread may take it out
            going = self._kept.pop()
        if len(frames) != stop - first or first >= stop or (np.diff(frames) != 1).any():
            return None
        self._end = stop
        if not follows:
            return None
        try:
            with enough_memory(source=index.source):
                if going is None or going.index is not index or going.position != first:
                    going = self._begin(source, index, first, output)
                made = None if going is None else going.read(len(frames))
            check_unchanged(source)
        except (UnsureError, WrongIndexError, VideoLoaderError, ReadCancelled):
            return None
        if made is not None and going is not None:
            self._kept[:] = [going]
        return made

    def _begin(self, source: ByteSource, index: VideoIndex, first: int, output: OutputSpec) -> _Going | None:
        """Begin at a frame; None if a read would not have to begin earlier, or one thread must decode the frames."""
        rest = np.arange(first, len(index))
        packets = index.frame_packet[rest]
        repeats = len(np.unique(packets)) < len(packets)
        if repeats or int(index.start_packet(first)) == int(packets[0]):
            return None
        if not suits_threads(index, *(runs := plan_frames(index, rest).runs)):
            return None
        memory = _Memory((3, *index.stream.display_size), output.dtype, first)
        with share_of_cores() as threads:
            # No frame is given out before those that it may refer to have come out undamaged.
            ahead = index.stream.reorder_depth + 2 + threads
            frames = stream_in_threads(source, index, rest, runs, output, threads, ahead, self._token, memory)
        _begun.append(ref(self))
        while len(_begun) > _MOST_WAITING:
            if oldest := _begun.popleft()():
                oldest._kept.clear()
        return _Going(index, first, frames, memory)


_begun: deque[ref[FollowingSlices]] = deque()
