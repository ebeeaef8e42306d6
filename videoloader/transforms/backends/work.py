"""The work items for the backends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch

from videoloader.transforms.operations import Operation


class ClipWork(NamedTuple):
    """Operations on one clip, without ``BatchFunction``. Clips are given as rows of batches, since slicing is slow.

    Attributes:
        source: uint8[N, T, 3, H, W], contiguous; only read.
        source_row: row of the clip.
        operations: operations in order. Without any the clip is copied.
        target: memory of the result.
        target_row: row of the clip.
        last: whether the result is the output, so that ``target`` is [N, T, 3, H', W'] of the output's dtype, in memory
            of any layout; otherwise it is uint8, contiguous.
    """

    source: torch.Tensor
    source_row: int
    operations: Sequence[Operation]
    target: torch.Tensor
    target_row: int
    last: bool
