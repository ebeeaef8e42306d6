"""DecodingLoader: what replaces requests, in which order, and how errors are handled."""

from __future__ import annotations

import multiprocessing
import pickle
import threading
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, DistributedSampler
from torch_datasets import Captioned, Streamed, as_they_are, make
from waiting import becomes

import videoloader as vl
from videoloader.interop.torch import ClipRequest, DecodingLoader

Sample = Callable[[str], Path]
ROWS = 11


def numbered(clips: Any) -> tuple[torch.Tensor, np.ndarray]:
    return clips.frames, clips.frame_numbers


def rows_of(batches: list[Any]) -> list[int]:
    return [row for batch in batches for row in batch["row"].tolist()]


def same_frames(one: list[Any], other: list[Any]) -> bool:
    return len(one) == len(other) and all(torch.equal(a["video"], b["video"]) for a, b in zip(one, other, strict=True))


def are_read(batches: list[Any], data: Captioned) -> bool:
    """Whether each row's frames are those that ``Video.read`` gives with the row's seed."""
    return all(
        torch.equal(frames, vl.Video(request.video.path, device="cpu").read(request.mode, seed=row).frames)
        for batch in batches
        for frames, row in zip(batch["video"], batch["row"].tolist(), strict=True)
        for request in [data.request(row)]
    )


@pytest.mark.parametrize(("workers", "start"), [(0, None), (2, "fork"), (1, "spawn")])
def test_requests_from_any_worker_become_the_frames_of_a_video(paths: list[str], workers: int, start: str) -> None:
    data = Captioned(paths, ROWS, seeded=True)
    settings = {"num_workers": workers, "multiprocessing_context": start}
    batches = list(make(DataLoader(data, batch_size=4, **settings)))
    assert rows_of(batches) == list(range(ROWS))
    assert are_read(batches, data)
    assert [text for batch in batches for text in batch["text"]] == [f"row {row}" for row in range(ROWS)]
    assert all(torch.equal(batch["more"][0][:, 1], batch["row"]) for batch in batches)
    assert not any(batch["more"][1]["cuda"].any() for batch in batches)
    processes = {int(pid) for batch in batches for pid in batch["more"][1]["process"]}
    assert len(processes) == max(workers, 1)


def test_all_a_torch_loader_can_be_asked_for_still_works(paths: list[str]) -> None:
    data = Captioned(paths, ROWS, seeded=True)
    generator = torch.Generator().manual_seed(1)
    settings = {"batch_size": 4, "shuffle": True, "drop_last": True, "generator": generator, "num_workers": 2}
    loader = make(DataLoader(data, **settings, persistent_workers=True, prefetch_factor=3))
    assert len(loader) == 2
    for _ in range(2):
        batches = list(loader)
        assert len(set(rows_of(batches))) == 8
        assert are_read(batches, data)


@pytest.mark.filterwarnings("ignore:'pin_memory' argument")
def test_requests_pass_through_the_pinning_of_memory(paths: list[str]) -> None:
    data = Captioned(paths, ROWS, seeded=True)
    assert are_read(list(make(DataLoader(data, batch_size=4, pin_memory=True))), data)
    gathered = torch.utils.data.default_collate([data[0], data[1]])
    pinned = torch.utils.data._utils.pin_memory.pin_memory({"video": gathered["video"]})
    assert pinned == {"video": [data.request(0), data.request(1)]}


@pytest.mark.parametrize("workers", [0, 2])
def test_streamed_data_sets(paths: list[str], workers: int) -> None:
    data = Captioned(paths, ROWS, seeded=True)
    batches = list(make(DataLoader(Streamed(data), batch_size=3, num_workers=workers)))
    assert sorted(rows_of(batches)) == list(range(ROWS))
    assert are_read(batches, data)


def test_samples_without_collation_hold_single_clips(paths: list[str]) -> None:
    data = Captioned(paths, 3, seeded=True)
    for row, item in enumerate(make(DataLoader(data, batch_size=None))):
        assert torch.equal(
            item["video"], vl.Video(paths[row], device="cpu").read(data.request(row).mode, seed=row).frames
        )
        assert item["video"].shape == (3, 3, 128, 160)
    [samples] = make(DataLoader(data, batch_size=3, collate_fn=as_they_are), replace_with=numbered)
    for sample in samples:
        frames, numbers = sample["video"]
        assert torch.equal(frames, vl.Video(paths[sample["row"]], device="cpu").read(numbers.tolist()).frames)


