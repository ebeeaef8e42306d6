"""The facts of a video agree with libav and a full decode."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import av
import numpy as np
import pytest

import videoloader as vl
import videoloader.loader as loader_module
from videoloader.interop.torch import BatchStream, ClipDataset, ClipRequest, DecodingLoader

Sample = Callable[[str], Path]
NAMES = ["h264_mp4", "h264_mp4_vfr", "h264_mkv", "h264_ts", "hevc_mp4", "vp9_webm", "av1_mp4", "mpeg4_avi"]


@pytest.mark.parametrize("name", NAMES)
def test_facts_are_those_of_libav(name: str, sample: Sample) -> None:
    video = vl.Video(sample(name), device="cpu")
    with av.open(str(sample(name))) as container:
        stream, start = container.streams.video[0], container.start_time
        codec, frames = stream.codec.canonical_name, list(container.decode(stream))
        times = np.array([float(frame.pts * stream.time_base) for frame in frames])
    assert video.shape == (len(frames), 3, frames[0].height, frames[0].width)
    assert (video.height, video.width) == (frames[0].height, frames[0].width)
    assert video[0].shape == video.shape[1:]
    assert video.codec == codec
    assert video.fps == pytest.approx((len(times) - 1) / (times[-1] - times[0]))
    assert video.duration == pytest.approx(len(frames) / video.fps)
    assert video.start_time == start / 1e6
    assert video.is_vfr == (name == "h264_mp4_vfr")
    assert video.rotation == 0


def test_the_size_of_a_turned_video_is_that_of_its_frames(corpus: Path) -> None:
    video = vl.Video(corpus / "h264-rotation__decord__video_90.mov", device="cpu")
    assert video.rotation == 90
    assert (video.width, video.height) == (320, 568)
    assert video[0].shape == video.shape[1:] == (3, 568, 320)


def test_a_video_and_what_it_gives_are_told_in_one_line(sample: Sample) -> None:
    video = vl.Video(sample("h264_mp4"), device="cpu")
    name = str(sample("h264_mp4"))
    assert repr(video) == f"Video({name!r}, 60 frames, h264 160×128, 25.000 fps, 2.400 s)"
    assert repr(vl.Video(sample("h264_mp4_vfr"), device="cpu")).count(" fps on average, ") == 1
    assert repr(video.read(vl.FrameList([8, 68], pad="constant"))) == (
        "Clip(frames=uint8[2, 3, 128, 160] on cpu, frame_numbers=8 … 8, timestamps=0.320 … 0.320 s, "
        "made_up=1, corrupt=0)"
    )


def test_a_batch_is_told_in_one_line(sample: Sample) -> None:
    data = vl.VideoDataset.from_paths([sample("h264_mp4"), sample("hevc_mp4")])
    (batch,) = vl.VideoLoader(data, vl.EveryWindow(40, step=60), batch_size=2, device="cpu", num_workers=1)
    assert repr(batch) == (
        "Batch(frames=uint8[2, 40, 3, 128, 160] on cpu, labels=int64[2] on cpu, made_up=0, corrupt=0)"
    )
    data = vl.VideoDataset([vl.VideoEntry(str(sample("h264_mp4")), stop=stop) for stop in (20, 30)])
    loader = vl.VideoLoader(data, vl.WholeVideo(), batch_size=2, device="cpu", num_workers=1, collate="list")
    assert repr(next(iter(loader))) == (
        "ListBatch(2 clips of 20 to 30 frames, labels=int64[2] on cpu, made_up=0, corrupt=0)"
    )


def test_loaders_and_tables_are_told_in_one_line(sample: Sample, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loader_module, "native_code", lambda: True)
    path = str(sample("h264_mp4"))
    data, mode = vl.VideoDataset.from_paths([path, path]), vl.EveryWindow(20)
    loader = vl.VideoLoader(data, mode, batch_size=4, device="cpu", num_workers=1, shard_id=1, num_shards=2)
    shown = "EveryWindow(length=20, stride=1, step=None, pad='none')"
    assert repr(loader) == f"VideoLoader(1 batch of 4, 6 clips of 2 rows, {shown}, shard 1 of 2, on cpu)"
    monkeypatch.setattr(loader_module, "native_code", lambda: None)
    assert repr(loader).endswith("shard 1 of 2, on cpu without native code)")
    assert repr(ClipDataset(data, mode)) == f"ClipDataset(6 clips of 2 rows, {shown})"
    assert repr(DecodingLoader([[ClipRequest(path, [0])]], device="cpu")) == "DecodingLoader(list, epoch 0, on cpu)"
    assert (
        repr(BatchStream(lambda shard_id, num_shards: loader, shard_id=1, num_shards=2))
        == "BatchStream(shard 1 of 2, epoch 0)"
    )
    assert len(repr(vl.VideoLoader(data, range(60), batch_size=1, device="cpu", num_workers=1))) < 200
    composed = vl.Compose(vl.Resize(32), dtype="float16")
    assert repr(composed).startswith("Compose([Resize(size=32, ")
    assert repr(composed).endswith("], dtype='float16', layout='TCHW')")
    index = vl.build_index(path)
    assert repr(index) == f"VideoIndex({path!r}, mp4, 60 frames in 60 packets, h264 160×128, method='tables')"
    assert (
        repr(vl.plan_frames(index, [0, 30]))
        == f"DecodePlan(2 runs, {vl.plan_frames(index, [0, 30]).packets} packets, 2 frames wanted)"
    )
    assert "\\x" not in repr(index.stream)
