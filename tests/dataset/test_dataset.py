"""Tables of videos: from paths, folders and CSV files; the frames that an entry means."""

import os
import pickle
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from videoloader.dataset import VideoDataset, VideoEntry, entry_range
from videoloader.errors import ConfigurationError, FrameRangeError, SourceError
from videoloader.indexing.index import StreamInfo, VideoIndex


def touch(root, *names):
    for name in names:
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    return root


def table(root, text, name="rows.csv", encoding="utf-8"):
    file = root / name
    file.write_bytes(text.encode(encoding))
    return file


def relative(data, root):
    return [Path(os.path.relpath(entry.path, root)).as_posix() for entry in data]


def index_of(pts, time_base=Fraction(1, 25)):
    count = len(pts)
    return VideoIndex(
        source="talk.mp4",
        container="mp4",
        method="tables",
        packet_offset=np.arange(count, dtype=np.int64),
        packet_size=np.ones(count, np.int32),
        packet_pts=np.array(pts, np.int64),
        packet_key=np.ones(count, bool),
        packet_disposable=np.zeros(count, np.uint8),
        packet_config=np.zeros(count, np.uint8),
        frame_packet=np.arange(count, dtype=np.int32),
        frame_pts=np.array(pts, np.int64),
        byte_ranges=True,
        stream=StreamInfo("h264", (b"",), time_base, 64, 48),
    )


