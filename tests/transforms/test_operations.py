"""Operations against plain definitions, Pillow and torchvision's recorded results, also several in sequence."""

from __future__ import annotations

import colorsys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageEnhance, ImageOps
from transforms.random_programs import (
    KINDS,
    complement_and_add,
    noise,
    photos,
    random_operation,
    random_programs,
    rotation,
)

from videoloader.batching.rows import Layout
from videoloader.convert.spec import OutputSpec
from videoloader.errors import ConfigurationError
from videoloader.transforms.backends import apply
from videoloader.transforms.backends.apply import apply_operations
from videoloader.transforms.operations import (
    ARRAYS,
    BatchFunction,
    ColorMatrix,
    Erase,
    HueShift,
    Operation,
    Sharpen,
    StatisticTable,
    Table,
    Warp,
)

Pixels = npt.NDArray[np.uint8]
REFERENCES = np.load(Path(__file__).parent / "references" / "operations.npz")
ONE = np.ones(1, np.float32)
sizes = st.tuples(st.integers(1, 12), st.integers(1, 12))
seeds = st.integers(0, 2**32 - 1)
lengths = st.integers(1, 3)
interpolations = st.sampled_from(["nearest", "bilinear", "bicubic"])


def through(frames: torch.Tensor, *operations: Operation) -> Pixels:
    """[T, 3, H, W] of the first clip of a batch after its operations."""
    before = frames.clone()
    result = apply_operations(frames, [operations, *[()] * (len(frames) - 1)])[0]
    assert torch.equal(frames, before)
    return result.numpy()


def test_the_kernels_number_the_operations_in_their_order() -> None:
    names = {Table: "LOOK_UP", StatisticTable: "STATISTIC", ColorMatrix: "COLOR_MATRIX", HueShift: "HUE_SHIFT"}
    names |= {Sharpen: "SHARPEN", Warp: "WARP", Erase: "ERASE"}
    kernels = Path(apply.__file__).with_name("step.cu").read_text()
    assert f"enum Operation {{ {', '.join(['COPY', *(names[each] for each in ARRAYS)])} }};" in kernels


def rounded(values: npt.NDArray[np.float64]) -> Pixels:
    return np.floor(np.clip(values, 0, 255) + 0.5).astype(np.uint8)


def assert_near(result: Pixels, exact: npt.NDArray[np.float64]) -> None:
    """As near as rounding to whole numbers comes."""
    assert np.abs(result - np.clip(exact, 0, 255)).max() <= 0.501


def distance(first: Pixels, second: Pixels) -> int:
    return int(np.abs(first.astype(int) - second.astype(int)).max())


def as_image(frames: torch.Tensor) -> Image.Image:
    """All frames [T, 3, H, W], one below the other."""
    return Image.fromarray(frames.permute(0, 2, 3, 1).reshape(-1, frames.shape[3], 3).numpy())


def of_image(image: Image.Image, shape: torch.Size) -> Pixels:
    return np.asarray(image).reshape(shape[0], *shape[2:], 3).transpose(0, 3, 1, 2)


@given(seeds, lengths, sizes, st.booleans())
def test_a_table_replaces_the_values_of_each_channel(
    seed: int, length: int, size: tuple[int, int], per_frame: bool
) -> None:
    rng = np.random.default_rng(seed)
    frames = noise(1, length, *size, seed)
    values = rng.integers(0, 256, (length if per_frame else 1, 3, 256), np.uint8)
    result = through(frames, Table(values))
    for t in range(length):
        for channel in range(3):
            table = values[t if per_frame else 0, channel]
            assert np.array_equal(result[t, channel], table[frames[0, t, channel].numpy()])


