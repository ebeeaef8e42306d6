"""Finds and replaces the requests in a batch of any structure."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Mapping, MutableMapping
from operator import is_
from typing import Any

import numpy as np
import torch

from videoloader.errors import warn_user
from videoloader.interop.torch.clip_request import ClipRequest

# A single request, or a list of requests only, as ``default_collate`` makes it.
Requests = ClipRequest | list[ClipRequest]

# Most of a batch has these types. They are checked first, since they are not containers.
_LEAVES = (torch.Tensor, np.ndarray, str, bytes, int, float, type(None))


def replace_requests(value: Any, make: Callable[[Requests], Any]) -> Any:
    """Replace the requests in a batch, in order of traversal.

    Mappings, lists, tuples, named tuples and dataclasses are traversed. Containers without requests stay the same
    object; containers with requests are copied.

    Args:
        value: the batch.
        make: returns the replacement of a request, or of a list of them.
    """
    if isinstance(value, _LEAVES):
        return value
    if isinstance(value, ClipRequest):
        return make(value)
    if isinstance(value, list) and value and all(isinstance(each, ClipRequest) for each in value):
        return make(value)
    if isinstance(value, Mapping):
        old, with_values = list(value.values()), _mapping_like
    elif isinstance(value, list | tuple):
        old, with_values = list(value), _sequence_like
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        old, with_values = [getattr(value, field.name) for field in dataclasses.fields(value)], _dataclass_like
    else:
        return value
    filled = [replace_requests(each, make) for each in old]
    return value if all(map(is_, filled, old)) else with_values(value, filled)


def find_requests(value: Any) -> list[Requests]:
    """The requests in a batch, in the order of ``replace_requests``; a warning is given if there are none."""
    found: list[Requests] = []
    replace_requests(value, found.append)
    if not found:
        warn_user(f"a batch ({type(value).__name__}) holds no ClipRequest, so nothing of it is decoded")
    return found


def _mapping_like(value: Any, values: list[Any]) -> Any:
    filled = dict(zip(value, values, strict=True))
    if not isinstance(value, MutableMapping):
        return type(value)(filled)
    like = copy.copy(value)
    like.update(filled)
    return like


def _sequence_like(value: Any, values: list[Any]) -> Any:
    if isinstance(value, list):
        like = copy.copy(value)
        like[:] = values
        return like
    return value._make(values) if hasattr(value, "_make") else tuple(values)


def _dataclass_like(value: Any, values: list[Any]) -> Any:
    like = copy.copy(value)
    for field, each in zip(dataclasses.fields(value), values, strict=True):
        object.__setattr__(like, field.name, each)  # works for frozen dataclasses, too
    return like
