"""Transforms of tensors that do not come from a loader."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, get_args

import torch

from videoloader.convert import Layout
from videoloader.errors import ConfigurationError, check_choice
from videoloader.sampling import clip_rng
from videoloader.transforms.engines.engine import apply_operations
from videoloader.transforms.geometry.tensor_geometry import apply_geometry
from videoloader.transforms.normalize import DType
from videoloader.transforms.planning.pipeline import DrawnView, Transforms, arrange_transforms, list_transforms
from videoloader.transforms.replay import Kind, replay


class Compose:
    """The transforms of a ``VideoLoader`` for clips that are there already.

    Args:
        transforms: see ``arrange_transforms``; none that makes several views of a clip, or mixes clips.
        dtype: of the result: ``"uint8"`` (0 … 255), or a float type (0 … 1, or normalised), by name or PyTorch's own.
            Default: float32 with ``Normalize``, that of ``ToFloat`` with it, else uint8.
        layout: of the result.

    Attributes:
        transforms, dtype, layout: as given.

    Raises:
        ConfigurationError: the transforms cannot go together.

    Example:
        >>> augment = Compose([RandomResizedCrop(112), RandAugment(), Normalize()], dtype=torch.float16)
        >>> frames, masks = torch.zeros(2, 4, 3, 240, 320, dtype=torch.uint8), torch.zeros(2, 4, 240, 320)
        >>> frames, others = augment(frames, seed=1, apply_to={"mask": masks})
        >>> frames.shape, others["mask"].shape
        (torch.Size([2, 4, 3, 112, 112]), torch.Size([2, 4, 112, 112]))
    """

    def __init__(
        self, transforms: Transforms, *, dtype: DType | torch.dtype | None = None, layout: Layout = "TCHW"
    ) -> None:
        check_choice("layout", layout, get_args(Layout))
        self.transforms, self.dtype, self.layout = tuple(list_transforms(transforms)), dtype, layout
        self._plan = arrange_transforms(transforms, dtype)
        if self._plan.views > 1 or self._plan.mixing is not None:
            raise ConfigurationError("Compose gives one clip for each: no views, no mixing")

    def __call__(
        self,
        frames: torch.Tensor,
        seed: int,
        *,
        labels: Sequence[int] | None = None,
        apply_to: Mapping[Kind, torch.Tensor] | None = None,
    ) -> tuple[torch.Tensor, dict[Kind, Any]]:
        """Transform clips, each by draws of its own.

        Args:
            frames: uint8[B, T, 3, H, W], contiguous, on any device; they are not changed.
            seed: of the draws; clip b has the generator ``clip_rng(seed, 0, b)``.
            labels: of the B clips, for ``When``.
            apply_to: what is to be moved along: for each kind of ``Batch.replay`` the tensors of all clips, [B, ...].

        Returns:
            The frames in the layout and dtype asked for, and what became of ``apply_to``, stacked. Points and boxes are
            (moved, shown).

        Raises:
            ConfigurationError: frames or tensors have another shape or type.
        """
        if frames.ndim != 5 or frames.shape[2] != 3 or frames.dtype != torch.uint8:
            raise ConfigurationError(f"frames are {frames.dtype} {list(frames.shape)}, not torch.uint8 [B, T, 3, H, W]")
        clips, length, _, height, width = frames.shape
        drawn: list[DrawnView] = []
        shown: list[torch.Tensor] = []
        for clip in range(clips):
            rng = clip_rng(seed, 0, clip)
            shown.append(torch.from_numpy(self._plan.positions(rng, length)) if length else torch.arange(0))
            label = None if labels is None else int(labels[clip])
            drawn += self._plan.draw((height, width), length, rng, label=label)
        moved = torch.stack(
            [
                apply_geometry(each[at.to(each.device)], view.geometry)
                for each, at, view in zip(frames, shown, drawn, strict=True)
            ]
        )
        result = apply_operations(moved, [view.operations for view in drawn], self._plan.output, self.layout)
        result = self._plan.apply_modules(result, drawn, self.layout)
        others: dict[Kind, Any] = {}
        for kind, tensors in (apply_to or {}).items():
            timed = kind not in ("points", "boxes")
            made = [
                replay(each[at.to(each.device)] if timed else each, view.geometry, view.operations, kind)
                for each, at, view in zip(tensors, shown, drawn, strict=True)
            ]
            others[kind] = torch.stack(made) if timed else tuple(map(torch.stack, zip(*made, strict=True)))
        return result, others