@given(seeds, lengths, sizes, st.booleans())
def test_equalize_and_auto_contrast_are_those_of_pillow_for_all_frames_as_one_picture(
    seed: int, length: int, size: tuple[int, int], smooth: bool
) -> None:
    frames = (photos if smooth else noise)(1, length, *size, seed)
    image = as_image(frames[0])
    result = through(frames, StatisticTable("equalize", ONE, False))
    assert np.array_equal(result, of_image(ImageOps.equalize(image), frames[0].shape))
    result = through(frames, StatisticTable("auto_contrast", ONE, False))
    assert distance(result, of_image(ImageOps.autocontrast(image), frames[0].shape)) <= 1


@given(seeds, lengths, sizes, st.floats(0, 2))
def test_contrast_keeps_the_mean_of_gray(seed: int, length: int, size: tuple[int, int], factor: float) -> None:
    frames = noise(1, length, *size, seed)
    values = frames[0].double().numpy()
    weights = np.array([19595, 38470, 7471])
    gray = np.floor((np.einsum("tchw,c->thw", values, weights) + 32768) / 65536)
    result = through(frames, StatisticTable("contrast", np.float32([factor]), False))
    assert_near(result, gray.mean() + factor * (values - gray.mean()))
    pillow = of_image(ImageEnhance.Contrast(as_image(frames[0])).enhance(factor), frames[0].shape)
    assert distance(result, pillow) <= 1


@given(seeds, st.sampled_from(["contrast", "auto_contrast", "equalize"]))
def test_statistics_of_a_frame_or_of_the_clip(seed: int, statistic: Any) -> None:
    frames = photos(1, 3, 9, 8, seed)
    factors = np.float32([0.2, 1, 1.7])
    each = np.concatenate(
        [through(frames[:, t : t + 1], StatisticTable(statistic, factors[t : t + 1], False)) for t in range(3)]
    )
    assert np.array_equal(through(frames, StatisticTable(statistic, factors, True)), each)
    of_clip = [through(frames, StatisticTable(statistic, factors[t : t + 1], False))[t] for t in range(3)]
    assert np.array_equal(through(frames, StatisticTable(statistic, factors, False)), np.stack(of_clip))


@pytest.mark.parametrize("statistic", ["contrast", "auto_contrast", "equalize"])
def test_one_color_has_nothing_to_stretch(statistic: Any) -> None:
    frames = torch.full((1, 2, 3, 20, 30), 77, dtype=torch.uint8)
    assert np.array_equal(through(frames, StatisticTable(statistic, np.float32([0.5]), False)), frames[0].numpy())


@given(seeds, lengths, sizes, st.booleans())
def test_a_matrix_mixes_the_channels(seed: int, length: int, size: tuple[int, int], per_frame: bool) -> None:
    rng = np.random.default_rng(seed)
    frames = noise(1, length, *size, seed)
    rows = length if per_frame else 1
    matrix = (rng.normal(0, 0.7, (rows, 3, 4)) * [1, 1, 1, 50]).astype(np.float32)
    full = np.broadcast_to(matrix, (length, 3, 4)).astype(np.float64)
    exact = np.einsum("tij,tjhw->tihw", full[..., :3], frames[0].double().numpy()) + full[..., 3, None, None]
    assert_near(through(frames, ColorMatrix(matrix)), exact)


@given(seeds, st.floats(-2, 2, width=32))
def test_a_hue_shift_turns_hsv(seed: int, turns: float) -> None:
    frames = noise(1, 1, 3, 3, seed)
    exact = np.empty((1, 3, 3, 3))
    for y in range(3):
        for x in range(3):
            hue, saturation, value = colorsys.rgb_to_hsv(*(frames[0, 0, :, y, x].numpy() / 255.0))
            exact[0, :, y, x] = np.multiply(colorsys.hsv_to_rgb((hue + turns) % 1.0, saturation, value), 255)
    assert_near(through(frames, HueShift(np.float32([turns]))), exact)


