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
from videoloader.decoding.frame_threads import NeedsOneThreadError, suits_threads
from videoloader.errors import VideoLoaderError, enough_memory
from videoloader.errors.of_handlers import raise_of_handler
from videoloader.indexing import ByteSource, VideoIndex
from videoloader.indexing.sources.state import check_unchanged
from videoloader.packets.decode_plan import plan_frames
from videoloader.packets.run_start import WrongIndexError
from videoloader.reading.cancellation import CancelToken, ReadCancelled
from videoloader.reading.stream import stream_in_threads
from videoloader.reading.workers import share_of_cores
from videoloader.runtime.device import allocate

# The most decoders that wait for a next slice in a process, since each has threads of its own.
_MOST_WAITING = 8
# A decoder is planned for at least so many frames, up to a keyframe, but at most for so many.
_STRETCH, _LONGEST_STRETCH = 512, 20_000


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
        return self.slots.popleft() if self.slots else torch.empty(self.size, dtype=self.dtype, device="cpu")


@dataclass(eq=False)
class _Going:
    """A decoder that goes on.

    Attributes:
        index: index by which it decodes.
        position, stop: numbers of the next frame, and of the one after its last.
        frames: the frames from there on.
        memory: their memory.
        threads: PyTorch's number of threads when it began.
    """

    index: VideoIndex
    position: int
    stop: int
    frames: Iterator[torch.Tensor]
    memory: _Memory
    threads: int

    def read(self, slots: tuple[torch.Tensor, ...]) -> None:
        """Write the next frames into slots."""
        own = max(self.memory.given - self.position, 0)  # so many frames came out before this slice was asked for
        self.memory.slots.extend(slots[own:])
        for number, slot in enumerate(slots):
            frame = next(self.frames)
            if number < own:
                # PyTorch would let several threads copy, which wait for each other on busy cores.
                np.copyto(slot.numpy(), frame.numpy())
        self.position += len(slots)


class FollowingSlices:
    """The slices of one video, untransformed and on the CPU.

    Any thread may ask for them: the decoder is taken out while it is in use, and another thread's slice is read in
    another way. Copies, and forked processes, begin with nothing.
    """

    def __init__(self) -> None:
        self._token = CancelToken()
        self._end = -1  # of the last slice
        self._one_thread_before = 0  # the frame before which one thread must decode
        self._kept: list[_Going] = []

    def __reduce__(self) -> tuple[type[FollowingSlices], tuple[()]]:
        return FollowingSlices, ()

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
        if self._token.threads_gone:
            self._token, self._kept = CancelToken(), []
        first, stop = (int(frames[0]), int(frames[-1]) + 1) if len(frames) else (0, 0)
        follows, self._end = first == self._end, -1
        going = None
        with suppress(IndexError):  # another thread may take it out
            going = self._kept.pop()
        if len(frames) != stop - first or first >= stop or (np.diff(frames) != 1).any():
            return None
        self._end = stop
        if not follows or first < self._one_thread_before:
            return None
        try:
            with enough_memory(source=index.source), share_of_cores() as threads:
                made = self._read_on(source, index, range(first, stop), output, going, threads)
            check_unchanged(source, index.state)
        except (WrongIndexError, VideoLoaderError, ReadCancelled) as error:
            raise_of_handler(error)
            return None
        if self._token.cancelled:
            self._kept.clear()
            return None
        return made

    def _read_on(
        self,
        source: ByteSource,
        index: VideoIndex,
        frames: range,
        output: OutputSpec,
        going: _Going | None,
        threads: int,
    ) -> torch.Tensor | None:
        wanted = (frames.start, index, torch.get_num_threads())
        if going is not None and (going.position, going.index, going.threads) != wanted:
            going = None
        if going is None and int(index.start_packet(frames.start)) == int(index.frame_packet[frames.start]):
            return None  # a read would begin there, too
        # If this fails, pictures that are still being converted go here, and not into the memory of the next read.
        made = allocate((len(frames), 3, *index.stream.display_size), output.dtype, torch.device("cpu"))
        at = frames.start
        while at < frames.stop:
            going = going or self._begin(source, index, at, output, threads)
            if going is None:
                return None
            stop = min(frames.stop, going.stop)
            try:
                going.read(made[at - frames.start : stop - frames.start].unbind(0))
            except (NeedsOneThreadError, StopIteration):
                self._one_thread_before = going.stop
                return None
            if stop == going.stop:
                going = None
            at = stop
        if going is not None:
            self._keep(going)
        return made

    def _begin(
        self, source: ByteSource, index: VideoIndex, first: int, output: OutputSpec, threads: int
    ) -> _Going | None:
        """Begin at a frame; None if one thread must decode the frames."""
        # A stretch ends at a keyframe if there is one, where the next begins without decoding anything twice.
        ends = np.arange(min(first + _STRETCH, len(index) - 1), min(first + _LONGEST_STRETCH, len(index)))
        is_key = index.start_packet(ends) == index.frame_packet[ends]
        stop = int(ends[np.argmax(is_key)]) if is_key.any() else int(ends[-1]) + 1
        rest = np.arange(first, max(stop, first + 1))
        packets = index.frame_packet[rest]
        runs = plan_frames(index, rest).runs
        if len(np.unique(packets)) < len(packets) or not suits_threads(index, *runs):
            self._one_thread_before = int(rest[-1]) + 1
            return None
        memory = _Memory((3, *index.stream.display_size), output.dtype, first)
        # No frame is given out before those that it may refer to have come out undamaged.
        ahead = index.stream.reorder_depth + 2 + threads
        frames = stream_in_threads(source, index, rest, runs, output, threads, ahead, self._token, memory)
        return _Going(index, first, int(rest[-1]) + 1, frames, memory, torch.get_num_threads())

    def _keep(self, going: _Going) -> None:
        self._kept[:] = [going]
        _waiting.pop(id(self), None)
        _waiting[id(self)] = ref(self)
        while len(_waiting) > _MOST_WAITING:
            with suppress(RuntimeError, KeyError):  # another thread may change it
                oldest = _waiting.pop(next(iter(_waiting)))()
                if oldest is not None:
                    oldest._kept.clear()


# Those whose decoder waits, or waited last, by their id; the oldest first.
_waiting: dict[int, ref[FollowingSlices]] = {}
