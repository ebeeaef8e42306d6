"""One NVDEC session for many videos: sizes, crops and numbers of reference frames change, frames stay right."""

from __future__ import annotations

import random
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
import torch
from sample_videos import Recipe, write_video

import videoloader as vl
from videoloader.convert.spec import OutputSpec, full_geometry
from videoloader.decoding.capabilities import default_workers, pynvvideocodec
from videoloader.decoding.nvcuvid import Capabilities, ask_capabilities
from videoloader.decoding.sessions import pool_of
from videoloader.indexing import FileSource, build_index
from videoloader.reading.clip_reader import ClipReader
from videoloader.reading.clip_slots import whole_clip
from videoloader.reading.read_request import ReadRequest

pytestmark = pytest.mark.gpu
if not torch.cuda.is_available():
    pytest.skip("needs an NVIDIA GPU", allow_module_level=True)

SIZES = [(320, 240), (320, 238), (336, 240), (176, 144)]
REFERENCES = [1, 4, 16]


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Every size with few and with many reference frames."""
    folder = tmp_path_factory.mktemp("sessions")
    paths = []
    for size in SIZES:
        for references in REFERENCES:
            options = {"x264-params": f"ref={references}:bframes=3:keyint=24:b-pyramid=normal"}
            recipe = Recipe("mp4", "libx264", options, size=size, frames=48)
            paths.append(write_video(folder / f"{size[0]}x{size[1]}_{references}.mp4", recipe))
    return paths


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("seed", range(6))
def test_frames_are_right_in_any_order_of_videos(videos: list[Path], seed: int) -> None:
    rng = random.Random(seed)
    cpu, gpu = ClipReader(torch.device("cpu")), ClipReader(torch.device("cuda", 0))
    for path in rng.sample(videos * 2, 2 * len(videos)):
        index, source = build_index(path), FileSource(path)
        frames = np.array(rng.sample(range(48), 12))
        geometry = full_geometry(index.stream)
        pictures = []
        for reader in (cpu, gpu):
            slots = torch.empty((12, 3, *geometry.size), dtype=torch.uint8, device=reader.device)
            reader.read(ReadRequest(source, index, [whole_clip(frames, geometry, slots)], OutputSpec()))
            torch.cuda.synchronize()
            pictures.append(slots.cpu().int())
        assert (pictures[0] - pictures[1]).abs().max() <= 2, path.name


def test_threads_of_one_process_decode_on_their_own_sessions(videos: list[Path]) -> None:
    data = vl.VideoDataset.from_paths(videos * 4)
    settings = {"batch_size": 6, "transforms": [vl.Resize((96, 96))], "seed": 1, "shuffle": True}
    mode = vl.RandomWindow(6, stride=3, clips=2)
    cpu = vl.VideoLoader(data, mode, device="cpu", **settings)
    gpu = vl.VideoLoader(data, mode, device="cuda", num_workers=16, **settings)
    for expected, batch in zip(cpu, gpu, strict=True):
        assert (batch.frames.cpu().int() - expected.frames.int()).abs().max() <= 2


def test_a_loader_keeps_to_the_memory_it_was_given(videos: list[Path]) -> None:
    data = vl.VideoDataset.from_paths(videos * 2)
    mode = vl.RandomWindow(6, stride=3, clips=2)
    limit = 48 << 20  # more than any one of these sessions takes
    vl.set_decoder_memory(limit, device="cuda:0")
    try:
        loader = vl.VideoLoader(
            data, mode, batch_size=6, device="cuda:0", num_workers=12, transforms=[vl.Resize((96, 96))]
        )
        for _ in loader:
            assert pool_of(0).used_bytes() <= limit
    finally:
        vl.set_decoder_memory(4 << 30, device="cuda:0")


@pytest.mark.parametrize(
    ("codec", "chroma", "bit_depth"), [("H264", "420", 8), ("HEVC", "444", 10), ("VP8", "420", 8), ("AV1", "420", 10)]
)
def test_capabilities_are_those_that_pynvvideocodec_tells(codec: str, chroma: str, bit_depth: int) -> None:
    nvc = pynvvideocodec()
    numbers = getattr(nvc.cudaVideoCodec, codec), getattr(nvc.cudaVideoChromaFormat, chroma)
    told = nvc.GetDecoderCaps(gpuid=0, codec=numbers[0], chromaformat=numbers[1], bitdepth=bit_depth)
    seen: list[Capabilities] = []
    thread = Thread(target=lambda: seen.append(ask_capabilities(0, int(numbers[0]), int(numbers[1]), bit_depth)))
    thread.start()  # in which no CUDA context is current yet
    thread.join()
    (own,) = seen
    assert own.supported == told["supported"]
    assert own.num_engines == told["num_decoder_engines"]
    assert (own.min_width, own.min_height) == (told["width_min"], told["height_min"])
    assert (own.max_width, own.max_height) == (told["width_max"], told["height_max"])
    assert own.max_blocks == told["mb_num_max"]


def test_there_are_more_than_two_workers_for_each_engine_and_fewer_than_three() -> None:
    nvc = pynvvideocodec()
    engines = ask_capabilities(0, int(nvc.cudaVideoCodec.H264), 1, 8).num_engines
    assert 2 * engines < default_workers(0) < 3 * engines
