"""How far ahead batches are made, which steps overlap, and how much memory that takes."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from sample_videos import Recipe, write_video
from waiting import becomes

import videoloader as vl
from videoloader.batching.batch_maker import BatchMaker
from videoloader.batching.made_batch import BatchInMaking
from videoloader.batching.rows import FrameMemory
from videoloader.interop.torch import ClipRequest, DecodingLoader
from videoloader.reading.clip_reader import ClipReader
from videoloader.reading.workers import DecodeWorkers

Sample = Callable[[str], Path]


@pytest.fixture(scope="module")
def data(sample: Sample) -> vl.VideoDataset:
    return vl.VideoDataset.from_paths([sample("h264_mp4")] * 24)


def make(data: vl.VideoDataset, **settings: object) -> vl.VideoLoader:
    defaults = {"batch_size": 2, "device": "cpu", "num_workers": 2, "shuffle": True}
    return vl.VideoLoader(data, vl.RandomWindow(2, stride=5), **(defaults | settings))


class Memory:
    """Counts the batches' memory that is in use."""

    def __init__(self) -> None:
        self.now = self.most = self.ever = 0

    def allocated(self, tensor: torch.Tensor) -> torch.Tensor:
        self.now, self.ever = self.now + 1, self.ever + 1
        self.most = max(self.most, self.now)
        weakref.finalize(tensor.untyped_storage(), self._freed)
        return tensor

    def _freed(self) -> None:
        self.now -= 1


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[Memory]:
    """Without the help of the garbage collector."""
    memory, plain = Memory(), FrameMemory.allocate
    monkeypatch.setattr(FrameMemory, "allocate", lambda *arguments: memory.allocated(plain(*arguments)))
    gc.collect()
    gc.disable()
    yield memory
    gc.enable()


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("prefetch", [1, 4])
def test_a_batch_more_than_asked_for_is_in_memory_at_most(
    data: vl.VideoDataset, memory: Memory, prefetch: int, shuffle: bool
) -> None:
    for batch in make(data, prefetch=prefetch, shuffle=shuffle):
        assert memory.now <= prefetch + 1
        del batch
        assert becomes(lambda: memory.now <= prefetch)
    assert memory.ever == 12
    assert memory.most <= prefetch + 1
    assert becomes(lambda: memory.now == 0)


@pytest.mark.parametrize("on_error", ["skip", "replace"])
def test_batches_with_broken_clips_leave_no_memory_behind(
    data: vl.VideoDataset, damaged: Path, memory: Memory, on_error: str
) -> None:
    mixed = vl.VideoDataset.from_paths([*(entry.path for entry in data), damaged])
    loader = make(mixed, prefetch=2, on_error=on_error)
    for batch in loader:
        del batch
        assert becomes(lambda: memory.now <= 2)
    assert len(loader.unreadable) >= 1
    assert becomes(lambda: memory.now == 0)


@pytest.fixture
def damaged(sample: Sample, tmp_path: Path) -> Path:
    """A video whose later frames cannot be decoded."""
    content = bytearray(sample("h264_mp4").read_bytes())
    for start in vl.build_index(bytes(content)).packet_offset.tolist()[1:]:
        content[start : start + 4] = b"\xff\xff\xff\xff"  # the length of a NAL unit
    path = tmp_path / "noise.mp4"
    path.write_bytes(content)
    return path


def test_a_decoding_loader_lets_go_of_its_batches_too(data: vl.VideoDataset) -> None:
    batches = [[ClipRequest(entry.path, [3, 9])] for entry in data]
    alive: list[weakref.ref[torch.Tensor]] = []
    for frames in DecodingLoader(batches, device="cpu", num_workers=2, prefetch=2):
        assert not [each for each in alive if each() is not None]
        alive.append(weakref.ref(frames))
        del frames


def test_the_next_batch_is_decoded_while_the_consumer_holds_one(data: vl.VideoDataset) -> None:
    decoded = []
    count = vl.PythonFunction(lambda frames, rng: decoded.append(0) or frames, per="batch")
    for number, _ in enumerate(make(data, prefetch=2, transforms=[count]), 1):
        assert becomes(lambda number=number: len(decoded) == min(number + 2, 12))
    assert len(decoded) == 12


def test_no_more_is_decoded_ahead_of_a_slow_consumer(data: vl.VideoDataset) -> None:
    decoded = []
    count = vl.PythonFunction(lambda frames, rng: decoded.append(0) or frames, per="batch")
    loop = iter(make(data, prefetch=3, transforms=[count]))
    next(loop)
    assert becomes(lambda: len(decoded) == 4)
    time.sleep(0.1)
    assert len(decoded) == 4


