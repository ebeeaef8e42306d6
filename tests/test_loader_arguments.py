"""The data sets, modes, transforms and dtypes that the loader accepts, and its messages about others."""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import videoloader as vl
from videoloader.errors import ArgumentError
from videoloader.interop.torch import DecodingLoader

Sample = Callable[[str], Path]
SMALL = vl.Resize((16, 24))


@pytest.fixture(scope="module")
def data(sample: Sample) -> vl.VideoDataset:
    return vl.VideoDataset.from_paths([sample("h264_mp4"), sample("vp9_webm")])


def make(data: Any, mode: Any = (0, 1), **settings: Any) -> vl.VideoLoader:
    return vl.VideoLoader(data, mode, **({"batch_size": 2, "device": "cpu", "transforms": SMALL} | settings))


def first(data: Any, mode: Any = (0, 1), **settings: Any) -> torch.Tensor:
    return next(iter(make(data, mode, **settings))).frames


@pytest.mark.parametrize("mode", [[3, 0, 5], (3, 0, 5), np.array([3, 0, 5])])
def test_a_list_of_frame_numbers_is_a_mode(data: vl.VideoDataset, mode: Any) -> None:
    batch = next(iter(make(data, mode)))
    assert batch.frame_numbers.tolist() == [[3, 0, 5]] * 2
    assert make(data, mode).state_dict() == make(data, vl.FrameList([3, 0, 5])).state_dict()


def test_transforms_are_a_list_or_one_or_none_or_a_compose(data: vl.VideoDataset) -> None:
    expected = first(data, transforms=[SMALL])
    assert torch.equal(first(data, transforms=SMALL), expected)
    assert torch.equal(first(data, transforms=vl.Compose([SMALL])), expected)
    assert torch.equal(first(data[:1], transforms=None), first(data[:1], transforms=[]))
    assert first(data, transforms=vl.Compose([SMALL], dtype="float16")).dtype == torch.float16
    assert first(data, transforms=vl.Compose([SMALL], dtype="float16"), dtype="float32").dtype == torch.float32
    with pytest.raises(vl.ConfigurationError, match="Compose has a layout: write layout= beside"):
        make(data, transforms=vl.Compose([SMALL], layout="CTHW"))


@pytest.mark.parametrize(
    ("transforms", "dtype", "expected"),
    [
        ([SMALL], None, torch.uint8),
        ([SMALL, vl.Normalize()], None, torch.float32),
        ([SMALL, vl.ToFloat()], None, torch.float32),
        ([SMALL, vl.ToFloat("bfloat16")], None, torch.bfloat16),
        ([SMALL, vl.Normalize()], "float16", torch.float16),
        ([SMALL], torch.float32, torch.float32),
        ([SMALL], np.float32, torch.float32),
        ([SMALL], np.dtype("float16"), torch.float16),
        ([SMALL], np.uint8, torch.uint8),
    ],
)
def test_the_dtype_is_the_one_given_or_follows_the_transforms(
    data: vl.VideoDataset, transforms: Any, dtype: Any, expected: torch.dtype
) -> None:
    assert first(data, transforms=transforms, dtype=dtype).dtype == expected


@pytest.mark.parametrize(
    ("transforms", "dtype", "says"),
    [
        ([vl.Normalize()], "uint8", "Normalize makes float32, but dtype is uint8: leave dtype out"),
        ([vl.Normalize()], torch.uint8, "Normalize makes float32, but dtype is uint8: leave dtype out"),
        ([vl.ToFloat()], "uint8", "ToFloat makes float32, but dtype is uint8: leave dtype out"),
        ([vl.ToFloat("float16")], "float32", "ToFloat makes float16, but dtype is float32: leave dtype out"),
        ([], np.float64, "dtype must be one of uint8, float16, bfloat16, float32, got 'float64'"),
        ([], float, "dtype must be one of .*, got 'float'"),
    ],
)
def test_a_dtype_that_contradicts_is_refused(data: vl.VideoDataset, transforms: Any, dtype: Any, says: str) -> None:
    with pytest.raises(vl.ConfigurationError, match=says):
        make(data, transforms=transforms, dtype=dtype)
    with pytest.raises(vl.ConfigurationError, match=says):
        vl.Compose(transforms, dtype=dtype)


def test_lists_and_arrays_are_taken_where_tuples_are(data: vl.VideoDataset) -> None:
    half = np.full(3, 0.5, np.float32)
    given = [vl.RandomResizedCrop([16, 24], scale=[0.5, 1.0]), vl.Normalize(mean=half, std=torch.tensor([0.5] * 3))]
    meant = [vl.RandomResizedCrop((16, 24), scale=(0.5, 1.0)), vl.Normalize(mean=(0.5,) * 3, std=(0.5,) * 3)]
    assert given == meant
    assert [hash(each) for each in given] == [hash(each) for each in meant]
    assert torch.equal(first(data, transforms=given), first(data, transforms=meant))
    assert vl.Resize(np.int64(32)) == vl.Resize(32)


@dataclass(frozen=True, eq=False)
class OwnCurve(vl.PixelTransform):
    table: np.ndarray

    def draw(self, rng: np.random.Generator, clip: vl.ClipInfo) -> list[Any]:
        return []


