"""Where requests stand in a batch of any make, and the batch with something else in these places."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Any

import numpy as np
import torch

from videoloader.interop.torch.clip_request import ClipRequest

# A request by itself, or a list of nothing but requests, as ``default_collate`` makes it of a batch's.
Place = ClipRequest | list[ClipRequest]

# The most of a batch; told first, since they are no containers.
_LEAVES = (torch.Tensor, np.ndarray, str, bytes, int, float, type(None))


def fill_places(value: Any, make: Callable[[Place], Any]) -> Any:
    """A batch with every place in it filled, in the order in which it is gone through.

    Mappings, lists, tuples, named tuples and dataclasses are gone into. What holds no request stays the same object;
    what holds one is copied.

    Args:
        value: the batch.
        make: gives what stands in a place.
    """
    if isinstance(value, _LEAVES):
        return value
    if isinstance(value, ClipRequest):
        return make(value)
    if isinstance(value, list) and value and all(isinstance(each, ClipRequest) for each in value):
        return make(value)
    if isinstance(value, Mapping):
        filled = {key: fill_places(each, make) for key, each in value.items()}
        return value if all(filled[key] is value[key] for key in filled) else _mapping_like(value, filled)
    if isinstance(value, list | tuple):
        return _sequence_like(value, [fill_places(each, make) for each in value])
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _with_fields(value, make)
    return value


def places_of(value: Any) -> list[Place]:
    """The places in a batch, in the order of ``fill_places``."""
    found: list[Place] = []
    fill_places(value, found.append)
    return found


def _mapping_like(value: Mapping[Any, Any], filled: dict[Any, Any]) -> Mapping[Any, Any]:
    if not isinstance(value, MutableMapping):
        return type(value)(filled)  # type: ignore[call-arg]
    like = copy.copy(value)
    like.update(filled)
    return like


def _sequence_like(value: Sequence[Any], filled: list[Any]) -> Sequence[Any]:
    if all(new is old for new, old in zip(filled, value, strict=True)):
        return value
    if isinstance(value, list):
        like = copy.copy(value)
        like[:] = filled
        return like
    return value._make(filled) if hasattr(value, "_make") else tuple(filled)


def _with_fields(value: Any, make: Callable[[Place], Any]) -> Any:
    old = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    filled = {name: fill_places(each, make) for name, each in old.items()}
    if all(filled[name] is old[name] for name in old):
        return value
    like = copy.copy(value)
    for name, each in filled.items():
        object.__setattr__(like, name, each)  # also of frozen ones
    return like
