"""The statistics of a loop: exact counts, plausible times, and a progress line."""

from __future__ import annotations

import io
import operator
import re
import sys
import time
from collections.abc import Callable
from dataclasses import astuple, fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from range_server import serve
from torch.utils.data import DataLoader

import videoloader as vl
from videoloader import live_line
from videoloader.batching.stats import LoaderStats
from videoloader.interop.torch import ClipRequest, DecodingLoader
from videoloader.showing.progress import show_progress

Sample = Callable[[str], Path]


@pytest.fixture(scope="module")
def data(sample: Sample) -> vl.VideoDataset:
    """The first three packets of an intra-coded video are its first three frames."""
    return vl.VideoDataset.from_paths([sample("mjpeg_mkv")] * 10)


def make(data: vl.VideoDataset, **settings: object) -> vl.VideoLoader:
    defaults = {"batch_size": 2, "device": "cpu", "num_workers": 2, "prefetch": 2}
    return vl.VideoLoader(data, vl.FrameList([0, 2, 2, 1]), **(defaults | settings))


def check_times(stats: LoaderStats) -> None:
    assert 0 <= stats.waiting <= stats.seconds
    assert stats.planning > 0
    assert stats.cpu > 0
    assert stats.nvdec == 0
    assert stats.transforming > 0


@pytest.mark.parametrize("other", [1, None, vl.Limits()])
def test_they_are_added_to_others_of_their_kind_alone(other: Any) -> None:
    stats = LoaderStats(clips=2)
    assert (stats + stats - stats).clips == 2
    assert sum([stats, stats]).clips == 4
    with pytest.raises(vl.ArgumentError, match="added or subtracted only with another, got 1"):
        1 + stats
    for use in (operator.add, operator.sub):
        with pytest.raises(vl.ArgumentError, match="a LoaderStats is added or subtracted only with another, got "):
            use(stats, other)


def test_what_was_given_out_is_counted_exactly(data: vl.VideoDataset) -> None:
    loader = make(data)
    assert loader.stats() == LoaderStats()
    for number, _ in enumerate(loader, 1):
        # Both clips of a batch show one video: what they have in common is decoded once.
        stats = loader.stats()
        assert (stats.clips, stats.frames, stats.packets) == (2 * number, 3 * number, 3 * number)
        check_times(stats)
    list(loader)
    assert loader.stats().clips == 20, "over all epochs"


def test_packets_that_nobody_asked_for_but_the_decoder_are_counted(sample: Sample) -> None:
    """A GOP of 12: the last frame of it needs those that are referred to."""
    loader = vl.VideoLoader(
        vl.VideoDataset.from_paths([sample("h264_mp4"), sample("h264_mkv")]),
        vl.FrameList([11]),
        batch_size=2,
        device="cpu",
    )
    list(loader)
    assert loader.stats().frames == 2
    assert 2 < loader.stats().packets <= 2 * 12


def test_what_was_fetched_from_a_server_is_counted(sample: Sample, tmp_path: Path) -> None:
    content = sample("h264_mp4").read_bytes()
    with serve({f"{name}.mp4": content for name in "ab"}) as server:
        urls = [f"{server.url}{name}.mp4" for name in "ab"]
        vl.build_store(urls, tmp_path / "x.db", workers=1)
        server.forget()
        data = vl.VideoDataset.from_paths(urls)
        # Prefetching would ask for batches that are not given out.
        loader = vl.VideoLoader(
            data, vl.RandomWindow(4, clips=3), batch_size=2, device="cpu", num_workers=0, index=tmp_path / "x.db"
        )
        clips = sum(len(batch) for batch in loader)
        stats = loader.stats()
        assert (clips, stats.requests, stats.fetched) == (6, len(server.requests), server.sent)
        assert 0 < stats.fetching < stats.cpu
        assert str(stats).splitlines()[2].startswith(f"remote: {stats.requests / 6:.1f} requests, ")
    local = vl.VideoLoader(vl.VideoDataset.from_paths([sample("h264_mp4")]), [0], batch_size=1, device="cpu")
    list(local)
    assert (local.stats().requests, local.stats().fetched, len(str(local.stats()).splitlines())) == (0, 0, 2)


def test_only_what_was_given_out_counts(data: vl.VideoDataset) -> None:
    loader = make(data, prefetch=4)
    for _ in loader:
        break
    first = loader.stats()
    assert first.clips == 2
    for _ in zip(range(3), loader, strict=False):
        pass
    assert (loader.stats() - first).clips in (6, 8)  # zip asks for one more


def test_time_spent_with_a_batch_is_not_time_waited(data: vl.VideoDataset) -> None:
    loader = make(data)
    for _ in loader:
        time.sleep(0.02)
    stats = loader.stats()
    assert stats.seconds - stats.waiting >= 4 * 0.02


