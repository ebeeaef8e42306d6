"""``Compose``: applies transforms to tensors that do not come from a loader."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, get_args, overload

import numpy as np
import torch

from videoloader.convert.rounding import round_to
from videoloader.convert.spec import OUTPUT_TYPES, Layout, OutputSpec
from videoloader.errors import ArgumentError, ConfigurationError
from videoloader.errors.argument_names import tells_of_arguments
from videoloader.errors.attribute_names import RowColumns
from videoloader.errors.checks import check, check_choice, check_shape
from videoloader.sampling.integers import one_integer
from videoloader.sampling.mode import clip_rng
from videoloader.transforms.backends.apply import apply_operations
from videoloader.transforms.geometry.tensor_geometry import apply_geometry
from videoloader.transforms.normalize import DType
from videoloader.transforms.planning.pipeline import DrawnView, Transforms, arrange_transforms, list_transforms
from videoloader.transforms.replay import Coordinates, Kind, Picture


class Compose:
    """Apply the transforms of a ``VideoLoader`` to existing clips. Loaders accept it in place of the list.

    Args:
        transforms: list, single transform or function. See ``arrange_transforms``. Transforms that make several views
            of a clip or mix clips are not allowed.
        dtype: str or torch.dtype, default float32 with ``Normalize``, the ``dtype`` of ``ToFloat`` if that is used,
            else the dtype of the input (float32 for float64; uint8 in a loader). The type of the result: ``"uint8"`` (0
            … 255) or a float type (0 … 1, or normalised).
        layout: str, default ``"TCHW"``. The order of the result's axes.

    Attributes:
        transforms: tuple. The transforms, in order.
        dtype: as given.
        layout: as given.

    Raises:
        ConfigurationError: the transforms are incompatible.

    Examples:
        >>> augment = Compose([RandomResizedCrop(112), RandAugment(), Normalize()], dtype=torch.float16)
        >>> clip = torch.zeros(4, 3, 240, 320, dtype=torch.uint8)
        >>> augment(clip).shape
        torch.Size([4, 3, 112, 112])
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
        self._plan = arrange_transforms(transforms, dtype).one_view()

    def __repr__(self) -> str:
        return f"Compose({list(self.transforms)}, dtype={self.dtype!r}, layout={self.layout!r})"

    @overload
    def __call__(
        self,
        frames: torch.Tensor,
        seed: int | None = None,
        *,
        labels: int | Sequence[int] | None = None,
        columns: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        apply_to: None = None,
    ) -> torch.Tensor: ...

    @overload
    def __call__(
        self,
        frames: torch.Tensor,
        seed: int | None = None,
        *,
        labels: int | Sequence[int] | None = None,
        columns: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        apply_to: Mapping[Kind, torch.Tensor],
    ) -> tuple[torch.Tensor, dict[Kind, Any]]: ...

    @tells_of_arguments
    def __call__(
        self,
        frames: torch.Tensor,
        seed: int | None = None,
        *,
        labels: int | Sequence[int] | None = None,
        columns: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        apply_to: Mapping[Kind, torch.Tensor] | None = None,
    ) -> Any:
        """Transform a clip, or several clips with separate draws.

        Args:
            frames: uint8, or floats in [0, 1], which are rounded to 8 bits as in a loader: [T, 3, H, W] for one clip or
                [B, T, 3, H, W], on any device. They are not changed.
            seed: int of at least 0 or None, default None. The seed of the draws: clip b is drawn with ``clip_rng(seed,
                0, b)``, as clip b of a loader's first epoch is. None draws a seed from PyTorch's generator, which
                ``torch.manual_seed`` controls and which differs between the workers of a DataLoader.
            labels: int or sequence of int, default None. The label of each clip, for ``When``; -1 and None mean no
                label, for which its predicate sees None.
            columns: mapping or sequence of them, default None. The other columns of each clip's row in a data set, for
                ``CropToBox``.
            apply_to: mapping, default None. Tensors to transform along with the frames: for each kind of
                ``Batch.replay``, those of all clips, [B, ...], or of the single clip.

        Returns:
            The frames in ``layout`` and ``dtype``, with the dimension B if the input has it. With ``apply_to``, a pair
            of the frames and the transformed tensors; points and boxes are (transformed, visible).

        Raises:
            ConfigurationError: frames or tensors have another shape or type, floats lie outside [0, 1], the output
                sizes of clips differ, or there is not one label or columns mapping for each clip.
        """
        if not isinstance(apply_to, Mapping | None):
            told = 'apply_to must be a dict of tensors, such as {"mask": masks}'
            raise ArgumentError(f"{told}, got a {type(apply_to).__name__}")
        for kind, given in (apply_to or {}).items():
            check_choice("the keys of apply_to", kind, get_args(Picture) + get_args(Coordinates))
            if not isinstance(given, torch.Tensor | Sequence):
                raise ArgumentError(f"{kind} of apply_to must be a tensor, got a {type(given).__name__}")
        pixels, output = self._checked(frames)
        single = frames.ndim == 4
        seed = int(torch.randint(1 << 62, (), device="cpu")) if seed is None else seed
        clips, length, _, height, width = pixels.shape
        all_labels = _one_each("labels", labels, clips, single)
        all_columns = _one_each("columns", columns, clips, single)
        drawn: list[DrawnView] = []
        shown: list[torch.Tensor] = []
        for clip in range(clips):
            rng = clip_rng(seed, 0, clip)
            shown.append(torch.from_numpy(self._plan.positions(rng, length) if length else np.empty(0, np.int64)))
            label = -1 if all_labels[clip] is None else one_integer(all_labels[clip])
            check("labels", all_labels[clip], label is not None and label >= -1, "integers of at least -1, or None")
            row = all_columns[clip]
            check("columns", row, isinstance(row, Mapping | None), "a dict of names and values for each clip")
            label, row = None if label == -1 else label, RowColumns(row or {})
            drawn += self._plan.draw((height, width), length, rng, label=label, columns=row)
        sizes = {view.geometry.output_size for view in drawn}
        if len(sizes) > 1:
            raise ConfigurationError(f"the clips come out as {sorted(sizes)}: add a Resize((height, width)) or a crop")
        parts = zip(pixels, shown, drawn, strict=True)
        moved = torch.stack([apply_geometry(each[at.to(each.device)], view.geometry) for each, at, view in parts])
        result = apply_operations(moved, [view.operations for view in drawn], output, self.layout)
        result = self._plan.apply_modules(result, drawn, self.layout)
        result = result[0] if single else result
        if apply_to is None:
            return result
        others: dict[Kind, Any] = {}
        for kind, given in apply_to.items():
            timed, tensors = kind not in ("points", "boxes"), given[None] if single else given
            check_shape(f"{kind} of apply_to", given, len(tensors) == clips, f"[{clips}, ...], one a clip")
            fits = not timed or all(each.shape[:1] == (length,) for each in tensors)
            check_shape(f"{kind} of apply_to", given, fits, f"of the {length} frames of its clip")
            made = [
                view.replay(each[at.to(each.device)] if timed else each, kind)
                for each, at, view in zip(tensors, shown, drawn, strict=True)
            ]
            stacked = torch.stack(made) if timed else tuple(map(torch.stack, zip(*made, strict=True)))
            others[kind] = made[0] if single else stacked
        return result, others

    def _checked(self, frames: torch.Tensor) -> tuple[torch.Tensor, OutputSpec]:
        """The frames as uint8[B, T, 3, H, W], and the output format."""
        if not isinstance(frames, torch.Tensor):
            instead = "torch.from_numpy takes an array, and video.read has transforms="
            if isinstance(frames, list | tuple):
                instead = "torch.stack makes one of several tensors"
            elif isinstance(getattr(frames, "frames", None), torch.Tensor):
                instead = f"give its frames, {type(frames).__name__.lower()}.frames"
            raise ArgumentError(f"frames must be a tensor, got {type(frames).__name__}: {instead}")
        floats, output = frames.is_floating_point(), self._plan.output
        fits = frames.ndim == 4 or (frames.ndim == 5 and len(frames) > 0)
        fits = fits and frames.shape[-3] == 3 and (floats or frames.dtype == torch.uint8)
        check_shape("frames", frames, fits, "uint8 or floats [T, 3, H, W] or [B, T, 3, H, W]")
        if floats:
            if self.dtype is None and output.dtype == torch.uint8:
                known = frames.dtype in OUTPUT_TYPES
                output = replace(output, dtype=frames.dtype if known else torch.float32)
            low, high = (float(each) for each in frames.aminmax()) if frames.numel() else (0.0, 1.0)
            if not (low >= 0 and high <= 1):
                raise ConfigurationError(
                    f"frames of {frames.dtype} must lie in [0, 1], got {low:g} … {high:g}: divide by 255, or clamp them"
                )
            frames = round_to(frames.float() * 255, torch.uint8)
        return frames if frames.ndim == 5 else frames[None], output


def _one_each(name: str, given: Any, clips: int, single: bool) -> Sequence[Any]:
    """One value for each clip; for a single clip it is given by itself."""
    if given is None:
        return [None] * clips
    if single and not isinstance(given, Sequence | torch.Tensor):
        given = [given]
    fits = hasattr(given, "__len__") and not isinstance(given, Mapping) and len(given) == clips
    check(name, given, fits, f"one for each of {clips} clips")
    return list(given)