def test_what_stands_in_the_place_of_a_list_can_be_made_of_its_batch(paths: list[str]) -> None:
    loader = make(DataLoader(Captioned(paths, 6, seeded=False), batch_size=3), replace_with=lambda batch: batch)
    for batch in loader:
        clips = batch["video"]
        assert isinstance(clips, vl.Batch)
        assert clips.paths == paths
        assert (clips.rows == -1).all()
        assert not clips.repeated.any()
        for row, path in enumerate(paths):
            assert torch.equal(
                clips.frames[row], vl.Video(path, device="cpu").read(clips.frame_numbers[row].tolist()).frames
            )


def test_frames_by_number_of_parts_and_with_transforms_of_their_own(paths: list[str]) -> None:
    part = vl.VideoEntry(paths[0], start=10, stop=20)
    [frames] = make(
        [
            [
                ClipRequest(paths[0], range(10, 13), transforms=[vl.Resize((32, 40))]),
                ClipRequest(part, [0, 1, 2]),
                ClipRequest(part, vl.EvenWindows(3, clips=2), clip=1, transforms=()),
            ]
        ],
        transforms=[vl.Resize((32, 40)), vl.Normalize()],
        dtype="float32",
        collate="list",
    )
    assert torch.equal(frames[0], frames[1])
    assert frames[0].shape == (3, 3, 32, 40)
    whole = next(iter(vl.VideoLoader(
        vl.VideoDataset([part]), vl.EvenWindows(3, clips=2), batch_size=2, device="cpu", dtype="float32",
        transforms=[vl.Normalize()],
    )))  # fmt: skip
    assert torch.equal(frames[2], whole.frames[1])


def test_random_frames_depend_on_seed_epoch_and_order_alone(paths: list[str]) -> None:
    data = Captioned(paths, ROWS, seeded=False)
    plain = make(DataLoader(data, batch_size=4), seed=3)
    first, second = list(plain), list(plain)
    assert not same_frames(first, second)
    other = make(DataLoader(data, batch_size=4, num_workers=2), seed=3, num_workers=1, prefetch=1)
    assert same_frames(list(other), first)
    assert same_frames(list(other), second)
    other.set_epoch(0)
    assert same_frames(list(other), first)
    assert not same_frames(list(make(DataLoader(data, batch_size=4), seed=4)), first)


