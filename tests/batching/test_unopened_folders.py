"""Folders of frames in a loader are counted, and opened when their clips are made, with the same results."""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from image_files import encoded, picture, write_frames
from same_batches import assert_same_batches

import videoloader as vl
from videoloader.order import clip_table
from videoloader.sampling.mode import takes_one_clip

Sample = Callable[[str], Path]
SIZES = [(48, 32), (64, 64), (31, 57), (90, 40), (48, 32)]
CROP = [vl.RandomResizedCrop(24), vl.RandomHorizontalFlip()]
WINDOW = vl.RandomWindow(4, stride=2)
pytestmark = pytest.mark.filterwarnings("ignore:.*are made up by padding")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders of several lengths, sizes and kinds, some of them turned, and some with gaps between their numbers."""
    root = tmp_path_factory.mktemp("folders")
    for number in range(10):
        folder = root / f"{number}"
        folder.mkdir()
        kind = ("jpg", "png", "JPEG")[number % 3]
        for frame in range(1 + 3 * number % 11):
            image = picture(10 * number + frame, SIZES[number % len(SIZES)])
            exif = image.getexif()
            exif[0x0112] = number % 8 + 1
            image.save(folder / f"im{frame + 3 * (number == 4 and frame > 1):03}.{kind}", exif=exif)
        (folder / "notes.txt").write_text("no image")
    return root


@pytest.fixture
def data(root: Path) -> vl.VideoDataset:
    """The folders, of which some have a rate, and one is told by a pattern."""
    paths = [str(path) + ("::fps=25" if number % 2 else "") for number, path in enumerate(sorted(root.iterdir()))]
    paths[2] += "/im*"
    return vl.VideoDataset.from_paths(paths, [number % 3 for number in range(len(paths))])


def load(data: vl.VideoDataset, mode: Any = WINDOW, **settings: Any) -> vl.VideoLoader:
    defaults: dict[str, Any] = {"batch_size": 4, "device": "cpu", "num_workers": 2, "seed": 3, "shuffle": True}
    return vl.VideoLoader(data, mode, **(defaults | {"transforms": CROP} | settings))


def opened(patch: pytest.MonkeyPatch) -> None:
    """Have loaders open all folders before the first batch, as they do videos."""
    patch.setattr(clip_table, "counted_if_folders", lambda data, mode: np.zeros(len(data), np.bool_))


def are_unopened(loader: vl.VideoLoader) -> list[bool]:
    unopened: list[bool] = loader._planner.table.ranges.unopened.tolist()
    return unopened


def same_as_opened(
    patch: pytest.MonkeyPatch, data: vl.VideoDataset, mode: Any = WINDOW, others: int = 0, **settings: Any
) -> None:
    """Assert that two epochs are those of a loader that opens all but ``others`` folders when it is made."""
    loader = load(data, mode, **settings)
    assert sum(are_unopened(loader)) == len(data) - others
    given = [*loader, *loader]
    with patch.context() as open_all:
        opened(open_all)
        other = load(data, mode, **settings)
        assert not any(are_unopened(other))
        assert_same_batches(given, [*other, *other])
    assert loader.state_dict() == other.state_dict()


class Halve(vl.PixelTransform):
    """A transform of the program's own."""

    def draw(self, rng: np.random.Generator, clip: vl.ClipInfo) -> list[Any]:
        return vl.Brightness((0.5, 0.5)).draw(rng, clip) if rng.random() < 0.5 else []

    def __repr__(self) -> str:
        return "Halve()"


