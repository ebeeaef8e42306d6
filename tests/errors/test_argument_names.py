"""Messages of constructors and functions about unknown arguments."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from synthetic_index import make_index

import videoloader as vl
from videoloader.errors import ArgumentError
from videoloader.errors.argument_names import tells_of_arguments

DATA = vl.VideoDataset.from_paths(["a.mp4"])
MODE = vl.RandomWindow(4)
INDEX = make_index([0, 1, 2], {0})
# Arguments are looked at before the video.
VIDEO, LOADER = vl.Video.__new__(vl.Video), vl.VideoLoader.__new__(vl.VideoLoader)


def loader(**arguments: Any) -> vl.VideoLoader:
    return vl.VideoLoader(DATA, MODE, batch_size=2, **arguments)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: loader(drop_last=True), 'VideoLoader has no argument drop_last: write last_batch="drop"'),
        (lambda: loader(pin_memory=True), "VideoLoader has no argument pin_memory: leave it out, frames lie on"),
        (
            lambda: loader(persistent_workers=True),
            "no argument persistent_workers: leave it out, threads and processes last",
        ),
        (lambda: loader(num_threads=4), "no argument num_threads: write num_workers"),
        (lambda: loader(workers=4), "no argument workers: write num_workers"),
        (lambda: loader(ctx="gpu"), "no argument ctx: write device"),
        (lambda: loader(collate_fn=list), 'no argument collate_fn: write collate="stack", "pad" or "list"'),
        (lambda: loader(transform=[]), "no argument transform: write transforms"),
        (lambda: loader(Shufle=True), "no argument Shufle: write shuffle"),
        (lambda: loader(zzz=1), "no argument zzz: it takes dataset, mode, batch_size, "),
        (
            lambda: vl.VideoLoader(DATA, batch_size=2),
            r"needs the argument mode, such as mode=RandomWindow\(16, stride=4",
        ),
        (lambda: vl.VideoLoader(DATA, MODE), "VideoLoader needs the argument batch_size, such as batch_size=8"),
        (lambda: vl.VideoLoader(DATA, MODE, 8), "takes dataset and mode by position .* write batch_size=8"),
        (lambda: vl.RandomWindow(16, 4), "RandomWindow takes length by position and all else by name: write stride=4"),
        (lambda: vl.RandomWindow(16, length=16), "RandomWindow is given length twice"),
        (lambda: vl.RandomWindow(num_frames=16), "RandomWindow has no argument num_frames: write length"),
        (lambda: vl.UniformFrames(num_frames=16), "UniformFrames has no argument num_frames: write count"),
        (lambda: vl.RandAugment(num_ops=2), "RandAugment has no argument num_ops: write n"),
        (lambda: vl.RandAugment(magnitude=9), "RandAugment has no argument magnitude: write m"),
        (lambda: vl.Resize(32, 48), r"Resize takes size by position .*: write Resize\(\(32, 48\)\)"),
        (lambda: vl.FrameList(0, 5, 9), r"FrameList takes frames by position .*: write FrameList\(\(0, 5, 9\)\)"),
        (lambda: vl.Resize(height=224), "Resize has no argument height: write size"),
        (lambda: vl.HorizontalFlip(p=1), "HorizontalFlip has no argument p: it takes none"),
        (lambda: vl.Normalize(0, 1, 2), "Normalize takes 2 arguments, got 3: 2 is too many"),
        (lambda: vl.Video("a.mp4", "cpu"), "Video takes source by position and all else by name: write device='cpu'"),
        (lambda: vl.VideoDataset.from_folder(), "VideoDataset.from_folder needs the argument folder"),
        (lambda: VIDEO.read(frames=[0, 3]), "Video.read has no argument frames: write mode"),
        (lambda: VIDEO.read([0], transform=[]), "Video.read has no argument transform: write transforms"),
        (lambda: VIDEO.read(), r"Video.read needs the argument mode, such as mode=RandomWindow\(16, stride=4\)"),
        (lambda: VIDEO.between(1.0), "Video.between needs the argument stop"),
        (lambda: VIDEO.between(1, 2, 8), "Video.between takes start and stop by position .* write fps=8"),
        (lambda: VIDEO.stream(memroy=3), "Video.stream has no argument memroy: write memory"),
        (lambda: DATA.where(min_width=3), 'VideoDataset.where has no argument min_width: write condition="width >= …"'),
        (lambda: DATA.split(0.8, 3), "VideoDataset.split takes share by position .* write seed=3"),
        (lambda: DATA.split(train_size=0.8), "VideoDataset.split has no argument train_size: write share"),
        (lambda: vl.VideoDataset.mix(weights={}), "VideoDataset.mix has no argument weights: write ratios"),
        (
            lambda: vl.VideoDataset.from_csv("a.csv", sep=","),
            "VideoDataset.from_csv has no argument sep: write sep",
        ),
        (
            lambda: LOADER.set_epoch(),
            "VideoLoader.set_epoch needs the argument epoch",
        ),
        (lambda: vl.build_index(), "build_index needs the argument source"),
        (lambda: vl.build_index(path="a.mp4"), "build_index has no argument path: write source"),
    ],
)
def test_one_line_names_the_right_argument(call: Callable[[], object], says: str) -> None:
    with pytest.raises(ArgumentError, match=says) as raised:
        call()
    assert "\n" not in str(raised.value)
    assert isinstance(raised.value, TypeError)
    assert isinstance(raised.value, vl.ConfigurationError)


@pytest.mark.parametrize(
    "tensor",
    [torch.ones(2, requires_grad=True), torch.ones(2).to_sparse(), torch.empty(2, device="meta")],
    ids=["with a gradient", "sparse", "without data"],
)
def test_a_tensor_whose_numbers_cannot_be_read_is_named(tensor: torch.Tensor) -> None:
    for call, name in (
        (lambda: INDEX.frame_at(tensor), "VideoIndex.frame_at's seconds"),
        (lambda: vl.plan_frames(INDEX, tensor), "plan_frames's frames"),
    ):
        with pytest.raises(ArgumentError, match=f"{name} is a tensor whose numbers cannot be read"):
            call()


def test_a_tensor_is_not_blamed_for_another_error() -> None:
    @tells_of_arguments
    def call(tensor: torch.Tensor) -> None:
        raise RuntimeError("out of memory")

    with pytest.raises(RuntimeError, match=r"^out of memory$"):
        call(torch.ones(2, requires_grad=True))


@pytest.mark.parametrize("unit", ["s", "ns"])
def test_a_span_of_time_is_no_number(unit: str) -> None:
    span = np.timedelta64(4, unit)  # type: ignore[call-overload]
    for call in (
        lambda: vl.VideoEntry("a.mp4", start_seconds=span),
        lambda: vl.RandomWindow(span),
        lambda: vl.Timestamps([span]),
        lambda: vl.AtRate(4, span),
    ):
        with pytest.raises(vl.ConfigurationError, match=r'divide (it )?by np\.timedelta64\(1, "s"\) for seconds'):
            call()


def test_a_type_error_from_inside_stays_as_it_is() -> None:
    @tells_of_arguments
    def call(function: Callable[..., object]) -> object:
        return function(1, 2)

    assert call(max) == 2
    with pytest.raises(TypeError, match="takes 1 positional argument but 2 were given") as raised:
        call(lambda one: one)
    assert not isinstance(raised.value, ArgumentError)


def test_signatures_and_pickles_are_as_ever() -> None:
    assert list(inspect.signature(vl.RandomWindow).parameters) == ["length", "stride", "clips", "reverse", "pad"]
    assert next(iter(inspect.signature(vl.VideoDataset.from_folder).parameters)) == "folder"
    assert pickle.loads(pickle.dumps(vl.RandomWindow(3))) == vl.RandomWindow(3)
    assert pickle.loads(pickle.dumps(vl.build_index)) is vl.build_index


def test_a_class_of_ones_own_is_told_apart_from_its_base() -> None:
    class Half(vl.Resize):
        def __init__(self, side: int) -> None:
            super().__init__(side // 2)

    assert Half(64).size == 32
    with pytest.raises(TypeError, match="other") as raised:
        Half(other=3)  # type: ignore[call-arg]
    assert not isinstance(raised.value, ArgumentError)


def test_what_python_calls_by_itself_costs_no_more() -> None:
    for door in (vl.Video.__getitem__, vl.Video.__len__, vl.VideoDataset.__getitem__, vl.VideoLoader.__iter__):
        assert not hasattr(door, "__wrapped__")
    assert vl.Video.read.__qualname__ == "Video.read"
    assert "transforms" in inspect.signature(vl.Video.read).parameters