@given(seeds, lengths, sizes, st.floats(0, 3, width=32))
def test_sharpen_is_that_of_pillow(seed: int, length: int, size: tuple[int, int], factor: float) -> None:
    frames = noise(1, length, *size, seed)
    result = through(frames, Sharpen(np.float32([factor])))
    for t in range(length):
        expected = ImageEnhance.Sharpness(as_image(frames[0, t : t + 1])).enhance(factor)
        if min(size) >= 3:  # Pillow has no border of smaller ones
            assert distance(result[t : t + 1], of_image(expected, frames[0, :1].shape)) <= 1
        else:
            assert np.array_equal(result[t], frames[0, t].numpy())


def sampled(
    picture: npt.NDArray[np.float64], x: float, y: float, interpolation: str, fill: tuple[float, ...]
) -> npt.NDArray[np.float64]:
    """The value [3] at a point of [3, H, W]: a sum over all pixels near it, those outside being the fill."""

    def weight(distance: float) -> float:
        if interpolation == "bilinear":
            return max(1 - abs(distance), 0)
        d, a = abs(distance), -0.75
        if d < 1:
            return (a + 2) * d**3 - (a + 3) * d**2 + 1
        return a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a if d < 2 else 0.0

    def pixel(column: int, row: int) -> npt.NDArray[np.float64]:
        inside = 0 <= row < picture.shape[1] and 0 <= column < picture.shape[2]
        return picture[:, row, column] if inside else np.array(fill)

    if not np.isfinite([x, y]).all():
        return np.array(fill)
    column, row = int(np.floor(x)), int(np.floor(y))
    if interpolation == "nearest":
        return pixel(column, row)
    total = np.zeros(3)
    for j in range(row - 3, row + 4):
        for i in range(column - 3, column + 4):
            total += pixel(i, j) * weight(i + 0.5 - x) * weight(j + 0.5 - y)
    return total


@given(seeds, sizes, sizes, interpolations, st.booleans(), st.sampled_from([(1, 1), (2, 3)]))
def test_a_warp_takes_each_pixel_from_where_the_matrix_says(
    seed: int,
    size: tuple[int, int],
    target: tuple[int, int],
    interpolation: Any,
    perspective: bool,
    samples: tuple[int, int],
) -> None:
    rng = np.random.default_rng(seed)
    frames = noise(1, 1, *size, seed)
    matrix = rotation(*size, rng.uniform(-180, 180)) @ np.diag([size[1] / target[1], size[0] / target[0], 1])
    matrix[:2] *= rng.uniform(0.6, 1.4)
    if perspective:
        matrix[2, :2] = rng.uniform(-0.1, 0.1, 2)
    fill = tuple(rng.uniform(0, 255, 3))
    result = through(frames, Warp(matrix[None], target, interpolation, fill, samples))
    picture, exact = frames[0, 0].double().numpy(), np.zeros((1, 3, *target))
    for y in range(target[0]):
        for x in range(target[1]):
            points = [
                matrix @ (x + (i + 0.5) / samples[1], y + (j + 0.5) / samples[0], 1)
                for j in range(samples[0])
                for i in range(samples[1])
            ]
            values = [sampled(picture, p[0] / p[2], p[1] / p[2], interpolation, fill) for p in points]
            exact[0, :, y, x] = np.mean(values, 0)
    assert_near(result, exact)


@given(seeds, sizes, interpolations)
def test_warps_that_hit_centers_move_pixels_as_they_are(seed: int, size: tuple[int, int], interpolation: Any) -> None:
    height, width = size
    frames = noise(1, 2, height, width, seed)
    same, mirror, moved = np.eye(3)[None], np.diag([-1.0, 1, 1])[None], np.eye(3)[None].copy()
    mirror[0, 0, 2], moved[0, :2, 2] = width, (2, -1)
    assert np.array_equal(through(frames, Warp(same, size, interpolation, (9, 9, 9))), frames[0].numpy())
    assert np.array_equal(through(frames, Warp(mirror, size, interpolation, (9, 9, 9))), frames[0].flip(-1).numpy())
    expected = np.full((2, 3, height + 5, width + 5), 9, np.uint8)
    expected[:, :, 3 : 3 + height, 2 : 2 + width] = frames[0].numpy()
    result = through(frames, Warp(moved, size, interpolation, (9, 9, 9)))
    assert np.array_equal(result, expected[:, :, 2 : 2 + height, 4 : 4 + width])