SETTINGS: list[dict[str, Any]] = [
    {},
    {"num_workers": 0},
    {"transforms": [*CROP, vl.Normalize()], "layout": "CTHW", "dtype": "float16"},
    {"transforms": [*CROP, vl.ColorJitter(0.4), vl.Reverse(0.5)]},
    {"transforms": [vl.Resize(30), vl.FiveCrop(24)], "layout": "THWC"},
    {"repeats": 2, "transforms": [*CROP, vl.RandAugment()]},
    {"transforms": [], "collate": "list"},
    {"transforms": [vl.Letterbox(40)], "fill_value": 9, "collate": "pad"},
    {"transforms": [*CROP, vl.MixUp(0.8, num_classes=3)]},
    {"last_batch": "fill", "num_shards": 4, "shard_id": 3},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_batches_are_those_of_folders_that_were_opened_before(
    data: vl.VideoDataset, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    same_as_opened(monkeypatch, data, **settings)


MODES = [
    vl.RandomWindow(5, stride=(1, 3), reverse=0.5, pad="wrap"),
    vl.RandomWindow(3, pad="constant"),
    vl.EvenWindows(4, clips=1),
    vl.Segments(3, jitter=True),
    vl.UniformFrames(6),
    vl.FrameList([0, 0, 2], pad="edge"),
    vl.FrameTuples((0, 2), 1, clips=1, pad="edge"),
]


@pytest.mark.parametrize("mode", MODES, ids=repr)
def test_modes_of_one_clip_leave_folders_unopened(
    data: vl.VideoDataset, mode: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    same_as_opened(monkeypatch, data, mode)


def test_a_folder_without_a_clip_need_not_be_opened(data: vl.VideoDataset, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.warns(vl.VideoLoaderWarning, match=r"gives no clip of 4 of the data set's 10 rows"):
        same_as_opened(monkeypatch, data, vl.RandomWindow(3, stride=2, pad="none"))


@pytest.mark.parametrize(
    "mode",
    [
        vl.EveryWindow(2),
        vl.RandomWindow(4, clips=2),
        vl.WholeVideo(),
        vl.AtRate(2, 2),
        vl.Keyframes(),
        vl.Timestamps([0]),
        vl.FrameList("frames"),
        vl.RandomWindow(4, pad=vl.PadColumn("pad")),
        vl.Triplets(clips=1, even=True),
    ],
    ids=repr,
)
def test_other_modes_need_open_folders(mode: Any) -> None:
    assert not takes_one_clip(mode)


def test_what_more_than_the_number_of_files_is_needed_for_is_opened(root: Path, tmp_path: Path) -> None:
    (tmp_path / "times.txt").write_text("".join(f"{number}\n" for number in range(4)))
    folder, names = str(root / "5"), (f"{root / '1'}::timestamps={tmp_path / 'times.txt'}", str(root / "6"))
    rows = [vl.VideoEntry(names[0]), vl.VideoEntry(folder, start=1), vl.VideoEntry(folder, stop_seconds=2)]
    loader = load(vl.VideoDataset([*rows, vl.VideoEntry(names[1])]), vl.UniformFrames(2))
    assert are_unopened(loader) == [False, False, False, True]
    assert sum(map(len, loader)) == 4
    # Other processes cannot draw what only this program knows.
    own = load(vl.VideoDataset.from_paths([folder]), transforms=[*CROP, Halve()])
    assert are_unopened(own) == [False]


def test_folders_stand_beside_images_and_videos(
    data: vl.VideoDataset, sample: Sample, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    files = write_frames(tmp_path, ["1.png", "2.jpg"])
    others = vl.VideoDataset.from_paths([sample("h264_mp4"), files / "1.png", files / "2.jpg", sample("vp9_webm")])
    monkeypatch.setattr(clip_table, "taken_as_images", lambda data, mode: np.zeros(len(data), np.bool_))
    for transforms in (CROP, [vl.CenterCrop(16)]):
        same_as_opened(monkeypatch, data + others, others=4, transforms=transforms)
    monkeypatch.undo()
    both = data + others
    assert sum(are_unopened(load(both))) == len(both) - 2


def test_no_folder_is_opened_when_a_loader_is_made(data: vl.VideoDataset, monkeypatch: pytest.MonkeyPatch) -> None:
    opened_files: list[str] = []
    real = vl.FolderSource._read_file

    def watched(source: vl.FolderSource, number: int, *rest: Any) -> bytes:
        opened_files.append(source.files[number])
        return real(source, number, *rest)

    monkeypatch.setattr(vl.FolderSource, "_read_file", watched)
    loader = load(data, vl.FrameList([0, 1], pad="edge"), num_workers=0, shuffle=False)
    assert len(loader) == 3
    assert opened_files == []
    list(loader)
    # Of each folder two files, each once, and those of the first folder before, to know what sizes to expect.
    assert len(opened_files) <= 2 * len(data) + 2


def test_files_that_no_clip_shows_are_not_opened(root: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(root / "2", tmp_path / "2"))
    (folder / "im004.JPEG").write_bytes(b"no image")
    data = vl.VideoDataset.from_paths([folder])
    (batch,) = load(data, [0, 2])
    assert batch.frame_numbers.tolist() == [[0, 2]]
    with pytest.raises(vl.IndexingError, match=r"im004.JPEG: is not an image of a known kind"):
        list(load(data, [0, 4]))


@pytest.fixture
def broken(root: Path, tmp_path: Path) -> vl.VideoDataset:
    """The folders: one is gone, one is empty, one begins with no image, one has an odd file, one a damaged one."""
    for folder in sorted(root.iterdir()):
        shutil.copytree(folder, tmp_path / folder.name)
    shutil.rmtree(tmp_path / "1")
    for file in (tmp_path / "4").iterdir():
        file.unlink()
    (tmp_path / "5" / "im000.JPEG").write_bytes(b"nothing")
    picture(3, (20, 20)).save(tmp_path / "6" / "im001.jpg")
    (tmp_path / "7" / "im001.png").write_bytes(b"")
    return vl.VideoDataset.from_paths([tmp_path / str(number) for number in range(10)])


AT_ONCE, WHEN_MADE = [1, 4], [5, 6, 7]
PAIR = vl.FrameList([0, 1], pad="edge")


def test_what_a_listing_shows_is_told_at_once(broken: vl.VideoDataset) -> None:
    for rows, error in ((1, "No such file"), (4, "holds no image files; it contains: nothing")):
        with pytest.raises(vl.SourceError, match=error):
            load(broken[[rows]])
    with pytest.warns(vl.VideoLoaderWarning, match="2 of 10 rows are left out"):
        loader = load(broken, on_error="skip")
    assert [path for path, _ in loader.unreadable] == [broken.paths[row] for row in AT_ONCE]


@pytest.mark.parametrize(
    ("row", "error"),
    [
        (5, r"im000.JPEG: is not an image of a known kind, whatever its name says"),
        (6, r"im001.jpg: has 20×20 pixels, but im000.jpg has 64×64: the files of .*6 are not one video"),
        (7, r"im001.png: is empty"),
    ],
)
def test_an_unreadable_folder_is_the_error_of_its_batch(broken: vl.VideoDataset, row: int, error: str) -> None:
    loader = load(broken[[0, row]], PAIR, shuffle=False, batch_size=1)
    batches = iter(loader)
    assert next(batches).rows.tolist() == [0]
    with pytest.raises(vl.IndexingError, match=error):
        next(batches)
    assert loader.state_dict()["dealt"].endswith("1")


@pytest.mark.filterwarnings("ignore:the data set.* 2 of 10 rows")
@pytest.mark.parametrize("workers", [0, 2])
def test_unreadable_folders_are_left_out_when_they_are_met(broken: vl.VideoDataset, workers: int) -> None:
    loader = load(broken, PAIR, on_error="skip", num_workers=workers)
    with pytest.warns(UserWarning, match="3 files"):
        rows = [row for batch in loader for row in batch.rows.tolist()]
    assert sorted(rows) == [row for row in range(10) if row not in AT_ONCE + WHEN_MADE]
    assert sorted(path for path, _ in loader.unreadable) == [broken.paths[row] for row in sorted(AT_ONCE + WHEN_MADE)]
    assert loader.stats().skipped == 3


@pytest.mark.filterwarnings("ignore:the data set.* 2 of 10 rows")
def test_others_stand_in_for_unreadable_folders(broken: vl.VideoDataset) -> None:
    with pytest.warns(UserWarning, match="3 files"):
        batches, again = ([*load(broken, PAIR, on_error="replace", num_workers=count)] for count in (2, 1))
    assert_same_batches(batches, again)
    rows = np.concatenate([batch.rows for batch in batches])
    assert len(rows) == 8
    assert not set(rows.tolist()) & set(WHEN_MADE)
    assert np.concatenate([batch.repeated for batch in batches]).sum() == 3


def test_a_folder_that_has_changed_is_an_error(root: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(root / "2", tmp_path / "2"))
    loader = load(vl.VideoDataset.from_paths([folder]))
    os.remove(folder / "im002.JPEG")
    with pytest.raises(vl.StaleIndexError, match="2: has 6 image files, but had 7 when it was listed"):
        list(loader)


def test_a_file_that_was_written_anew_is_shown_as_it_is_now(root: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(root / "2", tmp_path / "2"))
    data, settings = vl.VideoDataset.from_paths([folder]), {"transforms": (), "num_workers": 1}
    loader = load(data, [0, 2], **settings)
    (before,) = loader
    (folder / "im002.JPEG").write_bytes((folder / "im004.JPEG").read_bytes())
    (after,) = loader
    assert not after.frames[0, 1].equal(before.frames[0, 1])
    (expected,) = load(data, [0, 4], **settings)
    assert after.frames.equal(expected.frames)
    picture(1, (20, 20)).save(folder / "im002.JPEG")
    with pytest.raises(vl.IndexingError, match=r"im002\.JPEG: has 20×20 pixels, but im000\.JPEG has 31×57"):
        list(loader)


def test_times_of_files_are_told_of_as_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_frames(tmp_path / "gap", ["1.png", "2.png", "5.png"])
    write_frames(tmp_path / "hole", ["1.png", "2.png", "4.png"])
    write_frames(tmp_path / "sides", ["left_1.png", "right_1.png"])
    data = vl.VideoDataset.from_frame_folders(tmp_path)
    told = []
    for open_all in (False, True):  # the first two rows are of one folder
        with monkeypatch.context() as patch, warnings.catch_warnings(record=True) as given:
            warnings.simplefilter("always")
            if open_all:
                opened(patch)
            load(data[[0]] + data, vl.UniformFrames(2))
            told.append(sorted(str(each.message) for each in given))
    assert told[0] == told[1]
    assert "gap and 1 more: 3 numbers are missing between those of 6 image files" in told[0][0]
    assert "sides: the numbers in the names of image files are not frame numbers" in told[0][1]


def test_a_damaged_frame_is_marked_or_an_error(tmp_path: Path) -> None:
    good = write_frames(tmp_path / "good", ["1.jpg", "2.jpg"], size=(96, 96))
    bad = Path(shutil.copytree(good, tmp_path / "bad"))
    file = bytearray(encoded(picture(1, (96, 96)), "JPEG", quality=95))
    middle = file.index(b"\xff\xda") + 700
    file[middle : middle + 40] = b"\xff\xd1" * 20
    (bad / "2.jpg").write_bytes(file)
    data = vl.VideoDataset.from_paths([bad, good])
    with pytest.warns(vl.CorruptFramesWarning):
        (batch,) = load(data, [0, 1], shuffle=False)
    assert batch.corrupt.tolist() == [[False, True], [False, False]]
    with pytest.raises(vl.CorruptFramesError, match="bad"):
        list(load(data, [0, 1], on_corrupt="raise"))
    with pytest.warns(UserWarning, match="1 file"):
        assert [batch.rows.tolist() for batch in load(data, [0, 1], on_corrupt="skip")] == [[1]]


@pytest.mark.parametrize("to_opened", [False, True])
def test_an_epoch_is_resumed_in_the_middle(
    data: vl.VideoDataset, to_opened: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = load(data), load(data)
    expected = list(first)
    batches = iter(second)
    given = [next(batches)]
    state = second.state_dict()
    if to_opened:
        opened(monkeypatch)
    third = load(data)
    third.load_state_dict(state)
    assert_same_batches(given + list(third), expected)


@pytest.mark.usefixtures("in_one_process")
class TestInProcesses:
    """What reader processes make."""

    @pytest.mark.parametrize(
        ("settings", "columns"),
        [
            ({}, True),
            ({"transforms": [*CROP, vl.Normalize()], "layout": "CTHW", "repeats": 2}, True),
            ({"transforms": [vl.Resize(30), vl.FiveCrop(24)], "layout": "THWC"}, True),
            ({"transforms": [*CROP, vl.RandAugment()]}, False),
            ({"transforms": [*CROP, vl.MixUp(0.8, num_classes=3)]}, False),
            ({"transforms": [], "collate": "list"}, False),
        ],
        ids=str,
    )
    def test_batches_are_those_of_opened_folders(
        self,
        data: vl.VideoDataset,
        settings: dict[str, Any],
        columns: bool,
        by_columns: list[int],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        settings["num_workers"] = 1
        with load(data, num_processes=1, **settings) as loader:
            given = list(loader)
        assert len(by_columns) == columns * len(given)
        opened(monkeypatch)
        assert_same_batches(given, load(data, **settings))

    def test_rows_with_columns_and_roles_are_the_same(
        self, data: vl.VideoDataset, by_columns: list[int], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        rows = vl.VideoDataset([vl.VideoEntry(each.path, columns={"night": 1}) for each in data])
        roles = vl.FrameTuples((0, 2), 1, clips=1, pad="edge")
        for entries, mode in ((rows, WINDOW), (data, roles), (data.with_times("pts"), WINDOW)):
            with load(entries, mode, num_workers=1, num_processes=1) as loader:
                given = list(loader)
            with monkeypatch.context() as patch:
                opened(patch)
                assert_same_batches(given, load(entries, mode, num_workers=1))
        assert not by_columns

    def test_one_damaged_frame_makes_objects_of_a_batch(
        self, data: vl.VideoDataset, tmp_path: Path, by_columns: list[int], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        folder = tmp_path / "0"
        shutil.copytree(data.paths[3].removesuffix("::fps=25"), folder)
        for file in folder.glob("im*"):
            file.write_bytes(file.read_bytes()[:-80])
        some = data[:3] + vl.VideoDataset.from_paths([folder])
        settings: dict[str, Any] = {"num_workers": 1, "shuffle": False, "on_error": "skip", "batch_size": 4}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", vl.VideoLoaderWarning)
            with load(some, num_processes=1, **settings) as loader:
                given = list(loader)
            opened(monkeypatch)
            assert_same_batches(given, load(some, **settings))
        assert not by_columns

    def test_errors_are_those_of_threads(self, broken: vl.VideoDataset) -> None:
        told = []
        for count in (0, 1):
            settings = {"num_workers": 1, "num_processes": count, "on_error": "skip"}
            with pytest.warns(vl.VideoLoaderWarning) as given, load(broken, PAIR, **settings) as loader:
                batches = list(loader)
            told.append((batches, sorted(loader.unreadable), sorted(str(each.message) for each in given)))
        assert_same_batches(told[0][0], told[1][0])
        assert told[0][1:] == told[1][1:]
        with (
            load(broken[[0, 7]], PAIR, num_workers=1, num_processes=1) as loader,
            pytest.raises(vl.IndexingError, match=r"im001.png: is empty"),
        ):
            list(loader)


@pytest.mark.parametrize(("mode", "processes"), [(WINDOW, 2), (vl.RandomWindow(4, clips=2), 0)])
def test_two_threads_use_processes_unless_folders_are_opened(
    data: vl.VideoDataset, mode: vl.FrameMode, processes: int
) -> None:
    with vl.VideoLoader(data, mode, batch_size=2, device="cpu", num_workers=2, transforms=CROP) as loader:
        assert loader._workers.num_processes == processes
