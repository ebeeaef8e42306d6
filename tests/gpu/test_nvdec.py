"""NVDEC against the CPU engine: the same samples for every file, through sessions that are never closed."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import torch
from corpus_files import GOOD_FILES
from helpers.converting import convert_surface
from test_corpus import chosen_frames
from truth import planes

from videoloader.convert.spec import OutputSpec, color_spec, full_geometry
from videoloader.convert.surface import CudaSurface
from videoloader.convert.upload import upload_frame
from videoloader.decoding import nvdec as engine
from videoloader.decoding.capabilities import why_not_nvdec
from videoloader.decoding.cpu import CpuDecoder
from videoloader.decoding.nvdec import NvdecDecoder
from videoloader.errors import DecodeError
from videoloader.indexing import FileSource, VideoIndex, build_index
from videoloader.packets.decode_plan import PacketBytes, plan_frames
from videoloader.packets.read_packets import read_packets
from videoloader.reading.clip_reader import ClipReader
from videoloader.reading.clip_slots import whole_clip
from videoloader.reading.read_request import ReadRequest

pytestmark = pytest.mark.gpu
cupy = pytest.importorskip("cupy")
if not torch.cuda.is_available():
    pytest.skip("needs an NVIDIA GPU", allow_module_level=True)

# In an order without order: each session goes from video to video of other sizes and settings.
FILES = random.Random(0).sample(GOOD_FILES, len(GOOD_FILES))
# The inverse DCT of these standards may round either way: errors of one, which add up until the next keyframe.
IDCT_TOLERANCE = {"mpeg1video": 12, "mpeg2video": 12, "mpeg4": 12}


class Sessions:
    """One decoder with its sessions for all files."""

    def __init__(self) -> None:
        self.nvdec = NvdecDecoder(gpu=0)
        self.cpu = CpuDecoder()

    def by_cpu(self, index: VideoIndex, read: Callable[[], Iterable[PacketBytes]], sink: Callable[..., None]) -> None:
        """As ``nvdec.decode``."""
        self.cpu.decode(index, read(), sink)

    def samples(self, surface: CudaSurface, stream: torch.cuda.Stream) -> list[np.ndarray]:
        """Y, Cb, Cr as the CPU engine has them."""
        layout = surface.layout
        rows, columns = layout.chroma_size
        last = max(layout.cb, layout.cr) + (rows - 1) * layout.chroma_pitch + (columns - 1) * layout.chroma_step
        memory = cupy.cuda.UnownedMemory(surface.pointer, (last + 1) * layout.sample_bytes, surface.owner)
        array = cupy.ndarray(last + 1, f"u{layout.sample_bytes}", cupy.cuda.MemoryPointer(memory, 0))
        with cupy.cuda.Stream.from_external(stream):
            host = array.copy().get() >> layout.code_shift
        luma, *chroma = (
            np.lib.stride_tricks.as_strided(
                host[first:], shape, [step * host.itemsize for step in (pitch, across)], writeable=False
            )
            for first, shape, pitch, across in (
                (0, (layout.height, layout.width), layout.pitch, 1),
                (layout.cb, (rows, columns), layout.chroma_pitch, layout.chroma_step),
                (layout.cr, (rows, columns), layout.chroma_pitch, layout.chroma_step),
            )
        )
        return [luma, *chroma]


@pytest.fixture(scope="module")
def sessions() -> Sessions:
    return Sessions()


def decoded_by(decode, index: VideoIndex, source: FileSource, frames: list[int], convert) -> dict[int, Any]:
    found: dict[int, Any] = {}
    for run in plan_frames(index, frames).runs:
        read = partial(read_packets, source, index, run)
        decode(index, read, lambda packet, *frame: found.update({packet: convert(*frame)}))
    return found


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("name", FILES)
def test_samples_are_those_of_the_cpu(
    name: str, large: bool, corpus: Path, sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Whatever their size: which pictures are left out depends on it.
    monkeypatch.setattr(engine, "_LARGE_A_CALL", 16 if large else 0)
    source = FileSource(corpus / name)
    index = build_index(source)
    reason = why_not_nvdec(index, 0)
    if reason:
        pytest.skip(reason)
    frames = chosen_frames(index, random.Random(name))[:60]
    cpu = decoded_by(sessions.by_cpu, index, source, frames, planes)
    try:
        nvdec = decoded_by(sessions.nvdec.decode, index, source, frames, sessions.samples)
    except DecodeError as error:
        # Refusing is right where it is loud: such a clip goes to the CPU. It must stay the exception.
        if index.method != "decoded":
            raise
        pytest.skip(f"left to the CPU: {error}")
    assert nvdec.keys() == cpu.keys()
    tolerance = IDCT_TOLERANCE.get(index.stream.codec, 0)
    for packet, expected in cpu.items():
        assert len(expected) == len(nvdec[packet])
        for ours, theirs in zip(nvdec[packet], expected, strict=True):
            assert ours.shape == theirs.shape
            assert np.abs(ours.astype(np.int32) - theirs).max() <= tolerance


@pytest.mark.parametrize("name", FILES)
def test_no_run_is_decoded_again_for_its_times(
    name: str, corpus: Path, sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = FileSource(corpus / name)
    index = build_index(source)
    if index.stream.codec != "h264" or why_not_nvdec(index, 0):
        pytest.skip("nothing is left out of it")
    attempts: list[bool] = []
    decode = NvdecDecoder._decode

    def noted(self: NvdecDecoder, *arguments: Any, new: bool) -> int:
        attempts.append(new)
        return decode(self, *arguments, new=new)

    def attempts_with(step: int) -> int:
        monkeypatch.setattr(engine, "_RANK", step)
        attempts.clear()
        middle = len(index) // 2
        with suppress(DecodeError):
            decoded_by(sessions.nvdec.decode, index, source, [middle, min(middle + 3, len(index) - 1)], lambda *_: None)
        return len(attempts)

    monkeypatch.setattr(NvdecDecoder, "_decode", noted)
    usual = engine._RANK
    untimed = attempts_with(0)
    assert attempts_with(usual) == untimed
    assert attempts_with(1 << 40) == untimed, "times have fewer bits than 64"


@pytest.mark.parametrize("name", FILES)
def test_the_same_pixels_whoever_decoded(name: str, corpus: Path, sessions: Sessions) -> None:
    source = FileSource(corpus / name)
    index = build_index(source)
    if index.method == "decoded" or index.stream.codec in IDCT_TOLERANCE or why_not_nvdec(index, 0):
        pytest.skip("the engines need not agree to the bit, or NVDEC does not take it")
    rotation, mirrored, color = index.stream.rotation, index.stream.mirrored, color_spec(index.stream)
    geometry = replace(full_geometry(index.stream), size=(70, 90))

    uploads = torch.cuda.Stream()

    def convert(surface: CudaSurface, stream: torch.cuda.Stream) -> torch.Tensor:
        slot = torch.empty(3, 70, 90, device="cuda")
        torch.cuda.synchronize()
        convert_surface(
            surface, color, rotation, mirrored, geometry, OutputSpec(torch.float32), slot, stream.cuda_stream
        )
        return slot

    def upload(frame: av.VideoFrame) -> torch.Tensor:
        surface = upload_frame(frame, uploads)
        assert surface
        return convert(surface, uploads)

    frames = chosen_frames(index, random.Random(name))[:20]
    cpu = decoded_by(sessions.by_cpu, index, source, frames, upload)
    nvdec = decoded_by(sessions.nvdec.decode, index, source, frames, convert)
    torch.cuda.synchronize()
    assert all(torch.equal(nvdec[packet], cpu[packet]) for packet in cpu)


@pytest.fixture(scope="module")
def readers() -> tuple[ClipReader, ClipReader]:
    return ClipReader(torch.device("cpu")), ClipReader(torch.device("cuda", 0))


@pytest.mark.parametrize("name", FILES)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_colours_are_those_of_the_cpu(
    name: str, corpus: Path, readers: tuple[ClipReader, ClipReader], record_property
) -> None:
    source = FileSource(corpus / name)
    index = build_index(source)
    frames = np.array(random.Random(name).sample(range(len(index)), min(len(index), 3)))
    geometry = full_geometry(index.stream)
    outputs = []
    for reader in readers:
        slots = torch.full((len(frames), 3, *geometry.size), 77, dtype=torch.uint8, device=reader.device)
        reader.read(ReadRequest(source, index, [whole_clip(frames, geometry, slots)], OutputSpec()))
        torch.cuda.synchronize()
        outputs.append(slots.cpu().to(torch.int16))
    difference = (outputs[0] - outputs[1]).abs()
    record_property("max_difference", int(difference.max()))
    print(f"{name}: max {int(difference.max())}, mean {difference.float().mean():.4f} of 255")
    if index.stream.codec in IDCT_TOLERANCE:
        assert difference.float().mean() < 1
    else:
        assert difference.max() <= 2
