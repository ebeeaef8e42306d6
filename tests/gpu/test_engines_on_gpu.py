"""NVDEC, the CPU beside it, several sessions for one video, and the GOP cache: the same pixels from all."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from sample_videos import Recipe, write_video

import videoloader as vl

pytestmark = pytest.mark.gpu
if not torch.cuda.is_available():
    pytest.skip("needs an NVIDIA GPU", allow_module_level=True)

RECIPES = {
    "h264": Recipe(
        "mp4",
        "libx264",
        {"x264-params": "keyint=20:bframes=3:b-pyramid=normal:scenecut=0"},
        size=(192, 160),
        frames=200,
    ),
    "h264_open_gop": Recipe(
        "mkv", "libx264", {"x264-params": "keyint=20:bframes=3:open-gop=1:scenecut=0"}, size=(192, 160), frames=200
    ),
    "hevc": Recipe(
        "mp4", "libx265", {"x265-params": "keyint=20:bframes=4:log-level=error"}, size=(192, 160), frames=200
    ),
    "vp9": Recipe(
        "webm", "libvpx-vp9", {"g": "20", "cpu-used": "8", "deadline": "realtime"}, size=(192, 160), frames=100
    ),
}


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Videos with several GOPs."""
    folder = tmp_path_factory.mktemp("engines")
    return {name: write_video(folder / f"{name}.{recipe.suffix}", recipe) for name, recipe in RECIPES.items()}


@pytest.mark.parametrize("name", RECIPES)
def test_both_engines_give_the_same_pixels(videos: dict[str, Path], name: str) -> None:
    nvdec, cpu = (vl.Video(videos[name], device="cuda", decode=decode)[:] for decode in ("nvdec", "cpu"))
    assert nvdec.is_cuda
    assert cpu.is_cuda
    assert torch.equal(nvdec, cpu)


@pytest.mark.parametrize("name", RECIPES)
def test_one_video_by_many_sessions_is_that_by_one(videos: dict[str, Path], name: str, monkeypatch) -> None:
    video = vl.Video(videos[name], device="cuda", decode="nvdec")
    one = torch.cat([video[start : start + 10] for start in range(0, len(video), 10)])
    monkeypatch.setattr("videoloader.packets.decode_plan.LEAST_PACKETS", 10)
    for _ in range(3):
        assert torch.equal(video[:], one)
        assert torch.equal(torch.stack(list(video)), one)


def batches(videos: dict[str, Path], **settings) -> list[vl.Batch]:
    loader = vl.VideoLoader(
        vl.VideoDataset.from_paths(list(videos.values())),
        vl.RandomWindow(8, stride=3, clips=12),
        batch_size=6,
        device="cuda",
        transforms=[vl.RandomResizedCrop(64), vl.RandomHorizontalFlip()],
        shuffle=True,
        seed=5,
        **settings,
    )
    return [batch for _ in range(3) for batch in loader]


@pytest.mark.parametrize(
    "settings",
    [
        {"decode": "auto", "num_workers": 2, "cpu_workers": 8, "prefetch": 12},
        {"decode": "cpu", "num_workers": 8},
        {"decode": "nvdec", "gop_cache": 1 << 30},
        {"decode": "nvdec", "gop_cache": 1 << 20},
    ],
    ids=["hybrid", "cpu", "cached", "small cache"],
)
def test_batches_do_not_depend_on_the_engine(videos: dict[str, Path], settings: dict[str, object]) -> None:
    for expected, found in zip(batches(videos, decode="nvdec"), batches(videos, **settings), strict=True):
        assert found.paths == expected.paths
        assert np.array_equal(found.frame_numbers, expected.frame_numbers)
        assert torch.equal(found.frames, expected.frames)


def test_a_cache_saves_decoding(videos: dict[str, Path]) -> None:
    def packets(gop_cache: int) -> int:
        loader = vl.VideoLoader(
            vl.VideoDataset.from_paths([videos["h264"]]),
            vl.RandomWindow(8, stride=3, clips=64),
            batch_size=4,
            num_workers=1,
            device="cuda",
            decode="nvdec",
            gop_cache=gop_cache,
        )
        for _ in loader:
            pass
        return loader.stats().packets

    assert packets(1 << 30) < packets(0) / 3


def test_nvdec_alone_refuses_what_it_cannot_decode(tmp_path: Path) -> None:
    path = write_video(tmp_path / "ffv1.mkv", Recipe("mkv", "ffv1", {"g": "5", "level": "3"}))
    with pytest.raises(vl.UnsupportedError, match=r"ffv1\.mkv: .*NVDEC"):
        vl.Video(path, device="cuda", decode="nvdec")[0]
    with pytest.warns(RuntimeWarning, match="decoded on the CPU"):
        assert vl.Video(path, device="cuda")[0].is_cuda
