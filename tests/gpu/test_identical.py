"""A small sample of soak/identical_frames.py and identical_batches.py: NVDEC and the CPU give the same frames."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

pytestmark = pytest.mark.gpu
pytest.importorskip("cupy")
if not torch.cuda.is_available():
    pytest.skip("needs an NVIDIA GPU", allow_module_level=True)

from reference_streams import STREAMS, write_stream  # noqa: E402
from soak.identical_batches import compare_loaders, compare_videos  # noqa: E402
from soak.identical_frames import Engines, compare_clips, open_file  # noqa: E402

from videoloader.decoding.capabilities import why_not_nvdec  # noqa: E402
from videoloader.indexing import build_index  # noqa: E402

Sample = Callable[[str], Path]
NAMES = [
    "h264_mp4_open_gop", "h264_mp4_intra_refresh", "h264_ts", "hevc_mkv", "vp8_webm", "av1_mkv", "mpeg2_ts",
    "mpeg4_avi",
]  # fmt: skip
STREAM_NAMES = [name for name in STREAMS if name.startswith(("hevc", "vp9"))]


@pytest.fixture(scope="module")
def paths(sample: Sample, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("streams")
    return [*(sample(name) for name in NAMES), *(write_stream(folder, name) for name in STREAM_NAMES)]


def test_random_clips_have_the_samples_of_a_full_decode(paths: list[Path]) -> None:
    engines = Engines(cuda=True)
    files = [open_file(path, cuda=True) for path in paths]
    assert sum(file.takes_nvdec for file in files) > len(files) // 2
    for file in files:
        account = compare_clips(file, engines, range(24))
        assert not account.wrong


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_engines_give_the_same_pixels(paths: list[Path]) -> None:
    ways = {"cpu": {"decode": "cpu"}, "auto": {}, "auto in order": {"shuffle": False}}
    assert not compare_loaders(paths, 6, {name: way | {"device": "cuda"} for name, way in ways.items()})
    assert not [line for path in paths for line in compare_videos(path)]


def test_batches_do_not_change_their_clips(paths: list[Path]) -> None:
    takes = [path for path in paths if not why_not_nvdec(build_index(path), 0)]
    ways = {"single": {"batch_size": 1}, "shuffled": {}, "in order": {"shuffle": False}}
    assert not compare_loaders(
        takes, 6, {name: way | {"device": "cuda", "decode": "nvdec"} for name, way in ways.items()}
    )