def test_the_next_batches_are_decoded_while_one_is_transformed(
    data: vl.VideoDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    transforming, jobs, plain = threading.Event(), [], ClipReader.read

    def read(*arguments: object, **settings: object) -> object:
        report = plain(*arguments, **settings)
        jobs.append(0)
        return report

    def wait_for_others(frames: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        if not transforming.is_set():
            transforming.set()
            assert becomes(lambda: len(jobs) >= 8), "nothing is decoded meanwhile"
        return frames

    monkeypatch.setattr(ClipReader, "read", read)
    distinct = vl.VideoDataset.from_paths([entry.path for entry in data])
    loader = make(distinct, batch_size=1, prefetch=7, transforms=[vl.PythonFunction(wait_for_others, per="batch")])
    next(iter(loader))
    assert transforming.is_set()


def test_a_slow_consumer_is_no_reason_to_lose_order_or_clips(data: vl.VideoDataset) -> None:
    expected = [batch.clips.tolist() for batch in make(data)]
    slow = []
    for batch in make(data, prefetch=5):
        time.sleep(0.01)
        slow.append(batch.clips.tolist())
    assert slow == expected


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is told by Linux")
def test_memory_stays_the_same_over_thousands_of_batches(tmp_path: Path) -> None:
    options = {"preset": "ultrafast", "g": "1"}
    path = write_video(tmp_path / "tiny.mp4", Recipe("mp4", "libx264", options, size=(64, 48), frames=10))
    tiny = vl.VideoDataset.from_paths([path] * 250)
    loader = vl.VideoLoader(tiny, vl.RandomWindow(1), batch_size=1, device="cpu", num_workers=2, shuffle=True)
    sizes = []
    for _ in range(8):
        assert sum(1 for _ in loader) == 250
        sizes.append(resident_bytes())
    assert loader.stats().clips == 2000
    assert sizes[-1] - sizes[2] < 8 << 20, sizes


def test_a_batch_does_not_live_as_long_as_those_it_was_planned_with(tmp_path: Path, memory: Memory) -> None:
    # All clips are in one GOP, so one job decodes for all batches.
    one_gop = Recipe("mp4", "libx264", {"preset": "veryfast", "x264-params": "keyint=60:scenecut=0"}, frames=60)
    videos = vl.VideoDataset.from_paths([write_video(tmp_path / "video.mp4", one_gop)])
    loader = vl.VideoLoader(videos, vl.EveryWindow(2), batch_size=2, device="cpu", num_workers=2, prefetch=29)
    left = len(loader)
    for batch in loader:
        del batch
        left -= 1
        assert becomes(lambda left=left: memory.now == left)
    assert memory.most == len(loader)


def test_only_a_store_that_lasts_slows_decoding_down(data: vl.VideoDataset, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[int, int]] = []
    monkeypatch.setattr(DecodeWorkers, "set_pace", lambda self, ready, asked_for: told.append((ready, asked_for)))
    making: list[BatchInMaking] = []
    start = BatchMaker.start
    monkeypatch.setattr(BatchMaker, "start", lambda *arguments: making.extend(made := start(*arguments)) or made)
    for number, _ in enumerate(make(data, prefetch=3)):
        # The consumer waits for the first batch, and then never.
        assert becomes(lambda: all(each.made.done() for each in making))
        if number == 7:
            break
    assert [ready for ready, _ in told[:5]] == [0] * 5, "no batch had to be waited for four times, as many as are ahead"
    assert told[5][0] >= 3


def test_the_next_batch_is_planned_after_the_quiet_time(data: vl.VideoDataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """A training loop that gets a batch from the store needs the GIL at once."""
    order: list[str] = []
    begun, over = threading.Event(), threading.Event()

    def set_pace(workers: DecodeWorkers, ready: int, asked_for: int) -> None:
        if ready > 1:
            order.append("quiet time begins")
            begun.set()

    def wait_for_quiet_time() -> None:
        if begun.is_set() and threading.current_thread().name.startswith("videoloader-plan"):
            over.wait(60)

    arrange = BatchMaker._arrange
    monkeypatch.setattr(DecodeWorkers, "set_pace", set_pace)
    monkeypatch.setattr("videoloader.reading.workers.wait_for_quiet_time", wait_for_quiet_time)
    monkeypatch.setattr(BatchMaker, "_arrange", lambda *arguments: order.append("planned") or arrange(*arguments))
    making: list[BatchInMaking] = []
    start = BatchMaker.start

    def begin(*arguments: object) -> list[BatchInMaking]:
        order.append("begun")
        making.extend(made := start(*arguments))
        return made

    monkeypatch.setattr(BatchMaker, "start", begin)
    batches = iter(make(data, prefetch=3))
    while not begun.is_set():
        next(batches)
        assert begun.is_set() or becomes(lambda: all(each.made.done() for each in making))
    time.sleep(0.05)  # for a planning thread that does not wait
    assert order[-2:] == ["quiet time begins", "begun"]
    over.set()
    assert becomes(lambda: order[-1] == "planned")
    assert len(list(batches)) > 2
