"""``Video``: one video as a sequence of frames."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, NoReturn, get_args

import numpy as np
import numpy.typing as npt
import torch

from videoloader.batching.clip_plan import ClipRule
from videoloader.batching.options import pipeline_of
from videoloader.batching.video_clips import make_clips
from videoloader.convert.spec import Layout, OutputSpec, fill_color
from videoloader.decoding.engine import Decode, check_decode
from videoloader.errors import ArgumentError, ConfigurationError, SourceError, counted, warn_user
from videoloader.errors.argument_names import tells_of_arguments
from videoloader.errors.attribute_names import tells_of_attributes
from videoloader.errors.checks import check_choice, check_positive_or_none, check_type
from videoloader.errors.of_handlers import errors_suppressed
from videoloader.indexing import Openable, VideoIndex, build_index
from videoloader.indexing.images.frame_times import odd_times_of, tell_of_frame_times
from videoloader.indexing.index import Times
from videoloader.indexing.sources.folder import FolderSource, Timestamps, state_of_files
from videoloader.indexing.sources.opening import is_remote, open_frames, split_local
from videoloader.indexing.sources.regular_file import from_here
from videoloader.indexing.sources.remote import without_colons
from videoloader.indexing.sources.state import check_unchanged
from videoloader.indexing.sources.stream import choose_stream
from videoloader.notebook import ShownInNotebooks
from videoloader.reading.clip import Clip as Clip
from videoloader.reading.corrupt_frames import KeepOrRaise, check_on_corrupt
from videoloader.reading.video_reader import VideoReader
from videoloader.runtime.cached_property import cached_property
from videoloader.runtime.device import raise_if_forked, resolve_device
from videoloader.sampling.asked_frames import asked_frames, frame_on_screen, frames_between
from videoloader.sampling.exact_time import Time
from videoloader.sampling.integers import positions_in_slice
from videoloader.sampling.mode import FrameMode, FrameNumbers, mode_of
from videoloader.transforms.compose import Compose
from videoloader.transforms.normalize import DType
from videoloader.transforms.planning.pipeline import TransformPipeline, Transforms


@tells_of_arguments
@tells_of_attributes("video", frames="video[:]")
class Video(ShownInNotebooks):
    """A video file, read frame-exactly and in any order.

    Args:
        source: str, path, bytes, file object or ByteSource. A file, a URL or ``"shard.tar::clip.mp4"``; see
            ``indexing.open_source``. A folder of image files (or ``folder/left_*.png``) is a video: the numbers in
            their names are their times, one a second by default; see ``FolderSource``.
        device: str or torch.device, default ``"auto"``. The device of the frames: ``"auto"``, ``"cpu"``, ``"cuda"`` or
            ``"cuda:N"``.
        decode: str, default ``"auto"``. The engine that decodes for a CUDA device: ``"nvdec"`` or ``"cpu"`` alone; with
            ``"auto"`` the CPU decodes what NVDEC cannot. The pixels are the same.
        index: VideoIndex, default made here. The index of the same file and stream.
        stream_index: int, default libavformat's best stream. The number of the video stream in the file, counted from
            zero over streams of all kinds; see ``build_index``. A path may contain it: ``"clip.mkv::stream_index=2"``.
        times: str, default ``"start"``. The zero point of all times that methods and modes take and return. ``"start"``
            counts seconds from the file's start, the earliest start of its streams, as players do: where the sound
            starts first, the first frame comes after 0. ``"pts"`` keeps the container's own timestamps. A file that
            does not record its start (elementary streams, folders of images) starts at 0.
        fill_value: float or three of them, default 0. The red, green and blue of frames of constant padding, or one
            number for all, 0 … 255.
        on_corrupt: str, default ``"keep"``. The treatment of damaged frames, which ``Clip.corrupt`` marks: ``"keep"``
            returns them, and warns once for each file and process (``CorruptFramesWarning``); ``"raise"`` raises
            CorruptFramesError instead.
        fps, timestamps: number and list of numbers, default 1 for ``fps``, none for ``timestamps``. The times of a
            folder of image files; see ``FolderSource``.

    Attributes:
        device: torch.device. The device of the frames.

    Raises:
        VideoLoaderError: the file cannot be read or holds no video; the message names it.
        ConfigurationError: an argument has a value that is not allowed, or the file has no such video stream; the
            message lists those that exist.

    Examples:
        >>> video = Video("clip.mp4", device="cpu")
        >>> len(video), video[10].shape, video[10:40:2].shape
        (300, torch.Size([3, 360, 640]), torch.Size([15, 3, 360, 640]))
    """

    device: torch.device

    def __init__(
        self,
        source: Openable,
        *,
        device: str | torch.device = "auto",
        decode: Decode = "auto",
        index: VideoIndex | None = None,
        stream_index: int | None = None,
        times: Times = "start",
        fill_value: float | Sequence[float] = 0,
        on_corrupt: KeepOrRaise = "keep",
        fps: float | Fraction | None = None,
        timestamps: Timestamps | None = None,
    ) -> None:
        check_on_corrupt(on_corrupt, get_args(KeepOrRaise))
        check_choice("times", times, get_args(Times))
        self.device = resolve_device(device)
        check_decode(decode, self.device)
        self._fill_value = fill_color(fill_value)
        output = OutputSpec(fill_value=self._fill_value)
        if index is not None and (fps is not None or timestamps is not None):
            raise ConfigurationError("the index already has times: give fps or timestamps to its FolderSource instead")
        opened = choose_stream(open_frames(source, fps, timestamps), stream_index)
        known = build_index(opened) if index is None else index
        if not isinstance(known, VideoIndex):
            raise ArgumentError(f"index must be a VideoIndex, got {known!r}: IndexStore(path).get(source) gives one")
        if index is None:
            tell_of_frame_times([odd_times_of(known)])
        elif _mean_the_same(known.source, opened.name):
            state = known.state
            if state is not None:
                if isinstance(opened, FolderSource):  # the index has times of its own
                    state = state_of_files(state)
                check_unchanged(opened, state)
                known = replace(known, state=state)
        else:
            if isinstance(source, str | os.PathLike) and _file_name(known.source) != _file_name(opened.name):
                warn_user(
                    f"the index is of {known.source}, not of {opened.name}: if these files differ, so do their frames"
                )
            known = replace(known, state=None)  # of another file, such as the original of a copy
        if stream_index not in (None, known.stream.stream_number):
            raise ConfigurationError(f"the index is of another stream than stream_index={stream_index}", known.source)
        self._reader = VideoReader(opened, known.with_times(times), self.device, decode, output, on_corrupt)

    @property
    def index(self) -> VideoIndex:
        """The index of the video's packets and frames. Reading frames may correct it."""
        return self._reader.index

    def close(self) -> None:
        """Close the source. Known facts about the video stay available; reading more of it raises ConfigurationError.

        So does the next step of an iterator that has begun. Videos that are no longer used close by themselves, and any
        number of local files may be open.

        Examples:
            >>> with Video("clip.mp4", device="cpu") as video:
            ...     frame = video[0]
            >>> video.close()
        """
        self._reader.close()

    def __enter__(self) -> Video:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __len__(self) -> int:
        """The number of frames."""
        return len(self.index)

    def __repr__(self) -> str:
        vfr = " on average" if self.is_vfr else ""
        return (
            f"Video({self.index.source!r}, {counted(len(self), 'frame')}, {self.codec} {self.width}×{self.height}, "
            f"{self.fps:.3f} fps{vfr}, {self.duration:.3f} s)"
        )

    @property
    def timestamps(self) -> npt.NDArray[np.float64]:
        """float64[N], read-only: the time of each frame, in seconds from the file's start (``times``)."""
        return self.index.timestamps

    @property
    def fps(self) -> float:
        """The frames per second, averaged over the whole video."""
        return self.index.average_fps

    @property
    def duration(self) -> float:
        """Seconds from the first frame to the end of the last, which lasts as long as the average frame."""
        return self.index.duration

    @property
    def start_time(self) -> float:
        """The start of the file's earliest stream, perhaps audio, as pts in seconds (libavformat's ``start_time``)."""
        return self.index.start_time / 1_000_000

    @property
    def width(self) -> int:
        """The width of the frames in pixels, after rotation."""
        return self.index.stream.display_size[1]

    @property
    def height(self) -> int:
        """The height of the frames in pixels, after rotation."""
        return self.index.stream.display_size[0]

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(frames, 3, height, width): the shape of ``video[:]``."""
        return len(self), 3, self.height, self.width

    @property
    def codec(self) -> str:
        """The codec's name in libavcodec: ``"h264"``, ``"hevc"``, ``"vp9"``, ``"av1"``, …"""
        return self.index.stream.codec

    @property
    def rotation(self) -> int:
        """The clockwise rotation of the stored pictures in degrees: 0, 90, 180 or 270. It is applied to all frames."""
        return self.index.stream.rotation

    @property
    def is_vfr(self) -> bool:
        """Whether the frame rate varies: frame durations differ by more than the rounding of timestamps explains."""
        return self.index.is_vfr

    def __getitem__(self, frames: int | slice | FrameNumbers) -> torch.Tensor:
        """One frame as uint8[3, H, W], or several, for a slice or list, as uint8[T, 3, H, W].

        On the CPU, frames that follow those of the last call are decoded on from there. For them, the video keeps its
        decoder and a few frames in memory until a call for other frames, or until it is closed.

        Args:
            frames: int, slice, or list, array or tensor. The frame numbers, repeats allowed, or a bool for each frame.
                Negative numbers count from the end.

        Raises:
            TypeError: ``frames`` is anything else, such as True, 1.5 or a tuple.
            FrameRangeError: a frame number is outside the video.
            DecodeError: the frame cannot be decoded, or is damaged (with ``on_corrupt="raise"``).

        Examples:
            >>> video[-1].shape, video[[0, 5, 9]].shape
            (torch.Size([3, 360, 640]), torch.Size([3, 3, 360, 640]))
        """
        numbers, is_one = asked_frames(frames, len(self), self.index.source)
        made = self._reader.frames(numbers)
        return made[0] if is_one else made

    def read(
        self,
        mode: FrameMode | FrameNumbers,
        *,
        clip: int = 0,
        seed: int = 0,
        transforms: Transforms | Compose = (),
        layout: Layout = "TCHW",
        dtype: DType | torch.dtype | None = None,
    ) -> Clip:
        """Read a clip of the frames that a mode chooses, transformed and converted as by a loader.

        Its pixels equal those of clip number ``clip`` of a ``VideoLoader`` over this video alone, with the same seed,
        in its first epoch, on the same device. So two calls draw the same window, crop and colours unless their seeds
        differ: ``seed=step``, or ``seed=int(torch.randint(1 << 62, ()))``, makes each draw its own.

        Args:
            mode: frame mode, or list, range, array or tensor. The mode that chooses the frames, or their numbers
                (negative ones count from the end).
            clip: int, default 0. The number of the clip, for modes that make several clips of a video.
            seed: int, default 0, so that calls repeat. The seed of random modes and transforms: the same seed and clip
                always give the same frames and pixels.
            transforms, dtype: as in ``VideoLoader``, default uint8 of 0 … 255 without transforms. Transforms that make
                several views of a clip or mix clips are not allowed. Transforms see a clip without columns and with
                None for a label.
            layout: str, default ``"TCHW"``. The order of the axes: ``"TCHW"`` gives [T, C, H, W], ``"CTHW"`` [C, T, H,
                W], ``"THWC"`` [T, H, W, C].

        Raises:
            ConfigurationError: ``mode`` is neither, or the transforms cannot be applied.
            FrameRangeError: the mode has no such clip, or a listed frame is outside the video.
            DecodeError: a frame cannot be decoded, or is damaged (with ``on_corrupt="raise"``).

        Examples:
            >>> clip = video.read(RandomWindow(16, stride=4, pad="reflect_101"))
            >>> clip.frames.shape, clip.frame_numbers[:3]
            (torch.Size([16, 3, 360, 640]), array([ 8, 12, 16]))
            >>> clip = video.read(range(16), transforms=[Resize(256), CenterCrop(224), Normalize()], layout="CTHW")
            >>> clip.frames.shape, clip.frames.dtype
            (torch.Size([3, 16, 224, 224]), torch.float32)
        """
        return self._make_clips(mode, [clip], seed, transforms, layout, dtype)[0]

    def at(self, seconds: Time) -> torch.Tensor:
        """The frame on screen at a time, as uint8[3, H, W]: the last one that starts at or before it.

        Args:
            seconds: seconds. A time on the scale of ``timestamps``, interpreted as by ``Timestamps``. At the video's
                end no frame is on screen.

        Raises:
            ConfigurationError: the time is no finite number.
            FrameRangeError: no frame is on screen then: the time is before the first frame, or at or after the end of
                the last one.
            DecodeError: the frame cannot be decoded, or is damaged (with ``on_corrupt="raise"``).

        Examples:
            >>> torch.equal(video.at(1.5), video[37])
            True
        """
        return self[frame_on_screen(self.index, seconds)]

    def between(self, start: Time, stop: Time, *, fps: Time | None = None) -> Clip:
        """The frames whose times lie in ``[start, stop)``, or at a constant rate, the frames on screen in that span.

        Args:
            start, stop: seconds. Times on the scale of ``timestamps``, interpreted as by ``Timestamps``. The start may
                be as early as the file's start: where its sound starts before the first frame, earlier output times at
                a constant rate show that frame, with ``mask`` False.
            fps: number, default each frame once. The output frames a second; see ``AtRate``. Frame k is the one on
                screen at ``start + k / fps``.

        Raises:
            ConfigurationError: a time is no finite number, ``stop`` is not after ``start``, or ``fps`` is not a rate.
            FrameRangeError: the times reach beyond the video, or no frame's time lies between them.
            DecodeError: a frame cannot be decoded, or is damaged (with ``on_corrupt="raise"``).

        Examples:
            >>> video.between(2.0, 4.0).frame_numbers[[0, -1]], video.between(2.0, 4.0, fps=8).frames.shape
            (array([50, 99]), torch.Size([16, 3, 360, 640]))
        """
        return self.read(frames_between(self.index, start, stop, fps))

    def read_clips(
        self,
        mode: FrameMode | FrameNumbers,
        *,
        seed: int = 0,
        transforms: Transforms | Compose = (),
        layout: Layout = "TCHW",
        dtype: DType | torch.dtype | None = None,
    ) -> list[Clip]:
        """Read all clips that a mode makes of the video. A GOP that several of them need is decoded once.

        Args:
            mode: frame mode, or frame numbers. Frame numbers make one clip.
            seed, transforms, layout, dtype: as in ``read``, with the same defaults.

        Raises:
            ConfigurationError: ``mode`` is neither, or the transforms cannot be applied.
            DecodeError: a frame cannot be decoded, or is damaged (with ``on_corrupt="raise"``).

        Examples:
            >>> views = video.read_clips(EveryWindow(16, stride=4, step=64))
            >>> [int(view.frame_numbers[0]) for view in views]
            [0, 64, 128, 192]
        """
        return self._make_clips(mode, None, seed, transforms, layout, dtype)

    def __iter__(self) -> Iterator[torch.Tensor]:
        """Iterate over all frames in order, each uint8[3, H, W]; see ``stream``."""
        return self.stream()

    if not TYPE_CHECKING:  # type checkers report this themselves

        def __next__(self) -> NoReturn:
            raise ArgumentError("a video is not its own iterator: write next(iter(video))")

    def stream(self, frames: slice = slice(None), *, memory: int | None = None) -> Iterator[torch.Tensor]:
        """Iterate over frames in order, each uint8[3, H, W].

        On the CPU one multi-threaded decoder goes through the video. NVDEC decodes several GOPs ahead with a decoder
        for each, and so does the CPU in reverse order.

        Args:
            frames: slice, default all. The frames; a negative step reverses their order.
            memory: int, default a quarter of the GPU's free memory; on the CPU 1 GiB. The most bytes of frames that are
                ready or being made. With several decoders, a GOP that needs more is decoded from its start several
                times.

        Raises:
            ConfigurationError: ``frames`` is not a slice, or ``memory`` is not a positive number.
            DecodeError: a frame cannot be decoded, or is damaged (with ``on_corrupt="raise"``); all frames before it
                have been yielded.

        Examples:
            >>> for frame in video.stream(slice(100, 200)):
            ...     show(frame)
        """
        check_positive_or_none(memory=memory)
        wanted = "a slice, such as slice(10, 40)"
        check_type("Video.stream's frames", frames, isinstance(frames, slice), wanted, ": video[…] takes listed frames")
        height, width = self.index.stream.display_size
        raise_if_forked(self.device)
        if memory is None:
            on_gpu = self.device.type == "cuda"
            memory = torch.cuda.mem_get_info(self.device)[0] // 4 if on_gpu else 1 << 30
        most = max(memory // (3 * height * width), 2)
        return self._reader.stream(positions_in_slice(frames, len(self)), most)

    @cached_property
    def _plain(self) -> TransformPipeline:
        """The pipeline of reads without transforms. Making it takes a fifth of the time of planning one frame."""
        return pipeline_of((), None, "rgb", self._fill_value)

    def _make_clips(
        self,
        mode: FrameMode | FrameNumbers,
        clips: Sequence[int] | None,
        seed: int,
        transforms: Transforms | Compose,
        layout: Layout,
        dtype: DType | torch.dtype | None,
    ) -> list[Clip]:
        mode = mode_of(mode)
        plain = dtype is None and isinstance(transforms, tuple) and not transforms
        pipeline = self._plain if plain else pipeline_of(transforms, dtype, "rgb", self._fill_value, mode)
        rule = ClipRule(mode, pipeline.one_view(), seed, warned=None)
        return make_clips(self._reader, rule, clips, layout, self.device)


def _mean_the_same(name: str, other: str) -> bool:
    """Whether two names of sources lead to the same file now."""
    if name == other or is_remote(name) or is_remote(other):
        return name == other
    with errors_suppressed(OSError, ValueError, SourceError):  # what a name means cannot be told
        (path, member), (other_path, other_member) = (split_local(each, os.path.exists) for each in (name, other))
        real = os.path.realpath(from_here(path)), member
        return real == (os.path.realpath(from_here(other_path)), other_member)
    return False


def _file_name(source: str) -> str:
    return os.path.basename(without_colons(source).partition("::")[0])
