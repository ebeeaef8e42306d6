"""One video, as a sequence of frames."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from videoloader.clips import reader_of_thread
from videoloader.convert import Geometry, OutputSpec
from videoloader.device import resolve_device
from videoloader.errors import FrameRangeError
from videoloader.indexing import Openable, VideoIndex, build_index, open_source
from videoloader.padding import CONSTANT_FRAME
from videoloader.sampling import FrameList, FrameMode, clip_frames, clip_rng


@dataclass(frozen=True, eq=False)
class Clip:
    """Frames of one video.

    Attributes:
        frames: uint8[T, 3, H, W], RGB, as a player shows them (rotated where the file says so).
        frame_numbers: int64[T]; -1 for a frame of constant padding.
        timestamps: float64[T], presentation times in seconds; NaN for a frame of constant padding.
        mask: bool[T], False where padding made the frame up.
        corrupt: bool[T], True where the decoder found the frame damaged.
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
        index: of the same file, where it is known already.

    Attributes:
        index: the table of its packets and frames.
        device: where frames come out.

    Raises:
        VideoLoaderError: the file cannot be read, or holds no video; the message names it.

    Example:
        >>> video = Video("clip.mp4", device="cpu")  # doctest: +SKIP
        >>> len(video), video[10].shape, video[10:40:2].shape  # doctest: +SKIP
        (300, torch.Size([3, 720, 1280]), torch.Size([15, 3, 720, 1280]))
    """

    def __init__(
        self,
        source: Openable,
        *,
        device: str | torch.device = "auto",
        index: VideoIndex | None = None,
    ) -> None:
        self.device = resolve_device(device)
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
            DecodeError: the frame cannot be decoded.
        """
        if isinstance(frames, slice):
            return self._read(np.arange(*frames.indices(len(self)), dtype=np.int64))[0]
        number = int(frames)
        if not -len(self) <= number < len(self):
            raise FrameRangeError(f"frame {number} is outside the video's {len(self)} frames", self.index.source)
        return self._read(np.array([number % len(self)]))[0][0]

    def read(self, mode: FrameMode | Sequence[int], *, clip: int = 0, seed: int = 0) -> Clip:
        """A clip of the frames that a mode chooses.

        Args:
            mode: a frame mode, or a list of frame numbers (negative ones count from the end).
            clip: number of the clip, for modes that make several of one video.
            seed: of random modes; the same seed and clip give the same frames.

        Raises:
            FrameRangeError: the mode has no such clip, or a listed frame is outside the video.
            DecodeError: a frame cannot be decoded.

        Example:
            >>> clip = video.read(RandomWindow(16, stride=4, pad="reflect_101"))  # doctest: +SKIP
            >>> clip.frames.shape, clip.frame_numbers[:3]  # doctest: +SKIP
            (torch.Size([16, 3, 720, 1280]), array([83, 87, 91]))
        """
        chosen = FrameList(tuple(mode)) if isinstance(mode, Sequence) else mode
        numbers, mask = clip_frames(chosen, WholeVideo(self.index), clip, clip_rng(seed, 0, clip))
        frames, corrupt = self._read(numbers)
        constant = numbers == CONSTANT_FRAME
        timestamps = np.where(constant, np.nan, self.timestamps[np.where(constant, 0, numbers)])
        return Clip(frames, numbers, timestamps, mask, corrupt)

    def _read(self, numbers: npt.NDArray[np.int64]) -> tuple[torch.Tensor, npt.NDArray[np.bool_]]:
        height, width = self.index.stream.display_size
        reader = reader_of_thread(self.device)
        frames = torch.empty((len(numbers), 3, height, width), dtype=torch.uint8, device=self.device)
        if reader.stream is not None:
            # The memory may still be read by earlier work of the caller's stream.
            reader.stream.wait_stream(torch.cuda.current_stream(self.device))
        geometry = Geometry((0, 0, height, width), (height, width))
        report = reader.read(self._source, self.index, numbers, geometry, OutputSpec(), frames)
        self.index = report.index
        if reader.stream is not None:
            torch.cuda.current_stream(self.device).wait_stream(reader.stream)
            frames.record_stream(reader.stream)
        return frames, report.corrupt


@dataclass(frozen=True, eq=False)
class WholeVideo:
    """What a frame mode sees of a whole video."""

    index: VideoIndex

    @property
    def first(self) -> int:
        """0."""
        return 0

    @property
    def stop(self) -> int:
        """Number of frames."""
        return len(self.index)
