"""NVDEC fed with the packets that wanted frames refer to, against the CPU fed with all packets."""

from __future__ import annotations

import random
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest
import torch
from corpus_files import GOOD_FILES
from reference_streams import STREAMS, write_stream
from truth import planes

from videoloader.convert.surface import CudaSurface
from videoloader.decoding.capabilities import why_not_nvdec
from videoloader.indexing import FileSource, build_index
from videoloader.indexing.video_stream import open_video
from videoloader.packets.decode_plan import plan_frames
from videoloader.packets.read_packets import read_packets

pytestmark = pytest.mark.gpu
pytest.importorskip("cupy")
if not torch.cuda.is_available():
    pytest.skip("needs an NVIDIA GPU", allow_module_level=True)

from test_nvdec import Sessions  # noqa: E402 - it needs cupy

FILES = [name for name in GOOD_FILES if name.startswith(("hevc", "vp8", "vp9", "av1", "no corpus"))]
MOST_FRAMES = 150  # of each file: the planes of all of them are held in memory


@pytest.fixture(scope="module")
def sessions() -> Sessions:
    return Sessions()


@pytest.fixture(scope="module")
def stream(tmp_path_factory: pytest.TempPathFactory):
    """``stream(name)`` is the path of one of the encoded streams."""
    folder = tmp_path_factory.mktemp("streams")
    return cache(lambda name: write_stream(folder, name))


def first_frames(path: Path) -> list[list[np.ndarray]]:
    frames: list[list[np.ndarray]] = []
    with open_video(FileSource(path)) as (container, video):
        for frame in container.decode(video):
            frames.append([plane.copy() for plane in planes(frame)])
            if len(frames) == MOST_FRAMES:
                break
    return frames


def assert_nvdec_gives_the_same(path: Path, sessions: Sessions) -> None:
    """Random clips, random frames and single ones; every sample, and fewer packets than the plan has or as many."""
    source, index = FileSource(path), build_index(path)
    if reason := why_not_nvdec(index, 0):
        pytest.skip(reason)
    expected, rng = first_frames(path), random.Random(path.name)
    count = len(expected)
    choices = [list(range(rng.randrange(count), count, step))[:16] for step in (1, 2, 4, 4, 4)]
    choices += [sorted(rng.sample(range(count), min(count, 6))) for _ in range(4)]
    choices += [[rng.randrange(count)] for _ in range(8)]
    for frames in choices:
        found: dict[int, list[np.ndarray]] = {}

        def take(
            packet: int,
            surface: CudaSurface,
            stream: torch.cuda.Stream,
            found: dict[int, list[np.ndarray]] = found,
        ) -> None:
            found[packet] = sessions.samples(surface, stream)

        plan = plan_frames(index, frames)
        fed = sum(sessions.nvdec.decode(index, partial(read_packets, source, index, run), take) for run in plan.runs)
        assert fed <= plan.packets
        for frame in frames:
            ours = found[int(index.frame_packet[frame])]
            assert all(np.array_equal(*pair) for pair in zip(ours, expected[frame], strict=True))


@pytest.mark.parametrize("name", FILES)
def test_any_frames_of_real_files(name: str, corpus: Path, sessions: Sessions) -> None:
    if build_index(corpus / name).method == "decoded":
        pytest.skip("no packet is left out")
    assert_nvdec_gives_the_same(corpus / name, sessions)


@pytest.mark.parametrize("name", STREAMS)
def test_any_frames_of_encoded_streams(name: str, stream, sessions: Sessions) -> None:
    assert_nvdec_gives_the_same(stream(name), sessions)
