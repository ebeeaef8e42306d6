"""The state of a DecodingLoader is that after the last batch yielded, with any torch loader inside."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from example_count import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader, DistributedSampler
from torch_datasets import Captioned, Streamed

import videoloader as vl
from videoloader.interop.torch import ClipRequest, DecodingLoader

Sample = Callable[[str], Path]
ROWS = 11


@pytest.fixture(scope="module")
def data(sample: Sample) -> Captioned:
    return Captioned([str(sample(name)) for name in ("h264_mp4", "vp9_webm")], ROWS, seeded=False)


def make(loader: Any, **settings: Any) -> DecodingLoader:
    return DecodingLoader(loader, **({"device": "cpu", "num_workers": 2, "prefetch": 3} | settings))


def seeded(data: Captioned, workers: int = 0) -> DataLoader[Any]:
    """A plain loader whose order is another one in each epoch, and the same again when it is told the epoch."""
    sampler = DistributedSampler(data, num_replicas=1, rank=0, seed=4)
    return DataLoader(data, batch_size=2, sampler=sampler, num_workers=workers)


def same(one: list[Any], other: list[Any]) -> bool:
    return len(one) == len(other) and all(
        torch.equal(a["video"], b["video"]) and torch.equal(a["row"], b["row"]) for a, b in zip(one, other, strict=True)
    )


def epochs(loader: DecodingLoader, number: int) -> list[list[Any]]:
    return [list(loader) for _ in range(number)]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("taken", [0, 1, 4, 6])
def test_a_plain_loader_is_gone_through_again_up_to_there(data: Captioned, workers: int, taken: int) -> None:
    whole = []
    for epoch in range(3):
        loader = make(seeded(data))
        loader.set_epoch(epoch)
        whole.append(list(loader))
    loader = make(seeded(data, workers))
    loader.set_epoch(1)
    given_out = iter(loader)
    assert same(list(islice(given_out, taken)), whole[1][:taken])
    state = pickle.loads(pickle.dumps(loader.state_dict()))
    resumed = make(seeded(data, workers))
    resumed.load_state_dict(state)
    assert resumed.state_dict() == state
    assert same(list(resumed), whole[1][taken:] or whole[2])


def test_a_loop_over_epochs_may_name_the_one_that_is_resumed(data: Captioned) -> None:
    straight, interrupted, resumed = make(seeded(data)), make(seeded(data)), make(seeded(data))
    whole = []
    for epoch in range(3):
        straight.set_epoch(epoch)
        whole.append(list(straight))
    interrupted.set_epoch(1)
    next(iter(interrupted))
    resumed.load_state_dict(interrupted.state_dict())
    for epoch in (1, 2):
        resumed.set_epoch(epoch)
        assert same(list(resumed), whole[epoch][1 if epoch == 1 else 0 :])


def test_a_sampler_that_is_told_no_epoch_is_told_none_by_a_resume(data: Captioned) -> None:
    straight, interrupted, resumed = make(seeded(data)), make(seeded(data)), make(seeded(data))
    first, second = epochs(straight, 2)
    list(interrupted)
    next(iter(interrupted))
    resumed.load_state_dict(interrupted.state_dict())
    assert same(list(resumed), second[1:])
    assert [batch["row"].tolist() for batch in first] == [batch["row"].tolist() for batch in second]


@pytest.mark.parametrize("kind", ["mapped", "streamed"])
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("taken", [1, 6])
def test_a_loader_with_a_state_goes_on_from_it(data: Captioned, kind: str, workers: int, taken: int) -> None:
    stateful = pytest.importorskip("torchdata.stateful_dataloader", reason="needs torchdata")

    def loader(seed: int) -> DecodingLoader:
        torch.manual_seed(seed)
        if kind == "mapped":
            return make(stateful.StatefulDataLoader(data, batch_size=2, shuffle=True, num_workers=workers))
        return make(stateful.StatefulDataLoader(Streamed(data), batch_size=2, num_workers=workers))

    straight = loader(1)
    first, second = epochs(straight, 2)
    interrupted = loader(1)
    given_out = iter(interrupted)
    assert same(list(islice(given_out, taken)), first[:taken])
    state = pickle.loads(pickle.dumps(interrupted.state_dict()))
    # The rest of the interrupted epoch must not be affected by its state having been looked at.
    assert same(list(given_out), first[taken:])
    resumed = loader(2)
    resumed.load_state_dict(state)
    if taken < len(first):
        assert same(list(resumed), first[taken:])
    assert same(list(resumed), second)


def stateful_by_epoch(data: Captioned, workers: int) -> DecodingLoader:
    """Over a torch loader with a state, in an order that differs from epoch to epoch."""
    stateful = pytest.importorskip("torchdata.stateful_dataloader", reason="needs torchdata")
    sampler = DistributedSampler(data, num_replicas=1, rank=0, seed=4)
    return make(stateful.StatefulDataLoader(data, batch_size=2, sampler=sampler, num_workers=workers))


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("taken", [0, 1])
def test_a_state_after_set_epoch_is_the_start_of_that_epoch(data: Captioned, workers: int, taken: int) -> None:
    """Whatever the torch loader's own state says of the epoch that was left."""
    whole = stateful_by_epoch(data, workers)
    whole.set_epoch(1)
    expected = list(whole)
    loader, resumed = stateful_by_epoch(data, workers), stateful_by_epoch(data, workers)
    loader.state_dict()
    for _ in islice(loader, taken):
        pass
    loader.set_epoch(1)
    resumed.load_state_dict(pickle.loads(pickle.dumps(loader.state_dict())))
    assert same(list(resumed), expected)
    batches = iter(loader)
    assert same([next(batches)], expected[:1])
    state = loader.state_dict()
    assert same(list(batches), expected[1:])
    resumed.load_state_dict(state)
    assert same(list(resumed), expected[1:])