def test_ranks_draw_other_frames(paths: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    data = Captioned(paths, ROWS, seeded=False)
    parts = []
    for rank in range(2):
        monkeypatch.setenv("RANK", str(rank))
        monkeypatch.setenv("WORLD_SIZE", "2")
        parts.append(list(make(DataLoader(data, batch_size=4))))
    assert not same_frames(*parts)


def test_samplers_hear_of_epochs(paths: list[str]) -> None:
    data = Captioned(paths, ROWS, seeded=True)
    sampler = DistributedSampler(data, num_replicas=1, rank=0, seed=2)
    loader = make(DataLoader(data, batch_size=4, sampler=sampler))
    orders = []
    for epoch in (0, 1, 0):
        loader.set_epoch(epoch)
        orders.append(rows_of(list(loader)))
    assert orders[0] == orders[2] != orders[1]


def test_requests_are_light() -> None:
    request = ClipRequest("/a/path/to/a/video.mp4", vl.RandomWindow(16, stride=4), seed=7, transforms=[vl.Resize(224)])
    assert pickle.loads(pickle.dumps(request)) == request
    assert len(pickle.dumps([request] * 64)) / 64 < 100
    assert len(pickle.dumps(request)) < 1000
    assert ClipRequest("a.mp4", np.array([1, 2])).mode == vl.FrameList((1, 2))


def test_bytes_travel_with_their_request(paths: list[str]) -> None:
    first, second = (Path(path).read_bytes() for path in paths[:2])
    with open(paths[2], "rb") as file:
        file.seek(9)
        requests = [
            ClipRequest(first, torch.tensor([3, 50])),
            ClipRequest(second, np.array([7, 8])),
            ClipRequest(file, range(2)),
            ClipRequest(first, [49, 50]),
        ]
    assert requests[0].video == requests[3].video != requests[1].video
    assert repr(requests[0]).count("\n") == 0
    assert len(repr(requests[0])) < 300
    (batch,) = make(DataLoader(requests, batch_size=4, num_workers=1), collate="list", replace_with=lambda made: made)
    assert batch.paths == [request.video.path for request in requests]
    for row, (path, numbers) in enumerate(
        [(paths[0], [3, 50]), (paths[1], [7, 8]), (paths[2], [0, 1]), (paths[0], [49, 50])]
    ):
        assert torch.equal(batch.frames[row], vl.Video(path, device="cpu")[numbers])


def test_lengths_that_differ(paths: list[str]) -> None:
    batch = [[ClipRequest(paths[0], [0, 1]), ClipRequest(paths[1], [5, 6, 7])]]
    with pytest.raises(vl.ConfigurationError, match="collate"):
        list(make(batch))
    [padded] = make(batch, collate="pad", fill_value=9, replace_with=lambda clips: clips)
    assert padded.mask.tolist() == [[True, True, False], [True, True, True]]
    assert (padded.frames[0, 2] == 9).all()
    [listed] = make(batch, collate="list")
    assert [len(frames) for frames in listed] == [2, 3]
    assert torch.equal(listed[1], padded.frames[1])


@pytest.mark.parametrize(("rows", "size"), [(10, 5), (10, 3), (10, 1), (4, 2)])
def test_a_state_of_other_batches_is_refused(paths: list[str], rows: int, size: int) -> None:
    def loader(rows: int, size: int) -> DecodingLoader:
        return make([[ClipRequest(paths[0], [0])] * len(some) for some in np.array_split(range(rows), rows // size)])

    whole = loader(10, 2)
    for _ in islice(whole, 3):
        pass
    resumed = loader(rows, size)
    resumed.load_state_dict(whole.state_dict())
    with pytest.raises(vl.ConfigurationError, match=r"saved after 3 batches with 6 clips, but .* first 3 batches have"):
        list(resumed)
    resumed.load_state_dict({**whole.state_dict(), "batches": 0, "requests": 0})
    assert len(list(resumed)) == rows // size


def test_a_loop_left_early_ends_its_epoch_and_leaves_nothing_behind(paths: list[str]) -> None:
    data = Captioned(paths, ROWS, seeded=False)
    whole = make(DataLoader(data, batch_size=2))
    first, second = list(whole), list(whole)
    loader = make(DataLoader(data, batch_size=2, num_workers=2), prefetch=3)
    others = set(multiprocessing.active_children())  # of tests before, which the garbage collector has not come to
    for batch in loader:
        assert len(set(multiprocessing.active_children()) - others) == 2
        assert same_frames([batch], first[:1])
        break
    assert becomes(lambda: set(multiprocessing.active_children()) <= others)
    assert same_frames(list(loader), second)
    threads = threading.active_count()
    for _ in range(10):
        next(iter(loader))
    assert threading.active_count() < threads + 10  # pools start their threads when these are first needed


def test_no_more_is_made_ahead_than_was_asked_for(paths: list[str]) -> None:
    taken = []

    def batches() -> Any:
        for number in range(20):
            taken.append(number)
            yield [ClipRequest(paths[0], [number])]

    looped = iter(make(batches(), prefetch=3))
    for given_out in range(1, 10):
        next(looped)
        assert len(taken) == given_out + 3 + 1  # and the batch that shows whether these are the last ones
    looped.close()
    without_requests = iter(make(range(10_000)))
    assert [next(without_requests) for _ in range(3)] == [0, 1, 2]


def test_an_index_store_is_used_and_must_know_the_videos(paths: list[str], tmp_path: Path) -> None:
    vl.build_store(paths[:2], tmp_path / "two.db", workers=1)
    batches = [[ClipRequest(path, [3])] for path in paths]
    loader = iter(make(batches, index=tmp_path / "two.db", on_error="skip"))
    assert torch.equal(next(loader)[0, 0], vl.Video(paths[0], device="cpu")[3])
    next(loader)
    with pytest.raises(vl.NotIndexedError, match=Path(paths[2]).name):
        next(loader)
