"""The CPU conversion against the float64 reference and PyTorch's own resize."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import av
import numpy as np
import numpy.typing as npt
import pytest
import torch
from convert import reference
from example_count import examples
from helpers.converting import convert_frame
from hypothesis import given, settings
from hypothesis import strategies as st

from videoloader.convert import cpu
from videoloader.convert.native import native_code
from videoloader.convert.resize import needed_part
from videoloader.convert.spec import ColorSpec, Geometry, OutputSpec, color_spec
from videoloader.errors import ConfigurationError, UnsupportedError
from videoloader.indexing.stream_info import StreamInfo

# Name, bits, horizontal and vertical chroma subsampling.
FORMATS = [
    ("yuv420p", 8, 2, 2), ("yuvj420p", 8, 2, 2), ("yuv422p", 8, 2, 1), ("yuv444p", 8, 1, 1), ("yuv440p", 8, 1, 2),
    ("yuv411p", 8, 4, 1), ("yuv410p", 8, 4, 4), ("yuv420p10le", 10, 2, 2), ("yuv422p10le", 10, 2, 1),
    ("yuv444p10le", 10, 1, 1), ("yuv420p12le", 12, 2, 2), ("yuv444p12le", 12, 1, 1), ("yuv420p16le", 16, 2, 2),
    ("yuv444p16le", 16, 1, 1), ("yuv420p9le", 9, 2, 2), ("yuv422p14le", 14, 2, 1), ("yuv444p9le", 9, 1, 1),
    ("yuv444p14le", 14, 1, 1), ("yuv440p10le", 10, 1, 2),
]  # fmt: skip
STREAM = StreamInfo("h264", (b"",), Fraction(1, 25), 64, 48)


@pytest.fixture(params=["native", "libswscale"], autouse=True, scope="module")
def _engine(request: pytest.FixtureRequest) -> Iterator[None]:
    """Where there is a compiler, and where there is none."""
    if request.param == "native" and native_code() is None:
        pytest.skip("native code was not compiled")
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "libswscale":
            patch.setattr(cpu, "host_surface", lambda frame: None)
        yield


@st.composite
def boxes(draw: st.DrawFn, size: tuple[int, int]) -> tuple[int, int, int, int]:
    """A (top, left, height, width) part of a picture."""
    top, left = draw(st.integers(0, size[0] - 1)), draw(st.integers(0, size[1] - 1))
    return top, left, draw(st.integers(1, size[0] - top)), draw(st.integers(1, size[1] - left))


def poisoned(size: tuple[int, int], dtype: torch.dtype) -> torch.Tensor:
    return torch.full((3, *size), 77 if dtype == torch.uint8 else float("nan"), dtype=dtype)


def check(slot: torch.Tensor, expected: npt.NDArray[np.float64]) -> None:
    """Compare with an expectation in [0, 1]: at most 2/255 and on average 1/255 apart."""
    got = slot.to(torch.float64).numpy() * (1 if slot.dtype == torch.uint8 else 255)
    error = np.abs(got - expected * 255)
    assert error.max() <= 2
    assert error.mean() <= 1


@pytest.mark.parametrize(("pixels", "bits", "step_x", "step_y"), FORMATS)
@pytest.mark.parametrize("full_range", [False, True])
@pytest.mark.parametrize(("height", "width"), [(48, 64), (241, 321)])
def test_formats(pixels: str, bits: int, step_x: int, step_y: int, full_range: bool, height: int, width: int) -> None:
    planes = reference.random_planes(np.random.default_rng(0), height, width, bit_depth=bits, factors=(step_x, step_y))
    slot = poisoned((height, width), torch.uint8)
    convert_frame(
        reference.video_frame(planes, pixels), ColorSpec("bt709", full_range), 0, False,
        Geometry((0, 0, height, width), (height, width)), OutputSpec(), slot,
    )  # fmt: skip
    check(
        slot,
        reference.rgb(planes, matrix="bt709", full_range=full_range, bit_depth=bits, factors=(step_x, step_y)),
    )


@pytest.mark.parametrize("matrix", ["bt709", "fcc", "bt601", "smpte240m", "bt2020"])
@pytest.mark.parametrize("site", ["left", "center", "topleft", "top", "bottomleft", "bottom"])
def test_matrices_and_sites(matrix: Any, site: Any) -> None:
    planes = reference.random_planes(np.random.default_rng(1), 37, 51, factors=(2, 2))
    slot = poisoned((37, 51), torch.uint8)
    geometry = Geometry((0, 0, 37, 51), (37, 51))
    convert_frame(
        reference.video_frame(planes, "yuv420p"), ColorSpec(matrix, False, site), 0, False, geometry, OutputSpec(), slot
    )
    check(slot, reference.rgb(planes, matrix=matrix, full_range=False, site=site, factors=(2, 2)))


@pytest.mark.parametrize("rotation", [0, 90, 180, 270])
@pytest.mark.parametrize("mirrored", [False, True])
@pytest.mark.parametrize(("flip", "flip_vertical"), [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize(
    ("size", "window"), [((31, 40), None), ((17, 13), None), ((75, 90), None), ((31, 40), (2, 7, 20, 9))]
)
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float16, torch.float32])
def test_geometry(
    rotation: int,
    mirrored: bool,
    flip: bool,
    flip_vertical: bool,
    size: tuple[int, int],
    window: tuple[int, int, int, int] | None,
    dtype: torch.dtype,
) -> None:
    planes = reference.random_planes(np.random.default_rng(2), 61, 57, factors=(2, 2))
    crop = (3, 5, 31, 40)
    geometry = Geometry(crop, size, flip, window, flip_vertical=flip_vertical)
    slot = poisoned(geometry.output_size, dtype)
    convert_frame(
        reference.video_frame(planes, "yuv420p"), ColorSpec("bt601", False), rotation, mirrored,
        geometry, OutputSpec(dtype), slot,
    )  # fmt: skip
    image = reference.rgb(planes, matrix="bt601", full_range=False, factors=(2, 2))
    check(
        slot,
        reference.picture(
            image, rotation=rotation, mirrored=mirrored, crop=crop, size=size, window=window, flip=flip,
            flip_vertical=flip_vertical,
        ),
    )  # fmt: skip


@settings(max_examples=examples(300))
@given(st.data())
def test_any_picture_geometry_and_output(data: st.DataObject) -> None:
    draw = data.draw
    pixels, bits, step_x, step_y = draw(st.sampled_from(FORMATS))
    height, width = draw(st.integers(1, 150)), draw(st.integers(1, 150))
    rotation, mirrored = draw(st.sampled_from([0, 90, 180, 270])), draw(st.booleans())
    flip, flip_vertical = draw(st.booleans()), draw(st.booleans())
    shown = (width, height) if rotation in (90, 270) else (height, width)
    crop = draw(boxes(shown))
    size = draw(
        st.sampled_from([crop[2:], (9, 11), (1, 1), (40, 30)]) | st.tuples(st.integers(1, 60), st.integers(1, 60))
    )
    window = draw(st.none() | boxes(size))
    interpolation, antialias = draw(st.sampled_from(["bilinear", "bicubic", "nearest"])), draw(st.booleans())
    full_range, color = draw(st.booleans()), draw(st.sampled_from(["rgb", "ycbcr"]))
    site: Any = draw(st.sampled_from(["left", "center", "topleft"]))
    dtype = draw(st.sampled_from([torch.uint8, torch.float16, torch.float32]))
    planes = reference.random_planes(
        np.random.default_rng(height), height, width, bit_depth=bits, factors=(step_x, step_y)
    )
    geometry = Geometry(crop, size, flip, window, interpolation, antialias, flip_vertical=flip_vertical)
    slot = poisoned(geometry.output_size, dtype)
    convert_frame(
        reference.video_frame(planes, pixels), ColorSpec("bt2020", full_range, site), rotation, mirrored,
        geometry, OutputSpec(dtype, color=color), slot,
    )  # fmt: skip
    facts: dict[str, Any] = {"site": site, "bit_depth": bits, "factors": (step_x, step_y)}
    if color == "ycbcr":
        image = reference.ycbcr(planes, **facts)
    else:
        image = reference.rgb(planes, matrix="bt2020", full_range=full_range, **facts)
    check(
        slot,
        reference.picture(
            image, rotation=rotation, mirrored=mirrored, crop=crop, size=size, window=window, flip=flip,
            flip_vertical=flip_vertical, interpolation=interpolation, antialias=antialias,
        ),
    )  # fmt: skip


@pytest.mark.parametrize("full_range", [False, True])
@pytest.mark.parametrize("size", [(199, 299), (180, 170), (100, 150), (210, 40)])
def test_roundings_do_not_add_up_to_more_than_two_codes(full_range: bool, size: tuple[int, int]) -> None:
    for seed in range(10):
        planes = reference.random_planes(np.random.default_rng(seed), 200, 300, factors=(2, 2))
        slot = poisoned(size, torch.uint8)
        convert_frame(
            reference.video_frame(planes, "yuv420p"), ColorSpec("bt2020", full_range), 0, False,
            Geometry((0, 0, 200, 300), size), OutputSpec(), slot,
        )  # fmt: skip
        image = reference.rgb(planes, matrix="bt2020", full_range=full_range, factors=(2, 2))
        check(slot, reference.picture(image, size=size))


@pytest.mark.parametrize(("pixels", "bits", "step_x", "step_y"), FORMATS)
@pytest.mark.parametrize("color", ["rgb", "ycbcr"])
@pytest.mark.parametrize("size", [(48, 64), (96, 80)])
def test_float_outputs_that_are_not_made_smaller_are_exact(
    pixels: str, bits: int, step_x: int, step_y: int, color: Any, size: tuple[int, int]
) -> None:
    """But for 8 bits made larger, which are rounded before and after."""
    planes = reference.random_planes(np.random.default_rng(11), 48, 64, bit_depth=bits, factors=(step_x, step_y))
    slot = poisoned(size, torch.float32)
    convert_frame(
        reference.video_frame(planes, pixels), ColorSpec("bt709", True), 0, False,
        Geometry((0, 0, 48, 64), size), OutputSpec(torch.float32, color=color), slot,
    )  # fmt: skip
    facts: dict[str, Any] = {"bit_depth": bits, "factors": (step_x, step_y)}
    if color == "ycbcr":
        image = reference.ycbcr(planes, **facts)
    else:
        image = reference.rgb(planes, matrix="bt709", full_range=True, **facts)
    off = 2 / 255 if bits == 8 and size != (48, 64) else 1e-4
    assert np.abs(slot.numpy() - reference.picture(image, size=size)).max() < off


@pytest.mark.parametrize("size", [(24, 40), (48, 64), (100, 33), (7, 5), (47, 63)])
@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic", "nearest"])
@pytest.mark.parametrize("antialias", [True, False])
def test_resize_is_torchvisions(size: tuple[int, int], interpolation: Any, antialias: bool) -> None:
    planes = reference.random_planes(np.random.default_rng(4), 48, 64, factors=(2, 2))
    slot = poisoned(size, torch.float32)
    convert_frame(
        reference.video_frame(planes, "yuv420p"), ColorSpec("bt709", True), 0, False,
        Geometry((0, 0, 48, 64), size, interpolation=interpolation, antialias=antialias),
        OutputSpec(torch.float32), slot,
    )  # fmt: skip
    image = torch.from_numpy(reference.rgb(planes, matrix="bt709", full_range=True, factors=(2, 2)))
    how = {} if interpolation == "nearest" else {"antialias": antialias, "align_corners": False}
    resized = torch.nn.functional.interpolate(image[None], size, mode=interpolation, **how)[0].clamp(0, 1)
    check(slot, resized.numpy())
    # The reference itself is PyTorch's to the last bits.
    itself = reference.picture(image.numpy(), size=size, interpolation=interpolation, antialias=antialias)
    assert np.abs(itself - resized.numpy()).max() < 1e-6


@given(st.data())
def test_only_the_part_that_a_window_needs_is_resized(data: st.DataObject) -> None:
    interpolation = data.draw(st.sampled_from(["bilinear", "bicubic"]))
    factor, height, width = data.draw(st.integers(1, 12)), data.draw(st.integers(1, 12)), data.draw(st.integers(1, 12))
    crop, size = (3, 5, factor * height, factor * width), (2 * factor, 3 * factor)
    window = data.draw(boxes(size))
    part, part_size, part_window = needed_part(crop, size, window, interpolation)
    image = np.random.default_rng(0).random((3, crop[0] + crop[2], crop[1] + crop[3]))
    for antialias in (True, False):
        how = {"interpolation": interpolation, "antialias": antialias}
        whole = reference.picture(image, crop=crop, size=size, window=window, **how)
        assert np.allclose(reference.picture(image, crop=part, size=part_size, window=part_window, **how), whole)


def test_the_needed_part_of_a_central_crop_is_small() -> None:
    part, size, window = needed_part((0, 0, 1080, 1920), (256, 480), (16, 128, 224, 224), "bilinear")
    assert (part, size, window) == ((0, 504, 1080, 912), (256, 228), (16, 2, 224, 224))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("size", [(24, 32), (48, 64)])
def test_number_types_are_rounded_once(dtype: torch.dtype, size: tuple[int, int]) -> None:
    planes = reference.random_planes(np.random.default_rng(12), 48, 64)
    geometry, frame = Geometry((0, 0, 48, 64), size), reference.video_frame(planes, "yuv444p")
    output = OutputSpec(torch.float32, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
    exact, slot = poisoned(size, torch.float32), poisoned(size, dtype)
    convert_frame(frame, ColorSpec("bt709", False), 0, False, geometry, output, exact)
    convert_frame(frame, ColorSpec("bt709", False), 0, False, geometry, replace(output, dtype=dtype), slot)
    bits = {torch.float16: 11, torch.bfloat16: 8, torch.float32: 24}[dtype]
    assert ((slot.float() - exact).abs() <= exact.abs() * 2.0**-bits + 1e-6).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_normalisation(dtype: torch.dtype) -> None:
    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    planes = reference.random_planes(np.random.default_rng(5), 48, 64, factors=(2, 2))
    slot = poisoned((24, 32), dtype)
    convert_frame(
        reference.video_frame(planes, "yuv420p"), ColorSpec("bt709", False), 0, False,
        Geometry((0, 0, 48, 64), (24, 32)), OutputSpec(dtype, mean, std), slot,
    )  # fmt: skip
    image = reference.picture(reference.rgb(planes, matrix="bt709", full_range=False, factors=(2, 2)), size=(24, 32))
    restored = slot.double() * torch.tensor(std).view(3, 1, 1) + torch.tensor(mean).view(3, 1, 1)
    check(restored, image)


@pytest.mark.parametrize("layout", ["TCHW", "CTHW", "THWC"])
def test_writes_all_of_any_slot_and_nothing_else(layout: str) -> None:
    planes = reference.random_planes(np.random.default_rng(6), 48, 64, factors=(2, 2))
    shape = {"TCHW": (4, 3, 20, 30), "CTHW": (3, 4, 20, 30), "THWC": (4, 20, 30, 3)}[layout]
    batch = torch.full(shape, float("nan"))
    order = {"TCHW": (0, 1, 2, 3), "CTHW": (1, 0, 2, 3), "THWC": (0, 3, 1, 2)}[layout]
    slot = batch.permute(order)[1]
    convert_frame(
        reference.video_frame(planes, "yuv420p"), ColorSpec("bt709", False), 0, False,
        Geometry((0, 0, 48, 64), (20, 30)), OutputSpec(torch.float32), slot,
    )  # fmt: skip
    image = reference.rgb(planes, matrix="bt709", full_range=False, factors=(2, 2))
    check(slot, reference.picture(image, size=(20, 30)))
    assert int(batch.isnan().sum()) == 3 * 3 * 20 * 30


@pytest.mark.parametrize(
    ("pixels", "planar", "bits", "factors"),
    [
        ("nv12", "yuv420p", 8, (2, 2)), ("nv21", "yuv420p", 8, (2, 2)), ("p010le", "yuv420p10le", 10, (2, 2)),
        ("yuyv422", "yuv422p", 8, (2, 1)), ("uyvy422", "yuv422p", 8, (2, 1)), ("nv24", "yuv444p", 8, (1, 1)),
        ("y210le", "yuv422p10le", 10, (2, 1)), ("yuv420p10be", "yuv420p10le", 10, (2, 2)),
        ("yuva420p", "yuv420p", 8, (2, 2)), ("yuva444p10le", "yuv444p10le", 10, (1, 1)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("color_range", [0, 1, 2])
def test_other_yuv_layouts(pixels: str, planar: str, bits: int, factors: tuple[int, int], color_range: int) -> None:
    planes = reference.random_planes(np.random.default_rng(7), 46, 62, bit_depth=bits, factors=factors)
    frame = reference.video_frame(planes, planar).reformat(format=pixels)
    assert frame.format.name == pixels
    frame.color_range = color_range  # what the frame says must not get in the way of what the caller says
    frame.colorspace = 1
    slot = poisoned((30, 40), torch.uint8)
    geometry = Geometry((3, 5, 30, 40), (30, 40))
    convert_frame(frame, ColorSpec("bt601", False), 0, False, geometry, OutputSpec(), slot)
    image = reference.rgb(planes, matrix="bt601", full_range=False, bit_depth=bits, factors=factors)
    check(slot, reference.picture(image, crop=(3, 5, 30, 40)))


@pytest.mark.parametrize("pixels", ["rgb24", "bgr24", "bgra", "gbrp", "pal8", "rgb48le", "gbrp10le", "gbrp16le"])
def test_rgb(pixels: str) -> None:
    rng = np.random.default_rng(8)
    if pixels == "pal8":
        index, palette = rng.integers(0, 256, (47, 61), np.uint8), rng.integers(0, 256, (256, 4), np.uint8)
        frame = av.VideoFrame.from_ndarray((index, palette), "pal8")  # type: ignore[arg-type]
        expected = palette[index][..., 1:].transpose(2, 0, 1) / 255
    elif "16" in pixels or "48" in pixels or "10" in pixels:
        bits = 10 if "10" in pixels else 16
        codes = rng.integers(0, 1 << bits, (47, 61, 3), np.uint16)
        frame = av.VideoFrame.from_ndarray(codes, pixels)
        expected = codes.transpose(2, 0, 1) / ((1 << bits) - 1)
    else:
        codes8 = rng.integers(0, 256, (47, 61, 3), np.uint8)
        frame = av.VideoFrame.from_ndarray(codes8, "rgb24").reformat(format=pixels)
        expected = codes8.transpose(2, 0, 1) / 255
    assert frame.format.name == pixels
    frame.color_range = 1
    geometry = Geometry((2, 3, 30, 40), (17, 19), flip=True)
    slot = poisoned((17, 19), torch.uint8)
    convert_frame(frame, color_spec(STREAM, frame), 180, False, geometry, OutputSpec(), slot)
    check(slot, reference.picture(expected, rotation=180, crop=(2, 3, 30, 40), size=(17, 19), flip=True))


@pytest.mark.parametrize("pixels", ["rgb24", "gbrp10le", "pal8"])
def test_rgb_frames_have_no_ycbcr_samples(pixels: str) -> None:
    frame, slot = av.VideoFrame(64, 48, pixels), poisoned((48, 64), torch.uint8)
    with pytest.raises(UnsupportedError, match="ycbcr"):
        convert_frame(
            frame, ColorSpec("identity", True), 0, False,
            Geometry((0, 0, 48, 64), (48, 64)), OutputSpec(color="ycbcr"), slot,
        )  # fmt: skip


@pytest.mark.parametrize(("pixels", "bits"), [("gray", 8), ("gray16le", 16)])
def test_gray_frames_have_neutral_chroma(pixels: str, bits: int) -> None:
    luma = np.random.default_rng(13).integers(0, 1 << bits, (48, 64), np.uint8 if bits == 8 else np.uint16)
    slot = poisoned((20, 20), torch.float32)
    convert_frame(
        reference.video_frame([luma], pixels), ColorSpec("bt601", False), 0, False,
        Geometry((0, 0, 48, 64), (20, 20)), OutputSpec(torch.float32, color="ycbcr"), slot,
    )  # fmt: skip
    planes = [luma, np.full_like(luma, 1 << (bits - 1)), np.full_like(luma, 1 << (bits - 1))]
    check(slot, reference.picture(reference.ycbcr(planes, bit_depth=bits), size=(20, 20)))


@pytest.mark.parametrize("full_range", [False, True])
@pytest.mark.parametrize("pixels", ["gray", "gray10le", "gray16le", "ya8"])
def test_gray(pixels: str, full_range: bool) -> None:
    bits = {"gray10le": 10, "gray16le": 16}.get(pixels, 8)
    dtype = np.uint8 if bits == 8 else np.uint16
    luma = np.random.default_rng(9).integers(0, 1 << bits, (47, 61), dtype)
    frame = reference.video_frame([luma], "gray" if pixels == "ya8" else pixels)
    frame = frame.reformat(format=pixels)
    slot = poisoned((20, 20), torch.float32)
    geometry = Geometry((0, 0, 47, 61), (20, 20))
    convert_frame(frame, ColorSpec("bt601", full_range), 0, False, geometry, OutputSpec(torch.float32), slot)
    image = reference.rgb([luma] * 3, matrix="identity", full_range=full_range, bit_depth=bits)
    check(slot, reference.picture(image, size=(20, 20)))


def test_16_bit_rgb_with_alpha() -> None:
    planes = np.random.default_rng(14).integers(0, 1 << 16, (3, 47, 61), np.uint16)
    frame = av.VideoFrame(61, 47, "gbrap16le")
    for plane, samples in zip(frame.planes, [*planes, planes[0]], strict=True):
        rows = np.frombuffer(memoryview(plane), "u2").reshape(47, -1)
        rows[:, :61] = samples
    slot = poisoned((47, 61), torch.uint8)
    geometry = Geometry((0, 0, 47, 61), (47, 61))
    convert_frame(frame, ColorSpec("identity", True), 0, False, geometry, OutputSpec(), slot)
    check(slot, planes[[2, 0, 1]] / 65535)


def test_threads_do_not_mix() -> None:
    rng = np.random.default_rng(10)
    jobs = []
    for side in range(40, 64):
        planes = reference.random_planes(rng, side, side, factors=(2, 2))
        image = reference.rgb(planes, matrix="bt709", full_range=False, factors=(2, 2))
        jobs.append((reference.video_frame(planes, "yuv420p"), image, side))
    failures: list[BaseException] = []

    def work(order: npt.NDArray[np.int64]) -> None:
        try:
            for number in order:
                frame, image, side = jobs[number]
                slot = poisoned((side, side), torch.uint8)
                geometry = Geometry((0, 0, side, side), (side, side))
                convert_frame(frame, ColorSpec("bt709", False), 0, False, geometry, OutputSpec(), slot)
                check(slot, image)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(rng.permutation(len(jobs)),)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_bad_arguments() -> None:
    frame = av.VideoFrame(64, 48, "yuv420p")
    color, geometry = ColorSpec("bt709", False), Geometry((0, 0, 48, 64), (8, 8))
    slot = poisoned((8, 8), torch.uint8)
    with pytest.raises(ConfigurationError, match="slot"):
        convert_frame(frame, color, 0, False, geometry, OutputSpec(), slot[:, 1:])
    with pytest.raises(ConfigurationError, match="slot"):
        convert_frame(frame, color, 0, False, geometry, OutputSpec(torch.float32), slot)
    with pytest.raises(ConfigurationError, match="crop"):
        convert_frame(frame, color, 90, False, geometry, OutputSpec(), slot)
    with pytest.raises(ConfigurationError, match="rotation"):
        convert_frame(frame, color, 45, False, geometry, OutputSpec(), slot)
    with pytest.raises(ConfigurationError, match="identity"):
        convert_frame(frame, ColorSpec("identity", True), 0, False, geometry, OutputSpec(), slot)
