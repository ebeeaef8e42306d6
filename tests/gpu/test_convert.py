"""The CUDA conversion against float64 references, PyTorch's resize and the CPU conversion, and how long it takes."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from convert import reference
from gpu import resize_reference
from helpers.converting import convert_frame, convert_surface

from videoloader.convert.cuda import convert_surfaces
from videoloader.convert.spec import ColorSpec, Conversion, Geometry, OutputSpec
from videoloader.convert.surface import CudaSurface, NvdecFormat, nvdec_layout
from videoloader.errors import ConfigurationError, UnsupportedError

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]

# Layout, bits, the pixel format with the same planes.
LAYOUTS: list[tuple[NvdecFormat, int, str]] = [
    ("nv12", 8, "yuv420p"), ("p016", 10, "yuv420p10le"), ("p016", 12, "yuv420p12le"), ("yuv444", 8, "yuv444p"),
    ("yuv444_16", 10, "yuv444p10le"), ("yuv444_16", 12, "yuv444p12le"),
]  # fmt: skip
DTYPES = [torch.uint8, torch.float16, torch.bfloat16, torch.float32]
# Interpolation and antialias.
FILTERS: list[tuple[Any, bool]] = [
    ("bilinear", True), ("bilinear", False), ("bicubic", True), ("bicubic", False), ("nearest", True),
]  # fmt: skip
# Left to right, upside down.
FLIPS = [(False, False), (True, False), (False, True), (True, True)]


def planes_for(layout: str, bits: int, height: int, width: int, seed: int = 0) -> list[npt.NDArray[np.uint16]]:
    factors = (2, 2) if layout in ("nv12", "p016") else (1, 1)
    return reference.random_planes(np.random.default_rng(seed), height, width, bit_depth=bits, factors=factors)


def surface_of(planes: list[npt.NDArray[np.uint16]], layout: NvdecFormat, bits: int, padding: int = 0) -> CudaSurface:
    """A surface of these codes; what lies between width and pitch is random."""
    height, width = planes[0].shape
    deep = layout in ("p016", "yuv444_16")
    subsampled = layout in ("nv12", "p016")
    pitch = -(-width // 2) * 2 + 2 * padding
    rows = height + (planes[1].shape[0] if subsampled else 2 * height)
    memory = np.random.default_rng(99).integers(0, 65536 if deep else 256, (rows, pitch), np.uint16)
    shift = 16 - bits if deep else 0
    memory[:height, :width] = planes[0] << shift
    if subsampled:
        used = 2 * planes[1].shape[1]
        memory[height:, 0:used:2], memory[height:, 1:used:2] = planes[1] << shift, planes[2] << shift
    else:
        memory[height : 2 * height, :width], memory[2 * height :, :width] = planes[1] << shift, planes[2] << shift
    samples = memory if deep else memory.astype(np.uint8)
    tensor = torch.from_numpy(samples.view(np.uint8).reshape(rows, -1)).cuda()
    return CudaSurface(tensor.data_ptr(), nvdec_layout(width, height, tensor.shape[1], layout, bits), tensor)


def poisoned(shape: tuple[int, ...], dtype: torch.dtype, device: str = "cuda") -> torch.Tensor:
    return torch.full(shape, 77 if dtype == torch.uint8 else float("nan"), dtype=dtype, device=device)


def handle() -> int:
    return int(torch.cuda.current_stream().cuda_stream)


def differences(name: str, slot: torch.Tensor, expected: npt.NDArray[np.float64]) -> None:
    """Print and bound the distance from an expectation in [0, 1]: 2/255 at most, 1/255 on average."""
    got = slot.double().cpu().numpy() * (1 if slot.dtype == torch.uint8 else 255)
    error = np.abs(got - expected * 255)
    print(f"{name}: max {error.max():.4f}/255, mean {error.mean():.4f}/255")
    assert error.max() <= 2  # also fails on NaN, that is, on elements not written
    assert error.mean() <= 1


def check(
    layout: NvdecFormat, bits: int, pixels: str, height: int, width: int, color: ColorSpec, rotation: int,
    mirrored: bool, geometry: Geometry, output: OutputSpec,
) -> None:  # fmt: skip
    planes = planes_for(layout, bits, height, width)
    slot = poisoned((3, *geometry.output_size), output.dtype)
    surface = surface_of(planes, layout, bits, padding=3)
    convert_surface(surface, color, rotation, mirrored, geometry, output, slot, handle())
    factors = (2, 2) if layout in ("nv12", "p016") else (1, 1)
    image = resize_reference.components(planes, "ycbcr", color, bits, factors, output.color)
    expected = resize_reference.picture(image, geometry, rotation, mirrored)
    name = f"{layout} {bits} bit {height}×{width} {color} {rotation}° mirrored={mirrored} {geometry} {output}"
    differences(f"{name}, reference", slot, expected)


def check_cpu(
    layout: NvdecFormat, bits: int, pixels: str, height: int, width: int, color: ColorSpec, rotation: int,
    mirrored: bool, geometry: Geometry, output: OutputSpec,
) -> None:  # fmt: skip
    """The same of the CPU conversion, which is a reference for nothing but must agree."""
    planes = planes_for(layout, bits, height, width)
    slot = poisoned((3, *geometry.output_size), output.dtype)
    convert_surface(surface_of(planes, layout, bits), color, rotation, mirrored, geometry, output, slot, handle())
    on_cpu = poisoned((3, *geometry.output_size), output.dtype, "cpu")
    frame = reference.video_frame(planes, "gbrp" if color.matrix == "identity" else pixels)
    convert_frame(frame, color, rotation, mirrored, geometry, output, on_cpu)
    differences(f"{layout} {geometry}, CPU", slot, on_cpu.double().numpy() / (255 if slot.dtype == torch.uint8 else 1))


@pytest.mark.parametrize(("layout", "bits", "pixels"), LAYOUTS)
@pytest.mark.parametrize("full_range", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("height", "width"), [(48, 64), (241, 321)])
def test_layouts(
    layout: NvdecFormat, bits: int, pixels: str, full_range: bool, dtype: torch.dtype, height: int, width: int
) -> None:
    color, geometry = ColorSpec("bt709", full_range), Geometry((0, 0, height, width), (height, width))
    check(layout, bits, pixels, height, width, color, 0, False, geometry, OutputSpec(dtype))
    check(layout, bits, pixels, height, width, color, 0, False, geometry, OutputSpec(dtype, color="ycbcr"))
    if dtype != torch.bfloat16:
        check_cpu(layout, bits, pixels, height, width, color, 0, False, geometry, OutputSpec(dtype))


@pytest.mark.parametrize("matrix", ["bt709", "fcc", "bt601", "smpte240m", "bt2020"])
@pytest.mark.parametrize("site", ["left", "center", "topleft", "top", "bottomleft", "bottom"])
def test_matrices_and_sites(matrix: Any, site: Any) -> None:
    geometry = Geometry((0, 0, 37, 51), (37, 51))
    check("nv12", 8, "yuv420p", 37, 51, ColorSpec(matrix, False, site), 0, False, geometry, OutputSpec(torch.float32))


def test_identity() -> None:
    geometry = Geometry((1, 2, 30, 40), (15, 20))
    check("yuv444", 8, "yuv444p", 37, 51, ColorSpec("identity", True), 0, False, geometry, OutputSpec(torch.float32))


@pytest.mark.parametrize("rotation", [0, 90, 180, 270])
@pytest.mark.parametrize("mirrored", [False, True])
@pytest.mark.parametrize(("flip", "flip_vertical"), FLIPS)
@pytest.mark.parametrize(
    ("size", "window"), [((31, 40), None), ((17, 13), None), ((75, 90), None), ((75, 90), (2, 7, 51, 23))]
)
@pytest.mark.parametrize(("interpolation", "antialias"), FILTERS)
def test_geometry(
    rotation: int, mirrored: bool, flip: bool, flip_vertical: bool, size: tuple[int, int],
    window: tuple[int, int, int, int] | None, interpolation: Any, antialias: bool,
) -> None:  # fmt: skip
    geometry = Geometry((3, 5, 31, 40), size, flip, window, interpolation, antialias, flip_vertical=flip_vertical)
    picture = ("nv12", 8, "yuv420p", 57, 61, ColorSpec("bt601", False), rotation, mirrored)
    check(*picture, geometry, OutputSpec(torch.float16))
    if (interpolation, antialias) == ("bilinear", True):
        check_cpu(*picture, geometry, OutputSpec(torch.float16))


@pytest.mark.parametrize(
    ("height", "width", "crop", "size"),
    [
        (1080, 1920, (0, 0, 1080, 1920), (224, 224)),
        (360, 640, (0, 0, 360, 640), (224, 224)),
        (64, 1921, (0, 1, 64, 1920), (1, 1)),
        (64, 1921, (0, 1, 64, 1920), (3, 5)),
        (40, 30, (7, 9, 1, 1), (5, 300)),
        (90, 700, (1, 1, 88, 699), (200, 1400)),
        (2, 2, (0, 0, 2, 2), (5, 3)),
        (1, 1, (0, 0, 1, 1), (5, 3)),
    ],
)
@pytest.mark.parametrize(("interpolation", "antialias"), FILTERS)
def test_scales(
    height: int, width: int, crop: tuple[int, int, int, int], size: tuple[int, int], interpolation: Any, antialias: bool
) -> None:
    geometry = Geometry(crop, size, interpolation=interpolation, antialias=antialias)
    color = ColorSpec("bt709", False)
    check("nv12", 8, "yuv420p", height, width, color, 0, False, geometry, OutputSpec(torch.float32))


@pytest.mark.parametrize(("interpolation", "antialias"), FILTERS)
@pytest.mark.parametrize("size", [(9, 11), (64, 48), (31, 90), (97, 129), (64, 96)])
def test_torch_resizes_alike(interpolation: Any, antialias: bool, size: tuple[int, int]) -> None:
    planes = planes_for("yuv444", 8, 64, 96)
    whole = Geometry((0, 0, 64, 96), (64, 96))
    color, output = ColorSpec("identity", True), OutputSpec(torch.float32)
    surface = surface_of(planes, "yuv444", 8)
    full, resized = poisoned((3, 64, 96), torch.float32), poisoned((3, *size), torch.float32)
    convert_surface(surface, color, 0, False, whole, output, full, handle())
    geometry = Geometry((0, 0, 64, 96), size, interpolation=interpolation, antialias=antialias)
    convert_surface(surface, color, 0, False, geometry, output, resized, handle())
    options = {} if interpolation == "nearest" else {"align_corners": False, "antialias": antialias}
    expected = torch.nn.functional.interpolate(full.cpu()[None], size, mode=interpolation, **options)[0].clamp(0, 1)
    assert float((resized.cpu() - expected).abs().max()) < 1e-4


@pytest.mark.parametrize("seed", range(200))
def test_anything(seed: int) -> None:
    rng = np.random.default_rng(seed)
    layout, bits, pixels = LAYOUTS[rng.integers(len(LAYOUTS))]
    height, width = (int(v) for v in rng.integers(1, 400, 2))
    rotation = int(rng.choice([0, 90, 180, 270]))
    shown = (width, height) if rotation in (90, 270) else (height, width)
    top, left = (int(rng.integers(0, length)) for length in shown)
    crop = (top, left, int(rng.integers(1, shown[0] - top + 1)), int(rng.integers(1, shown[1] - left + 1)))
    size = (int(rng.integers(1, 300)), int(rng.integers(1, 300)))
    color = ColorSpec("bt709", bool(rng.integers(2)), ("left", "center", "topleft")[rng.integers(3)])
    interpolation, antialias = FILTERS[rng.integers(len(FILTERS))]
    flip, flip_vertical = (bool(v) for v in rng.integers(2, size=2))
    geometry = Geometry(crop, size, flip, None, interpolation, antialias, flip_vertical=flip_vertical)
    output = OutputSpec(DTYPES[rng.integers(len(DTYPES))], color=("rgb", "ycbcr")[rng.integers(2)])
    check(layout, bits, pixels, height, width, color, rotation, bool(rng.integers(2)), geometry, output)


@pytest.mark.parametrize("layout", ["TCHW", "CTHW", "THWC"])
@pytest.mark.parametrize("rotation", [0, 90])
@pytest.mark.parametrize("dtype", DTYPES)
def test_writes_all_of_any_slot_and_nothing_else(layout: str, rotation: int, dtype: torch.dtype) -> None:
    planes = planes_for("nv12", 8, 70, 90)
    shape = {"TCHW": (4, 3, 33, 47), "CTHW": (3, 4, 33, 47), "THWC": (4, 33, 47, 3)}[layout]
    batch = poisoned(shape, dtype)
    view = batch.permute({"TCHW": (0, 1, 2, 3), "CTHW": (1, 0, 2, 3), "THWC": (0, 3, 1, 2)}[layout])
    color, geometry, output = ColorSpec("bt709", False), Geometry((2, 3, 60, 60), (33, 47)), OutputSpec(dtype)
    surface = surface_of(planes, "nv12", 8)
    # A second poison tells an element not written from one that happens to be the first.
    for poison in (77, 78) if dtype == torch.uint8 else (float("nan"),):
        batch.fill_(poison)
        convert_surface(surface, color, rotation, False, geometry, output, view[1], handle())
        image = reference.rgb(planes, matrix="bt709", full_range=False, factors=(2, 2))
        differences(
            f"{layout} {rotation}° {dtype}", view[1],
            reference.picture(image, rotation=rotation, crop=geometry.crop, size=geometry.size),
        )  # fmt: skip
        others = view[[0, 2, 3]]
        assert bool((others.isnan() if poison != poison else others == poison).all())


def test_normalisation() -> None:
    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    planes = planes_for("nv12", 8, 48, 64)
    slot = poisoned((3, 24, 32), torch.float16)
    color, geometry = ColorSpec("bt709", False), Geometry((0, 0, 48, 64), (24, 32))
    output = OutputSpec(torch.float16, mean, std)
    convert_surface(surface_of(planes, "nv12", 8), color, 0, False, geometry, output, slot, handle())
    restored = slot.double().cpu() * torch.tensor(std).view(3, 1, 1) + torch.tensor(mean).view(3, 1, 1)
    image = reference.rgb(planes, matrix="bt709", full_range=False, factors=(2, 2))
    differences("normalised", restored, reference.picture(image, size=(24, 32)))


@pytest.mark.parametrize("count", [1, 16, 37])
def test_many_pictures_at_once_are_those_one_by_one(count: int) -> None:
    surfaces = [surface_of(planes_for("nv12", 8, 48, 64, seed), "nv12", 8) for seed in range(count)]
    color, geometry, output = ColorSpec("bt709", False), Geometry((3, 5, 40, 50), (24, 32)), OutputSpec(torch.float16)
    together, alone = (torch.full((3, count, 24, 32), 7, dtype=torch.float16, device="cuda") for _ in range(2))
    backward = list(reversed(range(count)))
    conversion = Conversion(color, 90, True, turned(geometry), output)
    convert_surfaces(surfaces, conversion, together.movedim(1, 0), backward, handle())
    for surface, slot in zip(reversed(surfaces), alone.unbind(1), strict=True):
        convert_surface(surface, color, 90, True, turned(geometry), output, slot, handle())
    torch.cuda.synchronize()
    assert torch.equal(together, alone)
    assert len({picture.sum().item() for picture in together.float().unbind(1)}) == count


def turned(geometry: Geometry) -> Geometry:
    """The crop for a picture that is shown on its side."""
    top, left, height, width = geometry.crop
    return Geometry((left, top, width, height), geometry.size)


def test_pictures_that_differ_are_not_converted_at_once() -> None:
    color, geometry, output = ColorSpec("bt709", False), Geometry((0, 0, 48, 64), (8, 8)), OutputSpec()
    surfaces = [surface_of(planes_for("nv12", 8, 48, width), "nv12", 8) for width in (64, 66)]
    slots = poisoned((2, 3, 8, 8), torch.uint8)
    with pytest.raises(ConfigurationError, match="differ"):
        convert_surfaces(surfaces, Conversion(color, 0, False, geometry, output), slots, [0, 1], handle())


def test_bad_arguments() -> None:
    planes = planes_for("nv12", 8, 48, 64)
    surface = surface_of(planes, "nv12", 8)
    color, geometry, output = ColorSpec("bt709", False), Geometry((0, 0, 48, 64), (8, 8)), OutputSpec()
    slot = poisoned((3, 8, 8), torch.uint8)
    with pytest.raises(ConfigurationError, match="slot"):
        convert_surface(surface, color, 0, False, geometry, output, slot.cpu(), 0)
    with pytest.raises(ConfigurationError, match="crop"):
        convert_surface(surface, color, 90, False, geometry, output, slot, 0)
    with pytest.raises(ConfigurationError, match="identity"):
        convert_surface(surface, ColorSpec("identity", True), 0, False, geometry, output, slot, 0)
    narrow = surface._replace(layout=surface.layout._replace(pitch=62))
    with pytest.raises(ConfigurationError, match="pitch"):
        convert_surface(narrow, color, 0, False, geometry, output, slot, 0)
    rgb = surface_of(planes_for("yuv444", 8, 48, 64), "yuv444", 8)
    with pytest.raises(UnsupportedError, match="Y'CbCr"):
        convert_surface(rgb, ColorSpec("identity", True), 0, False, geometry, OutputSpec(color="ycbcr"), slot, 0)


@pytest.mark.parametrize(("height", "width"), [(1080, 1920), (360, 640)])
@pytest.mark.parametrize(("layout", "bits"), [("nv12", 8), ("p016", 10), ("yuv444", 8)])
def test_speed(height: int, width: int, layout: Any, bits: int) -> None:
    """No assertion: prints GPU time of a frame (from a CUDA graph, so without Python) and Python time of a call."""
    surfaces = [surface_of(planes_for(layout, bits, height, width, seed), layout, bits) for seed in range(4)]
    # More memory than any L2 cache has, as fresh surfaces from a decoder would be at worst.
    copies = [torch.cat([s.owner] * 16) for s in surfaces]  # type: ignore[list-item]
    step = copies[0].numel() // 16
    surfaces = [
        CudaSurface(c.data_ptr() + i * step, s.layout, c)
        for s, c in zip(surfaces, copies, strict=True)
        for i in range(16)
    ]
    batch = torch.empty(3, len(surfaces), 224, 224, dtype=torch.float16, device="cuda")
    color, geometry = ColorSpec("bt709", False), Geometry((0, 0, height, width), (224, 224))
    output = OutputSpec(torch.float16, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]

    def convert_all() -> None:
        for i, surface in enumerate(surfaces):
            convert_surface(surface, color, 0, False, geometry, output, batch[:, i], stream.cuda_stream)

    convert_all()
    stream.synchronize()
    began = time.perf_counter()
    for _ in range(10):
        convert_all()
    python = (time.perf_counter() - began) / (10 * len(surfaces))
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        convert_all()
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    graph.replay()
    start.record()
    for _ in range(20):
        graph.replay()
    stop.record()
    stop.synchronize()
    gpu = start.elapsed_time(stop) * 1e3 / (20 * len(surfaces))
    print(f"{layout} {height}p → 224² fp16: {gpu:.2f} µs GPU, {python * 1e6:.2f} µs Python per frame")