class TestEntries:
    def test_a_dataset_is_a_sequence_of_entries(self):
        entries = [VideoEntry("a.mp4", 1), VideoEntry("b.mp4", 0, start=3, stop=9, columns={"take": 2})]
        data = VideoDataset(entries, ["walk", "run"])
        assert len(data) == 2
        assert list(data) == entries
        assert data[-1] == entries[1]
        assert data.class_names == ("walk", "run")
        with pytest.raises(IndexError):
            data[2]

    @pytest.mark.parametrize("label", [np.int64(3), np.uint8(3), torch.tensor(3), np.array(3)])
    def test_paths_and_integers_of_any_kind_become_plain_ones(self, label):
        entry = VideoEntry(Path("clips/a.mp4"), label)
        assert entry == VideoEntry(str(Path("clips/a.mp4")), 3)
        assert (type(entry.path), type(entry.label)) == (str, int)

    def test_it_prints_on_one_line(self):
        entries = [VideoEntry("a.mp4", 1), VideoEntry("b.mp4", 0), VideoEntry("c.mp4")]
        data = VideoDataset(entries, ["walk", "run"], [("d.mp4", "there is no such file")])
        assert repr(data) == "VideoDataset(3 rows, 2 classes, 66.7 % labelled, 1 left out, from 'a.mp4')"
        assert str(VideoDataset(entries[2:])) == "VideoDataset(1 row, 0 classes, 0 % labelled, from 'c.mp4')"

    def test_neither_changes_after_it_is_made(self):
        entries = [VideoEntry("a.mp4")]
        data = VideoDataset(entries)
        entries.append(VideoEntry("b.mp4"))
        assert len(data) == 1
        for thing, name in ((data, "entries"), (data[0], "path")):
            with pytest.raises(AttributeError):
                setattr(thing, name, None)

    def test_a_dataset_travels_to_another_process(self):
        data = VideoDataset([VideoEntry("a.mp4", 0, start_seconds=1.5, columns={"take": "2"})], ["walk"])
        assert pickle.loads(pickle.dumps(data)) == data

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"path": ""}, "path must be a non-empty string, got ''"),
            ({"path": b"a.mp4"}, "path must be a non-empty string, got b'a.mp4'"),
            ({"label": "run"}, "label must be the number of a class.* from_paths .* names, got 'run'"),
            ({"label": -2}, "label must be the number of a class, counted from 0, or None; .*, got -2"),
            ({"label": torch.tensor(0.5)}, r"label must be .*, got tensor\(0.5000\)"),
            ({"start": 1.5}, "start must be the number of a frame.* start_seconds takes seconds, got 1.5"),
            ({"stop": "9"}, "stop must be .*, got '9'"),
            ({"start_seconds": float("nan")}, "start_seconds must be .*, got nan"),
            ({"stop_seconds": float("inf")}, "stop_seconds must be .*, got inf"),
            ({"start": 1, "start_seconds": 1.0}, "frames or in seconds, got start=1, .*start_seconds=1.0"),
            ({"stop": 1, "stop_seconds": 1.0}, "frames or in seconds, got .*stop=1, .*stop_seconds=1.0"),
            ({"start": -1}, "got start=-1"),
            ({"stop": 0}, "got start=None, stop=0"),
            ({"start": 5, "stop": 5}, "got start=5, stop=5"),
            ({"start_seconds": 2.0, "stop_seconds": 1.0}, "got .*start_seconds=2.0, stop_seconds=1.0"),
        ],
    )
    def test_a_bad_entry_is_refused_when_made(self, arguments, message):
        with pytest.raises(ConfigurationError, match=message):
            VideoEntry(**{"path": "a.mp4", **arguments})

    @pytest.mark.parametrize(
        ("entries", "names", "message"),
        [
            ([], (), "entries must hold at least one video"),
            ([VideoEntry("a.mp4", 2)], ["x", "y"], "a.mp4: label 2 has no name in class_names"),
            ("videos", (), "entries must be a list of VideoEntry, got 'videos': .*from_folder takes a folder"),
            (Path("videos"), (), "entries must be a list of VideoEntry, got .*Path.*from_folder takes a folder"),
            (5, (), "entries must be a list of VideoEntry, got 5"),
            (["a.mp4"], (), r"entries\[0\] must be a VideoEntry, got 'a.mp4': VideoDataset.from_paths"),
            ([VideoEntry("a.mp4"), ("b.mp4", 1)], (), r"entries\[1\] must be a VideoEntry, got \('b.mp4', 1\)"),
            ([VideoEntry("a.mp4", 0)], ["x", "x"], r"class_names must be different names, got \['x', 'x'\]"),
            ([VideoEntry("a.mp4", 0)], "xy", "class_names must be different names, got 'xy'"),
        ],
    )
    def test_a_bad_dataset_is_refused_when_made(self, entries, names, message):
        with pytest.raises(ConfigurationError, match=message):
            VideoDataset(entries, names)


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

    def test_class_names_fix_the_numbers_for_all_splits(self):
        data = VideoDataset.from_paths(["a", "b"], ["run", "fall"], class_names=["walk", "run", "fall"])
        assert [entry.label for entry in data] == [1, 2]
        assert data.class_names == ("walk", "run", "fall")

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (("a.mp4",), "paths must be a list of paths, got 'a.mp4'"),
            (([],), "at least one video"),
            ((["a", "b"], [1]), "one for each of 2 paths, got 1"),
            ((["a", "b"], ["x", 1]), r"labels\[0\] of a: labels must be all integers or all names, got 'x'"),
            ((5,), "paths must be a list of paths, got 5"),
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
            ((["a", "b"], [1, 0.5]), r"labels\[1\] of b: labels must be all integers or all names, got 0.5"),
        ],
    )
    def test_bad_arguments_are_named(self, arguments, message):
        with pytest.raises(ConfigurationError, match=message):
            VideoDataset.from_paths(*arguments)

    @pytest.mark.parametrize("label", ["fall", 2, -2])
    def test_a_label_without_a_class_name_is_an_error_that_names_its_video(self, label):
        with pytest.raises(ConfigurationError, match=f"b.mp4: label {label!r} is none of the class_names"):
            VideoDataset.from_paths(["b.mp4"], [label], class_names=["walk", "run"])


class TestFromFolder:
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
        assert {reason for _, reason in data.left_out} == {"it does not end as a video does"}

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
            (["run/a.mp4"], {"class_names": ["walk"]}, "folder 'run' is none of the class_names"),
            (["run/a.mp4"], {"class_names": ["run", "run"]}, "class_names must be different"),
            (["run/a.mp4", "b.mp4"], {"class_names": ["run"]}, "outside class folders"),
        ],
    )
    def test_bad_arguments_are_named(self, tmp_path, names, arguments, message):
        with pytest.raises(ConfigurationError, match=message):
            VideoDataset.from_folder(touch(tmp_path, *names), **arguments)


