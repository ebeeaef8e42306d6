"""Sorts a list of transforms by where they run: on positions, in conversion, or on the batch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
import torch

from videoloader.convert.spec import Color, Geometry, Layout, OutputSpec
from videoloader.errors import ArgumentError, ConfigurationError
from videoloader.errors.attribute_names import RowColumns
from videoloader.errors.checks import ClassNumber, check_integer
from videoloader.errors.notes import note
from videoloader.errors.short_text import short_text
from videoloader.transforms.augmentation import Augmentation
from videoloader.transforms.backends.apply import apply_operations
from videoloader.transforms.crop_to_box import check_boxes_first
from videoloader.transforms.mixing import Mixing
from videoloader.transforms.modules import Module
from videoloader.transforms.normalize import DType, Normalize, ToFloat, output_dtype
from videoloader.transforms.operations import (
    IN_TRANSFORM,
    ClipInfo,
    Operation,
    PixelTransform,
    Transform,
    operations_of,
)
from videoloader.transforms.planning.composing import group_geometric, output_size
from videoloader.transforms.planning.fused_geometry import plan_geometries, split_conversion
from videoloader.transforms.planning.steps import ConversionStep, GeometryStep, Step, ViewStep
from videoloader.transforms.replay import Kind, Picture, replay
from videoloader.transforms.time import TimeTransform, apply_to_positions
from videoloader.transforms.views import count_views

Transforms: TypeAlias = Sequence[Transform | torch.nn.Module] | Transform | torch.nn.Module | None


class DrawnView(NamedTuple):
    """One view of a clip with everything that was drawn for it.

    Attributes:
        geometry: the part that conversion carries out.
        operations: operations on the converted pixels.
        seeds: seeds for the modules that get floats.
        size: (height, width) of the video's displayed frames.
    """

    geometry: Geometry
    operations: tuple[Operation, ...]
    seeds: tuple[int, ...]
    size: tuple[int, int]

    def replay(self, tensor: torch.Tensor, kind: Kind) -> Any:
        """Apply what was drawn to other data of the same frames; see ``videoloader.transforms.replay``.

        Args:
            tensor: tensor. The data, as in ``Batch.replay``.
            kind: str. The kind of the data, as in ``Batch.replay``.

        Raises:
            ConfigurationError: the data are not of this kind, or not in the size of the video.
        """
        moved = replay(tensor, self.geometry, self.operations, kind)
        height, width = tensor.shape[-2:] if kind in get_args(Picture) else self.size
        if (height, width) != self.size:
            of_video = f"the video's frames are {self.size[0]}×{self.size[1]}"
            raise ConfigurationError(f"{kind} must be in the size of the video, got {height}×{width}: {of_video}")
        return moved


@dataclass(frozen=True, eq=False)
class TransformPipeline:
    """The way to carry out a list of transforms.

    Attributes:
        time: temporal transforms, applied before any frame is decoded.
        conversion: the leading geometric transforms, which conversion carries out as it writes a frame.
        pixels: the next transforms, on the decoded frames of the batch, uint8[B, T, 3, H, W].
        decoded: format of the pixels that conversion writes.
        modules: modules that get floats.
        output: format of the finished batch's pixels.
        mixing: mixing of the finished batch; None for none.
    """

    time: tuple[TimeTransform, ...]
    conversion: tuple[ConversionStep, ...]
    pixels: tuple[PixelTransform, ...]
    modules: tuple[Module, ...]
    decoded: OutputSpec
    output: OutputSpec
    mixing: Mixing | None
    # Caches output sizes of ``pixels`` by transform number and input size; they are the same for all clips.
    _sizes: dict[tuple[int, int, int], tuple[int, int]] = field(default_factory=dict, init=False, repr=False)

    @property
    def fused(self) -> bool:
        """Whether conversion writes the output pixels, before modules."""
        return not self.pixels

    @property
    def views(self) -> int:
        """The number of views that a clip has; each fills a row of the batch."""
        return count_views(self.conversion)

    def one_view(self) -> TransformPipeline:
        """Return this pipeline, or raise ConfigurationError if it makes several views of a clip or mixes clips."""
        if self.mixing is not None:
            raise ConfigurationError("MixUp, CutMix and MixChoice work only in loaders of batches: leave them out here")
        if self.views > 1:
            raise ConfigurationError(f"the transforms make {self.views} views of a clip, but one is wanted here")
        return self

    def positions(self, rng: np.random.Generator, length: int) -> npt.NDArray[np.int64]:
        """int64[length]: for each position of a clip, the index of the frame to show among those of its mode."""
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
        """Draw everything that is random about the pixels of a clip, for each of its views.

        Args:
            display_size: (height, width) of the video's displayed frames.
            length: number of frames.
            rng: the clip's own generator; each transform draws from it in turn.
            label, columns: see ``ClipInfo``.

        Raises:
            ConfigurationError: a transform cannot be applied to frames of that size.
        """
        label = None if label is None else ClassNumber(label)
        clip = ClipInfo(length, *display_size, label, RowColumns() if columns is None else columns)
        geometries = plan_geometries(self.conversion, display_size, rng, clip)
        return [
            DrawnView(
                geometry,
                self._draw_operations(ClipInfo(length, *geometry.output_size, label, clip.columns), rng),
                tuple(int(rng.integers(1 << 63)) for _ in self.modules),
                display_size,
            )
            for geometry in geometries
        ]

    def _draw_operations(self, clip: ClipInfo, rng: np.random.Generator) -> tuple[Operation, ...]:
        drawn: list[Operation] = []
        for number, transform in enumerate(self.pixels):
            height, width = self._output_size(number, clip.height, clip.width)
            drawn += operations_of(transform, rng, clip)
            clip = clip._replace(height=height, width=width)
        return tuple(drawn)

    def _output_size(self, number: int, height: int, width: int) -> tuple[int, int]:
        key = number, height, width
        if key not in self._sizes:
            self._sizes[key] = output_size([self.pixels[number]], (height, width))
        return self._sizes[key]

    def apply(self, frames: torch.Tensor, drawn: Sequence[DrawnView], layout: Layout) -> torch.Tensor:
        """Carry out the steps after conversion, on the current CUDA stream if the frames are on a GPU.

        Args:
            frames: decoded frames of B clips: uint8[B, T, 3, H, W], or already in the layout if no pixels are
                transformed.
            drawn: one view for each clip.
            layout: layout of the result.
        """
        if self.pixels:
            frames = apply_operations(frames, [view.operations for view in drawn], self.output, layout)
        return self.apply_modules(frames, drawn, layout)

    def apply_modules(self, frames: torch.Tensor, drawn: Sequence[DrawnView], layout: Layout) -> torch.Tensor:
        """Carry out the modules after the operations."""
        for number, module in enumerate(self.modules):
            with note(IN_TRANSFORM, module):
                frames = module.in_layout(frames, layout, np.array([view.seeds[number] for view in drawn], np.int64))
        return frames


def list_transforms(transforms: Transforms) -> list[Transform | torch.nn.Module]:
    """Transforms given as a list, a single transform, or None, as a list.

    Raises:
        ArgumentError: they are none of these.
    """
    if isinstance(transforms, Transform | torch.nn.Module):
        return [transforms]
    is_list = isinstance(transforms, Iterable) and not isinstance(transforms, str | Mapping | type | torch.Tensor)
    if isinstance(transforms, Set):
        raise ArgumentError(f"transforms must be a list, got a {type(transforms).__name__}, which has no order")
    if transforms is not None and not is_list:
        told = f"transforms must be a list of transforms, got {short_text(transforms)}"
        raise ArgumentError(f"{told}: {_instead_of(transforms)}")
    return [] if transforms is None else list(transforms)


def _instead_of(given: object) -> str:
    """Advice on what to write in place of an object that is not a transform."""
    if given is None:
        return "leave it out"
    if isinstance(given, type):
        return f"write {given.__name__}(…)"
    if isinstance(given, list | tuple):
        return "write one list, with a * before each list in it"
    if isinstance(given, Augmentation):
        return f"write {given.name}.at({'magnitude' if given.strength else ''})"
    if hasattr(given, "transforms"):
        return f"a {type(given).__name__} stands alone, so write *compose.transforms in its place"
    if callable(given):
        return "write Module(f) for a function of tensors, PythonFunction(f) for one of arrays"
    return "write the transform itself, such as Resize(224)"


def arrange_transforms(
    transforms: Transforms,
    dtype: DType | torch.dtype | None = None,
    color: Color = "rgb",
    fill_value: tuple[float, float, float] = (0.0, 0.0, 0.0),
) -> TransformPipeline:
    """Plan how a list of transforms is carried out.

    Args:
        transforms: list, single transform or function; see ``list_transforms``. Temporal transforms may be anywhere;
            transforms of pixels come before ``Normalize`` or ``ToFloat``, and mixing comes last. A ``torch.nn.Module``
            is wrapped in ``Module``.
        dtype: default None. See ``output_dtype``.
        color, fill_value: see ``OutputSpec``.

    Raises:
        ConfigurationError: an item is not a transform; there are two Normalize, one with uint8 output, or one before
            transforms of pixels that are not modules; a CropToBox follows others; mixing is not last, or comes twice;
            there is no such dtype or color; or pixels that are not RGB are transformed, or normalised by the statistics
            of ImageNet.
    """
    time: list[TimeTransform] = []
    mixing: Mixing | None = None
    steps: list[Step | ViewStep | Normalize | ToFloat] = []
    for number, given in enumerate(list_transforms(transforms)):
        step = Module(given) if isinstance(given, torch.nn.Module) else given
        if isinstance(step, TimeTransform):
            time.append(step)
        elif mixing is not None:
            raise ConfigurationError("mixing must be the last transform, and there can be only one: see MixChoice")
        elif isinstance(step, Mixing):
            check_integer(f"{type(step).__name__}'s num_classes", getattr(step, "num_classes", None))
            mixing = step
        elif isinstance(step, PixelTransform | GeometryStep | ViewStep | Normalize | ToFloat):
            steps.append(step)
        else:
            told = f"number {number} of the transforms is {short_text(step)}, which is not a transform"
            raise ArgumentError(f"{told}: {_instead_of(step)}")
    to_floats = [step for step in steps if isinstance(step, Normalize | ToFloat)]
    if len(to_floats) > 1:
        names = [type(step).__name__ for step in to_floats]
        keep = "drop the ToFloat, since Normalize makes floats itself" if len(set(names)) > 1 else "keep one of them"
        raise ConfigurationError(f"there is more than one Normalize or ToFloat among the transforms: {keep}")
    modules: list[Module] = []
    while to_floats and isinstance(last := steps[-1], Module):
        modules.insert(0, last)
        steps.pop()
    for step in steps:
        if isinstance(step, Module):
            step.check_keeps_pixels()
    final = steps[-1] if steps else None
    changes = [step for step in steps if not isinstance(step, Normalize | ToFloat)]
    check_boxes_first(changes)
    conversion, rest = split_conversion(changes)
    pixels = group_geometric(rest)
    if pixels and to_floats and final is not to_floats[0]:
        raise ConfigurationError(
            f"{type(final).__name__} comes after {type(to_floats[0]).__name__}, which only modules and mixing may "
            "follow once pixels are transformed"
        )
    if pixels and color != "rgb":
        raise ConfigurationError(f"{type(rest[0]).__name__} changes RGB pixels, but color is {color!r}")
    to_float = to_floats[0] if to_floats else None
    if to_float == Normalize() and color != "rgb":
        raise ConfigurationError(f"Normalize() has mean and std of RGB, but color is {color!r}: give it others")
    mean, std = (to_float.mean, to_float.std) if isinstance(to_float, Normalize) else (None, None)
    output = OutputSpec(output_dtype(dtype, to_float), mean, std, color, fill_value)
    decoded = OutputSpec(fill_value=fill_value) if pixels else output
    return TransformPipeline(tuple(time), tuple(conversion), tuple(pixels), tuple(modules), decoded, output, mixing)
