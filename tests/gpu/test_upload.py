"""Pictures decoded by libavcodec and converted on the GPU: the same as NVDEC's, and right for every pixel format."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import Any
from weakref import WeakSet

import av
import av.filter
import numpy as np
import pytest
import torch
from changing_streams import write_h264
from convert.planar_frames import FORMATS, frame_of, random_picture
from gpu import resize_reference
from gpu.test_convert import DTYPES, FILTERS, LAYOUTS, differences, handle, planes_for, poisoned, surface_of
from helpers.converting import convert_surface

import videoloader as vl
from videoloader.convert.spec import ColorSpec, Geometry, OutputSpec
from videoloader.convert.surface import pixel_format
from videoloader.convert.upload import PinnedMemory, upload_frame
from videoloader.runtime.device import own_stream

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]

LEFT_TO_CPU = [
    "pal8", "rgb24", "bgr0", "rgba", "yuyv422", "uyvy422", "monob", "bayer_rggb8", "yuv420p10be", "gray16be", "ya8",
    "gbrpf32le", "grayf32le", "xyz12le", "rgb48le", "y210le",
]  # fmt: skip


def converted(frame: av.VideoFrame, color: ColorSpec, geometry: Geometry, output: OutputSpec) -> torch.Tensor:
    surface = upload_frame(frame, torch.cuda.current_stream())
    assert surface
    slot = poisoned((3, *geometry.output_size), output.dtype)
    convert_surface(surface, color, 0, False, geometry, output, slot, handle())
    return slot


def check(name: str, height: int, width: int, color: ColorSpec, geometry: Geometry, output: OutputSpec) -> None:
    planes, pixels = random_picture(name, height, width, 3)
    slot = converted(frame_of(planes, pixels, name), color, geometry, output)
    factors = (1 << pixels.subsampling[0], 1 << pixels.subsampling[1])
    image = resize_reference.components(planes, pixels.model, color, pixels.bit_depth, factors, output.color)
    expected = resize_reference.picture(image, geometry)
    differences(f"{name} {height}×{width} {color} {geometry} {output}", slot, expected)


@pytest.mark.parametrize("name", FORMATS)
def test_every_format(name: str) -> None:
    for full_range in (False, True):
        color = ColorSpec("bt601", full_range)
        for height, width in ((48, 64), (37, 51), (3, 2), (1, 1)):
            check(name, height, width, color, Geometry((0, 0, height, width), (height, width)), OutputSpec())
        check(name, 48, 64, color, Geometry((5, 7, 39, 50), (20, 70)), OutputSpec(torch.float32))


@pytest.mark.parametrize(
    "name", ["yuv420p", "yuv422p10le", "yuv440p", "yuv411p", "yuv410p", "gray", "gray12le", "nv42"]
)
@pytest.mark.parametrize("site", ["left", "center", "topleft", "top", "bottomleft", "bottom"])
def test_sites_and_coded_samples(name: str, site: Any) -> None:
    color = ColorSpec("bt709", False, site)
    for output in (OutputSpec(torch.float32), OutputSpec(color="ycbcr"), OutputSpec(torch.float32, color="ycbcr")):
        check(name, 37, 51, color, Geometry((0, 0, 37, 51), (37, 51)), output)
        check(name, 37, 51, color, Geometry((3, 2, 30, 47), (12, 90)), output)


def test_coded_samples_come_out_as_they_went_in() -> None:
    planes, pixels = random_picture("yuv444p", 40, 60, 0)
    geometry = Geometry((0, 0, 40, 60), (40, 60))
    slot = converted(
        frame_of(planes, pixels, "yuv444p"), ColorSpec("bt709", False), geometry, OutputSpec(color="ycbcr")
    )
    assert (slot.cpu().numpy() == np.stack(planes)).all()


@pytest.mark.parametrize(("layout", "bits", "name"), LAYOUTS)
@pytest.mark.parametrize(("height", "width"), [(48, 64), (241, 321), (1, 1)])
@pytest.mark.parametrize(("interpolation", "antialias"), FILTERS)
def test_the_same_bits_as_from_nvdec(
    layout: Any, bits: int, name: str, height: int, width: int, interpolation: Any, antialias: bool
) -> None:
    planes = planes_for(layout, bits, height, width)
    pixels = pixel_format(name)
    assert pixels
    color = ColorSpec("bt709", False)
    for size in ((height, width), (23, 31), (300, 70)):
        geometry = Geometry((0, 0, height, width), size, interpolation=interpolation, antialias=antialias)
        for dtype in DTYPES:
            output = OutputSpec(dtype)
            uploaded = converted(frame_of(planes, pixels, name), color, geometry, output)
            slot = poisoned((3, *size), dtype)
            convert_surface(surface_of(planes, layout, bits, 5), color, 0, False, geometry, output, slot, handle())
            assert torch.equal(uploaded, slot)


@pytest.mark.parametrize(
    ("name", "other"),
    [("yuv420p", "nv12"), ("yuv420p", "yuva420p"), ("yuv422p", "nv16"), ("yuv420p10le", "p010le"), ("gbrp", "gbrap")],
)
def test_the_same_bits_of_the_same_codes(name: str, other: str) -> None:
    planes, pixels = random_picture(name, 61, 83, 1)
    as_other = pixel_format(other)
    assert as_other
    color, geometry, output = ColorSpec("bt709", False), Geometry((0, 0, 61, 83), (40, 50)), OutputSpec(torch.float32)
    first = converted(frame_of(planes, pixels, name), color, geometry, output)
    assert torch.equal(first, converted(frame_of(planes, as_other, other), color, geometry, output))


def test_pictures_stored_bottom_up() -> None:
    planes, pixels = random_picture("yuv420p", 46, 62, 2)
    graph = av.filter.Graph()
    source = graph.add_buffer(width=62, height=46, format=av.VideoFormat("yuv420p"), time_base=Fraction(1))
    graph.link_nodes(source, graph.add("vflip"), graph.add("buffersink"))
    graph.configure()
    frame = frame_of([plane[::-1] for plane in planes], pixels, "yuv420p")
    frame.pts = 0
    graph.vpush(frame)
    upside_down = graph.vpull()
    assert upside_down.planes[0].line_size < 0
    color, geometry, output = ColorSpec("bt709", False), Geometry((0, 0, 46, 62), (46, 62)), OutputSpec()
    expected = converted(frame_of(planes, pixels, "yuv420p"), color, geometry, output)
    assert torch.equal(converted(upside_down, color, geometry, output), expected)


@pytest.mark.parametrize("name", LEFT_TO_CPU)
def test_other_formats_are_left_to_the_cpu(name: str) -> None:
    assert upload_frame(av.VideoFrame(64, 48, name), torch.cuda.current_stream()) is None


@pytest.mark.parametrize("threads", [1, 6])
def test_memory_is_used_again_only_when_free(threads: int) -> None:
    """Pictures of many sizes in a row, on a stream of each thread's own, each dropped right after its launch."""
    pixels = pixel_format("yuv420p")
    assert pixels
    color, output = ColorSpec("bt709", False), OutputSpec(color="ycbcr")

    def wrong_levels(seed: int) -> list[int]:
        rng = np.random.default_rng(seed)
        stream = torch.cuda.Stream()
        expected = []
        for _ in range(150):
            height, width = (int(size) for size in rng.choice([(90, 160), (360, 640), (1080, 1922)]))
            level = int(rng.integers(20, 230))
            shapes = ((height, width), (-(-height // 2), -(-width // 2)), (-(-height // 2), -(-width // 2)))
            frame = frame_of([np.full(shape, level, np.uint16) for shape in shapes], pixels, "yuv420p")
            surface = upload_frame(frame, stream)
            assert surface
            with torch.cuda.stream(stream):
                slot = torch.empty(3, 48, 64, dtype=torch.uint8, device="cuda")
            geometry = Geometry((0, 0, height, width), (48, 64))
            convert_surface(surface, color, 0, False, geometry, output, slot, stream.cuda_stream)
            expected.append((level, slot))
            del surface, frame
        stream.synchronize()
        return [level for level, slot in expected if bool((slot != level).any())]

    with ThreadPoolExecutor(threads) as pool:
        assert list(pool.map(wrong_levels, range(threads))) == [[]] * threads


def test_many_streams_take_little_memory() -> None:
    owners, device = [Owner() for _ in range(20)], torch.device("cuda", 0)
    frame = av.VideoFrame(1920, 1080, "yuv420p")
    before = torch.cuda.memory_reserved()
    for owner in owners:
        stream = own_stream(device, owner)
        surface = upload_frame(frame, stream)
        stream.synchronize()
        del surface
    # Each keeps one piece of 3.1 MB.
    assert torch.cuda.memory_reserved() - before < 20 * 6e6


def test_memory_goes_with_the_thread_that_used_it(tmp_path: Path) -> None:
    path = write_h264(tmp_path / "video.mp4", 3)
    barrier, looking = threading.Barrier(4), threading.Lock()

    def pieces() -> WeakSet[PinnedMemory]:
        with looking:  # get_objects leaves out what a collection in another thread looks at
            gc.collect()
            return WeakSet(each for each in gc.get_objects() if isinstance(each, PinnedMemory))

    def read(_: int) -> tuple[int, torch.Tensor]:
        frames = vl.Video(path, device="cuda", decode="cpu")[:]
        barrier.wait(60)
        held = len(pieces() - before)
        barrier.wait(60)
        return held, frames

    before = pieces()
    with ThreadPoolExecutor(4) as pool:
        read_so = list(pool.map(read, range(4)))
    assert min(held for held, _ in read_so) >= 4
    assert not pieces() - before
    assert all(torch.equal(frames, read_so[0][1]) for _, frames in read_so)


def test_a_forked_process_ends_well_beside_kept_memory(tmp_path: Path) -> None:
    path = write_h264(tmp_path / "video.mp4", 3)
    done = subprocess.run(
        [sys.executable, "-P", "-c", _PROGRAM, str(path)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.strip(), done.stderr.strip()) == (0, "0 True", "")


class Owner:
    """Something that lives as long as its stream is in use."""


_PROGRAM = """
import os, sys, warnings
import videoloader as vl
from videoloader.convert import upload
warnings.simplefilter("ignore")
frames = vl.Video(sys.argv[1], device="cuda", decode="cpu")[:]
assert any(upload._gpu.values())
if child := os.fork():
    print(os.waitpid(child, 0)[1], bool(len(vl.Video(sys.argv[1], device="cuda", decode="cpu")[:])))
else:
    # The end of an interpreter would drop the parent's frames, which PyTorch cannot do here.
    os._exit(bool(upload._gpu))
"""
