"""``Clip``: the frames of one read of a video."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

import numpy as np
import numpy.typing as npt
import torch

from videoloader.convert.spec import Layout
from videoloader.errors import ArgumentError
from videoloader.errors.attribute_names import tells_of_attributes
from videoloader.indexing import VideoIndex
from videoloader.padding import CONSTANT_FRAME
from videoloader.reading.frames_by_role import FramesByRole
from videoloader.sampling.roles import Roles


@tells_of_attributes("clip", frames="clip.frames")
@dataclass(frozen=True, eq=False)
class Clip(FramesByRole):
    """Frames of one video.

    Attributes:
        frames: tensor, uint8[T, 3, H, W]. RGB by default. Rotation from the file is applied; pixels that are not square
            stay as coded, though players stretch them. The shape and type follow the layout, dtype and transforms asked
            for.
        frame_numbers: int64[T]. The frame numbers; -1 for a frame of constant padding.
        timestamps: float64[T]. The presentation times in seconds from the file's start (``times`` of ``Video``); NaN
            for a frame of constant padding.
        mask: bool[T]. False where padding supplied the frame.
        corrupt: bool[T]. True where the decoder found the frame, or one that it refers to, damaged. NVDEC does not
            report all damage: decode on the CPU or ``verify`` the file where that matters.
        layout: str. The order of the dimensions of ``frames``.
        roles: ``Roles`` or None. The inputs and the targets; None if the frame mode does not name them.
    """

    frames: torch.Tensor
    frame_numbers: npt.NDArray[np.int64]
    timestamps: npt.NDArray[np.float64]
    mask: npt.NDArray[np.bool_]
    corrupt: npt.NDArray[np.bool_]
    layout: Layout = "TCHW"
    roles: Roles | None = None
    _target_times: npt.NDArray[np.float32] | None = None

    def __len__(self) -> int:
        return len(self.frame_numbers)

    if not TYPE_CHECKING:  # type checkers report a missing __getitem__ by themselves

        def __getitem__(self, frame: object) -> NoReturn:
            raise ArgumentError("a clip is not a list of frames: write clip.frames[0], or for frame in clip.frames")

    def __repr__(self) -> str:
        told = [f"frames={tensor_summary(self.frames)}"]
        if len(shown := np.flatnonzero(self.frame_numbers >= 0)):
            first, last = shown[[0, -1]]
            told.append(f"frame_numbers={self.frame_numbers[first]} … {self.frame_numbers[last]}")
            told.append(f"timestamps={self.timestamps[first]:.3f} … {self.timestamps[last]:.3f} s")
        told += [f"made_up={int((~self.mask).sum())}", f"corrupt={int(self.corrupt.sum())}"]
        return f"Clip({', '.join(told)})"


def frame_times(index: VideoIndex, frame_numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Return the presentation times of a clip's frames in seconds, float64[T]; NaN for constant padding."""
    constant = frame_numbers == CONSTANT_FRAME
    return np.where(constant, np.nan, index.timestamps[np.where(constant, 0, frame_numbers)])


def tensor_summary(tensor: torch.Tensor) -> str:
    """Describe the type, shape and device of a tensor.

    Examples:
        >>> tensor_summary(torch.zeros(2, 3))
        'float32[2, 3] on cpu'
    """
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)} on {tensor.device}"
