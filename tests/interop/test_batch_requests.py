"""Requests are found in any structure of a batch, and everything else is left unchanged."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, UserDict
from types import MappingProxyType
from typing import Any

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_datasets import Pair, Sample

from videoloader.interop.torch import ClipRequest
from videoloader.interop.torch.batch_requests import find_requests, replace_requests

REQUESTS = [ClipRequest(f"{number}.mp4", [number]) for number in range(3)]
leaves = st.sampled_from([None, 1, 2.5, "text", b"bytes", torch.zeros(2), ..., int])
requests = st.sampled_from(REQUESTS)


def containers(content: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.lists(content, max_size=3),
        st.lists(content, max_size=3).map(tuple),
        st.tuples(content, content).map(lambda both: Pair(*both)),
        content.map(lambda clip: Sample(clip, "name")),
        st.dictionaries(st.text(max_size=2), content, max_size=3),
        st.dictionaries(st.text(max_size=2), content, max_size=3).map(OrderedDict),
        st.dictionaries(st.text(max_size=2), content, max_size=3).map(UserDict),
        st.dictionaries(st.text(max_size=2), content, max_size=3).map(MappingProxyType),
    )


def flattened(value: Any) -> list[Any]:
    """All that is in no container, in order, with the type of each container before it."""
    if isinstance(value, list | tuple):
        content = list(value)
    elif isinstance(value, Sample):
        content = [value.clip, value.name]
    elif hasattr(value, "items"):
        content = [each for item in value.items() for each in item]
    else:
        return [value]
    return [type(value), *(each for part in content for each in flattened(part))]


@given(st.recursive(leaves, containers))
def test_a_batch_without_requests_is_the_same_object(batch: Any) -> None:
    assert not find_requests(batch)
    assert replace_requests(batch, list) is batch


@given(st.recursive(leaves | requests, containers))
def test_all_requests_are_replaced_and_nothing_else_changes(batch: Any) -> None:
    before = flattened(batch)
    found = find_requests(batch)
    numbers = iter(range(len(found)))
    filled = flattened(replace_requests(batch, lambda asked: ("filled", asked, next(numbers)).__repr__()))
    assert flattened(batch) == before  # the batch itself stays as it was
    expected, remaining = [], list(enumerate(found))
    for each in _requests_as_one(batch):
        if remaining and each is remaining[0][1]:
            number, asked = remaining.pop(0)
            expected.append(("filled", asked, number).__repr__())
        else:
            expected.append(each)
    assert not remaining
    assert [repr(each) for each in filled] == [repr(each) for each in expected]


def _requests_as_one(value: Any) -> list[Any]:
    """As ``flattened``, but a list of nothing but requests counts as one thing."""
    if isinstance(value, list) and value and all(isinstance(each, ClipRequest) for each in value):
        return [value]
    if isinstance(value, list | tuple):
        return [type(value), *(each for part in value for each in _requests_as_one(part))]
    if isinstance(value, Sample):
        return [type(value), *_requests_as_one(value.clip), value.name]
    if hasattr(value, "items"):
        return [type(value), *(each for key, part in value.items() for each in [key, *_requests_as_one(part)])]
    return [value]


def test_a_tuple_of_requests_is_several_and_a_list_is_one() -> None:
    assert find_requests(tuple(REQUESTS)) == REQUESTS
    assert find_requests(REQUESTS) == [REQUESTS]
    assert find_requests([[REQUESTS[0]], REQUESTS[1]]) == [[REQUESTS[0]], REQUESTS[1]]


def test_frozen_dataclasses_are_copied() -> None:
    sample = Sample(REQUESTS[0], "name")
    assert replace_requests(sample, lambda _: 5) == dataclasses.replace(sample, clip=5)
    assert sample.clip is REQUESTS[0]
