"""Image files in a loader are not opened before they are decoded, with the same results."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from image_files import encoded, picture, write_frames
from range_server import serve
from same_batches import assert_same_batches
from sample_videos import RECIPES, Recipe, write_video

import videoloader as vl
from videoloader.batching import clip_plan
from videoloader.order import clip_table, video_range
from videoloader.reading import process_pool

Sample = Callable[[str], Path]
SIZES = [(48, 32), (64, 64), (31, 57), (90, 40), (48, 32), (33, 33)]
CROP = [vl.RandomResizedCrop(24), vl.RandomHorizontalFlip()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Images of several sizes and kinds, some of them turned."""
    path = tmp_path_factory.mktemp("images")
    for number, size in enumerate(SIZES * 3):
        image, name = picture(number, size), path / f"{number:02}"
        exif = image.getexif()
        exif[0x0112] = number % 8 + 1
        kind = ("jpg", "png", "JPEG")[number % 3]
        image.save(f"{name}.{kind}", exif=exif)
    return path


@pytest.fixture
def data(folder: Path) -> vl.VideoDataset:
    paths = sorted(folder.iterdir())
    return vl.VideoDataset.from_paths(paths, [number % 3 for number in range(len(paths))])


def load(data: vl.VideoDataset, mode: Any = (0,), **settings: Any) -> vl.VideoLoader:
    defaults: dict[str, Any] = {"batch_size": 5, "device": "cpu", "num_workers": 2, "seed": 3, "shuffle": True}
    return vl.VideoLoader(data, mode, **(defaults | {"transforms": CROP} | settings))