@pytest.mark.parametrize("workers", [0, 2])
def test_the_state_after_the_last_batch_is_that_of_the_next_epoch(data: Captioned, workers: int) -> None:
    """Without threads, too, as for a VideoLoader."""
    loader = make(seeded(data), num_workers=workers)
    for _ in islice(loader, -(-ROWS // 2)):
        pass
    assert (loader.state_dict()["epoch"], loader.state_dict()["batches"]) == (1, 0)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("named", [False, True])
def test_after_the_last_batch_of_an_epoch_the_next_one_comes(data: Captioned, workers: int, named: bool) -> None:
    loader, other = (make(seeded(data), num_workers=workers) for _ in range(2))
    if named:
        loader.set_epoch(0)
    batches = iter(loader)
    for _ in range(-(-ROWS // 2)):  # the loop is left before it knows that there are no more
        next(batches)
    state = loader.state_dict()
    other.load_state_dict(state)
    batches.close()
    resumed = []
    for epoch in range(state["epoch"], 2):
        if named:
            other.set_epoch(epoch)
        resumed += list(other)
        if not named:
            break
    if named:
        loader.set_epoch(1)
    assert same(resumed, list(loader))


def test_a_state_of_more_batches_than_there_are_is_refused_at_once(data: Captioned) -> None:
    state = make(seeded(data)).state_dict() | {"batches": 1 << 40}
    loader = make(seeded(data))
    loader.load_state_dict({**state, "requests": 1 << 42})
    with pytest.raises(vl.ConfigurationError, match="give it the batch size and rows of then"):
        list(loader)


def test_a_state_of_another_loader_is_refused(data: Captioned) -> None:
    state = make(seeded(data)).state_dict()
    with pytest.raises(vl.ConfigurationError, match="seed"):
        make(seeded(data), seed=1).load_state_dict(state)
    with pytest.raises(vl.ConfigurationError, match="DataLoader"):
        make(seeded(data)).load_state_dict({**state, "loader": {"_num_yielded": 1}})


@given(st.data())
@settings(max_examples=examples(25))
def test_every_request_comes_once_however_often_an_epoch_is_interrupted(sample: Sample, draw: st.DataObject) -> None:
    """The frames, too, are those of an epoch in one go."""
    path = str(sample("h264_mp4"))
    sizes = draw.draw(st.lists(st.integers(0, 3), min_size=1, max_size=6).filter(any), "requests in each batch")
    batches = [
        (number, [ClipRequest(path, vl.RandomWindow(1)) for _ in range(size)]) for number, size in enumerate(sizes)
    ]

    def loader() -> DecodingLoader:
        prefetch = draw.draw(st.integers(1, 7), "prefetch")
        return make(batches, num_workers=1, prefetch=prefetch, replace_with=lambda clips: clips.frame_numbers.tolist())

    seen, state = [], loader().state_dict()
    while state["epoch"] == 0:
        part = loader()
        part.load_state_dict(state)
        seen += islice(part, draw.draw(st.integers(1, 4), "batches until the next interruption"))
        state = part.state_dict()
    assert seen == list(loader())