def test_each_frame_may_be_warped_by_a_matrix_of_its_own() -> None:
    frames = photos(1, 3, 20, 30)
    matrices = np.stack([rotation(20, 30, degrees) for degrees in (0, 10, 50)])
    result = through(frames, Warp(matrices, (20, 30), "bilinear", (0, 0, 0)))
    for t in range(3):
        warp = Warp(matrices[t : t + 1], (20, 30), "bilinear", (0, 0, 0))
        assert np.array_equal(result[t : t + 1], through(frames[:, t : t + 1], warp))


def test_points_that_do_not_exist_have_the_fill() -> None:
    matrix = np.array([[[1.0, 0, 0], [0, 1, 0], [0, 0, 0]]])
    for interpolation in ("nearest", "bilinear", "bicubic"):
        result = through(noise(1, 1, 4, 5), Warp(matrix, (4, 5), interpolation, (7, 8, 9)))  # type: ignore[arg-type]
        assert (result == np.array([7, 8, 9])[:, None, None]).all()


@given(seeds, st.booleans())
def test_erase_fills_boxes(seed: int, per_frame: bool) -> None:
    rng = np.random.default_rng(seed)
    frames = noise(1, 2, 9, 7, seed)
    boxes = rng.integers(0, 5, (2 if per_frame else 1, 3, 4)).astype(np.int32)
    expected = frames[0].numpy().copy()
    for t in range(2):
        for top, left, height, width in boxes[t if per_frame else 0]:
            expected[t, :, top : top + height, left : left + width] = np.array([0, 101, 255])[:, None, None]
    assert np.array_equal(through(frames, Erase(boxes, (0.2, 100.5, 255))), expected)


@pytest.mark.parametrize("seed", range(20))
def test_clips_do_not_know_of_each_other(seed: int) -> None:
    frames, programs = photos(5, 2, 16, 20, seed), random_programs(seed, 5, 2, (16, 20))
    together = apply_operations(frames, programs)
    for clip in range(5):
        alone = apply_operations(frames[clip : clip + 1], programs[clip : clip + 1])
        assert torch.equal(together[clip : clip + 1], alone)


@pytest.mark.parametrize("kind", KINDS)
def test_a_static_clip_stays_static(kind: str) -> None:
    frames = photos(1, 1, 20, 24).repeat(1, 5, 1, 1, 1)
    for seed in range(5):
        result = through(frames, random_operation(np.random.default_rng(seed), kind, 5, (20, 24), False))
        assert (result == result[:1]).all()


def test_a_function_gets_all_clips_that_have_come_to_it() -> None:
    calls: list[tuple[torch.Tensor, Mapping[str, Any]]] = []

    def function(frames: torch.Tensor, params: Mapping[str, npt.NDArray[Any]]) -> torch.Tensor:
        calls.append((frames.clone(), params))
        return complement_and_add(frames, params)

    def operation(amount: int) -> BatchFunction:
        return BatchFunction(function, {"amount": np.uint8(amount), "pair": np.array([amount, 2])})  # type: ignore[dict-item]

    frames = noise(4, 2, 5, 6)
    before = frames.clone()
    complement = Table(np.tile(np.arange(255, -1, -1, np.uint8), (1, 3, 1)))
    programs = [[operation(1)], [], [complement, operation(3), complement], [complement, complement, operation(4)]]
    result = apply_operations(frames, programs)
    assert len(calls) == 1
    assert torch.equal(calls[0][0], torch.stack([frames[0], 255 - frames[2], frames[3]]))
    assert calls[0][1]["amount"].tolist() == [1, 3, 4]
    assert calls[0][1]["pair"].tolist() == [[1, 2], [3, 2], [4, 2]]
    assert torch.equal(frames, before)
    assert torch.equal(
        result,
        torch.stack([256 - frames[0].int(), frames[1], 252 - frames[2].int(), 259 - frames[3].int()]).to(torch.uint8),
    )


