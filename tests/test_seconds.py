"""Seconds count from the file's start in every API; with ``times="pts"`` they are the container's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
from corpus_files import GOOD_FILES
from films import write_film
from hypothesis import given
from hypothesis import strategies as st
from sampled_videos import only_clip
from synthetic_index import make_index
from torch.utils.data import DataLoader

import videoloader as vl
from videoloader.dataset import entry_range
from videoloader.indexing import VideoIndex, build_index, build_store
from videoloader.indexing.sources.local import MemorySource
from videoloader.indexing.video_stream import open_video
from videoloader.interop.torch import ClipDataset, ClipRequest, DecodingLoader
from videoloader.sampling.asked_frames import frame_on_screen, frames_between
from videoloader.sampling.sampled_video import AllFrames

Sample = Callable[[str], Path]
# Of long videos, so many frames are looked up one by one.
_FRAMES = 300
FRAGMENTED = {"movflags": "frag_keyframe+empty_moov+delay_moov"}


def some_frames(index: VideoIndex) -> list[int]:
    chosen = np.unique(np.linspace(0, len(index) - 1, _FRAMES).round().astype(np.int64))
    frames: list[int] = chosen.tolist()
    return frames


def assert_found_by_their_timestamps(index: VideoIndex, frames: Sequence[int]) -> None:
    """By every look-up, wherever no other frame has the same time."""
    times = index.timestamps
    assert index.frame_at(times).tolist() == list(range(len(index)))
    for at in ("nearest", "before", "after"):
        assert only_clip(vl.Timestamps(times[frames], at=at), AllFrames(index)) == frames
    assert [frame_on_screen(index, time) for time in times[frames].tolist()] == frames
    for frame, time, after in zip(frames, times[frames].tolist(), times[[*frames[1:], -1]].tolist(), strict=True):
        stop = index.frame_at(after).item() if after > time else len(index)
        entry = vl.VideoEntry("a", start_seconds=time, stop_seconds=after if after > time else None, times=index.times)
        assert entry_range(entry, index) == (frame, stop)
        if after > time:
            assert frames_between(index, time, after) == vl.FrameList(range(frame, stop))


@pytest.mark.parametrize("name", GOOD_FILES)
def test_every_frame_of_real_files_is_found_by_its_timestamp(name: str, corpus: Path) -> None:
    index = build_index(corpus / name)
    base = index.stream.time_base
    for times in ("start", "pts"):
        counted = index.with_times(times)
        assert_found_by_their_timestamps(counted, some_frames(index))
    pts = index.with_times("pts").timestamps
    assert pts.tolist() == [int(each) * base.numerator / base.denominator for each in index.frame_pts]
    # As near to libavformat's start as the timestamps' unit allows.
    assert np.abs(pts - index.start_time / 1e6 - index.timestamps).max() <= float(base / 2) + 1e-6


@given(
    offset=st.integers(-(2**33), 2**33),
    steps=st.lists(st.integers(1, 5000), max_size=20),
    base=st.builds(
        Fraction, st.sampled_from([1, 1001]), st.sampled_from([25, 1000, 12800, 24000, 30000, 90000, 10**7, 10**9])
    ),
)
def test_the_first_frame_of_a_file_of_pictures_is_at_zero_and_each_is_found(offset, steps, base):
    index = make_index([offset, *(offset + np.cumsum(steps, dtype=np.int64)).tolist()], {0}, time_base=base)
    index = replace(index, start_time=round(offset * base * 1_000_000))
    assert index.timestamps.tolist() == [int(each) * base.numerator / base.denominator for each in index.clock - offset]
    assert index.timestamps[0] == 0
    assert_found_by_their_timestamps(index, list(range(len(index))))
    assert_found_by_their_timestamps(index.with_times("pts"), list(range(len(index))))


# Pictures and sound begin at these milliseconds.
STARTS = {
    "pictures only": (2000, None),
    "together": (2000, 2000),
    "sound first": (2400, 2000),
    "pictures first": (0, 500),
}
CONTAINERS = {
    "mp4": ("mp4", {}),
    "fragmented": ("mp4", FRAGMENTED),
    "mkv": ("matroska", {}),
    "ts": ("mpegts", {}),
    "flv": ("flv", {}),
}


def film(container: str, starts: tuple[int, int | None]) -> bytes:
    pictures, sound = starts
    order = "v" if sound is None else "va"
    return write_film(*CONTAINERS[container], "libmp3lame", order, (pictures, sound or 0))


def shown_by_libavformat(data: bytes) -> list[tuple[float, float]]:
    """When players show each frame, its pts from the start of the file, and how bright it is."""
    with open_video(MemorySource(data)) as (container, stream):
        start = Fraction(container.start_time, 1_000_000)
        return sorted(
            (float(frame.pts * frame.time_base - start), frame.to_ndarray(format="rgb24").mean())
            for frame in container.decode(stream)
        )


@pytest.mark.parametrize("starts", STARTS.values(), ids=STARTS)
@pytest.mark.parametrize("container", CONTAINERS)
def test_frames_are_shown_when_players_show_them(container, starts):
    data = film(container, starts)
    video = vl.Video(data, device="cpu")
    times, brightness = zip(*shown_by_libavformat(data), strict=True)
    assert video.timestamps.tolist() == pytest.approx(times, abs=2e-5)
    assert (video.timestamps[0] > 0.2) == (starts == STARTS["sound first"])
    for number in (0, 7, 28):
        # ``ffmpeg -ss`` begins with the first frame that is not before a time; a player shows the last one before it.
        middle = round(times[number] + 0.02, 3)
        begun = video.read(vl.Timestamps([middle], at="after")).frames
        assert begun.float().mean().item() == pytest.approx(brightness[number + 1], abs=2)
        assert video.at(middle).float().mean().item() == pytest.approx(brightness[number], abs=2)


@pytest.mark.parametrize("times", ["start", "pts"])
def test_a_span_may_begin_with_the_sound(times):
    video = vl.Video(film("mkv", STARTS["sound first"]), device="cpu", times=times)
    zero, first = video.start_time if times == "pts" else 0, Fraction(str(video.timestamps[0]))
    assert video.timestamps[0] - zero > 0.35
    assert video.between(zero, first + Fraction(8, 100)).frame_numbers.tolist() == [0, 1]
    clip = video.between(first - Fraction(1, 10), first + Fraction(1, 10), fps=20)
    assert clip.frame_numbers.tolist() == [0, 0, 0, 1]
    assert clip.mask.tolist() == [False, False, True, True]
    for wrong in (
        lambda: video.at(zero),
        lambda: video.between(zero - 0.01, 3),
        lambda: video.between(zero, zero + 0.1),
    ):
        with pytest.raises(vl.FrameRangeError, match=r"asked for .* s, but the video lasts"):
            wrong()


@pytest.mark.parametrize("first", [0, 1000, 2000])
def test_the_same_seconds_are_the_same_frame_in_every_container(first):
    seconds = [0.0, 0.039, 0.04, 0.5, 1.16, 1.199]
    frames = [
        vl.Video(film(name, (first, None)), device="cpu").read(vl.Timestamps(seconds, at="before"))
        for name in CONTAINERS
    ]
    for clip in frames:
        assert clip.frame_numbers.tolist() == [0, 0, 1, 12, 29, 29]


class TestATransportStreamAtEveryDoor:
    """Its first frame has pts 0.08."""

    PTS = 0.08

    @pytest.fixture(params=["start", "pts"])
    def times(self, request: pytest.FixtureRequest) -> str:
        return request.param

    @pytest.fixture
    def zero(self, times: str) -> float:
        return {"start": 0.0, "pts": self.PTS}[times]

    @pytest.fixture
    def rows(self, sample: Sample, times: str, zero: float) -> vl.VideoDataset:
        """Frames 10 to 29, and times in a column."""
        path = str(sample("h264_ts"))
        columns = {"seconds": [zero + 0.4, zero + 0.8]}
        row = vl.VideoEntry(path, start_seconds=zero + 0.4, stop_seconds=zero + 1.2, columns=columns)
        return vl.VideoDataset([row]).with_times(times)

    def test_one_video(self, sample: Sample, times: str, zero: float) -> None:
        video = vl.Video(sample("h264_ts"), device="cpu", times=times)
        expected = zero + np.arange(60) / 25
        assert video.timestamps == pytest.approx(expected)
        assert video.start_time == pytest.approx(self.PTS)
        assert torch.equal(video.at(zero + 0.4), video[10])
        begin, end = round(zero + 0.4, 2), round(zero + 0.8, 2)
        clip = video.between(begin, end)
        assert clip.frame_numbers.tolist() == list(range(10, 20))
        assert clip.timestamps == pytest.approx(expected[10:20])
        assert video.between(begin, end, fps=5).frame_numbers.tolist() == [10, 15]
        assert video.read(vl.Timestamps([zero + 0.4])).timestamps == pytest.approx([zero + 0.4])
        assert video.read_clips(vl.AtRate(5, 3, start=0))[0].timestamps == pytest.approx(zero + np.arange(3) / 5)
        assert repr(video) == repr(vl.Video(sample("h264_ts"), device="cpu"))
        again = vl.Video(sample("h264_ts"), device="cpu", index=video.index)
        assert again.timestamps[0] == 0

    @pytest.mark.parametrize("stored", [False, True])
    def test_loaders(self, rows: vl.VideoDataset, zero: float, tmp_path: Path, stored: bool) -> None:
        index = None
        if stored:
            index = tmp_path / "index.db"
            rows.build_store(index)
        for mode in (vl.Timestamps([zero + 0.4, zero + 0.8]), vl.Timestamps("seconds"), [0, 10]):
            loader = vl.VideoLoader(rows, mode, batch_size=1, device="cpu", num_workers=1, index=index)
            (batch,) = loader
            assert batch.frame_numbers.tolist() == [[10, 20]]
            assert batch.timestamps[0] == pytest.approx([zero + 0.4, zero + 0.8])
        clips = ClipDataset(rows, vl.AtRate(5, 2, start=0), index=index)
        assert clips[0]["frame_numbers"].tolist() == [10, 15]
        assert clips[0]["timestamps"] == pytest.approx([zero + 0.4, zero + 0.6])

    def test_requests(self, rows: vl.VideoDataset, times: str, zero: float) -> None:
        whole = vl.VideoEntry(rows.paths[0], times=times)
        asked = [ClipRequest(rows[0], [0]), ClipRequest(whole, vl.Timestamps([zero + 0.4]))]
        loader = DataLoader(asked, batch_size=2)
        ((numbers, seconds),) = DecodingLoader(
            loader, device="cpu", num_workers=1, replace_with=lambda clips: (clips.frame_numbers, clips.timestamps)
        )
        assert numbers.tolist() == [[10], [10]]
        assert seconds == pytest.approx(np.full((2, 1), zero + 0.4))

    def test_the_rows_of_a_table(self, rows: vl.VideoDataset, times: str, zero: float, tmp_path: Path) -> None:
        (tmp_path / "shots.csv").write_text(f"path,start,end\n{rows.paths[0]},{zero + 0.4:.2f},{zero + 1.2:.2f}\n")
        table = vl.VideoDataset.from_csv(tmp_path / "shots.csv").with_times(times)
        assert table[0].times == times
        assert len(table.where(min_frames=20)) == 1
        for data in (table, table[[0]], (table + table)[1:], vl.VideoDataset(list(table))):
            (batch,) = vl.VideoLoader(data, vl.WholeVideo(), batch_size=1, device="cpu", num_workers=1)
            assert batch.frame_numbers.tolist() == [list(range(10, 30))]

    def test_an_error_tells_of_both_spans(self, sample: Sample, times: str, zero: float) -> None:
        lasts = {"start": r"0–2.4 s \(pts 0.08–2.48\)", "pts": r"0.08–2.48 s of pts \(0–2.4 s from the file's start\)"}
        told = f"the video lasts {lasts[times]}"
        video = vl.Video(sample("h264_ts"), device="cpu", times=times)
        with pytest.raises(vl.FrameRangeError, match=f"asked for 50 s, but {told}$"):
            video.at(50)
        with pytest.raises(vl.FrameRangeError, match=f"asked for 50–60.5 s, but {told}$"):
            video.between(50, 60.5)
        with pytest.raises(
            vl.FrameRangeError, match=rf"no frame of 0 to 59 is at or near 50.0 s: they last {lasts[times]}$"
        ):
            video.read(vl.Timestamps([50]))
        row = vl.VideoEntry(video.index.source, start_seconds=50, stop_seconds=60, times=times)
        with pytest.raises(
            vl.FrameRangeError,
            match=f"no frames for start_seconds=50.0, stop_seconds=60.0; {told}, 60 frames: start, end",
        ):
            vl.VideoLoader(vl.VideoDataset([row]), [0], batch_size=1, device="cpu")


def test_rows_of_one_video_may_count_from_different_zeros(sample: Sample) -> None:
    path = str(sample("h264_ts"))
    rows = vl.VideoDataset([vl.VideoEntry(path, start_seconds=0.08, stop_seconds=0.2)])
    loader = vl.VideoLoader(rows + rows.with_times("pts"), [0], batch_size=2, device="cpu", num_workers=1)
    (batch,) = loader
    assert batch.frame_numbers.tolist() == [[2], [0]]
    assert batch.timestamps == pytest.approx(np.array([[0.08], [0.08]]))


def test_a_state_fits_only_where_seconds_count_alike(sample: Sample) -> None:
    rows = vl.VideoDataset.from_paths([sample("h264_ts")])
    loader, other = (
        vl.VideoLoader(data, vl.EveryWindow(4), batch_size=1, device="cpu") for data in (rows, rows.with_times("pts"))
    )
    next(iter(loader))
    with pytest.raises(vl.ConfigurationError, match="state"):
        other.load_state_dict(loader.state_dict())


def test_a_store_keeps_no_zero(sample: Sample, tmp_path: Path) -> None:
    path = str(sample("h264_ts"))
    build_store([path], tmp_path / "index.db")
    index = vl.IndexStore(tmp_path / "index.db").get(path)
    assert index.times == "start"
    assert index.timestamps.tolist() == build_index(path).timestamps.tolist()


@pytest.mark.parametrize(
    "make",
    [
        lambda path: vl.Video(path, device="cpu", times="zero"),
        lambda path: vl.VideoEntry(path, times="zero"),
        lambda path: vl.VideoDataset.from_paths([path]).with_times("zero"),
        lambda path: build_index(path).with_times("zero"),
    ],
)
def test_there_are_two_zeros(make, sample: Sample) -> None:
    with pytest.raises(vl.ConfigurationError, match="times must be one of start, pts, got 'zero'"):
        make(str(sample("h264_ts")))
