"""Clips and frames of one video, by as many decoders as pays."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager
from functools import partial

import numpy as np
import numpy.typing as npt
import torch

from videoloader.convert import OutputSpec, full_geometry
from videoloader.decoding import Decode, UnsureError, suits_threads
from videoloader.device import allocate, hand_over
from videoloader.errors import ConfigurationError, DecodeError, UnsupportedError, enough_memory
from videoloader.indexing import ByteSource, VideoIndex
from videoloader.indexing.configurations import decoded_otherwise
from videoloader.packets.decode_plan import plan_frames, split_at_keyframes
from videoloader.packets.run_start import WrongIndexError
from videoloader.reading.cancellation import CancelToken, ReadCancelled
from videoloader.reading.clip_reader import ClipsReport, reader_of_thread
from videoloader.reading.corrupt_frames import KeepOrRaise, tell_of_corrupt
from videoloader.reading.decode_job import ClipSlots, DecodeJob, split_clips, whole_clip, whole_job
from videoloader.reading.stream import stream_in_threads
from videoloader.reading.workers import Reader, share_of_cores, workers_of_device


class VideoReader:
    """Reads one video, and corrects its index by what decoding shows.

    Args:
        source, index: source and index of the video.
        device, decode, on_corrupt: as in ``Video``.
        output: format of the frames that are given out as they are.

    Attributes:
        index: the index, as far as it is known.
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

    def _source(self) -> ByteSource:
        if self._opened is None:
            raise ConfigurationError("is closed: make a new Video to read more of it", self.index.source)
        return self._opened

    def close(self) -> None:
        """Let go of the source; reading is a ConfigurationError from now on, also where it is under way."""
        self._opened = None
        for token in list(self._under_way):
            token.cancel()

    @contextmanager
    def _reading(self) -> Iterator[CancelToken]:
        """The token of one read, which ``close`` cancels."""
        token = CancelToken()
        self._under_way.append(token)
        try:
            yield token
        except ReadCancelled:
            self._source()  # an error of ours where it was closed
            raise
        finally:
            self._under_way.remove(token)

    def frames(self, numbers: npt.NDArray[np.int64]) -> torch.Tensor:
        """Frames as they are, [T, 3, H, W]; errors as of ``read``."""
        clip = self._new_clip(numbers)
        self.read([clip], self._output)
        return clip.slots

    def read(self, clips: Sequence[ClipSlots], output: OutputSpec) -> None:
        """Make clips; several decoders take part where that pays.

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
            # Frames that some jobs made without what others have found at the same time are made again.
            made = zip(jobs, outcomes, strict=True)
            again = np.concatenate([job.frames[self._to_be_made_again(job, outcome)] for job, outcome in made])
            rest = [clip.only(np.isin(clip.frame_numbers, again)) for clip in clips] if len(again) else []
        if clips:
            tell_of_corrupt(self.index.source, np.concatenate([clip.damaged for clip in clips]), self._on_corrupt)

    def _do_jobs(
        self, jobs: Sequence[DecodeJob], output: OutputSpec, cores: int, token: CancelToken
    ) -> list[ClipsReport | DecodeError]:
        # Twice as many as cores, since jobs are not of one length.
        decode = partial(self._decode_job, output, threads=min(-(-2 * cores // len(jobs)), cores))
        if len(jobs) == 1:
            # Handing it to another thread would only take time.
            return [decode(jobs[0], token, reader_of_thread(self._device), self._decode)]
        workers = workers_of_device(self._device, self._decode)
        futures = [workers.submit(partial(decode, job, token), job.index, job.plan.packets) for job in jobs]
        try:
            return [_outcome(future) for future in futures]
        finally:
            token.cancel()
            wait([future for future in futures if not future.cancel()])

    def _to_be_made_again(self, job: DecodeJob, outcome: ClipsReport | DecodeError) -> npt.NDArray[np.bool_]:
        """The frames of a job that would come otherwise, now that more is known of the index; all if it has failed.

        Raises:
            DecodeError: it has failed by what is known now.
        """
        index = outcome.index if isinstance(outcome, ClipsReport) else job.index
        outdated = np.zeros(len(job.frames), np.bool_)
        if index is not self.index:
            outdated = decoded_otherwise(index, self.index)[self.index.frame_packet[job.frames]]
        if isinstance(outcome, ClipsReport):
            return outdated
        if not outdated.any():
            raise outcome
        return np.ones_like(outdated)

    def _decode_job(
        self,
        output: OutputSpec,
        job: DecodeJob,
        token: CancelToken,
        reader: Reader,
        decode: Decode,
        threads: int = 1,
    ) -> ClipsReport:
        return reader.read(
            self._source(), job.index, job.parts, output, decode=decode, token=token, threads=threads, plan=job.plan
        )

    def _accept(self, reports: Sequence[ClipsReport], clips: Sequence[ClipSlots]) -> None:
        """Let the caller's CUDA stream wait for clips, and remember what was learned of the index."""
        ready = [event for report in reports for event in report.ready]
        hand_over(self._device, ready, [clip.slots for clip in clips])
        for report in reports:
            self.index = report.corrected(self.index)

    def stream(self, numbers: npt.NDArray[np.int64], most: int) -> Iterator[torch.Tensor]:
        """Frames in order, each uint8[3, H, W]; see ``Video.stream``.

        Args:
            numbers: numbers of the frames, rising or falling.
            most: most frames that may be ready or in the making.
        """
        with enough_memory(source=self.index.source):
            yield from self._stream(numbers, most)

    def _stream(self, numbers: npt.NDArray[np.int64], most: int) -> Iterator[torch.Tensor]:
        # So that a frame is not given out before those that it may refer to have come undamaged.
        least = self.index.stream.reorder_depth + 2
        in_order = self._device.type == "cpu" and least <= most and len(numbers) > 1 and numbers[0] < numbers[-1]
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
            except (UnsureError, UnsupportedError):
                numbers = numbers[given:]
        with self._reading() as token:
            yield from self._stream_in_parts(numbers, most, token)

    def _stream_in_parts(self, numbers: npt.NDArray[np.int64], most: int, token: CancelToken) -> Iterator[torch.Tensor]:
        """Frames in order, each part of them by a decoder of its own, from its keyframe on."""
        parts = _consecutive(split_at_keyframes(self.index, numbers), most // 2)
        if len(numbers) and numbers[0] > numbers[-1]:
            parts.reverse()
        # Parts, and when they are there; frames that are there, but not yet given out.
        making: deque[tuple[DecodeJob, Future[ClipsReport]]] = deque()
        made: dict[int, torch.Tensor] = {}
        damaged: set[int] = set()
        workers = workers_of_device(self._device, self._decode)

        def begin(part: npt.NDArray[np.int64]) -> tuple[DecodeJob, Future[ClipsReport]]:
            job = whole_job(self.index, self._new_clip(part))
            decode = partial(self._decode_job, self._output, job, token)
            return job, workers.submit(decode, job.index, job.plan.packets)

        try:
            for number in numbers.tolist():
                while number not in made:
                    held = len(made) + sum(len(job.frames) for job, _ in making)
                    while parts and (not making or held + len(parts[0]) <= most):
                        held += len(parts[0])
                        making.append(begin(parts.popleft()))
                    token.raise_if_forked()
                    job, decoding = making.popleft()
                    outcome, (clip,) = _outcome(decoding), job.parts
                    if isinstance(outcome, ClipsReport):
                        self._accept([outcome], [clip])
                    part = clip.frame_numbers
                    try:
                        if self._to_be_made_again(job, outcome).any():
                            making.appendleft(begin(part))
                            continue
                    except DecodeError:
                        if len(part) == 1:
                            raise
                        # Frames before the one that cannot be decoded come out.
                        halves = np.array_split(part, 2)
                        making.extendleft(map(begin, halves if number == part[-1] else halves[::-1]))
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
                wait([decoding for _, decoding in making if not decoding.cancel()])

    def _new_clip(self, numbers: npt.NDArray[np.int64]) -> ClipSlots:
        """A clip of frames as they are, and memory for it."""
        geometry = full_geometry(self.index.stream)
        with enough_memory(source=self.index.source):
            slots = allocate((len(numbers), 3, *geometry.size), torch.uint8, self._device)
        return whole_clip(numbers, geometry, slots)


def _outcome(decoding: Future[ClipsReport]) -> ClipsReport | DecodeError:
    """The outcome of a job. Frames may fail to decode because of what the index does not know yet."""
    try:
        return decoding.result()
    except DecodeError as error:
        return error


def _consecutive(parts: list[npt.NDArray[np.int64]], most: int) -> deque[npt.NDArray[np.int64]]:
    """The parts, each in order and none with more frames than ``most``."""
    return deque(some for part in parts for some in np.array_split(np.sort(part), -(-len(part) // most)))