@pytest.mark.parametrize("layout", get_args(Layout))
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float16, torch.bfloat16, torch.float32])
def test_finish_converts_normalises_and_lays_out(dtype: torch.dtype, layout: Layout) -> None:
    frames = noise(2, 3, 4, 5)
    mean, std = ((0.4, 0.5, 0.6), (0.2, 0.3, 0.25)) if dtype.is_floating_point else (None, None)
    output = OutputSpec(dtype, mean, std)
    expected = frames
    if mean and std:
        values = (frames.double() / 255 - torch.tensor(mean)[:, None, None]) / torch.tensor(std)[:, None, None]
        expected = values.to(dtype)
    expected = expected.permute(0, *("TCHW".index(axis) + 1 for axis in layout))
    result = apply_operations(frames, [(), ()], output, layout)
    assert result.is_contiguous()
    torch.testing.assert_close(result, expected, rtol=torch.finfo(dtype).eps if mean else 0, atol=1e-6 if mean else 0)
    programs = random_programs(0, 2, 3, (4, 5))
    at_once = apply_operations(frames, programs, output, layout)
    assert torch.equal(at_once, apply_operations(apply_operations(frames, programs), [(), ()], output, layout))


def test_nothing_to_do_gives_the_frames_themselves() -> None:
    frames = noise(2, 2, 3, 3)
    assert apply_operations(frames, [[], []]) is frames
    assert apply_operations(frames[:0], []).shape == (0, 2, 3, 3, 3)


