"""Processes the frames of a batch in parts, so that intermediate results take bounded memory."""

from __future__ import annotations

from collections.abc import Callable

import torch

# Values at a time: enough to fill a GPU, 64 MiB in float32.
_PART = 1 << 24


def for_all_frames(frames: torch.Tensor, function: Callable[[torch.Tensor, slice], torch.Tensor]) -> torch.Tensor:
    """Apply a function that takes any number of frames to all frames, without autocast.

    Args:
        frames: [N, T, 3, H, W]; changed in place where they are contiguous.
        function: ``function(frames, places)`` gets [n, 3, H, W] and their slice of the N·T frames, and returns the same
            shape.

    Returns:
        [N, T, 3, H, W], of the frames' dtype.
    """
    flat = frames.flatten(0, 1)
    at_once = max(_PART // max(flat[0].numel(), 1), 1) if len(flat) else 1
    for start in range(0, len(flat), at_once):
        part = slice(start, min(start + at_once, len(flat)))
        with torch.autocast(frames.device.type, enabled=False):  # a training loop may have it on
            flat[part] = function(flat[part], part)
    return flat.view(frames.shape)
