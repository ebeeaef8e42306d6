"""Tables of videos from paths and folders."""

import os
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from failing_calls import outcomes_with_a_failing

from videoloader.dataset import VideoDataset, VideoEntry
from videoloader.errors import ConfigurationError, SourceError


def touch(root, *names):
    for name in names:
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    return root


def relative(data, root):
    return [Path(os.path.relpath(entry.path, root)).as_posix() for entry in data]


class TestFromPaths:
    def test_keeps_order_and_repeats(self):
        data = VideoDataset.from_paths(["b.mp4", Path("a.mp4"), "s3://bucket/a.mp4", "b.mp4"])
        assert [entry.path for entry in data] == ["b.mp4", "a.mp4", "s3://bucket/a.mp4", "b.mp4"]
        assert {entry.label for entry in data} == {None}
        assert data.class_names == ()

    def test_numbers_stay_as_they_are(self):
        data = VideoDataset.from_paths(["a", "b"], np.array([7, 0]))
        assert [entry.label for entry in data] == [7, 0]
        assert type(data[0].label) is int
        assert data.class_names == ()

    @pytest.mark.parametrize(
        "labels", [torch.tensor([7, 0]), np.array([7, 0], np.uint8), [torch.tensor(7), np.int32(0)], iter((7, 0))]
    )
    def test_integers_of_any_kind_are_labels(self, labels):
        assert VideoDataset.from_paths(["a", "b"], labels).labels.tolist() == [7, 0]

    def test_none_is_the_label_of_a_video_that_has_none(self):
        data = VideoDataset.from_paths(["a", "b", "c"], ["x", None, "y"])
        assert [entry.label for entry in data] == [0, None, 1]
        assert {entry.label for entry in VideoDataset.from_paths(["a"], [None])} == {None}

    def test_names_get_the_numbers_of_their_natural_order(self):
        data = VideoDataset.from_paths(["a", "b", "c", "d"], ["class10", "class2", "Class3", "class10"])
        assert data.class_names == ("class2", "Class3", "class10")
        assert [entry.label for entry in data] == [2, 0, 1, 2]

    def test_spaces_around_names_do_not_count(self):
        for names in (None, ["run ", "walk"]):
            data = VideoDataset.from_paths(["a", "b", "c"], ["walk ", "walk", "\trun"], class_names=names)
            assert data.labels.tolist() == [1, 1, 0]

    def test_class_names_fix_the_numbers_for_all_splits(self):
        data = VideoDataset.from_paths(["a", "b"], ["run", "fall"], class_names=["walk", "run", "fall"])
        assert [entry.label for entry in data] == [1, 2]
        assert data.class_names == ("walk", "run", "fall")

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (("a.mp4",), "paths must be a list of paths, got 'a.mp4'"),
            (([],), "there is no video"),
            ((["a", "b"], [1]), "one for each of 2 paths, got 1"),
            ((["a", "b"], ["x", 1]), r"labels\[0\] of a: labels must be all integers or all names, got 'x'"),
            ((5,), "paths must be a list of paths, got 5"),
            (({"a.mp4"},), "paths must be a list of paths, got {'a.mp4'}: a set has no order"),
            (({"a.mp4": 1},), "paths must be a list of paths, got {'a.mp4': 1}"),
            (([("a.mp4", 0)],), r"paths\[0\] must be a string or a Path, got \('a.mp4', 0\): give labels=\[…\] beside"),
            ((["a", None],), r"paths\[1\] must be a string or a Path, got None"),
            ((["a"], {"a": 0}), "labels must be a list of one label for each path, got {'a': 0}"),
            ((["a"], {0}), "labels must be a list of one label for each path, got {0}"),
            ((["a"], "x"), "labels must be a list of one label for each path, got 'x'"),
            ((["a"], torch.tensor(1)), r"labels must be a list of one label for each path, got tensor\(1\)"),
            ((["a", "b"], torch.tensor([[0, 1], [1, 0]])), r"labels\[0\] of a: .* all integers .*, got \[0, 1\]"),
            ((["a", "b"], torch.tensor([1.0, 0.0])), r"labels\[0\] of a: .* all integers .*, got 1.0"),
            ((["a", "b"], [0, -2]), r"paths\[1\]: b: label must be the number of a class.*, got -2"),
            ((["a", ""],), r"paths\[1\]: path must be a non-empty string, got ''"),
            ((["a", "b"], [1, 2**63]), "b: label 9223372036854775808 does not fit into 64 bits"),
            ((["a", "b"], ["walk", " "]), r"labels\[1\] of b: the label is missing"),
            ((["a", "b"], [1, 0.5]), r"labels\[1\] of b: labels must be all integers or all names, got 0.5"),
        ],
    )
    def test_bad_arguments_are_named(self, arguments, message):
        with pytest.raises(ConfigurationError, match=message):
            VideoDataset.from_paths(*arguments)

    def test_class_names_may_be_a_dict_of_names_and_numbers(self):
        for numbers in ({"walk": 1, "run": 0}, {"run": 0, "walk": 1}):
            data = VideoDataset.from_paths(["a", "b"], ["walk", "run"], class_names=numbers)
            assert (data.labels.tolist(), data.class_names) == ([1, 0], ("run", "walk"))

    @pytest.mark.parametrize(
        ("names", "hint"),
        [
            ({"walk": 1, "run": 2}, ""),
            ({"walk": 0, "run": 0}, ""),
            ({0: "walk", 1: "run"}, ""),
            (["walk", "walk"], ""),
            (["walk", 1], ""),
            ("walk", ""),
            (2, ""),
            ({"walk", "run"}, ": a set has no order"),
        ],
    )
    def test_class_names_are_different_and_have_an_order(self, tmp_path, names, hint):
        touch(tmp_path, "run/a.mp4", "walk/a.mp4")
        message = f"^class_names must be different names in order, .*, or with all numbers from 0, .*, got .*{hint}$"
        for read in (
            lambda: VideoDataset.from_paths(["a", "b"], ["walk", "run"], class_names=names),
            lambda: VideoDataset.from_folder(tmp_path, class_names=names),
            lambda: VideoDataset([VideoEntry("a", 0)], names),
        ):
            with pytest.raises(ConfigurationError, match=message):
                read()

    @pytest.mark.parametrize("label", ["fall", 2, -2])
    def test_a_label_without_a_class_name_is_an_error_that_names_its_video(self, label):
        with pytest.raises(ConfigurationError, match=f"b.mp4: label {label!r} is not in class_names"):
            VideoDataset.from_paths(["b.mp4"], [label], class_names=["walk", "run"])


