"""Batches of image files made as columns equal those made from row objects."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from emulated_engines import EmulatedEngines, emulate
from image_files import encoded, picture
from kept_processes import KeptProcesses, kept_processes
from same_batches import assert_same_batches

import videoloader as vl
from videoloader.batching import image_rows
from videoloader.reading import process_pool

SIZES = [(48, 32), (64, 64), (31, 57), (90, 40), (33, 33)]
CROP = [vl.RandomResizedCrop(24), vl.RandomHorizontalFlip()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """JPEG files of several sizes and kinds of chroma, some of them turned."""
    path = tmp_path_factory.mktemp("images")
    for number in range(20):
        image = picture(number, SIZES[number % 5])
        exif = image.getexif()
        exif[0x0112] = number % 8 + 1
        (path / f"{number:02}.jpg").write_bytes(encoded(image, "JPEG", exif=exif, subsampling=number % 3))
    return path


@pytest.fixture
def data(folder: Path) -> vl.VideoDataset:
    return data_of(folder)


def data_of(folder: Path) -> vl.VideoDataset:
    paths = sorted(folder.iterdir())
    return vl.VideoDataset.from_paths(paths, [number % 3 for number in range(len(paths))])


@pytest.fixture(scope="module")
def processes() -> Iterator[KeptProcesses]:
    with kept_processes(2) as processes:
        yield processes


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch) -> EmulatedEngines:
    return emulate(monkeypatch)


def load(data: vl.VideoDataset, **settings: Any) -> vl.VideoLoader:
    defaults: dict[str, Any] = {"batch_size": 8, "device": "cpu", "num_workers": 2, "num_processes": 2, "seed": 3}
    return vl.VideoLoader(data, [0], **({"transforms": CROP, "shuffle": True, **defaults} | settings))


def epochs(data: vl.VideoDataset, **settings: Any) -> list[vl.Batch]:
    """Two epochs."""
    loader = load(data, **settings)
    return [batch for _ in range(2) for batch in loader]


def assert_same(data: vl.VideoDataset, **settings: Any) -> None:
    """Assert that batches are those of a loader without engines and columns, to the last bit."""
    given = epochs(data, **settings)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(image_rows, "uses_jpeg_engines", lambda device, decode: False)
        expected = epochs(data, **(settings | {"num_processes": 0}))
    assert_same_batches(given, expected)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"layout": "THWC", "last_batch": "fill"},
        {"transforms": [*CROP, vl.Normalize()], "dtype": "float16", "layout": "CTHW", "repeats": 2},
        {"transforms": [vl.FiveCrop(24)], "batch_size": 10},
    ],
    ids=["plain", "filled", "float16 and repeats", "views"],
)
def test_batches_are_those_of_rows_one_by_one(
    data: vl.VideoDataset, engines: EmulatedEngines, by_columns: list[int], settings: dict[str, Any]
) -> None:
    assert_same(data, **settings)
    assert len(engines.made) >= 40
    assert len(by_columns) == 2 * len(load(data, **settings))


@pytest.mark.usefixtures("engines", "by_columns")
def test_processes_give_the_same(
    data: vl.VideoDataset, processes: KeptProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    processes.share(monkeypatch)
    loader, answered = load(data), []
    do = process_pool._Process.do

    def counted(process: Any, *arguments: Any) -> Any:
        answered.append(do(process, *arguments))
        return answered[-1]

    monkeypatch.setattr(process_pool._Process, "do", counted)
    given = list(loader)
    assert answered
    assert_same_batches(given, load(data, num_processes=0))


@pytest.mark.parametrize("damaged", [False, True])
def test_processes_on_the_cpu_give_the_same(
    folder: Path,
    tmp_path: Path,
    processes: KeptProcesses,
    by_columns: list[int],
    monkeypatch: pytest.MonkeyPatch,
    damaged: bool,
) -> None:
    processes.share(monkeypatch)
    for path in folder.iterdir():
        shutil.copy(path, tmp_path)
    picture(3).save(tmp_path / "03.png")
    if damaged:
        (tmp_path / "05.jpg").write_bytes((folder / "05.jpg").read_bytes()[:-80])
        (tmp_path / "14.jpg").write_bytes(b"nothing")
    data = data_of(tmp_path)
    settings: dict[str, Any] = {"shuffle": False, "on_error": "skip", "batch_size": 7}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", vl.VideoLoaderWarning)
        given = list(load(data, **settings))
        # A batch is made by columns if each of its jobs finds a process, of which there are two.
        assert len(by_columns) >= 3 - 2 * damaged
        assert_same_batches(given, load(data, num_processes=0, **settings))
    assert len(given) == 3


@pytest.mark.parametrize(
    "settings",
    [{"transforms": [*CROP, vl.RandAugment(1, 5)]}, {"transforms": [*CROP, vl.MixUp(0.2, num_classes=3)]}],
    ids=["pixels", "mixing"],
)
def test_what_is_done_to_finished_rows_needs_objects(
    data: vl.VideoDataset, engines: EmulatedEngines, by_columns: list[int], settings: dict[str, Any]
) -> None:
    assert_same(data, **settings)
    assert not by_columns


def test_only_a_batch_with_another_kind_of_file_has_objects(
    folder: Path, tmp_path: Path, engines: EmulatedEngines, by_columns: list[int]
) -> None:
    for path in folder.iterdir():
        shutil.copy(path, tmp_path)
    (tmp_path / "03.jpg").unlink()
    picture(3).save(tmp_path / "03.png")
    data = data_of(tmp_path)
    assert_same(data, shuffle=False)
    assert by_columns == [8, 4] * 2


def test_what_the_engines_refuse_is_made_otherwise(
    data: vl.VideoDataset, engines: EmulatedEngines, by_columns: list[int]
) -> None:
    engines.refused.add(Path(data.paths[12]).stat().st_size)
    assert_same(data, shuffle=False)
    assert by_columns == [8, 4] * 2


def test_errors_are_those_of_rows_one_by_one(
    folder: Path, tmp_path: Path, engines: EmulatedEngines, by_columns: list[int]
) -> None:
    for path in folder.iterdir():
        shutil.copy(path, tmp_path)
    (tmp_path / "05.jpg").write_bytes((folder / "05.jpg").read_bytes()[:-80])
    (tmp_path / "14.jpg").write_bytes(b"nothing")
    data = data_of(tmp_path)
    with pytest.raises(vl.VideoLoaderError, match=r"05\.jpg.*cut off"):
        list(load(data, shuffle=False))
    for on_error in ("skip", "replace"):
        with pytest.warns(vl.VideoLoaderWarning, match="clips of 2 files cannot be made"):
            assert_same(data, shuffle=False, on_error=on_error)
    # The last batch, in which all is well, may be made before the first one's error is raised.
    assert by_columns in ([4] * 4, [4] * 5)


def test_an_error_of_the_engines_falls_upon_each_file_by_itself(
    data: vl.VideoDataset, engines: EmulatedEngines, by_columns: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: EmulatedEngines, *arguments: Any) -> Any:
        raise vl.DecodeError("no memory")

    monkeypatch.setattr(EmulatedEngines, "make", fail)
    with pytest.raises(vl.DecodeError, match="no memory"):
        list(load(data))
    # Where it can be remedied, each file is tried by itself, which here is done by the CPU.
    assert_same(data, on_error="skip")
    assert not by_columns


def test_sizes_other_than_expected_are_arranged_again(tmp_path: Path, engines: EmulatedEngines) -> None:
    for number, size in enumerate([(48, 32), (31, 57), (31, 57), (31, 57)]):
        (tmp_path / f"{number}.jpg").write_bytes(encoded(picture(number, size), "JPEG"))
    data = data_of(tmp_path)
    loader = load(data[1:], transforms=None, batch_size=3)
    assert next(iter(loader)).frames.shape == (3, 1, 3, 57, 31)
    with pytest.raises(vl.ConfigurationError, match="clips of one batch have frames of"):
        list(load(data, transforms=None, batch_size=4, shuffle=False))


def test_clips_that_are_looked_at_one_by_one_have_objects(
    data: vl.VideoDataset, engines: EmulatedEngines, by_columns: list[int]
) -> None:
    with_columns = vl.VideoDataset([vl.VideoEntry(e.path, e.label, columns={"night": 1}) for e in data])
    for other in (with_columns, data.with_times("pts")):
        assert_same(other)
    assert_same(data, collate="list")
    assert not by_columns


def test_enough_is_made_ahead_for_lists_of_every_process(data: vl.VideoDataset, engines: EmulatedEngines) -> None:
    assert load(data, num_workers=4, num_processes=4, batch_size=8)._prefetch == 4 * 4 * 64 // 8
    assert load(data, num_workers=4, num_processes=4, batch_size=8, prefetch=3)._prefetch == 3
    assert load(data, num_workers=4, num_processes=0, batch_size=8)._prefetch == 2
