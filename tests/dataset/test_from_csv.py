"""Tables of videos from text files."""

import json
import os
from pathlib import Path

import pytest

from videoloader.dataset import VideoDataset, VideoEntry
from videoloader.errors import ConfigurationError, SourceError


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

    @pytest.mark.parametrize("texts", [["0", "2", "2"], ["0.0", "2.0", "2.0"], ["0", "2.", "+2"]])
    def test_whole_numbers_in_texts_are_numbers(self, tmp_path, texts):
        paths = ["a", "b", "c"]
        rows = "".join(f"{path},{text}\n" for path, text in zip(paths, texts, strict=True))
        for read in (
            lambda **names: VideoDataset.from_csv(table(tmp_path, "path,label\n" + rows), **names),
            lambda **names: VideoDataset.from_paths(paths, texts, **names),
        ):
            assert (read().labels.tolist(), read().class_names) == ([0, 2, 2], ())
            assert read(class_names=sorted(set(texts))).labels.tolist()[0] == sorted(set(texts)).index(texts[0])
            assert read(class_names=["x", "y", "z"]).labels.tolist() == [0, 2, 2]

    def test_fractions_are_no_labels_unless_they_are_class_names(self, tmp_path):
        file = table(tmp_path, "path,label\na,1\nb,1.5\n")
        with pytest.raises(ConfigurationError, match=r"line 3: label '1\.5' is not a whole number"):
            VideoDataset.from_csv(file)
        with pytest.raises(ConfigurationError, match=r"^labels\[1\] of b: label '1.5' is not a whole number"):
            VideoDataset.from_paths(["a", "b"], ["1", "1.5"])
        assert VideoDataset.from_csv(file, class_names=["1.5", "1"]).labels.tolist() == [1, 0]
        assert VideoDataset.from_paths(["a", "b"], ["1.5", "x"]).class_names == ("1.5", "x")

    def test_numbers_among_names_are_names(self, tmp_path):
        data = VideoDataset.from_csv(table(tmp_path, "path,label\na,12\nb,x\n"))
        assert data.class_names == ("12", "x")

    @pytest.mark.parametrize("odd", ["nan", "7a", "1.5", "None"])
    def test_a_label_that_is_no_number_where_most_are_is_an_error_that_names_it(self, tmp_path, odd):
        file = table(tmp_path, f"path,label\na,5\nb,{odd}\nc,3\nd,5\n")
        with pytest.raises(
            ConfigurationError, match=f"^{file}: line 3: label '{odd}' is not a whole number: .* may list"
        ):
            VideoDataset.from_csv(file)
        with pytest.raises(ConfigurationError, match=rf"^labels\[1\] of b: label '{odd}' is not a whole number"):
            VideoDataset.from_paths(list("abcd"), ["5", odd, "3", "5"])
        assert VideoDataset.from_csv(file, class_names=["3", "5", odd]).labels.tolist() == [1, 2, 0, 1]

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
            ("path,path\na,b\n", {}, r"two columns of one name: \['path', 'path'\]"),
            ("path,label\na,1\nb\n", {}, "line 3: 1 values, header of 2"),
            ("path,label\na,1,2\n", {}, "line 2: 3 values, header of 2"),
            ("path,label\na,x\nb,\n", {}, "line 3: the label is missing"),
            ("path,label\na,x\nb,z\n", {"class_names": ["x", "y"]}, "line 3: label 'z' is not in"),
            ("path,label\na,1\nb,2\n", {"class_names": ["x", "y"]}, "line 3: label 2 is not in"),
            ("path,label\n ,1\n", {}, "line 2: path must be a non-empty string"),
            ("path,start_frame\na,1\nb,2.5\n", {}, "line 3: start '2.5' is not a whole number"),
            ("path,end\na,1\nb,late\n", {}, "line 3: stop_seconds 'late' is not a number of seconds"),
            ("path,end\na,nan\n", {}, "line 2: .*stop_seconds must be .*, got nan"),
            ("path,start,end\na,2,1\n", {}, "line 2: .*start_seconds=2.0, stop_seconds=1.0"),
            ('path,label\n"a\nb",1\nc\n', {}, "line 4: 1 values"),
            ('path,label\na,1\n"b,2\n', {}, "after line 2: "),
            ("path,start_frame,end\na,1,2\n", {}, "mixes frames and seconds: give columns=…"),
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
            ("first_frame,last_frame", {"start": "first_frame", "stop": "last_frame"}),
            ("from,to", {"start_seconds": "from", "stop_seconds": "to"}),
            ("start_idx,end_idx", {"start": "start_idx", "stop": "end_idx"}),
            ("begin_frame,finish_frame", {"start": "begin_frame", "stop": "finish_frame"}),
            *((name, {"label": name}) for name in ("activity", "gt", "tag", "y")),
        ],
    )
    def test_a_warning_names_columns_that_look_like_a_label_or_a_time(self, tmp_path, header, unused):
        file = table(tmp_path, f"path,{header}\na.mp4{',1' * (header.count(',') + 1)}\n")
        with pytest.warns(UserWarning, match="not read as a label or a time") as warned:
            VideoDataset.from_csv(file)
        (warning,) = warned
        message = f"not read as a label or a time: {', '.join(unused.values())}; if they are, give columns={unused}"
        assert str(warning.message) == f"{file}: {message}"
        assert warning.filename == __file__

    def test_a_name_that_is_written_exactly_comes_before_others(self, tmp_path):
        data = VideoDataset.from_csv(table(tmp_path, "Path,LABEL,path,label\nx.mp4,7,a.mp4,1\n"))
        assert (data.paths, data.labels.tolist()) == ([str(tmp_path / "a.mp4")], [1])
        assert data[0].columns == {"Path": "x.mp4", "LABEL": "7"}

    @pytest.mark.parametrize(
        ("header", "known"),
        [("start_ms,end_ms", ""), ("class_id,start_ms,endMs", "if they are, give columns={'label': 'class_id'}; ")],
    )
    def test_milliseconds_are_not_told_to_be_seconds(self, tmp_path, header, known):
        file = table(tmp_path, f"path,{header}\na.mp4{',1' * (header.count(',') + 1)}\n")
        with pytest.warns(UserWarning, match="not read as a label or a time") as warned:
            VideoDataset.from_csv(file)
        start, end = header.split(",")[-2:]
        told = f"{known}{start}, {end} in milliseconds: write columns start and end in seconds"
        assert str(warned[0].message).endswith(f": {header.replace(',', ', ')}; {told}")

    @pytest.mark.filterwarnings("error")
    @pytest.mark.parametrize(
        "header",
        [
            "label,class_id",
            "start_frame,end_frame,t_start,t_end",
            "score,weekend,subclass,transaction,restart,tool",
            "duration,first_name,last_modified,from_user,x,y,gt_box",
            "start,end,duration",
        ],
    )
    def test_other_columns_travel_without_a_word(self, tmp_path, header):
        file = table(tmp_path, f"path,{header}\na.mp4,{','.join(map(str, range(header.count(',') + 1)))}\n")
        assert len(VideoDataset.from_csv(file)) == 1

    @pytest.mark.parametrize("header", ["start_time,duration", "start,duration", "start_time,length"])
    def test_a_warning_tells_of_a_length_that_is_not_used(self, tmp_path, header):
        file = table(tmp_path, f"path,{header}\na.mp4,1,2\n")
        with pytest.warns(UserWarning, match=f"not read as a length: {header.split(',')[1]}; .* start plus"):
            VideoDataset.from_csv(file)

    def test_missing_files_are_left_out_with_a_warning_that_counts_them(self, tmp_path):
        touch(tmp_path, "a.mp4")
        file = table(tmp_path, "path\na.mp4\nb.mp4\nc.mp4\n")
        with pytest.warns(
            UserWarning, match=rf"^{file}: 2 of 3 rows are left out \(2 not there\); left_out lists them"
        ):
            data = VideoDataset.from_csv(file, missing="skip")
        assert data.left_out == tuple((str(tmp_path / name), "there is no such file") for name in ("b.mp4", "c.mp4"))

    def test_patterns_of_image_files_are_not_missing(self, tmp_path):
        (tmp_path / "stereo").mkdir()
        file = table(tmp_path, "path\nstereo/left_*.png\nnone/left_*.png\n")
        with pytest.warns(UserWarning, match="1 of 2 rows are left out"):
            data = VideoDataset.from_csv(file, missing="skip")
        assert list(data.paths) == [f"{tmp_path}/stereo/left_*.png"]

    @pytest.mark.parametrize(
        ("text", "arguments"),
        [
            ("a.mp4,run\nb.mp4,walk\n", {"header": ["path", "label"]}),
            ("a.mp4 run\nb.mp4 walk\n", {"header": ["path", "label"], "separator": " "}),
            ("  a.mp4  run\n\nb.mp4\twalk", {"header": ("path", "label", "start", "end"), "separator": " "}),
            ("video class\na.mp4 run\nb.mp4 walk\n", {"separator": " "}),
            ("path|label\na.mp4|run\nb.mp4|walk\n", {}),
            ("path:label\na.mp4:run\nb.mp4:walk\n", {"separator": ":"}),
            ("run;a.mp4\nwalk;b.mp4\n", {"header": ["verb", "video"], "columns": {"label": "verb"}}),
        ],
    )
    def test_lists_without_a_header_and_of_other_separators_are_read_when_asked_for(self, tmp_path, text, arguments):
        data = VideoDataset.from_csv(table(tmp_path, text, "list.txt"), **arguments)
        assert list(data) == [VideoEntry(str(tmp_path / "a.mp4"), 0), VideoEntry(str(tmp_path / "b.mp4"), 1)]
        assert data.class_names == ("run", "walk")

    def test_only_spaces_and_tabs_separate_words(self, tmp_path):
        text = "a\u00a0b.mp4 \t run\nc\u2003.mp4 walk\n"
        data = VideoDataset.from_csv(table(tmp_path, text), header=["path", "label"], separator=" ")
        assert [os.path.basename(path) for path in data.paths] == ["a\u00a0b.mp4", "c\u2003.mp4"]
        assert data.class_names == ("run", "walk")

    def test_spaces_between_values_are_part_of_none(self, tmp_path):
        text = 'path, label, note\n"a.mp4", "10", "so, or so"\n  "b.mp4",2 ,  " so"\n'
        data = VideoDataset.from_csv(table(tmp_path, text))
        assert [(os.path.basename(row.path), row.label, row.columns["note"]) for row in data] == [
            ("a.mp4", 10, "so, or so"),
            ("b.mp4", 2, " so"),
        ]

    @pytest.mark.parametrize("name", ["rows.csv", "rows.jsonl"])
    def test_a_file_whose_name_has_spaces_around_it_is_meant_where_it_is(self, tmp_path, name):
        (tmp_path / "b.mp4 ").touch()
        paths = ["a.mp4 ", "b.mp4", "b.mp4 ", " c.tar::d.mp4 "]
        lines = {
            "rows.csv": ["path", *map('"{}"'.format, paths)],
            "rows.jsonl": [f'{{"path": "{each}"}}' for each in paths],
        }
        data = VideoDataset.from_csv(table(tmp_path, "\n".join(lines[name]), name))
        assert [os.path.basename(path) for path in data.paths] == ["a.mp4", "b.mp4", "b.mp4 ", "c.tar::d.mp4 "]

    @pytest.mark.parametrize("column", ["start_frame", "start_time"])
    def test_underscores_in_numbers_are_no_number(self, tmp_path, column):
        with pytest.raises(ConfigurationError, match=r"line 2: start(_seconds)? '1_0' is not a"):
            VideoDataset.from_csv(table(tmp_path, f"path,{column}\na.mp4,1_0\n"))

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
            (
                "path 0\n",
                {"header": ["path", "label"], "separator": " "},
                "line 1: 'path' is a header's word, not a path",
            ),
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
        with pytest.raises(ConfigurationError, match=f"^{file}: byte 0xe9 .* UTF-8: save the table as UTF-8$"):
            VideoDataset.from_csv(file)

    def test_a_file_that_is_not_there_is_an_error_that_names_it(self, tmp_path):
        with pytest.raises(SourceError, match=f"^{tmp_path}/no.csv: .*No such file"):
            VideoDataset.from_csv(tmp_path / "no.csv")


@pytest.mark.parametrize("kind", ["plain", "url", "member", "stream", "rate", "pattern"])
def test_spaces_around_a_name_count_if_there_is_such_a_file(tmp_path: Path, kind: str) -> None:
    for name in ("a", " a"):
        (tmp_path / name).mkdir()
        for file in ("a.mp4 ", "a.mp4", " a.mp4", " a.zip", "a.zip"):
            (tmp_path / name / file).touch()
    spelled = {
        "plain": f"{tmp_path}/a/a.mp4 ",
        "url": f"file://{tmp_path}/a/a.mp4 ",
        "member": " a/a.zip::m.mp4",
        "stream": " a/a.mp4::stream_index=0",
        "rate": " a::fps=5",
        "pattern": " a/*.png",
    }[kind]
    (tmp_path / "t.jsonl").write_text(json.dumps({"path": spelled}) + "\n")
    (path,) = VideoDataset.from_csv(tmp_path / "t.jsonl", missing="unchecked").paths
    assert path == (spelled if kind in ("plain", "url") else f"{tmp_path}/{spelled}")
