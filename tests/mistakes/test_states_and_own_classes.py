"""Mistakes with states of other loaders, and with classes and functions that users write."""

# mypy: ignore-errors
from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import torch
from first_day import Mistakes, check_answer, data, first, loader

import videoloader as vl
from videoloader.interop.torch import BatchStream


class Nameless:
    pad = "edge"

    def num_clips(self, video):
        return 1

    def frame_numbers(self, video, clip, rng):
        return np.arange(4)


def of_class(base, **members):
    """An object of a class of the user's."""
    return type("Mine", (base,), members)()


def with_mine(base, *, last=False, **members):
    """The first batch of a loader with a transform of the user's."""
    mine, resize = of_class(base, **members), vl.Resize((16, 24))
    return first(transforms=[resize, mine] if last else [mine, resize])


def with_mode(frames=(0, 1), clips=1, pad="edge"):
    """The first batch of a loader with a frame mode of the user's."""
    given = {"frame_numbers": lambda *_: frames, "num_clips": lambda *_: clips, "pad": pad}
    return first(of_class(object, **given))


def with_function(function):
    """The first batch of a loader with a function of the user's."""
    return first(transforms=[vl.Resize((16, 24)), function])


MISTAKES: Mistakes = {
    "a draw that gives a transform": (
        lambda: with_mine(vl.PixelTransform, draw=lambda self, rng, clip: vl.Brightness(0.5)),
        "Mine.draw must give a list of operations, as Brightness(0.5).draw(rng, clip) does, got Brightness(",
    ),
    "a draw that gives a list of transforms": (
        lambda: with_mine(vl.PixelTransform, draw=lambda self, rng, clip: [vl.Brightness(0.5)]),
        "Mine.draw must give a list of operations … got [Brightness(",
    ),
    "a draw that gives nothing": (
        lambda: with_mine(vl.PixelTransform, draw=lambda self, rng, clip: None),
        "Mine.draw must give a list of operations … got None",
    ),
    "a draw in a choice that gives nothing": (
        lambda: with_function(vl.RandomApply(of_class(vl.PixelTransform, draw=lambda self, rng, clip: None), p=1)),
        "Mine.draw must give a list of operations … got None",
    ),
    "a plan that gives nothing": (
        lambda: with_mine(vl.GeometryStep, plan=lambda self, geometry, rng: None),
        "Mine.plan must give a Geometry, as CenterCrop(32).plan(geometry, rng) does, got None",
    ),
    "a plan behind a rotation that gives nothing": (
        lambda: first(transforms=[vl.Rotate(5), of_class(vl.GeometryStep, plan=lambda *_: (8, 8))]),
        "Mine.plan must give a Geometry … got (8, 8)",
    ),
    "positions after the end": (
        lambda: with_mine(vl.TimeTransform, positions=lambda self, rng, length: np.arange(length) + 1),
        "Mine.positions must give a row of integers in [0, 4), got array([",
    ),
    "positions before the start": (
        lambda: with_mine(vl.TimeTransform, positions=lambda self, rng, length: np.arange(length) - 1),
        "Mine.positions must give a row of integers in [0, 4), got array([-1",
    ),
    "positions of floats": (
        lambda: with_mine(vl.TimeTransform, positions=lambda self, rng, length: np.linspace(0, 1, length)),
        "Mine.positions must give a row of integers in [0, 4), got array([0.",
    ),
    "positions that NumPy cannot read": (
        lambda: with_mine(vl.TimeTransform, positions=lambda self, rng, length: torch.zeros(4, requires_grad=True)),
        "Mine.positions must give a row of integers in [0, 4), got ",
    ),
    "no operation in a padded batch": (
        lambda: next(iter(loader(transforms=[of_class(vl.PixelTransform, draw=lambda self, *_: [1])], collate="pad"))),
        "1 is not an operation on pixels",
    ),
    "a mix that gives frames alone": (
        lambda: with_mine(vl.Mixing, last=True, num_classes=2, mix=lambda self, frames, *_: frames),
        "Mine.mix must give two tensors for 2 clips: frames and labels, got tensor(",
    ),
    "a mix that gives fewer clips": (
        lambda: with_mine(
            vl.Mixing, last=True, num_classes=2, mix=lambda self, frames, labels, *_: (frames[:1], torch.zeros(1, 2))
        ),
        "Mine.mix must give two tensors for 2 clips",
    ),
    "a mix without a number of classes": (
        lambda: with_mine(vl.Mixing, last=True, mix=lambda self, frames, labels, *_: (frames, labels)),
        "Mine's num_classes must be a positive integer, got None",
    ),
    "no frames of a mode": (
        lambda: with_mode([]),
        "Mine.frame_numbers must give frames in [0, 30) with pad='edge', got []",
    ),
    "frames of a mode after the end": (
        lambda: with_mode([0, 99], pad="none"),
        "Mine.frame_numbers must give frames in [0, 30) with pad='none', got [0, 99]",
    ),
    "half a clip of a mode": (lambda: with_mode(clips=1.5), "Mine.num_clips must be an integer of at least 0, got 1.5"),
    "less than no clips of a mode": (lambda: with_mode(clips=-1), "Mine.num_clips must be an integer … got -1"),
    "a predicate of several values": (
        lambda: with_function(vl.When(lambda clip: np.array([True, False]), vl.Grayscale())),
        "When's predicate must give True or False, got array([ True, False])",
    ),
    "a module that gives a number": (
        lambda: with_function(vl.transforms.Module(lambda frames: frames.float().mean())),
        "<lambda> gave Tensor, not a tensor of frames",
    ),
    "an augmentation that gives no pixels": (
        lambda: with_function(
            vl.transforms.augmentation(magnitudes=(0, 1))(lambda frames, params: frames.to_sparse()).at(0.5)
        ),
        "gave torch.sparse_coo of torch.uint8 [2, 4, 3, 16, 24] on cpu for torch.uint8",
    ),
    "a function that gives nothing": (
        lambda: with_function(vl.PythonFunction(lambda frames, rng: None)),
        "<lambda> gave None for uint8 of shape (4, 3, 16, 24)",
    ),
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
    "None for the state of a stream": (
        lambda: BatchStream(partial(loader)).load_state_dict(None),
        "not the state of a BatchStream or a VideoDataModule, which state_dict() gives: None",
    ),
    "the state of a stream of batches": (
        lambda: BatchStream(partial(loader)).load_state_dict(loader().state_dict()),
        "not the state of a BatchStream or a VideoDataModule, which state_dict() gives: {'epoch': 0",
    ),
}


@pytest.mark.parametrize(("call", "words"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_answered(call: Callable[[], object], words: str) -> None:
    check_answer(call, words)
