"""Read clips and frames of one video, with as many decoders as pay off."""

from __future__ import annotations

import atexit
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any
from weakref import WeakSet

import numpy as np
import numpy.typing as npt
import torch

from videoloader.convert.spec import OutputSpec, full_geometry
from videoloader.decoding.engine import Decode, choose_engine
from videoloader.decoding.frame_threads import NeedsOneThreadError, suits_threads
from videoloader.errors import ConfigurationError, DecodeError, UnsupportedError, enough_memory
from videoloader.errors.of_handlers import raise_of_handler
from videoloader.indexing import ByteSource, VideoIndex
from videoloader.indexing.configurations import decoded_otherwise
from videoloader.packets.decode_plan import plan_frames, split_at_keyframes
from videoloader.packets.run_start import WrongIndexError
from videoloader.reading.cancellation import CancelToken, ReadCancelled
from videoloader.reading.clip_reader import ClipsReport, reader_of_thread
from videoloader.reading.clip_slots import ClipSlots, whole_clip
from videoloader.reading.corrupt_frames import KeepOrRaise, tell_of_corrupt
from videoloader.reading.decode_job import DecodeJob, split_clips, whole_job
from videoloader.reading.following_slices import FollowingSlices
from videoloader.reading.read_request import ReadRequest
from videoloader.reading.stream import stream_in_threads
from videoloader.reading.workers import Reader, share_of_cores, workers_of_device
from videoloader.runtime.device import allocate, hand_over
from videoloader.runtime.threads import wait_for_all


