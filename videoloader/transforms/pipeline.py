"""From a list of transforms to the steps that carry them out: in the plan of frames, in conversion, on the batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import torch

from videoloader.convert import Color, Geometry, OutputSpec
from videoloader.errors import ConfigurationError
from videoloader.transforms.mixing import Mixing
from videoloader.transforms.normalize import Normalize
from videoloader.transforms.operations import ClipInfo, Operation, PixelTransform, Warp
from videoloader.transforms.plan import ConversionStep, plan_geometries, split_conversion
from videoloader.transforms.steps import GeometryStep, ViewStep
from videoloader.transforms.time import TimeTransform, apply_to_positions
from videoloader.transforms.views import count_views

Transform: TypeAlias = TimeTransform | GeometryStep | ViewStep | PixelTransform | Normalize | Mixing
_METHODS = ("positions", "plan", "plan_views", "draw", "mix")
Stages: TypeAlias = tuple[tuple[Operation, ...], ...]


class DrawnView(NamedTuple):
    """One view of a clip with all that was drawn for it.

    Attributes:
        geometry: that conversion carries out.
        stages: the operations of each pixel transform.
    """

    geometry: Geometry
    stages: Stages


@dataclass(frozen=True, eq=False)
class TransformPlan:
    """How a list of transforms is carried out.

    Attributes:
        time: those of positions, which choose among the frames of a clip before any is decoded.
        conversion: the first of the others, which conversion carries out as it writes a frame.
        stages: those that follow, on the pixels of the batch, uint8[B, T, 3, H, W].
        decoded: the pixels that conversion writes.
        output: the pixels that are given out.
        mixing: of the finished batch; None for none.
    """

    time: tuple[TimeTransform, ...]
    conversion: tuple[ConversionStep, ...]
    stages: tuple[PixelTransform, ...]
    decoded: OutputSpec
    output: OutputSpec
    mixing: Mixing | None

    @property
    def fused(self) -> bool:
        """Whether conversion does all there is to do."""
        return not self.stages

    @property
    def views(self) -> int:
        """How many views a clip has; each fills a row of the batch."""
        return count_views(self.conversion)

    def positions(self, rng: np.random.Generator, length: int) -> npt.NDArray[np.int64]:
        """int64[length]: which of the frames that its mode chose a clip shows at each position."""
        return apply_to_positions(self.time, rng, length)

    def draw(
        self,
        display_size: tuple[int, int],
        length: int,
        rng: np.random.Generator,
        *,
        label: int | None = None,
        columns: Mapping[str, Any] | None = None,
    ) -> list[DrawnView]:
        """All that is random about the pixels of a clip, for each of its views.

        Args:
            display_size: (height, width) of the video's frames as a player shows them.
            length: frames.
            rng: the clip's own generator; each transform draws from it in turn.
            label, columns: see ``ClipInfo``.

        Raises:
            ConfigurationError: a transform cannot be applied to frames of that size.
        """
        clip = ClipInfo(length, *display_size, label, columns or {})
        geometries = plan_geometries(self.conversion, display_size, rng, clip)
        return [
            DrawnView(geometry, self._draw_stages(ClipInfo(length, *geometry.output_size, label, columns or {}), rng))
            for geometry in geometries
        ]

    def _draw_stages(self, clip: ClipInfo, rng: np.random.Generator) -> Stages:
        stages = []
        for transform in self.stages:
            operations = tuple(transform.draw(rng, clip))
            stages.append(operations)
            for operation in operations:
                if isinstance(operation, Warp):
                    clip = clip._replace(height=operation.size[0], width=operation.size[1])
        return tuple(stages)

    def apply(self, frames: torch.Tensor, drawn: Sequence[Stages], layout: str) -> torch.Tensor:
        """Carry out the stages, on the current CUDA stream where the frames are on a GPU.

        Args:
            frames: of B clips as decoded: uint8[B, T, 3, H, W], or what is given out where there are no stages.
            drawn: for each clip.
            layout: of what is given out.
        """
        if self.fused:
            return frames
        from videoloader.transforms.engine import apply_operations, finish

        for number in range(len(self.stages)):
            frames = apply_operations(frames, [stages[number] for stages in drawn])
        return finish(frames, self.output, layout)


def arrange_transforms(
    transforms: Sequence[Transform],
    dtype: torch.dtype,
    color: Color = "rgb",
    fill_value: tuple[float, float, float] = (0.0, 0.0, 0.0),
) -> TransformPlan:
    """How a list of transforms is to be carried out.

    Args:
        transforms: in the order in which they apply. Those of positions may stand anywhere; transforms of pixels come
            before ``Normalize``, mixing last of all.
        dtype, color, fill_value: see ``OutputSpec``.

    Raises:
        ConfigurationError: something is no transform; there is more than one Normalize, one with uint8 output, or one
            before transforms of pixels; mixing is not the last, or twice there; a dtype or color that there is not;
            pixels are transformed that are not RGB.
    """
    for number, step in enumerate(transforms):
        if not any(hasattr(step, method) for method in _METHODS) and not isinstance(step, Normalize):
            raise ConfigurationError(f"number {number} of the transforms is {step!r}, which is no transform")
    time = cast("tuple[TimeTransform, ...]", tuple(step for step in transforms if hasattr(step, "positions")))
    transforms = [step for step in transforms if not hasattr(step, "positions")]
    mixes = bool(transforms) and hasattr(transforms[-1], "mix")
    mixing = cast(Mixing, transforms.pop()) if mixes else None
    if any(hasattr(step, "mix") for step in transforms):
        raise ConfigurationError("mixing must be the last of the transforms, and only once there: see MixChoice")
    found = [step for step in transforms if isinstance(step, Normalize)]
    if len(found) > 1:
        raise ConfigurationError("there is more than one Normalize among the transforms")
    normalize = found[0] if found else None
    steps = [step for step in transforms if step is not normalize]
    mean, std = (normalize.mean, normalize.std) if normalize else (None, None)
    output = OutputSpec(dtype, mean, std, color, fill_value)
    conversion, stages = split_conversion(steps)
    if stages and normalize and transforms[-1] is not normalize:
        raise ConfigurationError("Normalize comes before others: after transforms of pixels it must be the last")
    if stages and color != "rgb":
        raise ConfigurationError(f"{type(stages[0]).__name__} changes RGB pixels, but color is {color!r}")
    decoded = OutputSpec(fill_value=fill_value) if stages else output
    return TransformPlan(
        time, tuple(conversion), cast("tuple[PixelTransform, ...]", tuple(stages)), decoded, output, mixing
    )
