"""Checks arguments that all loaders share, and plans their transforms."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike, fspath
from typing import Literal

import torch

from videoloader.convert.spec import Color, fill_color
from videoloader.dataset import VideoDataset
from videoloader.decoding.engine import Decode
from videoloader.errors import ArgumentError, ConfigurationError, warn_user
from videoloader.errors.short_text import short_text
from videoloader.sampling.mode import FrameMode
from videoloader.sampling.roles import roles_of
from videoloader.transforms.compose import Compose
from videoloader.transforms.normalize import DType
from videoloader.transforms.planning.pipeline import TransformPipeline, Transforms, arrange_transforms
from videoloader.transforms.time import check_roles_kept

RaiseOrSkip = Literal["raise", "skip"]


def pipeline_of(
    transforms: Transforms | Compose,
    dtype: DType | torch.dtype | None,
    color: Color,
    fill_value: float | Sequence[float],
    mode: FrameMode | None = None,
) -> TransformPipeline:
    """The pipeline of a loader's transforms and output.

    Args:
        transforms: see ``arrange_transforms``; or a ``Compose``, whose ``dtype`` applies unless one is given here.
        dtype: see ``output_dtype``.
        color, fill_value: see ``VideoLoader``.
        mode: the frame mode of all clips, if there is one.

    Raises:
        ConfigurationError: an argument has a value that is not allowed, or arguments are incompatible; see
            ``arrange_transforms`` and ``check_roles_kept``.
    """
    if isinstance(transforms, Compose):
        if transforms.layout != "TCHW":
            raise ConfigurationError("the Compose has a layout: write layout= beside transforms instead")
        dtype, transforms = transforms.dtype if dtype is None else dtype, transforms.transforms
    pipeline = arrange_transforms(transforms, dtype, color, fill_color(fill_value))
    if roles_of(mode) is not None:
        check_roles_kept(mode, pipeline.time)
    return pipeline


def tell_of_unused(device: torch.device, decode: Decode, **for_nvdec: int | None) -> None:
    """Warn about given arguments that matter only where NVDEC decodes."""
    given = [name for name, value in for_nvdec.items() if value]
    if given and (device.type != "cuda" or decode == "cpu"):
        here = f"decode={decode!r}" if device.type == "cuda" else f"device {str(device)!r}"
        no_effect = "has no effect" if len(given) == 1 else "have no effect"
        warn_user(f"{' and '.join(given)} {no_effect} with {here}: this applies only where NVDEC decodes")


def check_dataset(dataset: object) -> None:
    """Raise ArgumentError, which says how to make a VideoDataset, unless the argument is one."""
    if isinstance(dataset, VideoDataset):
        return
    instead = "make it with VideoDataset.from_paths, from_folder or from_csv"
    if isinstance(dataset, str | PathLike):
        instead = f'write VideoDataset.from_folder("{fspath(dataset)}"), or from_csv or from_paths'
    elif hasattr(dataset, "indices"):
        instead = "write data[subset.indices], or use data.split(0.8), which keeps the rows of a video together"
    elif hasattr(dataset, "datasets"):
        instead = "data sets are joined as one + other"
    raise ArgumentError(f"dataset must be a VideoDataset, got {short_text(dataset)}: {instead}")