def opened(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have loaders open all files before the first batch, as those of videos do."""
    monkeypatch.setattr(clip_table, "taken_as_images", lambda data, mode: np.zeros(len(data), np.bool_))


def same_as_opened(monkeypatch: pytest.MonkeyPatch, data: vl.VideoDataset, *arguments: Any, **settings: Any) -> None:
    loader = load(data, *arguments, **settings)
    given = list(loader)
    with monkeypatch.context() as patch:
        opened(patch)
        other = load(data, *arguments, **settings)
        expected = list(other)
        assert loader.state_dict()["fingerprint"] == other.state_dict()["fingerprint"]
    assert_same_batches(given, expected)


class Halve(vl.PixelTransform):
    """A transform of the program's own."""

    def draw(self, rng: np.random.Generator, clip: vl.ClipInfo) -> list[Any]:
        return vl.Brightness((0.5, 0.5)).draw(rng, clip) if rng.random() < 0.5 else []

    def __repr__(self) -> str:
        # Names of tests must be those of every process that collects them: no address.
        return "Halve()"


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"num_workers": 0},
        {"transforms": [*CROP, vl.Normalize()], "layout": "CTHW", "dtype": "float16"},
        {"transforms": [*CROP, vl.ColorJitter(0.4), vl.RandomErasing()]},
        {"transforms": [vl.Resize(30), vl.FiveCrop(24)], "layout": "THWC"},
        {"repeats": 2, "transforms": [*CROP, vl.RandAugment()]},
        {"transforms": [*CROP, Halve()]},
        {"transforms": [], "collate": "list"},
        {"transforms": [vl.Resize(16)], "collate": "list"},
        {"transforms": [vl.Letterbox(40)], "fill_value": 9},
        {"transforms": [*CROP, vl.MixUp(0.8, num_classes=3)]},
        {"last_batch": "fill", "num_shards": 4, "shard_id": 3},
    ],
    ids=str,
)
def test_batches_are_those_of_files_that_were_opened_before(
    data: vl.VideoDataset, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    same_as_opened(monkeypatch, data, **settings)


@pytest.mark.parametrize(
    "mode", [vl.RandomWindow(3, pad="edge"), vl.EveryWindow(2, pad="constant"), vl.WholeVideo(), vl.AtRate(2, 2)]
)
def test_any_mode_takes_an_image_for_a_video_of_one_frame(
    data: vl.VideoDataset, mode: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    same_as_opened(monkeypatch, data, mode)


def test_images_stand_beside_videos(
    data: vl.VideoDataset, sample: Sample, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    frames = write_frames(tmp_path / "frames.png", ["1.png", "2.png"])
    videos = vl.VideoDataset.from_paths([sample("h264_mp4"), sample("vp9_webm"), frames, f"{frames}/?.png"])
    for transforms in (CROP, [vl.CenterCrop(16)]):
        same_as_opened(monkeypatch, data[:8] + videos[[0, 1, 3]], transforms=transforms)


def test_files_of_one_size_need_no_transform(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = write_frames(tmp_path, [f"{number}.png" for number in range(7)])
    same_as_opened(monkeypatch, vl.VideoDataset.from_folder(files, extensions=["png"]), transforms=())


def test_batches_of_other_sizes_than_expected_are_made_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sample: Sample
) -> None:
    write_frames(tmp_path, ["0.png", "1.png", "2.png"])
    write_frames(tmp_path, ["3.png", "4.png", "5.png"], size=(64, 48))
    (tmp_path / "6.png").write_bytes(b"no image")
    data = vl.VideoDataset.from_folder(tmp_path, extensions=["png"])
    settings: dict[str, Any] = {"transforms": (), "batch_size": 3, "shuffle": False}
    same_as_opened(monkeypatch, data[:6], **settings)
    with pytest.warns(UserWarning, match="1 file"):
        batches = list(load(data[3:], **settings | {"on_error": "skip", "batch_size": 4}))
    assert [len(batch) for batch in batches] == [3]
    with pytest.raises(vl.ConfigurationError, match=r"frames of \[\(1, 32, 48\), \(1, 48, 64\)\]"):
        next(iter(load(data[[2, 3]], **settings)))


def test_no_file_is_opened_for_its_length(data: vl.VideoDataset, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    real = clip_plan.read_unopened

    def watched(path: str) -> Any:
        read.append(path)
        return real(path)

    for module in (clip_plan, video_range):
        monkeypatch.setattr(module, "read_unopened", watched)
    loader = load(data, num_workers=0, shuffle=False)
    assert len(loader) == -(-len(data) // 5)
    assert read == []
    list(loader)
    assert read == [data.paths[0], *data.paths]


@pytest.fixture
def broken(folder: Path, tmp_path: Path) -> vl.VideoDataset:
    """The images, of which one is no image, one is cut off, one is a folder, and one is not there."""
    paths = [shutil.copy(path, tmp_path / path.name) for path in sorted(folder.iterdir())]
    Path(paths[1]).write_bytes(b"no image")
    Path(paths[3]).write_bytes(Path(paths[3]).read_bytes()[:-30])
    os.remove(paths[6])
    os.remove(paths[8])
    write_frames(Path(paths[8]), ["1.png", "2.png"])
    return vl.VideoDataset.from_paths(paths)


BROKEN = [1, 3, 6, 8]


def test_an_unreadable_file_is_the_error_of_its_batch(broken: vl.VideoDataset) -> None:
    loader = load(broken, shuffle=False, batch_size=1)
    assert len(loader) == len(broken)
    batches = iter(loader)
    assert next(batches).rows.tolist() == [0]
    with pytest.raises(vl.VideoLoaderError, match=f"^{broken.paths[1]}: "):
        next(batches)
    assert loader.state_dict()["dealt"].endswith("1")


@pytest.mark.parametrize("workers", [0, 2])
def test_unreadable_files_are_left_out_when_they_are_met(broken: vl.VideoDataset, workers: int) -> None:
    loader = load(broken, on_error="skip", num_workers=workers)
    assert (len(loader), loader.unreadable) == (4, [])
    with pytest.warns(UserWarning, match="4 files"):
        rows = [row for batch in loader for row in batch.rows.tolist()]
    assert sorted(rows) == [row for row in range(len(broken)) if row not in BROKEN]
    assert sorted(path for path, _ in loader.unreadable) == [broken.paths[row] for row in BROKEN]
    assert loader.stats().skipped == 4


def test_others_stand_in_for_unreadable_files(broken: vl.VideoDataset) -> None:
    with pytest.warns(UserWarning, match="4 files"):
        batches, again = ([*load(broken, on_error="replace", num_workers=count)] for count in (2, 1))
    assert_same_batches(batches, again)
    rows = np.concatenate([batch.rows for batch in batches])
    assert len(rows) == len(broken)
    assert not set(rows.tolist()) & set(BROKEN)
    assert np.concatenate([batch.repeated for batch in batches]).sum() == 4


def test_what_only_seems_to_be_an_image_is_told(tmp_path: Path, sample: Sample) -> None:
    for name, told in [("clip.jpg", "has 60 frames, but its name"), ("folder.png", "is a folder, but its name")]:
        if name == "clip.jpg":
            shutil.copy(sample("h264_mp4"), tmp_path / name)
        else:
            write_frames(tmp_path / name, ["1.png"])
        with pytest.raises(vl.UnsupportedError, match=told):
            list(load(vl.VideoDataset.from_paths([tmp_path / name])))


def test_one_frame_of_any_kind_will_do(data: vl.VideoDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = Recipe("mp4", "libx264", RECIPES["h264_mp4"].options, size=(96, 64), frames=1)
    write_video(tmp_path / "clip.mp4", recipe).rename(tmp_path / "clip.jpg")
    same_as_opened(monkeypatch, data[:4] + vl.VideoDataset.from_paths([tmp_path / "clip.jpg"]))


def test_rows_that_tell_of_frames_are_opened(tmp_path: Path, sample: Sample) -> None:
    shutil.copy(sample("h264_mp4"), tmp_path / "clip.jpg")
    data = vl.VideoDataset([vl.VideoEntry(str(tmp_path / "clip.jpg"), start=2, stop=4)])
    (batch,) = load(data, vl.WholeVideo())
    assert batch.frame_numbers.tolist() == [[2, 3]]


def test_a_damaged_image_is_marked_or_an_error(tmp_path: Path) -> None:
    file = bytearray(encoded(picture(1, (96, 96)), "JPEG", quality=95))
    middle = file.index(b"\xff\xda") + 700
    file[middle : middle + 40] = b"\xff\xd1" * 20
    (tmp_path / "bad.jpg").write_bytes(file)
    write_frames(tmp_path, ["good.jpg"])
    data = vl.VideoDataset.from_paths([tmp_path / "bad.jpg", tmp_path / "good.jpg"])
    with pytest.warns(vl.CorruptFramesWarning):
        (batch,) = load(data, shuffle=False)
    assert batch.corrupt.tolist() == [[True], [False]]
    with pytest.raises(vl.CorruptFramesError, match=r"bad\.jpg"):
        list(load(data, on_corrupt="raise"))
    with pytest.warns(UserWarning, match="1 file"):
        assert [batch.rows.tolist() for batch in load(data, on_corrupt="skip")] == [[1]]


@pytest.mark.usefixtures("in_one_process")
class TestInProcesses:
    """What reader processes make."""

    @pytest.mark.parametrize(
        "settings",
        [
            {"transforms": [*CROP, vl.RandAugment(), vl.Normalize()]},
            {"transforms": [*CROP, Halve()]},
            {"transforms": [], "collate": "list"},
            {"repeats": 2},
        ],
        ids=str,
    )
    def test_batches_are_those_of_threads(self, data: vl.VideoDataset, settings: dict[str, Any]) -> None:
        expected = list(load(data, num_workers=1, **settings))
        with load(data, num_workers=1, num_processes=1, **settings) as loader:
            given = list(loader)
        assert_same_batches(given, expected)

    def test_errors_are_those_of_threads(self, broken: vl.VideoDataset) -> None:
        with load(broken, num_workers=1, on_error="skip") as loader, pytest.warns(UserWarning, match="4 files"):
            expected = list(loader)
        with (
            load(broken, num_workers=1, num_processes=1, on_error="skip") as there,
            pytest.warns(UserWarning, match="4 files"),
        ):
            assert_same_batches(there, expected)
        assert sorted(there.unreadable) == sorted(loader.unreadable)

    @pytest.mark.parametrize("num_processes", [0, 1])
    def test_reads_from_servers_are_counted(self, data: vl.VideoDataset, num_processes: int) -> None:
        contents = {Path(path).name: Path(path).read_bytes() for path in data.paths}
        with serve(contents) as server:
            remote = vl.VideoDataset.from_paths([server.url + name for name in contents])
            with load(remote, num_workers=1, num_processes=num_processes) as loader:
                for _ in loader:
                    pass
                stats = loader.stats()
        # Each file once; another read, of the first file, tells the planner what sizes to expect.
        assert stats.requests == len(data)
        assert stats.fetched == sum(map(len, contents.values()))

    def test_columns_of_a_program_stay_here(self, data: vl.VideoDataset) -> None:
        rows = [vl.VideoEntry(path, columns={"note": lambda: 0}) for path in data.paths]
        with load(vl.VideoDataset(rows), num_workers=1, num_processes=1) as loader:
            assert sum(len(batch.columns) for batch in loader) == len(data)

    def test_an_image_over_which_processes_die_is_an_error_of_its_own(
        self, data: vl.VideoDataset, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def do(self: Any, work: Any, *rest: Any) -> Any:
            if data.paths[2] in (work.args[0], *(getattr(each, "path", "") for each in work.args[0])):
                raise EOFError
            return real(self, work, *rest)

        with load(data, num_workers=1, num_processes=1, on_error="skip", shuffle=False) as loader:
            real = process_pool._Process.do
            monkeypatch.setattr(process_pool._Process, "do", do)
            monkeypatch.setattr(process_pool.ProcessPool, "bury", lambda pool, dead: pool.give_back(dead) or 9)
            assert next(iter(loader)).rows.tolist() == [0, 1, 3, 4]
            assert loader.unreadable[0][0] == data.paths[2]
            assert "2 processes died over it, the last with exit status 9" in loader.unreadable[0][1]
