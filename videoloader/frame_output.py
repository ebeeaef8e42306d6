"""The pixel values that a loader is asked for, from its arguments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from videoloader.convert import Color, OutputSpec, fill_color
from videoloader.errors import ConfigurationError
from videoloader.transforms import Transform, plan_output

_DTYPES = {
    "uint8": torch.uint8, "float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32,
}  # fmt: skip


def frame_output(
    transforms: Sequence[Transform], dtype: str | torch.dtype, color: Color, fill_value: float | Sequence[float]
) -> OutputSpec:
    """What frames are converted to.

    Args:
        transforms: of which only Normalize matters.
        dtype: PyTorch's own or its name.
        color, fill_value: see ``VideoLoader``.

    Raises:
        ConfigurationError: an argument has no such value, or they do not go together; see ``plan_output``.
    """
    if isinstance(dtype, str) and dtype not in _DTYPES:
        raise ConfigurationError(f"dtype is {dtype!r}, not one of {', '.join(_DTYPES)}")
    output = plan_output(transforms, _DTYPES[dtype] if isinstance(dtype, str) else dtype, color)
    return replace(output, fill_value=fill_color(fill_value))


def check_choices(**choices: tuple[object, tuple[object, ...]]) -> None:
    """Raise ConfigurationError unless each argument is one of its values, given as (value, allowed values)."""
    for name, (value, allowed) in choices.items():
        if value not in allowed:
            raise ConfigurationError(f"{name} is {value!r}, not one of {', '.join(map(str, allowed))}")