class TestFromCsv:
    @pytest.mark.parametrize("column", ["path", "video", "filename", "file", "Path", " VIDEO "])
    def test_finds_the_path_column(self, tmp_path, column):
        data = VideoDataset.from_csv(table(tmp_path, f"id,{column}\n1,a.mp4\n"))
        assert data[0].path == str(tmp_path / "a.mp4")
        assert data[0].columns == {"id": "1"}
        assert (data[0].label, data.class_names) == (None, ())

    @pytest.mark.parametrize("column", ["label", "class"])
    def test_names_become_numbers_in_natural_order(self, tmp_path, column):
        data = VideoDataset.from_csv(table(tmp_path, f"path,{column}\na,c10\nb,c2\nc,c10\n"))
        assert data.class_names == ("c2", "c10")
        assert [entry.label for entry in data] == [1, 0, 1]

    def test_numbers_stay_as_they_are(self, tmp_path):
        data = VideoDataset.from_csv(table(tmp_path, "path,label\na,12\nb,3\n"))
        assert [entry.label for entry in data] == [12, 3]
        assert data.class_names == ()

    def test_one_name_among_numbers_makes_them_all_names(self, tmp_path):
        data = VideoDataset.from_csv(table(tmp_path, "path,label\na,12\nb,x\n"))
        assert data.class_names == ("12", "x")

    def test_class_names_fix_the_numbers_of_names_and_name_numbers(self, tmp_path):
        file = table(tmp_path, "path,label\na,1\nb,0\n")
        assert [e.label for e in VideoDataset.from_csv(file, class_names=["x", "y"])] == [1, 0]
        assert [e.label for e in VideoDataset.from_csv(file, class_names=["1", "0"])] == [0, 1]

    @pytest.mark.parametrize(
        ("header", "row", "ends"),
        [
            ("start_frame,end_frame", "3,9", {"start": 3, "stop": 9}),
            ("start,end", "1.5,2", {"start_seconds": 1.5, "stop_seconds": 2.0}),
            ("start_time,end_time", "0,2.25", {"start_seconds": 0.0, "stop_seconds": 2.25}),
            ("start,stop", ",2", {"stop_seconds": 2.0}),
            ("start_frame,end_frame", "3,", {"start": 3}),
        ],
    )
    def test_finds_starts_and_stops_in_frames_or_seconds(self, tmp_path, header, row, ends):
        data = VideoDataset.from_csv(table(tmp_path, f"path,{header}\na.mp4,{row}\n"))
        assert data[0] == VideoEntry(str(tmp_path / "a.mp4"), **ends)

    def test_frames_win_over_seconds_which_then_travel(self, tmp_path):
        text = "path,start_time,end_time,start_frame,end_frame\na.mp4,0.12,0.36,3,9\n"
        (entry,) = VideoDataset.from_csv(table(tmp_path, text))
        assert (entry.start, entry.stop, entry.start_seconds, entry.stop_seconds) == (3, 9, None, None)
        assert entry.columns == {"start_time": "0.12", "end_time": "0.36"}

    def test_columns_can_be_named(self, tmp_path):
        file = table(tmp_path, "path,clip,verb,t0,t1,label\nx,a.mp4,run,1,2,noise\n")
        names = {"path": "clip", "label": "verb", "start_seconds": "t0", "stop_seconds": "t1"}
        (entry,) = VideoDataset.from_csv(file, columns=names)
        assert entry == VideoEntry(
            str(tmp_path / "a.mp4"),
            0,
            start_seconds=1.0,
            stop_seconds=2.0,
            columns={"path": "x", "label": "noise"},
        )

    def test_relative_paths_start_from_the_tables_folder_or_the_root(self, tmp_path):
        text = "path\nsub/a.mp4\n/data/b.mp4\ns3://bucket/c.mp4\n"
        (tmp_path / "lists").mkdir()
        file = table(tmp_path / "lists", text)
        rest = ["/data/b.mp4", "s3://bucket/c.mp4"]
        paths = [entry.path for entry in VideoDataset.from_csv(file)]
        assert paths == [str(tmp_path / "lists/sub/a.mp4"), *rest]
        paths = [entry.path for entry in VideoDataset.from_csv(file, root=tmp_path)]
        assert paths == [str(tmp_path / "sub/a.mp4"), *rest]

    @pytest.mark.parametrize(
        "text",
        [
            'path,label,note\na.mp4,run,"slow, but steady"\n',
            "path\tlabel\tnote\na.mp4\trun\tslow, but steady\n",
            'path;label;note\r\n"a.mp4";run;slow, but steady\r\n',
            '\ufeffpath,label,note\n\na.mp4,run,"slow, but steady"\n\n',
        ],
        ids=["comma", "tab", "semicolon", "byte order mark and blank lines"],
    )
    def test_reads_what_spreadsheets_write(self, tmp_path, text):
        (entry,) = VideoDataset.from_csv(table(tmp_path, text))
        assert entry == VideoEntry(str(tmp_path / "a.mp4"), 0, columns={"note": "slow, but steady"})

    def test_an_empty_label_column_is_none(self, tmp_path):
        data = VideoDataset.from_csv(table(tmp_path, "path,label\na,\nb,\n"))
        assert [entry.label for entry in data] == [None, None]

    @pytest.mark.parametrize(
        ("text", "arguments", "message"),
        [
            ("", {}, "no rows under a header"),
            ("path,label\n", {}, "no rows under a header"),
            ("name,label\na,1\n", {}, r"columns=\{'path': …\}.*\['name', 'label'\]"),
            ("path,path\na,b\n", {}, r"a name twice: \['path', 'path'\]"),
            ("path,label\na,1\nb\n", {}, "line 3: 1 values, header of 2"),
            ("path,label\na,1,2\n", {}, "line 2: 3 values, header of 2"),
            ("path,label\na,x\nb,\n", {}, "line 3: the label is missing"),
            ("path,label\na,x\nb,z\n", {"class_names": ["x", "y"]}, "line 3: label 'z' is none of"),
            ("path,label\na,1\nb,2\n", {"class_names": ["x", "y"]}, "line 3: label 2 is none of"),
            ("path,label\n ,1\n", {}, "line 2: path must be a non-empty string"),
            ("path,start_frame\na,1\nb,2.5\n", {}, "line 3: start '2.5' is no whole number"),
            ("path,end\na,1\nb,late\n", {}, "line 3: stop_seconds 'late' is no number"),
            ("path,end\na,nan\n", {}, "line 2: .*stop_seconds must be .*, got nan"),
            ("path,start,end\na,2,1\n", {}, "line 2: .*start_seconds=2.0, stop_seconds=1.0"),
            ('path,label\n"a\nb",1\nc\n', {}, "line 4: 1 values"),
            ('path,label\na,1\n"b,2\n', {}, "after line 2: "),
            ("path,start_frame,end\na,1,2\n", {}, "columns=….*frames or seconds"),
            ("path\na\n", {"columns": {"path": "clip"}}, r"columns must .*\['path'\], got 'path': 'clip'"),
            ("path\na\n", {"columns": {"video": "path"}}, "columns must .*, got 'video': 'path'"),
        ],
    )
    def test_nonsense_is_an_error_that_names_file_and_line(self, tmp_path, text, arguments, message):
        file = table(tmp_path, text)
        with pytest.raises(ConfigurationError, match=f"^{file}: .*{message}"):
            VideoDataset.from_csv(file, **arguments)

    @pytest.mark.parametrize(
        ("header", "unused"),
        [
            ("t_start,t_end", {"start_seconds": "t_start", "stop_seconds": "t_end"}),
            ("labels", {"label": "labels"}),
            ("class_id,score", {"label": "class_id"}),
            ("frameStart,frameEnd", {"start": "frameStart", "stop": "frameEnd"}),
            ("action,start,clip_end", {"label": "action", "stop_seconds": "clip_end"}),
            ("verb_class,noun_class", {"label": "verb_class"}),
        ],
    )
    def test_a_warning_names_columns_that_look_like_a_label_or_a_time(self, tmp_path, header, unused):
        file = table(tmp_path, f"path,{header}\na.mp4{',1' * (header.count(',') + 1)}\n")
        with pytest.warns(UserWarning, match="not taken for a label or a time") as warned:
            VideoDataset.from_csv(file)
        (warning,) = warned
        message = f"not taken for a label or a time: {', '.join(unused.values())}; if they are, give columns={unused}"
        assert str(warning.message) == f"{file}: {message}"
        assert warning.filename == __file__

    @pytest.mark.filterwarnings("error")
    @pytest.mark.parametrize(
        "header",
        ["label,class_id", "start_frame,end_frame,t_start,t_end", "score,weekend,subclass,transaction,restart,tool"],
    )
    def test_other_columns_travel_without_a_word(self, tmp_path, header):
        file = table(tmp_path, f"path,{header}\na.mp4,{','.join(map(str, range(header.count(',') + 1)))}\n")
        assert len(VideoDataset.from_csv(file)) == 1

    def test_missing_files_are_left_out_with_a_warning_that_counts_them(self, tmp_path):
        touch(tmp_path, "a.mp4")
        file = table(tmp_path, "path\na.mp4\nb.mp4\nc.mp4\n")
        with pytest.warns(
            UserWarning, match=rf"^{file}: 2 of 3 rows are left out \(2 not there\); left_out lists them"
        ):
            data = VideoDataset.from_csv(file, missing="skip")
        assert data.left_out == tuple((str(tmp_path / name), "there is no such file") for name in ("b.mp4", "c.mp4"))

    @pytest.mark.parametrize(
        ("text", "arguments"),
        [
            ("a.mp4,run\nb.mp4,walk\n", {"header": ["path", "label"]}),
            ("a.mp4 run\nb.mp4 walk\n", {"header": ["path", "label"], "separator": " "}),
            ("  a.mp4  run\n\nb.mp4\twalk", {"header": ("path", "label", "start", "end"), "separator": " "}),
            ("video class\na.mp4 run\nb.mp4 walk\n", {"separator": " "}),
            ("path|label\na.mp4|run\nb.mp4|walk\n", {"separator": "|"}),
            ("run;a.mp4\nwalk;b.mp4\n", {"header": ["verb", "video"], "columns": {"label": "verb"}}),
        ],
    )
    def test_lists_without_a_header_and_of_other_separators_are_read_when_asked_for(self, tmp_path, text, arguments):
        data = VideoDataset.from_csv(table(tmp_path, text, "list.txt"), **arguments)
        assert list(data) == [VideoEntry(str(tmp_path / "a.mp4"), 0), VideoEntry(str(tmp_path / "b.mp4"), 1)]
        assert data.class_names == ("run", "walk")

    @pytest.mark.parametrize(("unit", "first", "second"), [("", 1.5, 4.0), ("_frame", 15, 40)])
    def test_the_ends_of_a_list_may_be_missing(self, tmp_path, unit, first, second):
        file = table(tmp_path, f"a.mp4 3 {first} {second}\nb.mp4 0\nc.mp4 1 {first}\n")
        names = ["path", "label", f"start{unit}", f"end{unit}"]
        data = VideoDataset.from_csv(file, header=names, separator=" ")
        ends = ("start", "stop") if unit else ("start_seconds", "stop_seconds")
        assert [[getattr(entry, end) for end in ends] for entry in data] == [
            [first, second],
            [None, None],
            [first, None],
        ]
        assert data.labels.tolist() == [3, 0, 1]

    @pytest.mark.parametrize(
        ("text", "arguments", "message"),
        [
            ("a.mp4 0\nb.mp4 1\n", {}, r"in header \['a.mp4 0'\]; a list without a header: header=\['path', 'label'\]"),
            ("path 0\n", {"header": ["path", "label"], "separator": " "}, "line 1: 'path' is no path but of a header"),
            (
                "a b.mp4 0\n",
                {"header": ["path", "label"], "separator": " "},
                "line 1: 3 values, header of 2; a path with",
            ),
            ("a.mp4\n", {"header": ["path", "label"]}, "line 1: 1 values, header of 2"),
            ("a.mp4\n", {"header": "path"}, "header must be a list of names, .* got 'path'"),
            ("a.mp4\n", {"header": True}, "header must be a list of names, .* got True"),
            ("a.mp4\n", {"header": []}, r"header must be a list of names, .* got \[\]"),
            ("a.mp4\n", {"header": ["label"]}, r"no column for it in header \['label'\]"),
            ("", {"header": ["path"]}, "the table has no rows"),
            ("a.mp4\n", {"separator": "::"}, "separator must be one character, .* got '::'"),
        ],
    )
    def test_nonsense_about_lists_is_an_error(self, tmp_path, text, arguments, message):
        file = table(tmp_path, text)
        with pytest.raises(ConfigurationError, match=f"^{file}: .*{message}"):
            VideoDataset.from_csv(file, **arguments)

    def test_only_text_has_headers_and_separators(self, tmp_path):
        file = table(tmp_path, '{"path": "a.mp4"}\n', "rows.jsonl")
        for arguments in ({"header": ["path"]}, {"separator": " "}):
            with pytest.raises(ConfigurationError, match="header and separator are for text tables"):
                VideoDataset.from_csv(file, **arguments)

    def test_text_that_is_not_utf8_is_an_error(self, tmp_path):
        file = table(tmp_path, "path\ncafé.mp4\n", encoding="latin-1")
        with pytest.raises(ConfigurationError, match=f"^{file}: .*utf-8"):
            VideoDataset.from_csv(file)

    def test_a_file_that_is_not_there_is_an_error_that_names_it(self, tmp_path):
        with pytest.raises(SourceError, match=f"^{tmp_path}/no.csv: .*No such file"):
            VideoDataset.from_csv(tmp_path / "no.csv")