@pytest.mark.parametrize(
    ("frames", "programs", "message"),
    [
        (noise(1, 1, 4, 4).float(), [[]], "torch.float32"),
        (noise(1, 1, 4, 4)[0], [[]], r"\[1, 3, 4, 4\]"),
        (noise(1, 1, 4, 4).transpose(3, 4), [[]], "contiguous"),
        (noise(2, 1, 4, 4), [[]], "the lists of operations must be 2, one a clip, got 1"),
        (noise(1, 3, 4, 4), [[Table(np.zeros((2, 3, 256), np.uint8))]], r"must be .*, got uint8 \[2, 3, 256\]"),
        (noise(1, 3, 4, 4), [[Table(np.zeros((1, 3, 255), np.uint8))]], "Table.values"),
        (noise(1, 3, 4, 4), [[ColorMatrix(np.zeros((1, 3, 4)))]], "ColorMatrix.matrix must be .*, got float64"),  # type: ignore[arg-type]
        (noise(1, 1, 4, 4), [[StatisticTable("median", ONE, False)]], "median"),  # type: ignore[arg-type]
        (noise(1, 1, 4, 4), [[Warp(np.eye(3)[None], (0, 4), "nearest", (0, 0, 0))]], r"\(0, 4\)"),
        (noise(1, 1, 4, 4), [[Warp(np.eye(3)[None], (4, 4), "lanczos", (0, 0, 0))]], "lanczos"),  # type: ignore[arg-type]
        (noise(2, 1, 4, 4), [[Warp(np.eye(3)[None], (2, 2), "nearest", (0, 0, 0))], []], "sizes"),
        (noise(1, 1, 4, 4), [[BatchFunction(lambda frames, params: frames[..., 1:])]], "lambda"),
        (noise(1, 1, 4, 4), [["blur"]], "blur"),
    ],
)  # fmt: skip
def test_what_cannot_be_carried_out_is_refused(frames: torch.Tensor, programs: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        apply_operations(frames, programs)


# What torchvision makes of the same pictures, recorded by references/record_operations.py.


def reference(name: str, operation: Operation, frames: npt.NDArray[Any] | None = None) -> int:
    source = torch.from_numpy(REFERENCES["input"] if frames is None else frames)[None]
    return distance(through(source, operation), REFERENCES[name])


@pytest.mark.parametrize("factor", [0.0, 0.4, 1.9])
def test_contrast_as_torchvision(factor: float) -> None:
    assert reference(f"contrast {factor}", StatisticTable("contrast", np.float32([factor]), True)) <= 1


def test_auto_contrast_and_equalize_as_torchvision() -> None:
    darker = REFERENCES["input"] // 2 + 30
    assert reference("auto_contrast", StatisticTable("auto_contrast", ONE, True), darker) <= 1
    assert reference("equalize", StatisticTable("equalize", ONE, True)) == 0


@pytest.mark.parametrize("factor", [-0.5, -0.2, 0.1, 0.37])
def test_hue_as_torchvision(factor: float) -> None:
    assert reference(f"hue {factor}", HueShift(np.float32([factor]))) <= 1


@pytest.mark.parametrize("factor", [0.0, 0.5, 1.9])
def test_sharpness_as_torchvision(factor: float) -> None:
    assert reference(f"sharpness {factor}", Sharpen(np.float32([factor]))) <= 1


def affine_matrix() -> npt.NDArray[np.float64]:
    """From output to input, of torchvision's affine(-23°, translate (2, -1), scale 1.2, shear (12°, -7°))."""
    angle, x, y = np.deg2rad([-23, 12, -7])
    sheared = np.array(
        [
            [np.cos(angle - y) / np.cos(y), -np.cos(angle - y) * np.tan(x) / np.cos(y) - np.sin(angle)],
            [np.sin(angle - y) / np.cos(y), -np.sin(angle - y) * np.tan(x) / np.cos(y) + np.cos(angle)],
        ]
    )
    forward, center = np.eye(3), np.array([[1, 0, 9], [0, 1, 7], [0, 0, 1.0]])
    forward[:2, :2] = 1.2 * sheared
    moved = center + np.array([[0, 0, 2], [0, 0, -1], [0, 0, 0]])
    return np.linalg.inv(moved @ forward @ np.linalg.inv(center))


def perspective_matrix() -> npt.NDArray[np.float64]:
    """From the end points of record_operations.py to its start points."""
    rows, values = [], []
    corners, moved = [[0, 0], [17, 0], [17, 13], [0, 13]], [[2.3, 1.2], [15.1, 3.4], [16.2, 12.1], [-1.3, 10.2]]
    for (u, v), (x, y) in zip(corners, moved, strict=True):
        rows += [[x, y, 1, 0, 0, 0, -u * x, -u * y], [0, 0, 0, x, y, 1, -v * x, -v * y]]
        values += [u, v]
    return np.append(np.linalg.solve(rows, values), 1).reshape(3, 3)


@pytest.mark.parametrize("interpolation", ["nearest", "bilinear"])
@pytest.mark.parametrize(
    ("name", "matrix"),
    [("rotate", rotation(14, 18, -17)), ("affine", affine_matrix()), ("perspective", perspective_matrix())],
)
def test_warps_as_torchvision(name: str, matrix: npt.NDArray[np.float64], interpolation: Any) -> None:
    def warp(fill: tuple[float, float, float]) -> Warp:
        return Warp(matrix[None], (14, 18), interpolation, fill)

    assert reference(f"{name} {interpolation} black", warp((0, 0, 0))) <= 2
    source = torch.from_numpy(REFERENCES["input"])[None]
    inside = through(torch.full_like(source, 255), warp((0, 0, 0)))
    fill = (250.0, 120.0, 10.0)
    result, expected = through(source, warp(fill)), REFERENCES[f"{name} {interpolation} fill"]
    unmixed = (inside == 0) | (inside == 255)  # where border and fill are mixed torchvision differs, see Warp
    assert unmixed.mean() > 0.5
    assert distance(result[unmixed], expected[unmixed]) <= 2