class VideoReader:
    """Reads one video, and corrects its index by what decoding finds.

    Args:
        source, index: source and index of the video.
        device, decode, on_corrupt: as in ``Video``.
        output: pixel format of untransformed frames.

    Attributes:
        index: index of the video, with all corrections so far.
    """

    def __init__(
        self,
        source: ByteSource,
        index: VideoIndex,
        device: torch.device,
        decode: Decode,
        output: OutputSpec,
        on_corrupt: KeepOrRaise,
    ) -> None:
        self.index = index
        self._opened: ByteSource | None = source
        self._device, self._decode = device, decode
        self._output, self._on_corrupt = output, on_corrupt
        self._under_way: list[CancelToken] = []
        self._following = FollowingSlices()

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the reads under way, which the copy's ``close`` cannot cancel."""
        return {**self.__dict__, "_under_way": []}

    def _source(self) -> ByteSource:
        if self._opened is None:
            raise ConfigurationError("is closed: create a new Video to read from it", self.index.source)
        CancelToken().raise_if_ended()  # no thread can be started while the interpreter exits
        return self._opened

    def close(self) -> None:
        """Release the source. Any read from now on, or under way, raises ConfigurationError."""
        self._opened = None
        self._following.close()
        for token in list(self._under_way):
            token.cancel()

    @contextmanager
    def _reading(self) -> Iterator[CancelToken]:
        """Provide the cancel token of one read, which ``close`` cancels."""
        token = CancelToken()
        self._under_way.append(token)
        try:
            yield token
        except ReadCancelled:
            self._source()  # raises ConfigurationError if the reader was closed, or the program ends
            raise
        finally:
            self._under_way.remove(token)

    def frames(self, numbers: npt.NDArray[np.int64]) -> torch.Tensor:
        """Return untransformed frames, [T, 3, H, W]; raises the errors of ``read``."""
        if self._decodes_in_threads():
            following = self._following.read(self._source(), self.index, numbers, self._output)
            if following is not None:
                return following
        clip = self._new_clip(numbers)
        self.read([clip], self._output)
        return clip.slots

    def _decodes_in_threads(self) -> bool:
        """Whether the threads of one libavcodec decoder may go through the video, without a ``ClipReader``."""
        return self._device.type == "cpu" and choose_engine(self.index, self._device, self._decode) == "cpu"

    def read(self, clips: Sequence[ClipSlots], output: OutputSpec) -> None:
        """Make clips, with several decoders where that pays off.

        Args:
            clips: clips of this video. The caller's CUDA stream waits for their slots.
            output: the pixel values wanted.

        Raises:
            FrameRangeError, DecodeError, SourceError, StaleIndexError, UnsupportedError: as in ``ClipReader.read``.
        """
        rest = clips
        while rest and (jobs := list(split_clips(self.index, rest))):
            with share_of_cores() as cores, self._reading() as token:
                outcomes = self._do_jobs(jobs, output, cores, token)
            self._accept([each for each in outcomes if isinstance(each, ClipsReport)], clips)
            # Some jobs may have made frames without knowing what others found at the same time. Make those frames
            # again.
            made = zip(jobs, outcomes, strict=True)
            again = np.concatenate([job.frames[self._to_be_made_again(job, outcome)] for job, outcome in made])
            rest = [clip.only(np.isin(clip.frame_numbers, again)) for clip in clips] if len(again) else []
        if clips:
            tell_of_corrupt(self.index.source, np.concatenate([clip.damaged for clip in clips]), self._on_corrupt)

    def _do_jobs(
        self, jobs: Sequence[DecodeJob], output: OutputSpec, cores: int, token: CancelToken
    ) -> list[ClipsReport | DecodeError]:
        # Twice as many threads as cores, since jobs differ in length.
        decode_job = partial(self._decode_job, output, threads=min(-(-2 * cores // len(jobs)), cores))
        if len(jobs) == 1:
            # Handing it to another thread would only take time.
            return [decode_job(jobs[0], token, reader_of_thread(self._device, self._decode))]
        workers = workers_of_device(self._device, self._decode)
        futures = [workers.submit(partial(decode_job, job, token), job.index, job.plan.packets) for job in jobs]
        try:
            return [_outcome(future) for future in futures]
        finally:
            token.cancel()
            wait_for_all([future for future in futures if not future.cancel()])

    def _to_be_made_again(self, job: DecodeJob, outcome: ClipsReport | DecodeError) -> npt.NDArray[np.bool_]:
        """Select the frames of a job that would be decoded differently by the current index; all if the job has failed.

        Raises:
            DecodeError: the job failed by the current index.
        """
        packets = self.index.frame_packet[job.frames]
        if isinstance(outcome, ClipsReport):
            return decoded_otherwise(outcome.index, self.index, packets)
        if not decoded_otherwise(job.index, self.index, packets).any():
            raise outcome
        return np.ones(len(packets), np.bool_)

    def _decode_job(
        self, output: OutputSpec, job: DecodeJob, token: CancelToken, reader: Reader, threads: int = 1
    ) -> ClipsReport:
        request = ReadRequest(self._source(), job.index, job.parts, output, job.plan, threads=threads)
        return reader.read(request, token)

    def _accept(self, reports: Sequence[ClipsReport], clips: Sequence[ClipSlots]) -> None:
        """Make the caller's CUDA stream wait for clips, and take over the corrections of the index."""
        ready = [event for report in reports for event in report.ready]
        hand_over(self._device, ready, [clip.slots for clip in clips])
        for report in reports:
            self.index = report.corrected(self.index)

    def stream(self, numbers: npt.NDArray[np.int64], most: int) -> Iterator[torch.Tensor]:
        """Yield frames in order, each uint8[3, H, W]; see ``Video.stream``.

        Args:
            numbers: numbers of the frames, rising or falling.
            most: maximum number of frames that may be ready or in the making.
        """
        frames = self._stream_in_memory(numbers, most)
        _streams.add(frames)
        return frames

    def _stream_in_memory(self, numbers: npt.NDArray[np.int64], most: int) -> Generator[torch.Tensor]:
        with enough_memory(source=self.index.source):
            yield from self._stream(numbers, most)

    def _stream(self, numbers: npt.NDArray[np.int64], most: int) -> Iterator[torch.Tensor]:
        # So that no frame is yielded before those that it may refer to have come out undamaged.
        least = self.index.stream.reorder_depth + 2
        in_order = least <= most and len(numbers) > 1 and numbers[0] < numbers[-1] and self._decodes_in_threads()
        if in_order and suits_threads(self.index, *(runs := plan_frames(self.index, numbers).runs)):
            given = 0
            try:
                with share_of_cores() as threads, self._reading() as token:
                    ahead = min(max(2 * threads, least), most)
                    for frame in stream_in_threads(
                        self._source(), self.index, numbers, runs, self._output, threads, ahead, token
                    ):
                        yield frame
                        given += 1
                        self._source()
                return
            except WrongIndexError as found:
                self.index, numbers = found.index, numbers[given:]
            except (NeedsOneThreadError, UnsupportedError, DecodeError) as error:
                raise_of_handler(error)
                numbers = numbers[given:]
        with self._reading() as token:
            yield from self._stream_in_parts(numbers, most, token)

    def _stream_in_parts(self, numbers: npt.NDArray[np.int64], most: int, token: CancelToken) -> Iterator[torch.Tensor]:
        """Yield frames in order, each part of them decoded separately, from its keyframe on."""
        parts = _consecutive(split_at_keyframes(self.index, numbers), most // 2)
        if len(numbers) and numbers[0] > numbers[-1]:
            parts.reverse()
        # Parts being decoded, with their futures; then frames that are decoded but not yet yielded.
        making: deque[tuple[DecodeJob, Future[ClipsReport]]] = deque()
        made: dict[int, torch.Tensor] = {}
        damaged: set[int] = set()
        workers = workers_of_device(self._device, self._decode)

        def begin(part: npt.NDArray[np.int64]) -> tuple[DecodeJob, Future[ClipsReport]]:
            job = whole_job(self.index, self._new_clip(part))
            decode_job = partial(self._decode_job, self._output, job, token)
            return job, workers.submit(decode_job, job.index, job.plan.packets)

        try:
            for number in numbers.tolist():
                token.raise_if_forked()
                while number not in made:
                    held = len(made) + sum(len(job.frames) for job, _ in making)
                    while parts and (not making or held + len(parts[0]) <= most):
                        held += len(parts[0])
                        making.append(begin(parts.popleft()))
                    job, decoding = making.popleft()
                    outcome, (clip,) = _outcome(decoding), job.parts
                    if isinstance(outcome, ClipsReport):
                        self._accept([outcome], [clip])
                    part = clip.frame_numbers
                    try:
                        if self._to_be_made_again(job, outcome).any():
                            making.appendleft(begin(part))
                            continue
                    except DecodeError as error:
                        raise_of_handler(error)
                        in_order = part if number == part[0] else part[::-1]
                        fails = self.index.frame_packet[in_order] == error.packet
                        if fails[0] or len(part) == 1:
                            raise
                        # Frames before the one that cannot be decoded come out.
                        both = np.split(in_order, [int(fails.argmax()) or len(part) // 2])
                        making.extendleft([begin(np.sort(each)) for each in both][::-1])
                        continue
                    damaged.update(clip.damaged.tolist())
                    made.update(zip(part.tolist(), clip.slots.unbind(0), strict=True))
                if number in damaged:
                    tell_of_corrupt(self.index.source, np.array(sorted(damaged)), self._on_corrupt)
                yield made.pop(number)
                self._source()
        finally:
            token.cancel()
            if not token.threads_gone:
                wait_for_all([decoding for _, decoding in making if not decoding.cancel()])
            token.leave_to_parent(locals())

    def _new_clip(self, numbers: npt.NDArray[np.int64]) -> ClipSlots:
        """Make a clip of untransformed frames, and memory for it."""
        geometry = full_geometry(self.index.stream)
        with enough_memory(source=self.index.source):
            slots = allocate((len(numbers), 3, *geometry.size), torch.uint8, self._device)
        return whole_clip(numbers, geometry, slots)


def _outcome(decoding: Future[ClipsReport]) -> ClipsReport | DecodeError:
    """Return the outcome of a job. A DecodeError may come from an index that is not corrected yet."""
    try:
        return decoding.result()
    except DecodeError as error:
        raise_of_handler(error)
        return error


def _consecutive(parts: list[npt.NDArray[np.int64]], most: int) -> deque[npt.NDArray[np.int64]]:
    """Sort each part, and split those with more frames than ``most``."""
    return deque(some for part in parts for some in np.array_split(np.sort(part), -(-len(part) // most)))


# At exit, modules lose their names before variables of the program do, and with them the streams that are not finished.
_streams: WeakSet[Generator[torch.Tensor]] = WeakSet()


@atexit.register
def _close_streams() -> None:
    for stream in list(_streams):
        with suppress(ValueError):  # a daemon thread is in it
            stream.close()
