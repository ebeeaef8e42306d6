"""The work items for the backends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch

from videoloader.convert.spec import Layout, OutputSpec, as_planes, shape_in
from videoloader.transforms.operations import Operation


class ClipWork(NamedTuple):
    """Operations on one clip, without ``BatchFunction``. Clips are given as rows of batches, since slicing is slow.

    Attributes:
        source: uint8[N, T, 3, H, W], contiguous; only read.
        source_row: row of the clip.
        operations: operations in order. Without any the clip is copied.
        target: memory of the result.
        target_row: row of the clip.
        last: whether the result is the output, so that ``target`` has the layout and dtype of the ``Finish``; otherwise
            it is uint8[N, T, 3, H', W'], contiguous.
    """

    source: torch.Tensor
    source_row: int
    operations: Sequence[Operation]
    target: torch.Tensor
    target_row: int
    last: bool


@dataclass(frozen=True)
class Finish:
    """The output format of a backend.

    Attributes:
        output: dtype and normalisation: ``value / 255 · scale + shift`` in float32, each step rounded.
        layout: order of a clip's dimensions.
    """

    output: OutputSpec
    layout: Layout

    def allocate(self, clips: int, length: int, size: tuple[int, int], device: torch.device) -> torch.Tensor:
        """Memory for the results: [B, T, 3, H, W] or with another order of the last four dimensions."""
        shape = shape_in(self.layout, length, *size)
        return torch.empty((clips, *shape), dtype=self.output.dtype, device=device)

    def frames(self, target: torch.Tensor) -> torch.Tensor:
        """A view of results as [B, T, 3, H, W]."""
        return as_planes(target, self.layout)
