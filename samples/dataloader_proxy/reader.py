"""The reader of ``before.py``: the usual loop over PyAV."""

from __future__ import annotations

import av
import numpy as np
import torch


def read_clip(path: str, numbers: list[int]) -> torch.Tensor:
    """uint8[T, 3, H, W]: the frames with these ascending numbers, decoded from the start of the video."""
    wanted, frames = set(numbers), []
    with av.open(path) as container:
        for number, frame in enumerate(container.decode(video=0)):
            if number in wanted:
                frames.append(frame.to_ndarray(format="rgb24"))
            if number >= numbers[-1]:
                break
    return torch.from_numpy(np.stack(frames)).permute(0, 3, 1, 2)
