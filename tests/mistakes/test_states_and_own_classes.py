"""Mistakes with states of other loaders, and with classes and functions that users write."""

# mypy: ignore-errors
from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import torch
from first_day import Mistakes, check_answer, data, loader

import videoloader as vl
from videoloader.interop.torch import BatchStream


class Nameless:
    pad = "edge"

    def num_clips(self, video):
        return 1

    def frame_numbers(self, video, clip, rng):
        return np.arange(4)


MISTAKES: Mistakes = {
    "a state of another mode": (
        lambda: loader(vl.RandomWindow(8)).load_state_dict(loader().state_dict()),
        "the state is of another frame mode: RandomWindow(length=4 … and not RandomWindow(length=8",
    ),
    "a state of another number of clips": (
        lambda: loader(vl.RandomWindow(4, clips=3)).load_state_dict(loader().state_dict()),
        "the state is of another frame mode: RandomWindow(length=4 … clips=1 … and not … clips=3",
    ),
    "a state of another order": (
        lambda: loader(shuffle=True).load_state_dict(loader().state_dict()),
        "the state is of another order: InOrder() and not ShuffleClips()",
    ),
    "a state of other rows": (
        lambda: loader(dataset=data()[:1]).load_state_dict(loader().state_dict()),
        "the state is of another data set: 2 rows … and not 1 row",
    ),
    "a state of another sharding": (
        lambda: loader(sharding="stick_to_shard").load_state_dict(loader().state_dict()),
        "the state is of another sharding: all clips in one order and not 'stick_to_shard'",
    ),
    "a state of a mode without a name": (
        lambda: loader(Nameless()).load_state_dict(loader(Nameless()).state_dict()),
        "the state is of another frame mode … make the class a frozen dataclass",
    ),
    "a state in a checkpoint": (
        lambda: loader().load_state_dict({"model": {}, "loader": loader().state_dict()}),
        "not the state of a loader, but a dict with one: give state['loader']",
    ),
    "the state of a model": (
        lambda: loader().load_state_dict(torch.nn.Linear(2, 2).state_dict()),
        "not the state of a loader, which state_dict() gives: OrderedDict([('weight', tensor(",
    ),
    "the state of a stream of batches": (
        lambda: BatchStream(partial(loader)).load_state_dict(loader().state_dict()),
        "not the state of a loader",
    ),
}


@pytest.mark.parametrize(("call", "words"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_answered(call: Callable[[], object], words: str) -> None:
    check_answer(call, words)
