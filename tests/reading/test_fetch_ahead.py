"""Bytes of remote clips are fetched while the clips wait for a decoder, with the same results."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from range_server import RangeServer, serve
from waiting import becomes

import videoloader as vl
from videoloader.errors import StaleIndexError
from videoloader.indexing import VideoIndex, build_index
from videoloader.packets.decode_plan import plan_frames
from videoloader.packets.read_packets import read_packets
from videoloader.reading import fetch_ahead
from videoloader.reading.cancellation import CancelToken, ReadCancelled
from videoloader.reading.fetch_ahead import FetchAhead
from videoloader.runtime import threads

Sample = Callable[[str], Path]
RECIPES = ("h264_mp4", "vp9_webm", "hevc_mp4", "mpeg2_ts")


@pytest.fixture
def server(sample: Sample) -> Iterator[RangeServer]:
    with serve({sample(name).name: sample(name).read_bytes() for name in RECIPES}) as server:
        yield server


@pytest.fixture
def index(server: RangeServer, sample: Sample) -> VideoIndex:
    index = build_index(server.url + sample("h264_mp4").name)
    server.forget()
    return index


def load(paths: list[str], store: Path, **settings: Any) -> vl.VideoLoader:
    vl.build_store(paths, store, workers=1)
    data = vl.VideoDataset.from_paths(paths)
    mode = vl.RandomWindow(4, stride=3, clips=4)
    return vl.VideoLoader(data, mode, batch_size=3, device="cpu", num_workers=2, index=store, shuffle=True, **settings)


def test_clips_from_a_server_are_those_of_the_files(server: RangeServer, sample: Sample, tmp_path: Path) -> None:
    here = [str(sample(name)) for name in RECIPES]
    remote = load([server.url + Path(path).name for path in here], tmp_path / "remote.db", prefetch=4)
    server.forget()
    for batch, expected in zip(remote, load(here, tmp_path / "here.db"), strict=True):
        assert torch.equal(batch.frames, expected.frames)
        assert [Path(path).name for path in batch.paths] == [Path(path).name for path in expected.paths]
    stats = remote.stats()
    assert (stats.requests, stats.fetched) == (len(server.requests), server.sent)


def test_bytes_come_before_anybody_decodes(server: RangeServer, index: VideoIndex) -> None:
    ahead, token = FetchAhead(), CancelToken()
    plans = [plan_frames(index, [first, first + 1]) for first in (0, 30)]
    begun = [ahead.begin(index.source, index, plan, token) for plan in plans]
    assert becomes(lambda: len(server.requests) >= 2)
    for each, plan in zip(begun, plans, strict=True):
        assert each is not None
        assert becomes(each[0]._source.done)
        source = each[0].source(token)
        assert not isinstance(source, str)
        asked = len(server.requests)
        packets = [bytes(packet.data) for run in plan.runs for packet in read_packets(source, index, run)]
        assert len(server.requests) == asked
        expected = [bytes(packet.data) for run in plan.runs for packet in read_packets(source, index, run)]
        assert packets == expected  # asked for once more, since each is given out once
        assert len(server.requests) > asked


def test_memory_is_bounded(index: VideoIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    ahead, token, plan = FetchAhead(), CancelToken(), plan_frames(index, [0, 1, 2])
    size = sum(int(index.packet_size[run.packets].sum()) for run in plan.runs)
    monkeypatch.setattr(fetch_ahead, "_MOST_BYTES", 2 * size)
    begun = [ahead.begin(index.source, index, plan, token) for _ in range(3)]
    assert [each and each[1] for each in begun] == [size, size, None]
    ahead.release(size)
    assert ahead.begin(index.source, index, plan, token) is not None
    monkeypatch.setattr(fetch_ahead, "_LARGEST_JOB", size - 1)
    ahead.release(2 * size)
    assert ahead.begin(index.source, index, plan, token) is None


def test_local_files_and_what_is_no_plain_range_is_left_alone(sample: Sample) -> None:
    index = build_index(str(sample("h264_mp4")))
    plan = plan_frames(index, [0])
    assert FetchAhead().begin(index.source, index, plan, CancelToken()) is None


def test_fetching_ends_with_its_token(index: VideoIndex) -> None:
    token = CancelToken()
    token.cancel()
    begun = FetchAhead().begin(index.source, index, plan_frames(index, [0]), token)
    assert begun is not None
    assert becomes(begun[0]._source.done)
    with pytest.raises(ReadCancelled):
        begun[0].source(token)


def test_nothing_is_fetched_or_held_once_it_is_closed(index: VideoIndex) -> None:
    ahead = FetchAhead()
    ahead.close()
    assert ahead.begin(index.source, index, plan_frames(index, [0]), CancelToken()) is None
    assert ahead._held == 0


def test_nothing_is_fetched_or_held_where_no_thread_can_be_started(
    index: VideoIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_thread(self: object, *rest: object) -> None:
        raise RuntimeError("can't start new thread")

    ahead = FetchAhead()
    monkeypatch.setattr(threads, "_idle", defaultdict(threads._Idle))
    monkeypatch.setattr(threading.Thread, "start", no_thread)
    assert ahead.begin(index.source, index, plan_frames(index, [0]), CancelToken()) is None
    assert ahead._held == 0


def test_what_goes_wrong_is_told_as_without_it(server: RangeServer, sample: Sample, tmp_path: Path) -> None:
    url = server.url + sample("h264_mp4").name
    loader = load([url], tmp_path / "x.db")
    server.version = "2"
    with pytest.raises(StaleIndexError, match=r"\.mp4: has changed"):
        list(loader)
    server.files.clear()
    with pytest.raises(vl.SourceError, match=r"\.mp4: cannot be read at byte \d+ .*404"):
        list(load_known(url, tmp_path / "x.db"))


def load_known(url: str, store: Path) -> vl.VideoLoader:
    data = vl.VideoDataset.from_paths([url])
    return vl.VideoLoader(data, vl.RandomWindow(4), batch_size=1, device="cpu", num_workers=1, index=store)
