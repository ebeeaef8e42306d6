"""One video, as a sequence of frames."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from functools import partial
from typing import get_args

import numpy as np
import numpy.typing as npt
import torch

from videoloader.convert import OutputSpec, fill_color, full_geometry
from videoloader.decoding import Decode, UnsureError, suits_threads
from videoloader.device import allocate, hand_over, resolve_device
from videoloader.errors import FrameRangeError, UnsupportedError, check_choice
from videoloader.indexing import Openable, VideoIndex, build_index, open_source
from videoloader.indexing.configurations import decoded_otherwise
from videoloader.packets.decode_plan import plan_frames, split_at_keyframes
from videoloader.packets.run_start import WrongIndexError
from videoloader.reading.cancellation import CancelToken
from videoloader.reading.clip_reader import ClipReader, ClipsReport, reader_of_thread
from videoloader.reading.corrupt_frames import OnCorrupt, tell_of_corrupt
from videoloader.reading.decode_job import ClipSlots, DecodeJob, frame_times, split_clips, whole_clip, whole_job
from videoloader.reading.stream import stream_in_threads
from videoloader.reading.workers import share_of_cores, workers_of_device
from videoloader.sampling import AllFrames, FrameList, FrameMode, clip_frames, clip_rng


@dataclass(frozen=True, eq=False)
class Clip:
    """Frames of one video.

    Attributes:
        frames: uint8[T, 3, H, W], RGB, as a player shows them (rotated where the file says so).
        frame_numbers: int64[T]; -1 for a frame of constant padding.
        timestamps: float64[T], presentation times in seconds; NaN for a frame of constant padding.
        mask: bool[T], False where padding made the frame up.
        corrupt: bool[T], True where the decoder found the frame damaged, or what it refers to. NVDEC does not tell
            of all damage: decode with the CPU, or ``verify`` the file, where that matters.
    """

    frames: torch.Tensor
    frame_numbers: npt.NDArray[np.int64]
    timestamps: npt.NDArray[np.float64]
    mask: npt.NDArray[np.bool_]
    corrupt: npt.NDArray[np.bool_]


class Video:
    """A video file, read frame-exactly and in any order.

    Args:
        source: path, URL, ``"shard.tar::clip.mp4"``, bytes, file object or ByteSource; see ``indexing.open_source``.
            A folder of image files (or ``folder/left_*.png``) is a video at one frame a second; ``FolderSource``
            takes another rate.
        device: where frames are wanted: ``"auto"``, ``"cpu"``, ``"cuda"`` or ``"cuda:N"``.
        decode: on a CUDA device ``"nvdec"`` or ``"cpu"`` to decode by that alone; ``"auto"`` leaves to the CPU what
            NVDEC cannot decode. The pixels are the same.
        index: of the same file, where it is known already.
        fill_value: of frames of constant padding: red, green and blue, or one number for all, 0 … 255.
        on_corrupt: damaged frames, which ``Clip.corrupt`` marks: ``"warn"`` once for each file and process, ``"raise"``
            a DecodeError instead of giving them out, or ``"ignore"``.

    Attributes:
        index: the table of its packets and frames.
        device: where frames come out.

    Raises:
        VideoLoaderError: the file cannot be read, or holds no video; the message names it.

    Example:
        >>> video = Video("clip.mp4", device="cpu")
        >>> len(video), video[10].shape, video[10:40:2].shape
        (300, torch.Size([3, 360, 640]), torch.Size([15, 3, 360, 640]))
    """

    def __init__(
        self,
        source: Openable,
        *,
        device: str | torch.device = "auto",
        decode: Decode = "auto",
        index: VideoIndex | None = None,
        fill_value: float | Sequence[float] = 0,
        on_corrupt: OnCorrupt = "warn",
    ) -> None:
        check_choice("on_corrupt", on_corrupt, get_args(OnCorrupt))
        self._on_corrupt = on_corrupt
        self._output = OutputSpec(fill_value=fill_color(fill_value))
        self.device, self._decode = resolve_device(device), decode
        self._source = open_source(source)
        self.index = build_index(self._source) if index is None else index

    def __len__(self) -> int:
        """Number of frames."""
        return len(self.index)

    def __repr__(self) -> str:
        stream = self.index.stream
        return (
            f"Video({self.index.source!r}, {len(self)} frames, {stream.codec} {stream.width}×{stream.height}, "
            f"{self.index.average_fps:.3f} fps)"
        )

    @property
    def timestamps(self) -> npt.NDArray[np.float64]:
        """float64[N]: presentation time of each frame in seconds, edit list applied, not shifted to zero."""
        return self.index.timestamps

    def __getitem__(self, frames: int | slice) -> torch.Tensor:
        """One frame as uint8[3, H, W], or a slice of frames as uint8[T, 3, H, W].

        Raises:
            FrameRangeError: a frame number outside the video.
            DecodeError: the frame cannot be decoded, or is damaged (with ``on_corrupt="raise"``).
        """
        if isinstance(frames, slice):
            return self._decode_clips([np.arange(*frames.indices(len(self)), dtype=np.int64)])[0].slots
        number = int(frames)
        if not -len(self) <= number < len(self):
            raise FrameRangeError(f"frame {number} is outside the video's {len(self)} frames", self.index.source)
        return self._decode_clips([np.array([number % len(self)])])[0].slots[0]

    def read(self, mode: FrameMode | Sequence[int], *, clip: int = 0, seed: int = 0) -> Clip:
        """A clip of the frames that a mode chooses.

        Args:
            mode: a frame mode, or a list of frame numbers (negative ones count from the end).
            clip: number of the clip, for modes that make several of one video.
            seed: of random modes; the same seed and clip give the same frames.

        Raises:
            FrameRangeError: the mode has no such clip, or a listed frame is outside the video.
            DecodeError: a frame cannot be decoded, or is damaged (with ``on_corrupt="raise"``).

        Example:
            >>> clip = video.read(RandomWindow(16, stride=4, pad="reflect_101"))
            >>> clip.frames.shape, clip.frame_numbers[:3]
            (torch.Size([16, 3, 360, 640]), array([ 8, 12, 16]))
        """
        chosen = FrameList(tuple(mode)) if isinstance(mode, Sequence) else mode
        return self._read(chosen, [clip], seed)[0]

    def read_clips(self, mode: FrameMode, *, seed: int = 0) -> list[Clip]:
        """All clips that a mode makes of the video. A GOP that several of them need is decoded once.

        Args:
            mode: a frame mode.
            seed: of random modes.

        Raises:
            DecodeError: a frame cannot be decoded, or is damaged (with ``on_corrupt="raise"``).

        Example:
            >>> views = video.read_clips(EveryWindow(16, stride=4, step=64))
            >>> [int(view.frame_numbers[0]) for view in views]
            [0, 64, 128, 192]
        """
        return self._read(mode, range(mode.num_clips(AllFrames(self.index))), seed)

    def __iter__(self) -> Iterator[torch.Tensor]:
        """All frames in order, each uint8[3, H, W]; see ``stream``."""
        return self.stream()

    def stream(self, frames: slice = slice(None), *, memory: int | None = None) -> Iterator[torch.Tensor]:
        """Frames in order, each uint8[3, H, W].

        On the CPU the threads of one decoder go through the video; NVDEC decodes ahead with as many decoders as there
        are GOPs for, and so does the CPU in reverse order.

        Args:
            frames: which of them; a negative step gives them in reverse order.
            memory: bytes of frames that may be ready or in the making. Default: a quarter of what is free on the
                GPU; on the CPU 1 GiB. Where there are several decoders, a GOP with more is decoded from its start
                several times.

        Raises:
            DecodeError: a frame cannot be decoded, or is damaged (with ``on_corrupt="raise"``), and all before it have
                been given out.

        Example:
            >>> for frame in video.stream(slice(100, 200)):
            ...     show(frame)
        """
        numbers = np.arange(*frames.indices(len(self)), dtype=np.int64)
        height, width = self.index.stream.display_size
        if memory is None:
            on_gpu = self.device.type == "cuda"
            memory = torch.cuda.mem_get_info(self.device)[0] // 4 if on_gpu else 1 << 30
        most = max(memory // (3 * height * width), 2)
        # So that a frame is not given out before those that it may refer to have come undamaged.
        least = self.index.stream.reorder_depth + 2
        in_order = self.device.type == "cpu" and least <= most and len(numbers) > 1 and numbers[0] < numbers[-1]
        if in_order and suits_threads(self.index, *(runs := plan_frames(self.index, numbers).runs)):
            given = 0
            try:
                with share_of_cores() as threads:
                    ahead = min(max(2 * threads, least), most)
                    for frame in stream_in_threads(
                        self._source, self.index, numbers, runs, self._output, threads, ahead
                    ):
                        yield frame
                        given += 1
                return
            except WrongIndexError as found:
                self.index, numbers = found.index, numbers[given:]
            except (UnsureError, UnsupportedError):
                numbers = numbers[given:]
        yield from self._stream_in_parts(numbers, most)

    def _stream_in_parts(self, numbers: npt.NDArray[np.int64], most: int) -> Iterator[torch.Tensor]:
        """Frames in order, each part of them by a decoder of its own, from its keyframe on."""
        parts = _consecutive(split_at_keyframes(self.index, numbers), most // 2)
        if len(numbers) and numbers[0] > numbers[-1]:
            parts.reverse()
        # Parts, and when they are there; frames that are there, but not yet given out.
        making: deque[tuple[ClipSlots, Future[ClipsReport]]] = deque()
        made: dict[int, torch.Tensor] = {}
        damaged: set[int] = set()
        workers, token = workers_of_device(self.device, self._decode), CancelToken()
        try:
            for number in numbers.tolist():
                while number not in made:
                    held = len(made) + sum(len(clip.frame_numbers) for clip, _ in making)
                    while parts and (not making or held + len(parts[0]) <= most):
                        part = parts.popleft()
                        job = whole_job(self.index, self._new_clip(part))
                        decoding = workers.submit(partial(self._decode_job, job, token), job.index, job.plan.packets)
                        making.append((job.parts[0], decoding))
                        held += len(part)
                    token.raise_if_forked()
                    clip, decoding = making.popleft()
                    report, part = decoding.result(), clip.frame_numbers
                    self._accept([report], [clip])
                    if self._outdated(report, part).any():
                        parts.appendleft(part)
                        continue
                    damaged.update(clip.damaged.tolist())
                    made.update(zip(part.tolist(), clip.slots.unbind(0), strict=True))
                if number in damaged:
                    tell_of_corrupt(self.index.source, np.array(sorted(damaged)), self._on_corrupt)
                yield made.pop(number)
        finally:
            token.cancel()
            if not token.threads_gone:
                wait([decoding for _, decoding in making if not decoding.cancel()])

    def _read(self, mode: FrameMode, clips: Sequence[int], seed: int) -> list[Clip]:
        chosen = [clip_frames(mode, AllFrames(self.index), clip, clip_rng(seed, 0, clip)) for clip in clips]
        made = self._decode_clips([numbers for numbers, _ in chosen])
        return [
            Clip(clip.slots, numbers, frame_times(self.index, numbers), mask, clip.corrupt)
            for (numbers, mask), clip in zip(chosen, made, strict=True)
        ]

    def _decode_clips(self, chosen: Sequence[npt.NDArray[np.int64]]) -> list[ClipSlots]:
        """Clips of some frames; several decoders take part where that pays."""
        clips = [self._new_clip(numbers) for numbers in chosen]
        rest = clips
        while rest and (jobs := list(split_clips(self.index, rest))):
            with share_of_cores() as cores:
                reports = self._do_jobs(jobs, cores)
            self._accept(reports, clips)
            # Frames that some jobs made without what others have found at the same time are made again.
            made = zip(jobs, reports, strict=True)
            again = np.concatenate([job.frames[self._outdated(report, job.frames)] for job, report in made])
            rest = [clip.only(np.isin(clip.frame_numbers, again)) for clip in clips] if len(again) else []
        if clips:
            tell_of_corrupt(self.index.source, np.concatenate([clip.damaged for clip in clips]), self._on_corrupt)
        return clips

    def _do_jobs(self, jobs: Sequence[DecodeJob], cores: int) -> list[ClipsReport]:
        # Twice as many as cores, since jobs are not of one length.
        decode = partial(self._decode_job, threads=min(-(-2 * cores // len(jobs)), cores))
        if len(jobs) == 1:
            # Handing it to another thread would only take time.
            return [decode(jobs[0], CancelToken(), reader_of_thread(self.device), self._decode)]
        workers, token = workers_of_device(self.device, self._decode), CancelToken()
        futures = [workers.submit(partial(decode, job, token), job.index, job.plan.packets) for job in jobs]
        try:
            return [future.result() for future in futures]
        finally:
            token.cancel()
            wait([future for future in futures if not future.cancel()])

    def _outdated(self, report: ClipsReport, frames: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Which frames of a job would come otherwise, now that more is known of the index."""
        if report.index is self.index:
            return np.zeros(len(frames), np.bool_)
        return decoded_otherwise(report.index, self.index)[self.index.frame_packet[frames]]

    def _new_clip(self, numbers: npt.NDArray[np.int64]) -> ClipSlots:
        """A clip of frames as they are, and memory for it."""
        geometry = full_geometry(self.index.stream)
        return whole_clip(numbers, geometry, allocate((len(numbers), 3, *geometry.size), torch.uint8, self.device))

    def _decode_job(
        self, job: DecodeJob, token: CancelToken, reader: ClipReader, decode: Decode, threads: int = 1
    ) -> ClipsReport:
        return reader.read(
            self._source, job.index, job.parts, self._output, decode=decode, token=token, threads=threads, plan=job.plan
        )

    def _accept(self, reports: Sequence[ClipsReport], clips: Sequence[ClipSlots]) -> None:
        """Let the caller's CUDA stream wait for clips, and remember what was learned of the index."""
        ready = [event for report in reports for event in report.ready]
        hand_over(self.device, ready, [clip.slots for clip in clips])
        for report in reports:
            self.index = report.corrected(self.index)


def _consecutive(parts: list[npt.NDArray[np.int64]], most: int) -> deque[npt.NDArray[np.int64]]:
    """The parts, each in order and none with more frames than ``most``."""
    return deque(some for part in parts for some in np.array_split(np.sort(part), -(-len(part) // most)))
