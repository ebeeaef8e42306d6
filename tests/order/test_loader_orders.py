"""Orders and shards of a loader determine the clips that it yields."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch.utils.data import DistributedSampler, RandomSampler, SequentialSampler, WeightedRandomSampler

import videoloader as vl
from videoloader.order.by_column import ByColumn
from videoloader.order.shuffle import ShuffleBlocks, ShuffleVideos

Sample = Callable[[str], Path]
NAMES = ["h264_mp4", "hevc_mp4", "vp9_webm", "h264_mp4_vfr", "h264_ts"]


@pytest.fixture(scope="module")
def data(sample: Sample) -> vl.VideoDataset:
    entries = [vl.VideoEntry(str(sample(name)), columns={"node": number % 2}) for number, name in enumerate(NAMES)]
    return vl.VideoDataset(entries)


def make(data: vl.VideoDataset, **settings: Any) -> vl.VideoLoader:
    mode = vl.RandomWindow(2, stride=3, clips=4)
    return vl.VideoLoader(data, mode, **({"batch_size": 3, "device": "cpu", "num_workers": 2, "seed": 5} | settings))


def clips_of(loader: vl.VideoLoader) -> list[int]:
    return [clip for batch in loader for clip in batch.clips.tolist()]


def test_videos_come_together(data: vl.VideoDataset) -> None:
    clips = np.array(clips_of(make(data, shuffle=ShuffleVideos()))).reshape(5, 4)
    assert (clips // 4 == clips[:, :1] // 4).all()
    assert clips[:, 0].tolist() != sorted(clips[:, 0])


@pytest.mark.parametrize("shuffle", [ShuffleBlocks(3, 6), ShuffleVideos(2), RandomSampler(range(20))])
def test_content_depends_on_seed_and_epoch_alone(data: vl.VideoDataset, shuffle: Any) -> None:
    one, other = make(data, shuffle=shuffle, num_workers=1), make(data, shuffle=shuffle, prefetch=4)
    for _ in range(2):
        for mine, others in zip(one, other, strict=True):
            assert np.array_equal(mine.clips, others.clips)
            assert np.array_equal(mine.frame_numbers, others.frame_numbers)
    assert clips_of(make(data, shuffle=shuffle, seed=6)) != clips_of(make(data, shuffle=shuffle))


def test_a_sampler_says_how_many_clips_an_epoch_has(data: vl.VideoDataset) -> None:
    loader = make(data, shuffle=WeightedRandomSampler([0.0] * 4 + [1.0] * 16, 10))
    assert (loader.num_clips, len(loader)) == (10, 4)
    first, second = clips_of(loader), clips_of(loader)
    assert len(first) == len(second) == 10
    assert first != second
    assert min(first + second) >= 4


def test_a_sampled_epoch_goes_on_on_other_ranks(data: vl.VideoDataset) -> None:
    sampler = RandomSampler(range(20))
    whole, loader = clips_of(make(data, shuffle=sampler)), make(data, shuffle=sampler)
    batches = iter(loader)
    seen = [*next(batches).clips.tolist(), *next(batches).clips.tolist()]
    state = loader.state_dict()
    for rank in range(2):
        part = make(data, shuffle=RandomSampler(range(20)), shard_id=rank, num_shards=2)
        part.load_state_dict(state)
        seen += clips_of(part)
    assert sorted(seen) == sorted(whole) == list(range(20))


def test_a_sampler_for_several_ranks_is_refused(data: vl.VideoDataset) -> None:
    with pytest.raises(vl.ConfigurationError, match="2 ranks"):
        make(data, shuffle=DistributedSampler(range(20), num_replicas=2, rank=0))


@pytest.mark.parametrize(
    ("sampler", "says"),
    [
        (RandomSampler, r"from 5 numbers, .* there are 20 clips: write RandomSampler\(range\(20\), …\)"),
        (SequentialSampler, "from 5 numbers"),
        (lambda data: DistributedSampler(data, num_replicas=1, rank=0), "from 5 numbers"),
        (lambda data: WeightedRandomSampler([1.0] * 5, 20), r"from 5 numbers, .* one weight for each clip; .*weighted"),
    ],
)
def test_a_sampler_of_rows_is_refused(data: vl.VideoDataset, sampler: Any, says: str) -> None:
    with pytest.raises(vl.ConfigurationError, match=says):
        make(data, shuffle=sampler(data))
    loader = vl.VideoLoader(data, [0], shuffle=sampler(data), batch_size=3, device="cpu")
    assert max(clips_of(loader)) < 5, "where each row gives one clip, a row number is a clip number"


@pytest.mark.parametrize("sharding", ["strided", "contiguous", "stick_to_shard", ByColumn("node")])
def test_shards_share_out_each_epoch(data: vl.VideoDataset, sharding: Any) -> None:
    loaders = [make(data, shuffle=True, sharding=sharding, shard_id=rank, num_shards=2) for rank in range(2)]
    homes = []
    for _ in range(2):
        parts = [clips_of(loader) for loader in loaders]
        assert sorted(parts[0] + parts[1]) == list(range(20))
        homes.append([set(part) for part in parts])
    assert (homes[0] == homes[1]) == (sharding in ("stick_to_shard", ByColumn("node")))


def test_ranks_that_come_after_the_loader_are_warned_of(data: vl.VideoDataset, monkeypatch: pytest.MonkeyPatch) -> None:
    found, given = make(data), make(data, shard_id=0, num_shards=1)
    monkeypatch.setattr("torch.distributed.is_initialized", lambda: True)
    monkeypatch.setattr("torch.distributed.get_rank", lambda: 1)
    monkeypatch.setattr("torch.distributed.get_world_size", lambda: 2)
    with pytest.warns(UserWarning, match="made for 1 rank, but torch.distributed has 2 by now.*init_process_group"):
        next(iter(found))
    with warnings.catch_warnings(action="error"):
        next(iter(given))
        next(iter(make(data)))


def test_an_epoch_of_which_too_little_is_left_ends(data: vl.VideoDataset) -> None:
    loader = make(data, batch_size=3)
    for number, _ in enumerate(loader):
        if number == 5:
            break
    resumed = make(data, batch_size=3, last_batch="drop")
    resumed.load_state_dict(loader.state_dict())
    assert clips_of(resumed) == []
    assert clips_of(resumed) == list(range(18))
    assert resumed.state_dict()["epoch"] == 2


@pytest.mark.parametrize(
    "settings",
    [
        {"sharding": "random"},
        {"sharding": ByColumn("shelf")},
        {"shuffle": "yes"},
        {"shuffle": [0.5, 1.0]},
        {"shuffle": [0, 1, 2], "sharding": "stick_to_shard"},
        {"seed": -1},
    ],
)
def test_bad_settings_are_refused(data: vl.VideoDataset, settings: dict[str, Any]) -> None:
    with pytest.raises(vl.ConfigurationError):
        next(iter(make(data, **settings)))
