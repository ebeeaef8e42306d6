"""Batches compared in all fields of ``Batch``, also those that will be added."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import torch

import videoloader as vl
from videoloader.transforms.planning.pipeline import DrawnView


def assert_same_batches(given: Iterable[vl.Batch], expected: Iterable[vl.Batch], but: Sequence[str] = ()) -> None:
    """Assert that batches are the same to the last bit.

    Args:
        given, expected: the batches.
        but: fields that differ.
    """
    one, other = ([(type(batch), _told(batch, but)) for batch in batches] for batches in (given, expected))
    np.testing.assert_equal(one, other)


def _told(batch: vl.Batch, but: Sequence[str]) -> dict[str, Any]:
    return {each.name: _plain(getattr(batch, each.name)) for each in fields(batch) if each.name not in but}


def _plain(value: Any) -> Any:
    """A value as ``assert_equal`` compares it, arrays with their types."""
    if isinstance(value, torch.Tensor):
        return str(value.dtype), value.double().numpy()
    if isinstance(value, np.ndarray):
        return str(value.dtype), value
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, DrawnView):
        return repr(value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(each) for each in value]
    return value
