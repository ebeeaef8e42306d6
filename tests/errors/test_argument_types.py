"""Messages about arguments of a wrong type."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch

import videoloader as vl
from videoloader.errors import ArgumentError
from videoloader.errors.argument_names import argument_of_wrong_type, tells_of_arguments


@tells_of_arguments
def draw(
    scale: tuple[float, float] = (0.5, 1.0),
    count: int | None = None,
    paths: Sequence[str | os.PathLike[str]] = (),
    report: Callable[[int], object] = print,
    mode: Literal["a", "b"] = "a",
    columns: Mapping[str, str] | None = None,
    index: vl.VideoIndex | None = None,
    anything: Any = 0,
) -> None:
    raise OSError("something else")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"scale": 0.5}, r"draw's scale must be \(number, number\), got 0.5: such as scale=\(0.5, 1.0\)"),
        ({"scale": (1, 2, 3)}, r"scale must be \(number, number\), got \(1, 2, 3\)"),
        ({"scale": ("a", 1)}, r"scale must be \(number, number\), got \('a', 1\)"),
        ({"count": "3"}, "count must be an integer or None, got '3'"),
        ({"count": True}, "count must be an integer or None, got True"),
        ({"paths": "abc"}, "paths must be a list, got 'abc'"),
        ({"report": True}, "report must be a function, got True"),
        ({"mode": "c"}, "mode must be one of a, b, got 'c': such as mode='a'"),
        ({"columns": ["x"]}, r"columns must be a dict or None, got \['x'\]"),
        ({"index": "x.db"}, "index must be a VideoIndex or None, got 'x.db'"),
    ],
)
def test_the_argument_is_named(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(ArgumentError, match=says) as raised:
        draw(**arguments)
    assert "\n" not in str(raised.value)
    assert isinstance(raised.value.__cause__, OSError)


@pytest.mark.parametrize(
    "arguments",
    [{}, {"scale": [1, 2]}, {"scale": np.ones(2)}, {"count": np.int64(3)}, {"paths": ("a", "b")}, {"anything": "x"}],
)
def test_other_errors_stay_as_they_are(arguments: dict[str, Any]) -> None:
    with pytest.raises(OSError, match="something else"):
        draw(**arguments)


def test_errors_of_the_library_stay_as_they_are() -> None:
    @tells_of_arguments
    def read(path: str) -> None:
        raise vl.SourceError("is empty", "a.mp4")

    with pytest.raises(vl.SourceError, match="is empty"):
        read(3)  # type: ignore[arg-type]


def test_types_that_only_type_checkers_know_are_not_judged() -> None:
    def read(path: NotThere) -> None:  # type: ignore[name-defined]  # noqa: F821
        pass

    assert argument_of_wrong_type(read, (3,), {}) is None


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: vl.FolderSource(1), "FolderSource's path must be a string or a Path, got 1"),  # type: ignore[arg-type]
        (lambda: vl.IndexStore(None), "IndexStore's path must be a string or a Path, got None"),  # type: ignore[arg-type]
        (lambda: vl.Video("a.mp4", device=None), "Video's device must be a string or a device, got None"),  # type: ignore[arg-type]
    ],
)
def test_constructors_say_it(call: Callable[[], object], says: str) -> None:
    with pytest.raises(ArgumentError, match=says):
        call()


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.uint32, np.uint64])
def test_integers_of_numpy_become_those_of_python(kind: type, sample: Callable[[str], Path]) -> None:
    @tells_of_arguments
    def types(*args: object, **arguments: object) -> list[type]:
        return [type(each) for each in (*args, *arguments.values())]

    assert types(kind(2), "a", b=kind(3), c=True) == [int, str, int, bool]
    data = vl.VideoDataset.from_paths([sample("h264_mp4")] * 4)
    loader = vl.VideoLoader(data, [0], batch_size=kind(3), device="cpu", num_workers=kind(0))
    assert [len(batch) for batch in loader] == [3, 1]
    assert repr(vl.RandomWindow(kind(4))) == repr(vl.RandomWindow(4))


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: vl.RandomWindow(2, stride=10**5000), "RandomWindow's stride must be … 64 bits, got one of 16610"),
        (
            lambda: vl.RandomWindow(2, stride=2**62),
            "stride must be an integer in …1, 16777216…",
        ),
        (lambda: vl.RandomHorizontalFlip(p=10**400), "RandomHorizontalFlip's p must be an integer of at most 64 bits"),
        (
            lambda: vl.RandomWindow(4, clips=[10**5000]),
            "clips must be a positive integer, got .an integer of 16610 bits",
        ),
        (lambda: vl.Reverse((1, 10**5000)), "Reverse's p must be a number in .0, 1., got .1, an integer of 16610 bits"),
        (lambda: vl.IndexStore([10**5000]), "IndexStore's path must be a string or a Path, got .an integer of 16610"),
        (lambda: vl.Rotate(1, fill=(10**400, 0, 0)), "Rotate's fill must be one or three numbers in"),
        (lambda: vl.Rotate(1, fill=range(10**12)), "Rotate's fill must be one or three numbers in"),
        (lambda: vl.Rotate((0, 10**400)), "Rotate's degrees must be a finite number"),
        (lambda: vl.verify("clip.mp4", seed=2**64), "seed must be an integer in …0, 2…64…, got 18446744073709551616"),
        (lambda: vl.verify("clip.mp4", seed=range(10**12)), "seed must be an integer in"),
    ],
)
def test_integers_have_bounds(call: Callable[[], object], says: str) -> None:
    with pytest.raises(vl.ConfigurationError, match=says.replace("…", ".*")):
        call()


class NoPath:
    """A path-like whose path is a number."""

    def __fspath__(self) -> int:
        return 3


class NoLength(list):
    """A list of less than nothing."""

    def __len__(self) -> int:
        return -1


class OddPad:
    """A frame mode whose padding mode is an array."""

    pad = np.array([0, 1])

    def num_clips(self, video: vl.VideoInfo) -> int:
        return 1

    def frame_numbers(self, video: vl.VideoInfo, clip: int, rng: np.random.Generator) -> np.ndarray:
        return np.array([0])


def within_itself() -> list[object]:
    made: list[object] = []
    made.append(made)
    return made


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda path: vl.VideoDataset.from_paths([NoPath()]), "paths.0. must be a string or a Path"),
        (lambda path: vl.VideoDataset.from_archives([NoPath()]), "archives.0. must be a string or a Path"),
        (lambda path: vl.VideoDataset.from_archives(map(int, "12")), "archives.0. must be a string or a Path, got 1"),
        (lambda path: vl.Video(NoPath()), "source must be a string or a Path"),
        (lambda path: vl.IndexStore(NoPath()), "IndexStore's path must be a string or a Path"),
        (lambda path: vl.VideoDataset.from_folder(path, extensions=(1, 2)), r"extensions\[0\] must be a string, got 1"),
        (
            lambda path: vl.VideoDataset.from_paths(["a"], [0], class_names=torch.tensor(1)),
            "class_names must be a list",
        ),
        (lambda path: vl.VideoDataset.from_paths(["a"], [0], class_names=NoLength()), "class_names must be a list"),
        (lambda path: vl.VideoDataset(NoLength()), "entries must be a list"),
        (
            lambda path: vl.VideoDataset.from_folder(path, extensions=torch.zeros(2)),
            "extensions must be a list of file",
        ),
        (lambda path: vl.VideoDataset.from_folder(path, extensions=np.array([])), "extensions must be a list of file"),
        (lambda path: vl.Rotate((Decimal(1), Decimal(2))), "Rotate's degrees must be a finite number, or a range"),
        (lambda path: vl.transforms.Linear(Decimal("0.5"), 1.0), "Linear's ends must be finite numbers"),
        (lambda path: vl.transforms.Linear(torch.tensor(0.5), 1.0), "Linear's ends must be finite numbers"),
        (lambda path: vl.FileReport.from_dict({}), "this is no result of to_dict"),
        (lambda path: vl.Crop(memoryview(b"abc")), "size must be a positive integer"),
        (lambda path: vl.RandomCrop(torch.eye(2).to_sparse()), "size must be .* got torch.float32 of shape"),
        (lambda path: vl.Rotate(torch.empty(2, device="meta")), "degrees must be .* got torch.float32 of shape"),
        (lambda path: vl.RandomChoice([[vl.Invert()]], p=within_itself()), "p must be 1 finite weights"),
        (lambda path: vl.Video(path).read([0], transforms=torch.tensor(1)), "transforms must be a list of transforms"),
        (lambda path: vl.Video(path).read([0], transforms=np.array([None, "x"], object)), "number 0 of the transforms"),
        (lambda path: vl.Video(path).read_clips(OddPad()), "pad must be one of none, edge"),
        (lambda path: vl.Video(path)[np], "the index of a video must be an integer, .* got <module 'numpy'"),
        (lambda path: vl.build_store([path], f"{path}.db", prune="False"), "prune must be True or False, got 'False'"),
    ],
)
def test_odd_arguments_are_refused(call: Callable[[Path], object], says: str, sample: Callable[[str], Path]) -> None:
    with pytest.raises(vl.ConfigurationError, match=says):
        call(sample("h264_mp4"))