def test_a_slow_transform_is_told_and_waited_for(data: vl.VideoDataset) -> None:
    slow = vl.PythonFunction(lambda frames, rng: (time.sleep(0.02), frames)[1], per="batch")
    loader = make(data, transforms=[slow])
    list(loader)
    assert loader.stats().transforming >= 5 * 0.02
    assert loader.stats().waiting >= 0.02


def test_accounts_can_be_added_and_subtracted() -> None:
    count = len(fields(LoaderStats))
    one, other = LoaderStats(*range(count)), LoaderStats(*range(0, 10 * count, 10))
    assert astuple(one + other) == tuple(range(0, 11 * count, 11))
    assert one + other - one == other


def test_an_account_reads_well() -> None:
    stats = LoaderStats(640, 10240, 63488, 8.0, 0.08, 0.1, 118.9, 0.0, 0.1)
    assert str(stats) == (
        "640 clips, 10240 frames in 8.00 s: 80.0 clips/s, 6.2 packets a frame, 1% of the time waited for\n"
        "thread seconds: planning 0.1, NVDEC 118.9, CPU 0.0, transforming 0.1"
    )
    assert str(LoaderStats(1, 16, corrupt=3)).startswith("1 clip, 16 frames (3 corrupt) in ")
    assert str(LoaderStats(1, 8, corrupt=3, shown=16, made_up=2, skipped=4, replaced=5)).startswith(
        "1 clip (4 skipped, 5 replaced), 8 frames (3 corrupt, 12.5% of the frames shown are padding) in "
    )
    assert str(LoaderStats()).startswith("0 clips, 0 frames in 0.00 s: 0.0 clips/s, 0.0 packets a frame, 0%")


def test_a_decoding_loader_keeps_the_same_account(data: vl.VideoDataset) -> None:
    batches = [[ClipRequest(entry.path, [0, 2, 2, 1])] * 2 for entry in data][:5]
    loader = DecodingLoader(batches, device="cpu", num_workers=2)
    for number, _ in enumerate(loader, 1):
        stats = loader.stats()
        assert (stats.clips, stats.frames, stats.packets) == (2 * number, 3 * number, 3 * number)
        check_times(stats)
        time.sleep(0.02)
    stats = loader.stats()
    assert stats.seconds - stats.waiting >= 4 * 0.02


class SlowRows:
    """A data set that takes its time."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __len__(self) -> int:
        return 4

    def __getitem__(self, row: int) -> ClipRequest:
        time.sleep(0.02)
        return ClipRequest(self.path, [row])


def test_a_slow_torch_loader_is_waited_for(data: vl.VideoDataset) -> None:
    loader = DecodingLoader(DataLoader(SlowRows(data[0].path), batch_size=1), device="cpu", num_workers=1)
    list(loader)
    assert loader.stats().waiting >= 4 * 0.02


class Terminal(io.StringIO):
    """What would be seen on a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    screen = Terminal()
    monkeypatch.setattr(live_line, "sys", SimpleNamespace(stderr=screen, modules=sys.modules))
    for name in ("VIDEOLOADER_PROGRESS", "RANK", "TERM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(live_line, "_columns", lambda: 120)
    return screen


def test_a_line_shows_how_far_a_loop_is_and_how_fast(data: vl.VideoDataset, terminal: io.StringIO) -> None:
    loader = make(data)
    shown = [batch.clips.tolist() for batch in show_progress(loader, "epoch 3")]
    assert shown == [batch.clips.tolist() for batch in make(data)]
    assert re.search(r"epoch 3 ━{20} 5/5, \d+\.\d clips/s, waited \d+%\x1b\[K\n$", terminal.getvalue())


def test_a_line_ends_with_a_loop_that_is_left(data: vl.VideoDataset, terminal: io.StringIO) -> None:
    loader = make(data)
    for _ in show_progress(loader):
        break
    assert " 1/5, " in terminal.getvalue()
    assert terminal.getvalue().endswith("\n")
    assert loader.stats().clips == 2
    assert len(list(show_progress(loader))) == 5


def test_nothing_is_written_where_nobody_looks_on(data: vl.VideoDataset, capfd: pytest.CaptureFixture[str]) -> None:
    assert len(list(show_progress(make(data)))) == 5
    assert capfd.readouterr() == ("", "")


def test_a_bar_is_for_a_loader(data: vl.VideoDataset) -> None:
    for given in (data, [1, 2]):
        with pytest.raises(vl.ConfigurationError, match=r"^show_progress takes a VideoLoader, .* got (Video|\[1, 2\])"):
            show_progress(given)  # type: ignore[arg-type]
