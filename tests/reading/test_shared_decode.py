"""Clips of one video in a batch have the same frames as alone, and no packet is decoded twice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from sample_videos import RECIPES, Recipe, write_video
from soak.random_frames import RandomFrames

import videoloader as vl

Sample = Callable[[str], Path]
DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
OVERLAPPING = [
    vl.EveryWindow(8, stride=2, step=7, pad="reflect_101"),
    vl.RandomWindow(6, stride=3, clips=6),
    RandomFrames(5, clips=6),
]
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of what NVDEC does not decode


@pytest.fixture(scope="module")
def long_video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """300 frames in three GOPs."""
    options = {"preset": "veryfast", "x264-params": "keyint=100:min-keyint=100:bframes=3:b-pyramid=normal:scenecut=0"}
    return write_video(tmp_path_factory.mktemp("long") / "long.mp4", Recipe("mp4", "libx264", options, frames=300))


def load(
    paths: list[Path], mode: vl.EveryWindow | vl.RandomWindow | RandomFrames, **settings: object
) -> vl.VideoLoader:
    defaults = {"batch_size": 6, "device": "cpu", "num_workers": 2, "shuffle": True, "seed": 2}
    return vl.VideoLoader(vl.VideoDataset.from_paths(paths), mode, **(defaults | settings))


def assert_clips_are_as_alone(batches: list[vl.Batch], device: str) -> None:
    for batch in batches:
        for row, path in enumerate(batch.paths):
            real = batch.frame_numbers[row] >= 0
            alone = vl.Video(path, device=device).read(batch.frame_numbers[row][real].tolist())
            assert torch.equal(batch.frames[row][real], alone.frames)
            assert batch.corrupt[row][real].tolist() == alone.corrupt.tolist()
            assert not batch.frames[row][~real].any()  # constant padding is black


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", RECIPES)
def test_clips_of_one_video_are_as_alone(name: str, device: str, sample: Sample) -> None:
    for mode in OVERLAPPING:
        assert_clips_are_as_alone(list(load([sample(name)], mode, device=device)), device)


@pytest.mark.parametrize("device", DEVICES)
def test_clips_of_several_videos_in_one_batch_are_as_alone(device: str, sample: Sample) -> None:
    paths = [sample(name) for name in ("h264_mp4", "hevc_mkv", "vp9_webm", "h264_mp4_open_gop", "mpeg2_ts")]
    for mode in OVERLAPPING:
        assert_clips_are_as_alone(list(load(paths, mode, batch_size=16, device=device)), device)


@pytest.mark.parametrize("device", DEVICES)
def test_each_clip_is_cut_and_flipped_by_itself(device: str, long_video: Path) -> None:
    mode = vl.RandomWindow(4, stride=5, clips=24)
    transforms = [vl.RandomResizedCrop(48), vl.RandomHorizontalFlip(), vl.Normalize()]
    together, single = (
        {
            clip: frames
            for batch in load(
                [long_video], mode, device=device, batch_size=size, transforms=transforms, dtype="float32"
            )
            for clip, frames in zip(batch.clips.tolist(), batch.frames.cpu(), strict=True)
        }
        for size in (24, 1)
    )
    assert together.keys() == single.keys() == set(range(24))
    assert all(torch.equal(together[clip], single[clip]) for clip in together)


def test_an_entry_that_stands_twice_in_a_data_set_gives_the_same_frames(long_video: Path) -> None:
    batch = next(iter(load([long_video, long_video], vl.EveryWindow(4, step=100), shuffle=False)))
    assert batch.frame_numbers[:3].tolist() == batch.frame_numbers[3:].tolist()
    assert torch.equal(batch.frames[:3], batch.frames[3:])


def test_repeated_and_padded_frames_are_all_written(long_video: Path) -> None:
    for pad in ("edge", "reflect_101", "wrap", "constant"):
        mode = vl.EveryWindow(16, stride=20, step=60, pad=pad)
        assert_clips_are_as_alone(list(load([long_video], mode)), "cpu")


@pytest.mark.parametrize("on_error", ["skip", "replace"])
def test_a_clip_that_cannot_be_decoded_takes_no_other_with_it(on_error: str, long_video: Path, tmp_path: Path) -> None:
    content = bytearray(long_video.read_bytes())
    index = vl.build_index(bytes(content))
    for packet in range(100, 120):
        start = int(index.packet_offset[packet])
        content[start : start + 4] = b"\xff\xff\xff\xff"  # the length of a NAL unit
    damaged = tmp_path / "damaged.mp4"
    damaged.write_bytes(content)

    def made(batch_size: int, **settings: object) -> dict[int, torch.Tensor]:
        loader = load([damaged], vl.EveryWindow(4, step=20), batch_size=batch_size, on_error=on_error, **settings)
        rows = [row for batch in loader for row in zip(batch.clips.tolist(), batch.frames, strict=True)]
        assert loader.unreadable
        return dict(rows)

    together, single, planned_together = made(15), made(1), made(2, shuffle=False, prefetch=7)
    assert together.keys() == single.keys() == planned_together.keys()
    assert {0, 1, 2, 3, 10, 11, 12, 13, 14} <= together.keys() < set(range(15))
    assert all(torch.equal(together[clip], single[clip]) for clip in together)
    assert all(torch.equal(planned_together[clip], single[clip]) for clip in together)


def distinct_packets(batches: list[vl.Batch]) -> int:
    """Packets of the plans that give each video's frames of a batch in one go."""
    total = 0
    for batch in batches:
        for path in set(batch.paths):
            rows = [row for row, of in enumerate(batch.paths) if of == path]
            numbers = batch.frame_numbers[rows]
            total += vl.plan_frames(vl.build_index(path), np.unique(numbers[numbers >= 0])).packets
    return total


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("mode", OVERLAPPING, ids=lambda mode: type(mode).__name__)
def test_a_batch_decodes_no_packet_twice(
    mode: vl.EveryWindow | vl.RandomWindow | RandomFrames, device: str, long_video: Path
) -> None:
    loader = load([long_video, long_video], mode, batch_size=12, device=device)
    batches = list(loader)
    assert loader.stats().packets <= distinct_packets(batches)


