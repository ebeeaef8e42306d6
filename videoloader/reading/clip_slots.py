"""``ClipSlots``: a clip to make, and the memory for it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch

from videoloader.convert.spec import Geometry


@dataclass(frozen=True, eq=False)
class ClipSlots:
    """A clip to make, or a part of one, with the memory for it.

    Attributes:
        frame_numbers: int64[T], in any order, repeats allowed; CONSTANT_FRAME stands for a frame of the fill value.
        geometry: the part of each frame that is wanted, and its output size.
        slots: [N, 3, H, W], any strides: memory of the whole clip, including its border.
        corrupt: bool[N], which frames of the whole clip are damaged or refer to damage; written when they are made.
            Always False where NVDEC decodes, since PyNvVideoCodec does not report which pictures the driver concealed.
            If NVDEC's parser refuses data, or gives too many or too few pictures or other sizes, the CPU decodes the
            whole clip.
        positions: int64[T], which of the N slots each frame goes to.
    """

    frame_numbers: npt.NDArray[np.int64]
    geometry: Geometry
    slots: torch.Tensor
    corrupt: npt.NDArray[np.bool_]
    positions: npt.NDArray[np.int64]

    @property
    def damaged(self) -> npt.NDArray[np.int64]:
        """Numbers of the frames that are corrupt."""
        return self.frame_numbers[self.corrupt[self.positions]]

    def only(self, chosen: npt.NDArray[np.bool_]) -> ClipSlots:
        """Return the part of the clip with the chosen frames, bool[T]."""
        return replace(self, frame_numbers=self.frame_numbers[chosen], positions=self.positions[chosen])


def whole_clip(frame_numbers: npt.NDArray[np.int64], geometry: Geometry, slots: torch.Tensor) -> ClipSlots:
    """Return a clip made in one go, frame after frame into its slots, [T, 3, H, W]."""
    length = len(frame_numbers)
    return ClipSlots(frame_numbers, geometry, slots, np.zeros(length, np.bool_), np.arange(length))