def test_an_array_in_a_transform_of_ones_own_stays_an_array() -> None:
    table = np.arange(256)
    assert OwnCurve(table).table is table


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (
            lambda: vl.Normalize([123.7, 116.3, 103.5], [58.4, 57.1, 57.4]),
            r"must be three values in \[0, 1\], got .*: divide both",
        ),
        (lambda: vl.Normalize([0.5], [0.5]), r"Normalize's mean must be three numbers, for R, G and B, got \(0.5,\)"),
        (lambda: vl.Normalize(std=0.5), "Normalize's std must be three numbers"),
        (lambda: vl.Resize("32"), r"Resize's size must be a positive integer or \(height, width\), got '32'"),
        (lambda: vl.CenterCrop(2.5), r"CenterCrop's size must be a positive integer or \(height, width\), got 2.5"),
        (lambda: vl.Pad([1, 2, 3]), r"Pad's size must be a positive integer or \(height, width\), got \(1, 2, 3\)"),
    ],
)
def test_values_of_transforms_that_cannot_be_meant(call: Callable[[], object], says: str) -> None:
    with pytest.raises(vl.ConfigurationError, match=says):
        call()


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"data": "videos"}, r'got \'videos\': write VideoDataset.from_folder\("videos"\)'),
        ({"data": Path("videos")}, r'write VideoDataset.from_folder\("videos"\)'),
        ({"data": ["a.mp4"]}, r"got \['a.mp4'\]: make it with VideoDataset.from_paths"),
        (
            {"data": torch.utils.data.Subset([1, 2], [0])},
            r"must be a VideoDataset, got .*: write data\[subset.indices\]",
        ),
        ({"mode": 16}, r"mode must be a frame mode, such as RandomWindow\(16, stride=4\), .*, got 16"),
        ({"mode": "random"}, "mode must be a frame mode, .*, got 'random'"),
        ({"mode": vl.RandomWindow}, "mode must be a frame mode, .*, got the class RandomWindow"),
        ({"transforms": 3}, "transforms must be a list of transforms, got 3"),
        ({"transforms": vl.Resize}, "transforms must be a list of transforms, got <class"),
        ({"transforms": [vl.HorizontalFlip]}, r"number 0 of the transforms is .*: write HorizontalFlip\(…\)"),
        ({"transforms": [lambda x: x]}, r"number 0 of the transforms is .*: write Module\(f\) for a function"),
        ({"shuffle": "yes"}, "shuffle must be True, False, an order .*, got 'yes'"),
    ],
)
def test_what_cannot_be_meant_is_told_in_one_line(data: vl.VideoDataset, settings: dict[str, Any], says: str) -> None:
    with pytest.raises(vl.ConfigurationError, match=says):
        make(settings.pop("data", data), settings.pop("mode", [0]), **settings)


def test_a_loader_is_iterated_and_nothing_else(data: vl.VideoDataset) -> None:
    loader: Any = make(data)
    for wrong in (lambda: next(loader), lambda: loader[0]):
        with pytest.raises(ArgumentError, match=r"next\(iter\(loader\)\)"):
            wrong()


def test_what_only_nvdec_uses_is_warned_of_on_the_cpu(data: vl.VideoDataset) -> None:
    for settings, names in (({"gop_cache": 1}, "gop_cache"), ({"gop_cache": 1, "cpu_workers": 2}, "gop_cache and cpu")):
        with pytest.warns(
            UserWarning, match=rf"{names}.* ha(s|ve) no effect with device 'cpu': this applies only where NVDEC"
        ):
            make(data, **settings)
        with pytest.warns(UserWarning, match=f"{names}.* ha(s|ve) no effect"):
            DecodingLoader([], device="cpu", **settings)
    with warnings.catch_warnings(action="error"):
        make(data, gop_cache=0, cpu_workers=0)


def test_ycbcr_is_not_normalised_as_rgb(data: vl.VideoDataset) -> None:
    with pytest.raises(vl.ConfigurationError, match=r"Normalize\(\) has mean and std of RGB, but color is 'ycbcr'"):
        make(data, transforms=[vl.Normalize()], color="ycbcr")
    make(data, transforms=[vl.Normalize((0.5, 0.5, 0.5), (0.2, 0.2, 0.2))], color="ycbcr")


@pytest.mark.parametrize("copied", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_loader_stays_in_its_process(data: vl.VideoDataset, copied: Callable[[object], object]) -> None:
    for loader in (make(data), DecodingLoader([], device="cpu")):
        with pytest.raises(ArgumentError, match=r"neither copied nor pickled: make one in .*state_dict\(\)"):
            copied(loader)


def test_batches_that_would_all_be_dropped_are_an_error(data: vl.VideoDataset) -> None:
    settings: dict[str, Any] = {"batch_size": 4, "last_batch": "drop", "num_shards": 3, "shard_id": 0}
    with pytest.raises(vl.ConfigurationError, match=r"'drop' leaves no batch: 2 clips for 3 ranks with batch_size=4"):
        make(data, **settings)


def test_a_batch_has_a_length_and_attributes(data: vl.VideoDataset) -> None:
    batch: Any = next(iter(make(data)))
    assert len(batch) == 2

    def unpack() -> None:
        _frames, _labels = batch

    for wrong in (lambda: batch[0], lambda: batch["video"], unpack):
        with pytest.raises(ArgumentError, match=r"write batch.frames, batch.labels"):
            wrong()