class TestEntryRange:
    @pytest.mark.parametrize(
        ("ends", "expected"),
        [
            ({}, (0, 100)),
            ({"start": 7}, (7, 100)),
            ({"stop": 7}, (0, 7)),
            ({"start": 7, "stop": 100}, (7, 100)),
            ({"start_seconds": 1.0, "stop_seconds": 2.0}, (25, 50)),
            ({"start_seconds": 0.99, "stop_seconds": 2.01}, (25, 51)),
            ({"start_seconds": 0.97, "stop_seconds": 1.97}, (25, 50)),
            ({"start": 3, "stop_seconds": 2.0}, (3, 50)),
            ({"start_seconds": -5.0, "stop_seconds": 60.0}, (0, 100)),
        ],
    )
    def test_frames_seconds_or_the_whole_video(self, ends, expected):
        assert entry_range(VideoEntry("a.mp4", **ends), index_of(range(100))) == expected

    @given(
        pts=st.lists(st.integers(-500, 5000), min_size=1, max_size=40, unique=True).map(sorted),
        cuts=st.lists(st.integers(-600, 5100), min_size=2, max_size=6, unique=True).map(sorted),
    )
    def test_seconds_choose_the_frames_whose_time_lies_between(self, pts, cuts):
        index = index_of(pts, Fraction(1, 600))
        for begin, end in pairwise(cuts):
            entry = VideoEntry("a.mp4", start_seconds=begin / 600, stop_seconds=end / 600)
            expected = [i for i, time in enumerate(pts) if begin <= time < end]
            if expected:
                assert entry_range(entry, index) == (expected[0], expected[-1] + 1)
            else:
                with pytest.raises(FrameRangeError):
                    entry_range(entry, index)

    def test_times_rounded_to_the_containers_milliseconds_find_their_frame(self):
        index = index_of(np.round(np.arange(300) * 1000 / 30), Fraction(1, 1000))
        for frame in range(1, 300):
            assert entry_range(VideoEntry("a.mkv", start_seconds=frame / 30), index) == (frame, 300)
            assert entry_range(VideoEntry("a.mkv", stop_seconds=frame / 30), index) == (0, frame)

    def test_a_frames_own_timestamp_finds_it_despite_rounding(self):
        index = index_of(np.arange(3000) * 1001, Fraction(1, 30000))
        for frame in range(1, 3000, 7):
            entry = VideoEntry("a.mp4", start_seconds=float(index.timestamps[frame]))
            assert entry_range(entry, index) == (frame, 3000)

    @pytest.mark.parametrize(
        "ends",
        [{"start": 100}, {"stop": 101}, {"start_seconds": 4.0}, {"start_seconds": 1.1, "stop_seconds": 1.11}],
    )
    def test_missing_frames_are_an_error_that_names_video_and_entry(self, ends):
        message = r"^talk.mp4: no frames .* among 100 for VideoEntry"
        with pytest.raises(FrameRangeError, match=message) as error:
            entry_range(VideoEntry("a.mp4", **ends), index_of(range(100)))
        assert all(f"{name}={value}" in str(error.value) for name, value in ends.items())