class TestFromFolder:
    @pytest.mark.parametrize("splits", [["train", "val"], ["Test", "Train", "Validation"]])
    def test_a_warning_tells_of_folders_that_are_splits(self, tmp_path, splits):
        for split in splits:
            touch(tmp_path, f"{split}/walk/a.mp4")
        with pytest.warns(UserWarning, match=f"^{tmp_path}: {', '.join(splits)} look like splits.*{splits[0]}' and"):
            assert VideoDataset.from_folder(tmp_path).class_names == tuple(splits)
        with warnings.catch_warnings(action="error"):
            VideoDataset.from_folder(tmp_path, class_names=splits)
            VideoDataset.from_folder(tmp_path / splits[0])
            touch(tmp_path, "walk/a.mp4")
            VideoDataset.from_folder(tmp_path)

    def test_folders_are_classes_in_natural_order(self, tmp_path):
        touch(tmp_path, "class10/a.mp4", "class2/clip10.mp4", "class2/clip2.mp4", "class2/clip1.mkv")
        data = VideoDataset.from_folder(tmp_path)
        assert data.class_names == ("class2", "class10")
        assert [entry.label for entry in data] == [0, 0, 0, 1]
        assert relative(data, tmp_path) == [
            "class2/clip1.mkv",
            "class2/clip2.mp4",
            "class2/clip10.mp4",
            "class10/a.mp4",
        ]

    def test_videos_at_any_depth_belong_to_the_outermost_folder(self, tmp_path):
        touch(tmp_path, "run/2024/may/a.mp4", "run/b.mp4", "walk/2023/c.mp4")
        data = VideoDataset.from_folder(tmp_path)
        assert dict(zip(relative(data, tmp_path), (entry.label for entry in data), strict=True)) == {
            "run/b.mp4": 0,
            "run/2024/may/a.mp4": 0,
            "walk/2023/c.mp4": 1,
        }

    def test_a_video_directly_in_the_folder_means_no_labels(self, tmp_path):
        touch(tmp_path, "b.mp4", "more/a.mp4", "more/deep/c.mp4")
        data = VideoDataset.from_folder(tmp_path)
        assert relative(data, tmp_path) == ["b.mp4", "more/a.mp4", "more/deep/c.mp4"]
        assert {entry.label for entry in data} == {None}
        assert data.class_names == ()

    def test_a_warning_names_the_video_that_takes_all_labels_away(self, tmp_path):
        touch(tmp_path, "preview.mp4", "run/a.mp4", "walk/b.mp4")
        told = f"^{tmp_path}: preview.mp4 is directly in this folder while 2 other videos are in subfolders, so the sub"
        with pytest.warns(UserWarning, match=told):
            assert set(VideoDataset.from_folder(tmp_path).labels.tolist()) == {-1}
        touch(tmp_path, "more.mp4")
        with warnings.catch_warnings(action="error"):
            VideoDataset.from_folder(tmp_path)

    @pytest.mark.filterwarnings("error")
    def test_hidden_files_and_notes_are_skipped(self, tmp_path):
        touch(tmp_path, "run/a.mp4", "run/._a.mp4", "run/a.txt", "run/a.JSON", ".cache/b.mp4", "notes.txt")
        data = VideoDataset.from_folder(tmp_path)
        assert relative(data, tmp_path) == ["run/a.mp4"]
        assert (data.class_names, data.left_out) == (("run",), ())

    def test_a_warning_counts_files_of_other_endings_which_are_listed(self, tmp_path):
        touch(tmp_path, "top.xyz", "run/a.mp4", "run/b.Y4M", "run/more/c.y4m", "run/mp4")
        with pytest.warns(UserWarning, match="are left out") as warned:
            data = VideoDataset.from_folder(tmp_path)
        (warning,) = warned
        counts = "4 of 5 files are left out (2 .y4m, 1 without an ending, 1 .xyz)"
        assert str(warning.message) == f"{tmp_path}: {counts}; left_out lists them, extensions=… takes them"
        assert warning.filename == __file__
        paths = [Path(path).relative_to(tmp_path).as_posix() for path, _ in data.left_out]
        assert sorted(paths) == ["run/b.Y4M", "run/more/c.y4m", "run/mp4", "top.xyz"]
        assert {reason for _, reason in data.left_out} == {"its name does not end like a video's"}

    @pytest.mark.filterwarnings("error")
    def test_with_extensions_given_nobody_asked_for_other_files(self, tmp_path):
        touch(tmp_path, "run/a.mp4", "run/b.y4m")
        assert VideoDataset.from_folder(tmp_path, extensions=["mp4"]).left_out == ()

    def test_no_video_at_all_is_an_error_that_names_what_there_is(self, tmp_path):
        touch(tmp_path, "run/a.y4m", "run/b.y4m", "run/c.jpg")
        found = r"there are \.y4m \(2\), \.jpg \(1\): extensions=… says .*from_frame_folders"
        with pytest.raises(ConfigurationError, match=f"^{tmp_path}: no video in this folder: .*{found}"):
            VideoDataset.from_folder(tmp_path)

    @pytest.mark.parametrize("folder", [None, 5, ["a"]])
    def test_a_folder_is_a_path(self, folder):
        for read in (VideoDataset.from_folder, VideoDataset.from_frame_folders):
            with pytest.raises(ConfigurationError, match="folder must be a string or a Path, got "):
                read(folder)

    def test_extensions_are_in_any_case_with_or_without_the_dot(self, tmp_path):
        touch(tmp_path, "a.MP4", "b.y4m", "c.mkv")
        assert relative(VideoDataset.from_folder(tmp_path), tmp_path) == ["a.MP4", "c.mkv"]
        data = VideoDataset.from_folder(tmp_path, extensions=[".Y4M", "mkv"])
        assert relative(data, tmp_path) == ["b.y4m", "c.mkv"]

    def test_a_class_without_videos_keeps_its_number(self, tmp_path):
        touch(tmp_path, "run/a.mp4", "walk/b.mp4")
        (tmp_path / "sit").mkdir()
        data = VideoDataset.from_folder(tmp_path)
        assert data.class_names == ("run", "sit", "walk")
        assert [entry.label for entry in data] == [0, 2]

    def test_class_names_fix_the_numbers(self, tmp_path):
        touch(tmp_path, "run/a.mp4")
        data = VideoDataset.from_folder(tmp_path, class_names=["walk", "run"])
        assert (data[0].label, data.class_names) == (1, ("walk", "run"))

    def test_links_are_followed_but_not_in_circles(self, tmp_path):
        touch(tmp_path, "store/a.mp4", "data/run/b.mp4")
        (tmp_path / "data/walk").symlink_to(tmp_path / "store")
        (tmp_path / "data/run/up").symlink_to(tmp_path / "data/run")
        data = VideoDataset.from_folder(tmp_path / "data")
        assert relative(data, tmp_path / "data") == ["run/b.mp4", "walk/a.mp4"]

    def test_folders_may_lie_as_deep_as_a_path_can_be(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        for _ in range(1200):
            os.mkdir("d")
            os.chdir("d")
        touch(Path(), "a.mp4")
        below = os.open(".", os.O_RDONLY)
        os.chdir(tmp_path)
        try:
            assert relative(VideoDataset.from_folder("d"), "") == ["d/" * 1200 + "a.mp4"]
        finally:  # rmtree goes no deeper than Python's recursion
            os.fchdir(below)
            os.close(below)
            os.remove("a.mp4")
            for _ in range(1200):
                os.chdir("..")
                os.rmdir("d")

    def test_links_that_end_as_a_video_does_are_files_wherever_they_lead(self, tmp_path):
        touch(tmp_path, "store/a.mp4", "data/run/b.mp4")
        (tmp_path / "data/run/c.MP4").symlink_to(tmp_path / "store/a.mp4")
        (tmp_path / "data/run/frames.mp4").symlink_to(tmp_path / "store")
        data = VideoDataset.from_folder(tmp_path / "data")
        assert relative(data, tmp_path / "data") == ["run/b.mp4", "run/c.MP4", "run/frames.mp4"]

    def test_no_video_is_an_error_that_names_the_folder(self, tmp_path):
        touch(tmp_path, "run/a.txt")
        with pytest.raises(ConfigurationError, match=f"^{tmp_path}: no video"):
            VideoDataset.from_folder(tmp_path)

    def test_an_empty_folder_is_one_without_videos(self, tmp_path):
        for read, message in (
            (VideoDataset.from_folder, "no video"),
            (VideoDataset.from_frame_folders, "no folder in"),
        ):
            with pytest.raises(ConfigurationError, match=f"^{tmp_path}: {message}"):
                read(tmp_path)

    def test_a_folder_that_is_not_there_is_an_error_that_names_it(self, tmp_path):
        with pytest.raises(SourceError, match=f"^{tmp_path}/train: .*No such file"):
            VideoDataset.from_folder(tmp_path / "train")

    @pytest.mark.parametrize(
        ("names", "arguments", "message"),
        [
            (["run/a.mp4"], {"extensions": "mp4"}, "extensions must be .*, got 'mp4'"),
            (["run/a.mp4"], {"extensions": []}, r"extensions must be .*, got \[\]"),
            (["run/a.mp4"], {"class_names": ["walk"]}, "folder 'run' is not in class_names"),
            (["run/a.mp4"], {"class_names": ["run", "run"]}, "class_names must be different"),
            (["run/a.mp4", "b.mp4"], {"class_names": ["run"]}, "outside class folders"),
        ],
    )
    def test_bad_arguments_are_named(self, tmp_path, names, arguments, message):
        with pytest.raises(ConfigurationError, match=message):
            VideoDataset.from_folder(touch(tmp_path, *names), **arguments)


def test_a_folder_of_which_a_part_cannot_be_looked_at_is_an_error(tmp_path: Path) -> None:
    for name in ("a/y.mp4", "a/sub/x.mp4", "b/y.mp4", "b/sub/deep/x.mp4"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "a/through").symlink_to("y.mp4/nothing")  # no folder, and no reason to give up
    *failed, whole = outcomes_with_a_failing("stat", lambda: len(VideoDataset.from_folder(tmp_path)))
    assert (len(failed), whole) == (5, 4)
    assert all(isinstance(each, SourceError) for each in failed)
