"""Servers that are busy, slow or silent: asked again, within bounds, and given up with a full account."""

from __future__ import annotations

import _thread
import asyncio
import pickle
import signal
import threading
import time
from collections.abc import Callable, Iterator
from email.utils import formatdate
from pathlib import Path

import fsspec
import fsspec.asyn
import pytest
from range_server import RangeServer, serve

from videoloader import EveryWindow, Video, VideoDataset, VideoLoader
from videoloader.errors import ConfigurationError, SourceError, StaleIndexError
from videoloader.indexing import RemoteSource, build_index, open_source

DATA = bytes(range(256)) * 4000
LONGEST = 50


@pytest.fixture(autouse=True)
def usual_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("VIDEOLOADER_RETRIES", "VIDEOLOADER_TIMEOUT"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def server() -> Iterator[RangeServer]:
    with serve({"data": DATA}) as running:
        yield running


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses between tries, which take no time."""
    seen: list[float] = []
    sleep = asyncio.sleep

    async def note(seconds: float) -> None:
        seen.append(seconds)
        await sleep(0)

    monkeypatch.setattr("videoloader.indexing.sources.patience.asyncio.sleep", note)
    return seen


@pytest.mark.parametrize("refusal", [(429, {}), (500, {}), (502, {}), (503, {}), (504, {}), (408, {}), None])
def test_what_passes_is_asked_for_again(
    server: RangeServer, pauses: list[float], refusal: tuple[int, dict[str, str]] | None
) -> None:
    server.refusals = [refusal] * 4
    assert open_source(server.url + "data").read(5, 3) == DATA[5:8]
    assert server.asked == 5
    if refusal is not None:  # aiohttp asks once more by itself where a connection that was kept is gone
        assert len(pauses) == 4
        assert all(0.25 * 2**number <= pause <= 0.5 * 2**number for number, pause in enumerate(pauses))


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 451])
def test_what_does_not_pass_is_asked_for_once(server: RangeServer, pauses: list[float], status: int) -> None:
    server.refusals = [(status, {})]
    with pytest.raises(SourceError, match=f"HTTP status {status}"):
        open_source(server.url + "data").read(5, 3)
    assert (server.asked, pauses) == (1, [])


def test_a_server_is_left_alone_as_long_as_it_asks(server: RangeServer, pauses: list[float]) -> None:
    soon = formatdate(time.time() + 30, usegmt=True)
    server.refusals = [(503, {"Retry-After": "7"}), (429, {"Retry-After": soon}), (503, {"Retry-After": "nonsense"})]
    assert open_source(server.url + "data").read(5, 3) == DATA[5:8]
    assert 7 <= pauses[0] < 8
    assert 20 < pauses[1] < 31
    assert pauses[2] < 3


def test_a_rest_longer_than_the_time_is_not_waited_for(server: RangeServer, pauses: list[float]) -> None:
    server.refusals = [(429, {"Retry-After": "3600"})]
    told = r"HTTP status 429: Too Many Requests, and asks for 3600 s of rest; asked 127\.0\.0\.1:\d+ once in \d+\.\d s"
    with pytest.raises(SourceError, match=told):
        open_source(server.url + "data").read(5, 3)
    assert pauses == []


def test_what_is_given_up_says_how_often_and_for_how_long_and_why(server: RangeServer, pauses: list[float]) -> None:
    server.refusals = [(429, {})] * 4 + [(503, {})]
    with pytest.raises(SourceError) as error:
        open_source(server.url + "data").read_ranges([500], [20])
    host = server.url.removeprefix("http://").rstrip("/")
    told = f"HTTP status 503: Service Unavailable; asked {host} 5 times in "
    assert str(error.value).startswith(f"{server.url}data: cannot be read at byte 500 ({told}")
    assert str(error.value).endswith(" s for bytes 500 to 520)")
    assert server.asked == 5


def test_a_server_that_sends_a_byte_now_and_then_ends_in_time(server: RangeServer) -> None:
    server.fault = "drips"
    source = RemoteSource(server.url + "data", timeout=0.5)
    with pytest.raises(SourceError, match=r"\d+ of 1000 bytes came in the time that there is; asked .* once in "):
        source.read_ranges([500_000], [1000])


def test_a_silent_server_is_asked_twice(server: RangeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("videoloader.indexing.sources.patience._FIRST_PAUSE", 0.01)
    server.fault = "stalls"
    # So long that a busy machine, too, asks again before the time is up.
    reason = r"(no byte came for 2 s|500 of 1000 bytes came in the time that there is)"
    with pytest.raises(SourceError, match=reason + r"; asked .* 2 times in .* for bytes 500000 to 501000"):
        RemoteSource(server.url + "data", timeout=4).read_ranges([500_000], [1000])


def test_one_range_that_fails_ends_the_others(server: RangeServer) -> None:
    server.fault = "stalls"
    server.refusals = [(403, {})]
    with pytest.raises(SourceError, match="HTTP status 403"):
        open_source(server.url + "data").read_ranges([500_000, 10], [1000, 1000])


@pytest.mark.parametrize("fault", ["", "416 without size"])
def test_a_file_that_became_smaller_says_so(server: RangeServer, fault: str) -> None:
    source = open_source(server.url + "data")
    assert source.size == len(DATA)
    server.files["data"], server.fault = DATA[:100_000], fault
    for start, size in [(500_000, 10), (99_000, 2000), (80_000, 10)]:
        with pytest.raises(StaleIndexError, match="data: has changed while it was read: 1024000 bytes, now 100000"):
            source.read_ranges([start], [size])


def test_a_smaller_file_than_its_index_tells_of_says_so(server: RangeServer, sample: Callable[[str], Path]) -> None:
    whole = sample("h264_mp4_tables_first").read_bytes()
    server.files["clip.mp4"] = whole
    index = build_index(server.url + "clip.mp4")
    server.files["clip.mp4"] = whole[: len(whole) // 2]
    with pytest.raises(SourceError, match=r"clip\.mp4: .*(shorter|ends|bytes)"):
        Video(server.url + "clip.mp4", index=index, device="cpu")[len(index) - 1]


class _Cloud(fsspec.asyn.AsyncFileSystem):
    """An asynchronous file system that fails as often as it is told, or is silent, or has become smaller."""

    protocol = "cloud"
    failures: list[Exception] = []  # noqa: RUF012
    size = len(DATA)

    async def _info(self, path: str, **kwargs: object) -> dict[str, object]:
        return {"name": path, "size": self.size, "type": "file", "ETag": "1"}

    async def _cat_file(self, path: str, start: int, end: int, **kwargs: object) -> bytes:
        if self.failures:
            raise type(self).failures.pop(0)
        if path.endswith("silent"):
            await asyncio.Event().wait()
        return DATA[: self.size][start:end]


class _OldCloud(_Cloud):
    """A cloud that gives errors among its answers, as with fsspec 2024.9."""

    async def _cat_ranges(self, *arguments: object, on_error: str, **kwargs: object) -> list[object]:
        return await super()._cat_ranges(*arguments, on_error="return", **kwargs)


@pytest.fixture
def cloud() -> type[_Cloud]:
    fsspec.register_implementation("cloud", _Cloud, clobber=True)
    return _Cloud


@pytest.mark.parametrize("kind", [_Cloud, _OldCloud])
def test_clouds_are_asked_again_too(kind: type[_Cloud], pauses: list[float]) -> None:
    fsspec.register_implementation("cloud", kind, clobber=True)
    kind.failures = [ConnectionResetError("gone"), TimeoutError("late"), asyncio.TimeoutError()]
    assert open_source("cloud://x").read_ranges([5], [3]) == [DATA[5:8]]
    assert len(pauses) == 3


def test_a_silent_cloud_ends_in_time(cloud: type[_Cloud]) -> None:
    told = r"cannot be read at byte 5 \(no complete answer in time; asked cloud once in 0\.\d s for bytes 5 to 8"
    with pytest.raises(SourceError, match=told):
        RemoteSource("cloud://silent", timeout=0.2).read_ranges([5], [3])


def test_a_file_of_a_cloud_that_became_smaller_says_so(cloud: type[_Cloud], monkeypatch: pytest.MonkeyPatch) -> None:
    source = open_source("cloud://x")
    assert source.size == len(DATA)
    monkeypatch.setattr(cloud, "size", 1000)
    with pytest.raises(StaleIndexError, match="has changed while it was read: 1024000 bytes, now 1000"):
        source.read_ranges([500_000], [10])


def test_patience_is_set_for_one_source_or_for_all(server: RangeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    server.refusals = [(503, {})] * 100
    with pytest.raises(SourceError, match=" once in "):
        RemoteSource(server.url + "data", retries=0).read(0, 1)
    with pytest.raises(SourceError, match=" once in "):
        pickle.loads(pickle.dumps(RemoteSource(server.url + "data", retries=0))).read(0, 1)
    monkeypatch.setenv("VIDEOLOADER_RETRIES", "0")
    with pytest.raises(SourceError, match=" once in "):
        Video(server.url + "data", device="cpu")
    monkeypatch.setenv("VIDEOLOADER_RETRIES", "many")
    with pytest.raises(ConfigurationError, match="VIDEOLOADER_RETRIES must be a number, got 'many'"):
        open_source(server.url + "data")
    with pytest.raises(ConfigurationError, match="timeout must be a positive number of seconds, got 0"):
        RemoteSource(server.url + "data", retries=0, timeout=0)
    with pytest.raises(ConfigurationError, match="retries must be an integer of at least 0, got -1"):
        RemoteSource(server.url + "data", retries=-1)


@pytest.fixture
def stalled_video(server: RangeServer, sample: Callable[[str], Path]) -> str:
    """A URL whose index is known, and whose packets never come."""
    server.files["clip.mp4"] = sample("h264_mp4_tables_first").read_bytes()
    return server.url + "clip.mp4"


def _when_stalling(server: RangeServer, act: Callable[[], object]) -> threading.Thread:
    def wait_and_act() -> None:
        server.stalling.wait()
        act()

    thread = threading.Thread(target=wait_and_act)
    thread.start()
    return thread


def test_a_keyboard_interrupt_ends_a_wait(server: RangeServer) -> None:
    ended = threading.Event()

    def interrupt() -> None:
        _thread.interrupt_main()
        while not ended.wait(20):  # Python drops an interrupt that falls into a finalizer
            _thread.interrupt_main()

    server.fault = "stalls"
    # Whatever ran before in this process may have left interrupts ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        interrupting = _when_stalling(server, interrupt)
        started = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            open_source(server.url + "data").read(0, 1)
    finally:
        ended.set()  # or the next tests would be interrupted
        signal.signal(signal.SIGINT, before)
    interrupting.join()
    assert time.monotonic() - started < LONGEST  # a minute would be the library's own patience


@pytest.mark.parametrize("stream", [False, True])
def test_closing_a_video_ends_a_wait(server: RangeServer, stalled_video: str, stream: bool) -> None:
    index = build_index(stalled_video)
    video = Video(stalled_video, index=index, device="cpu")
    server.fault = "stalls"
    closing = _when_stalling(server, video.close)
    with pytest.raises(ConfigurationError, match="is closed"):
        next(video.stream()) if stream else video[30]
    closing.join()


@pytest.mark.parametrize("num_workers", [0, 2])
def test_closing_a_loader_ends_a_wait(server: RangeServer, stalled_video: str, num_workers: int) -> None:
    loader = VideoLoader(
        VideoDataset.from_paths([stalled_video]), EveryWindow(8), batch_size=1, device="cpu", num_workers=num_workers
    )
    server.fault = "stalls"
    closing = _when_stalling(server, loader.close)
    with pytest.raises(ConfigurationError, match="closed"):
        next(iter(loader))
    closing.join()
