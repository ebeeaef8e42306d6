"""Files behind URLs: how little is asked of a server, and what is said when it answers wrongly."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import av
import numpy as np
import pytest
import torch
from archive_writing import tar_bytes, zip_bytes
from range_server import RangeServer, serve

from videoloader import Video, VideoDataset, VideoLoader
from videoloader.dataset.allowed_sources import check_sources
from videoloader.errors import ConfigurationError, SourceError, VideoLoaderError
from videoloader.indexing import FileSource, RemoteSource, build_index, open_source
from videoloader.indexing.sources.remote import without_colons

LONGEST = 50  # seconds: less than the 60 that the library itself waits for an answer
DATA = bytes(range(256)) * 4000


@contextmanager
def soon() -> Iterator[None]:
    started = time.monotonic()
    yield
    assert time.monotonic() - started < LONGEST


@pytest.fixture(autouse=True)
def few_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pauses worth waiting for."""
    monkeypatch.setattr("videoloader.indexing.sources.patience._FIRST_PAUSE", 0.01)


@pytest.fixture
def server() -> Iterator[RangeServer]:
    with serve({"data": DATA, "clip.mp4": DATA}) as running:
        yield running


@pytest.fixture(scope="module")
def large_video(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """``large_video(movflags)``: 100 MB of noise with a keyframe every twelve frames, and silence between them."""
    folder = tmp_path_factory.mktemp("large")
    noise = _write_noise(folder / "noise.mp4")

    def write(movflags: str) -> Path:
        path = folder / f"large{movflags}.mp4"
        with (
            av.open(str(noise)) as source,
            av.open(str(path), "w", container_options={"movflags": movflags} if movflags else {}) as target,
        ):
            picture = target.add_stream_from_template(source.streams.video[0])
            sound = target.add_stream("aac", rate=48000)
            packets = [(bytes(each), each.pts, each.is_keyframe) for each in source.demux(video=0) if each.size]
            step = packets[1][1] - packets[0][1]
            for number in range(100_000_000 // sum(len(data) for data, _, _ in packets) * len(packets) + len(packets)):
                data, _, key = packets[number % len(packets)]
                packet = av.Packet(data)
                packet.pts = packet.dts = number * step
                packet.time_base, packet.is_keyframe, packet.stream = source.streams.video[0].time_base, key, picture
                target.mux(packet)
                silence = av.AudioFrame.from_ndarray(np.zeros((2, 1920), np.float32), format="fltp", layout="stereo")
                silence.sample_rate = 48000
                target.mux(sound.encode(silence))
            target.mux(sound.encode())
        return path

    return write


def _write_noise(path: Path) -> Path:
    rng = np.random.default_rng(0)
    options = {"preset": "ultrafast", "qp": "24", "g": "12", "bf": "0", "x264-params": "scenecut=0"}
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=25, options=options)
        stream.width, stream.height, stream.pix_fmt = 320, 240, "yuv420p"
        for _ in range(60):
            frame = av.VideoFrame.from_ndarray(rng.integers(0, 256, (240, 320, 3), np.uint8), format="rgb24")
            container.mux(stream.encode(frame.reformat(format="yuv420p")))
        container.mux(stream.encode())
    return path


@pytest.mark.parametrize("movflags", ["faststart", ""], ids=["tables first", "tables last"])
def test_a_clip_of_a_large_video_costs_few_bytes_and_requests(
    server: RangeServer, large_video: Callable[[str], Path], movflags: str
) -> None:
    path = large_video(movflags)
    server.files["clip.mp4"] = path.read_bytes()
    server.forget()
    video = Video(server.url + "clip.mp4", device="cpu")
    index_cost = server.sent, len(server.requests)
    first = len(video) // 2 + 5
    clip = video.read(range(first, first + 16))
    print(f"{movflags}: index {index_cost}, with clip {server.sent, len(server.requests)} of {path.stat().st_size}")
    assert path.stat().st_size > 100_000_000
    assert server.sent < 0.02 * path.stat().st_size
    assert index_cost[1] <= 5
    assert len(server.requests) <= index_cost[1] + 3
    assert torch.equal(clip.frames, Video(path, device="cpu").read(range(first, first + 16)).frames)


def test_opening_costs_nothing_and_looking_costs_one_request(server: RangeServer) -> None:
    source = open_source(server.url + "data")
    assert server.requests == []
    assert (source.size, source.read(4, 4), bool(source.fingerprint)) == (len(DATA), DATA[4:8], True)
    assert server.requests == [(0, 64 << 10)]


def test_small_reads_one_after_another_are_few_requests(server: RangeServer) -> None:
    source = RemoteSource(server.url + "data")
    assert b"".join(source.read(start, 100) for start in range(0, len(DATA), 100)) == DATA
    assert len(server.requests) < 8
    server.forget()
    with RemoteSource(server.url + "data").open() as file:
        assert file.read() == DATA
    assert len(server.requests) < 8
    assert server.sent == len(DATA)


def test_small_reads_here_and_there_fetch_little(server: RangeServer) -> None:
    source = RemoteSource(server.url + "data")
    for start in range(0, len(DATA), 200_000):
        source.read(start, 16)
    assert server.sent < 200_000


def test_ranges_are_fetched_to_the_byte_and_side_by_side(server: RangeServer) -> None:
    source = RemoteSource(server.url + "data")
    assert source.read_ranges([500_000, 10, 900_000], [10, 20, 5]) == [
        DATA[500_000:500_010],
        DATA[10:30],
        DATA[900_000:900_005],
    ]
    assert sorted(server.requests) == [(10, 30), (500_000, 500_010), (900_000, 900_005)]


def test_members_of_one_shard_cost_one_walk(server: RangeServer) -> None:
    server.files["x.tar"] = tar_bytes({f"{number}.bin": bytes([number]) * 1_000_000 for number in range(50)})
    for number in range(50):
        source = open_source(f"{server.url}x.tar::{number}.bin")
        assert source.read_ranges([999_990], [20]) == [bytes([number]) * 10]
    assert server.sent < 0.02 * len(server.files["x.tar"])
    assert len(server.requests) <= 101


def test_a_zip_behind_a_url_is_read_in_place(server: RangeServer) -> None:
    server.files["x.zip"] = zip_bytes({"1": DATA, "2": b"two", "3": DATA})
    assert open_source(f"{server.url}x.zip::2").read(0, 9) == b"two"
    assert open_source(f"zip://2::{server.url}x.zip").read(0, 9) == b"two"
    assert server.sent < 200_000


def test_the_fingerprint_is_that_of_the_version(server: RangeServer) -> None:
    before = open_source(server.url + "data").fingerprint
    assert open_source(server.url + "data").fingerprint == before
    server.version = "2"
    assert open_source(server.url + "data").fingerprint != before


def test_a_file_that_changes_while_it_is_read_is_an_error(server: RangeServer) -> None:
    source = open_source(server.url + "data")
    source.read(0, 10)
    server.files["data"] = DATA[:-1]
    with pytest.raises(SourceError, match=r"data: has changed while it was read: 1024000 bytes, now 1023999"):
        source.read(500_000, 10)


def test_a_server_that_takes_the_end_back_is_an_error(server: RangeServer) -> None:
    known, unknown = open_source(server.url + "data"), open_source(server.url + "data")
    assert known.size == len(DATA)
    server.fault = "416"
    with soon(), pytest.raises(SourceError, match="data: has changed while it was read: 1024000 bytes, now 500000"):
        known.read_ranges([500_000], [10])
    with soon(), pytest.raises(SourceError, match="data: is empty"):
        unknown.read_ranges([500_000], [10])


WRONG_ANSWERS = {
    "no ranges": "the server sends the whole file where a range was asked for",
    "no size": "the server does not state the file's size",
    "short": "",
    "long": "",
    "wrong range": "the server sends bytes",
    "drops": "",
    "500": "HTTP status 500",
}


@pytest.mark.parametrize("fault", WRONG_ANSWERS)
def test_a_wrong_answer_is_an_error_that_names_the_url_and_the_byte(server: RangeServer, fault: str) -> None:
    server.fault = fault
    with soon(), pytest.raises(SourceError, match="data: cannot be read at byte 0 .*" + WRONG_ANSWERS[fault]):
        open_source(server.url + "data").read(10, 4)
    at_500_000 = "data: cannot be read at byte 500000 .*" + WRONG_ANSWERS[fault]
    with soon(), pytest.raises(SourceError, match=at_500_000) as error:
        open_source(server.url + "data").read_ranges([500_000], [1000])
    assert len(str(error.value)) < 600
    with soon(), pytest.raises(VideoLoaderError, match="data: cannot be read"):
        Video(server.url + "data", device="cpu")
    assert server.sent < 10 * len(DATA)


def test_a_server_that_falls_silent_is_waited_for_no_longer_than_allowed(
    server: RangeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VIDEOLOADER_TIMEOUT", "0.4")
    server.fault = "stalls"
    # On a busy machine, the time of the whole read may be up before the silence is noticed.
    told = r"data: cannot be read at byte 0 \((no byte came for 0\.2 s|0 of \d+ bytes came in the time that .*); asked"
    with soon(), pytest.raises(SourceError, match=told):
        open_source(server.url + "data").read(10, 4)


@pytest.mark.parametrize("fault", WRONG_ANSWERS)
def test_a_server_that_fails_later_is_an_error_of_the_clip(
    server: RangeServer, sample: Callable[[str], Path], fault: str
) -> None:
    # Longer than what the first look at it fetches, so that the clip asks again.
    server.files["clip.mp4"] = sample("h264_mp4_tables_first").read_bytes() + b"\0\1\0\0free" + b"\0" * 65528
    index = build_index(server.url + "clip.mp4")
    video = Video(server.url + "clip.mp4", index=index, device="cpu")
    server.fault = fault
    with soon(), pytest.raises(SourceError, match=r"clip\.mp4: cannot be read at byte \d+"):
        video[30]


def test_a_small_file_needs_no_ranges(server: RangeServer) -> None:
    server.files["small"] = b"small"
    server.fault = "no ranges"
    assert open_source(server.url + "small").read(1, 10) == b"mall"


def test_a_missing_file_an_empty_one_and_no_server() -> None:
    with serve({"empty": b""}) as server:
        with soon(), pytest.raises(SourceError, match=r"/missing\.mp4: cannot be read at byte 0 .*404: not found"):
            Video(server.url + "missing.mp4", device="cpu")
        with soon(), pytest.raises(SourceError, match="/empty: is empty"):
            Video(server.url + "empty", device="cpu")
        assert not RemoteSource(server.url + "missing.mp4").exists()
    with soon(), pytest.raises(SourceError, match="/clip: cannot be read"):
        Video(server.url + "clip", device="cpu")
    with pytest.raises(SourceError, match=r"memory://no/such: cannot be opened \(FileNotFoundError"):
        Video("memory://no/such", device="cpu")


def test_a_reading_from_beyond_the_end(server: RangeServer) -> None:
    source = open_source(server.url + "data")
    assert source.read_ranges([len(DATA) + 5, len(DATA) - 2], [10, 10]) == [b"", DATA[-2:]]
    assert source.size == len(DATA)


def test_an_address_may_hold_two_colons_itself() -> None:
    with pytest.raises(SourceError, match=r"http://\[::1\]:9/shard\.tar: cannot be read"):
        open_source("http://[::1]:9/shard.tar::clip.mp4")


@pytest.fixture
def ipv6_server(sample: Callable[[str], Path]) -> Iterator[RangeServer]:
    video = sample("h264_mp4").read_bytes()
    with ExitStack() as stack:
        try:
            server = stack.enter_context(serve({"a.mp4": video, "a.tar": tar_bytes({"b.mp4": video})}, "::1"))
        except OSError as error:
            pytest.skip(f"this machine has no IPv6 loopback ({error})")
        yield server


@pytest.mark.parametrize("name", ["a.mp4", "a.tar::b.mp4", "a.mp4::stream_index=0", "a.tar::b.mp4::stream_index=0"])
def test_the_host_may_be_an_ipv6_address(
    sample: Callable[[str], Path], ipv6_server: RangeServer, name: str, tmp_path: Path
) -> None:
    url, expected = ipv6_server.url + name, Video(sample("h264_mp4"), device="cpu")[3:5]
    assert url.startswith("http://[::1]:")
    video = Video(url, device="cpu")
    assert torch.equal(video[3:5], expected)
    assert video.index.source == url
    data = VideoDataset.from_paths([url])
    data.build_store(store := tmp_path / "store.db")
    for index in (None, store):
        (batch,) = VideoLoader(data, [3, 4], batch_size=1, device="cpu", num_workers=0, index=index)
        assert torch.equal(batch.frames[0], expected)
        assert batch.paths == [url]
    Video(url, device="cpu", index=video.index)
    with pytest.raises(ConfigurationError, match="is opened by fsspec"):
        check_sources([url], "local", "", str)


def test_archives_at_an_ipv6_address_are_listed(ipv6_server: RangeServer) -> None:
    data = VideoDataset.from_archives(ipv6_server.url + "a.tar")
    assert [entry.path for entry in data] == [ipv6_server.url + "a.tar::b.mp4"]


def test_errors_name_an_ipv6_address_as_it_was_given(ipv6_server: RangeServer) -> None:
    ipv6_server.fault = "wrong range"
    with pytest.raises(SourceError, match=r"^http://\[::1\]:\d+/a\.mp4: cannot be read") as error:
        Video(ipv6_server.url + "a.mp4", device="cpu")
    assert "0000" not in str(error.value)


def test_only_ipv6_addresses_are_written_in_full() -> None:
    full = ":".join(["0000"] * 7 + ["0001"])
    assert without_colons("simplecache::http://me@[::1]:80/a") == f"simplecache::http://me@[{full}]:80/a"
    assert without_colons("sftp://[::1%25eth0]/a::b") == f"sftp://[{full}%25eth0]/a::b"
    for other in ("s3://bucket/[::1]/a", "http://[::x]/a", "a::b[::1]", "http://[v1.a::b]/"):
        assert without_colons(other) == other


def test_unknown_kinds_of_url_and_missing_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SourceError, match=r"xyz://a: cannot be opened .*xyz"):
        open_source("xyz://a")
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'videoloader\[remote\]'"):
        open_source("https://example.org/clip.mp4")


def test_local_sources_are_what_they_were(sample: Callable[[str], Path]) -> None:
    assert isinstance(open_source(sample("h264_mp4").as_uri()), FileSource)