@pytest.mark.parametrize("name", ["h264_mp4_open_gop", "hevc_mkv", "vp9_webm", "av1_mkv", "mpeg2_ts", "mpeg4_avi"])
def test_a_batch_decodes_no_packet_twice_whatever_the_codec(name: str, sample: Sample) -> None:
    loader = load([sample(name)], vl.RandomWindow(6, stride=3, clips=12), batch_size=12)
    batches = list(loader)
    assert loader.stats().packets <= distinct_packets(batches)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("order", [False, vl.ShuffleVideos()], ids=["in order", "by video"])
def test_batches_planned_together_decode_no_packet_twice(
    order: bool | vl.ShuffleVideos, device: str, long_video: Path
) -> None:
    loader = load([long_video], vl.EveryWindow(4), batch_size=5, device=device, shuffle=order, prefetch=29)
    batches = list(loader)
    assert len(batches) == 15
    assert loader.stats().packets == loader.stats().frames == 300
    assert_clips_are_as_alone(batches, device)


@pytest.mark.parametrize("prefetch", [1, 2, 5, 8])
def test_however_many_are_planned_together(prefetch: int, long_video: Path, sample: Sample) -> None:
    paths = [sample("h264_mp4"), long_video, sample("vp9_webm")]
    settings = {"batch_size": 3, "shuffle": False}
    one, other = (
        list(load(paths, vl.EveryWindow(7, step=5, pad="edge"), prefetch=ahead, **settings)) for ahead in (1, prefetch)
    )
    assert [batch.clips.tolist() for batch in one] == [batch.clips.tolist() for batch in other]
    assert all(torch.equal(a.frames, b.frames) for a, b in zip(one, other, strict=True))


def test_a_batch_that_cannot_be_planned_takes_none_before_it_along(sample: Sample, tmp_path: Path) -> None:
    paths = [sample("h264_mp4"), write_video(tmp_path / "smaller.mp4", Recipe("mp4", "libx264", size=(96, 64)))]
    loader = load(paths, vl.EvenWindows(2, clips=5), batch_size=2, shuffle=False, prefetch=9)
    given = []
    with pytest.raises(vl.ConfigurationError, match="clips of one batch have frames of"):
        given.extend(batch.clips.tolist() for batch in loader)
    assert given == [[0, 1], [2, 3]]
