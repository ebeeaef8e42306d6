"""Mistakes with data sets, tables and stores that users make on their second day."""

# mypy: ignore-errors
from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from first_day import Mistakes, check_answer, data, loader

import videoloader as vl
from videoloader import VideoDataset as VD


def store() -> vl.IndexStore:
    data().build_store("made.db", workers=1)
    return vl.IndexStore("made.db")


def table(text: str) -> VD:
    Path("t.csv").write_text(text)
    return VD.from_csv("t.csv")


MISTAKES: Mistakes = {
    "a column of a store that there is not": (
        lambda: store().query("SELECT codecs FROM videos"),
        "made.db: the query fails (no such column: codecs (write codec)): SELECT codecs … the columns are",
    ),
    "a query that deletes": (
        lambda: store().query("DELETE FROM videos"),
        "made.db: the query fails (what writes, or reads … of this store): DELETE FROM videos",
    ),
    "a table of a store that there is not": (
        lambda: store().query("SELECT * FROM video"),
        "made.db: the query fails (no such table: video): SELECT * FROM video",
    ),
    "a video that a store has not": (
        lambda: store().get("nope.mp4"),
        "nope.mp4: is not in the index store … add it with VideoDataset.build_store",
    ),
    "a number for a store's video": (
        lambda: store().get(0),
        "IndexStore.get's source must be a string or a Path or a ByteSource, got 0",
    ),
    "one store to merge": (
        lambda: vl.merge_stores("made.db", "out.db"),
        "stores must be a list of paths, got 'made.db'",
    ),
    "a slip in the condition of a store": (
        lambda: VD.from_store("made.db", where="durations > 3"),
        "condition 'durations > 3' is not SQL over the facts of … frames_without_key, time_rule",
    ),
    "a video for a store to read": (
        lambda: VD.from_store("a.mp4"),
        "a.mp4: is not an index store (file is not a database)",
    ),
    "a table for a store": (
        lambda: len(vl.IndexStore("plain.csv")),
        "plain.csv: is not an index store (file is not a database)",
    ),
    "a data set for the list of a store": (
        lambda: vl.build_store(data(), "made3.db"),
        "paths must be a list of paths (expected str, bytes or … a data set has build_store(store)",
    ),
    "a store first": (
        lambda: vl.build_store("made3.db", ["a.mp4"]),
        "build_store's paths must be a list, got 'made3.db'",
    ),
    "progress of True": (
        lambda: vl.build_store(["a.mp4"], "made4.db", progress=True),
        "build_store's progress must be a function or None, got True",
    ),
    "a list of stores": (
        lambda: loader(index=["made.db"]),
        "IndexStore's path must be a string or a Path, got ['made.db']",
    ),
    "a video for a saved data set": (
        lambda: VD.load("a.mp4"),
        "a.mp4: is not a saved data set, or is damaged (Not an Arrow file)",
    ),
    "a table for a saved data set": (
        lambda: VD.load("plain.csv"),
        "plain.csv: is not a saved data set, or is damaged (Not an Arrow file)",
    ),
    "a saved data set that is not there": (
        lambda: VD.load("nope.arrow"),
        "nope.arrow: the data set cannot be read (No such file or directory)",
    ),
    "a data set that is made at once": (
        lambda: VD.load_or_make("x.arrow", data()),
        "VideoDataset.load_or_make's make must be a function, got VideoDataset(... from 'a.mp4')",
    ),
    "a list of tables": (
        lambda: VD.from_csv(["plain.csv", "plain.csv"]),
        "path must be a string or a Path, got ['plain.csv', 'plain.csv']",
    ),
    "two columns of one name": (
        lambda: table("path,path\na.mp4,b.mp4\n"),
        "t.csv: the header has two columns of one name: ['path', 'path']",
    ),
    "a row without a path": (
        lambda: table("path,label\n,0\n"),
        "t.csv: line 2: path must be a non-empty string, got ''",
    ),
    "a header alone": (
        lambda: table("path,label\n"),
        "t.csv: the table has no rows under a header: header=[…] names the columns of a table without one",
    ),
    "an empty table": (
        lambda: table(""),
        "t.csv: the table has no rows under a header: header=[…] names the columns of a table without one",
    ),
    "a time without end": (
        lambda: table("path,start,end\na.mp4,inf,3\n"),
        "t.csv: line 2: a.mp4: start_seconds must be a number of seconds, got inf",
    ),
    "an end of -1 seconds": (
        lambda: loader(dataset=table("path,start,end\na.mp4,0,-1\n")),
        "t.csv: line 2: a.mp4: start_seconds must be less than … do: leave stop out to read to the end",
    ),
    "an end of -1 seconds alone": (
        lambda: loader(dataset=table("path,end\na.mp4,-1\n")),
        "a.mp4: no frames for stop_seconds=-1.0; the video … do: leave stop out to read to the end",
    ),
    "a part after the video": (
        lambda: loader(dataset=table("path,start,end\na.mp4,50,60\n")),
        "a.mp4: no frames for start_seconds=50.0, stop_seconds=60.0; the video lasts 0–1.2 s, 30 frames",
    ),
    "decimal commas": (
        lambda: table("path;start;end\na.mp4;0,5;0,9\n"),
        "t.csv: line 2: start_seconds '0,5' is not a number of seconds, as 61.5",
    ),
    "-1 among names": (
        lambda: table("path,label\na.mp4,-1\nb.mp4,x\n").labels,
        "t.csv: line 2: -1 means no label only where labels are numbers",
    ),
    "a table's label of 0.5": (
        lambda: table("path,label\na.mp4,0.5\nb.mp4,1\n").labels,
        "t.csv: line 2: label '0.5' is not a whole number: … names, which class_names=[…] may list",
    ),
    "several labels of a row": (
        lambda: VD.from_paths(["a.mp4", "b.mp4"], [[0, 1], [1]]),
        "labels[0] of a.mp4: labels must be all integers or all names, got [0, 1]",
    ),
    "a file for class names": (
        lambda: VD.from_csv("plain.csv", class_names="classes.txt"),
        "class_names must be different names in order, as … 0, 'walk': 1}, got 'classes.txt'",
    ),
    "a set of class names": (
        lambda: VD.from_csv("plain.csv", class_names={"x", "y"}).class_names,
        "class_names must be different names in order, as … got {'x', 'y'}: a set has no order",
    ),
    "class names with a gap": (
        lambda: VD.from_csv("plain.csv", class_names={"x": 0, "y": 5}),
        "class_names must be different names in order, as … 0, 'walk': 1}, got {'x': 0, 'y': 5}",
    ),
    "class names by number": (
        lambda: VD.from_csv("plain.csv", class_names={0: "x", 1: "y"}),
        "class_names must be different names in order, as … 0, 'walk': 1}, got {0: 'x', 1: 'y'}",
    ),
    "a class name twice": (
        lambda: VD.from_csv("plain.csv", class_names=["x", "x"]),
        "class_names must be different names in order, as … {'run': 0, 'walk': 1}, got ['x', 'x']",
    ),
    "shares by position": (
        lambda: data().split(0.5, 0.3, 0.2),
        "VideoDataset.split takes share by position and all else by name (seed, stratified), got 0.3",
    ),
    "a split of one video": (
        lambda: data()[:1].split(0.5),
        "a.mp4: all rows are of one video, which cannot be in both parts",
    ),
    "no ratios": (
        lambda: VD.mix([data(), data()]),
        "mix takes a list of data sets and a ratio for each, as … % labelled, from 'a.mp4')] and None",
    ),
    "a mix by name": (
        lambda: VD.mix({"a": 0.5}),
        "mix takes a list of data sets and a ratio for each, as … 0.3]), got ['a'] and [0.5]",
    ),
    "a ratio of 0": (lambda: VD.mix([data(), data()], ratios=[1, 0]), "ratios must be positive numbers, got [1, 0]"),
    "data sets to mix by position": (
        lambda: VD.mix(data(), data()),
        "mix takes a list of data sets and a ratio for each, as … 100 % labelled, from 'a.mp4')",
    ),
    "a seed of balance in quotes": (
        lambda: data().balanced(seed="a"),
        "seed must be an integer in [0, 2**64), got 'a'",
    ),
    "weights by row": (
        lambda: data().weighted({0: 1, 1: 2}),
        "weights must be a list of one number for each row, got {0: 1, 1: 2}",
    ),
    "a weight that is no number": (
        lambda: data().weighted([1, float("nan")]),
        "b.mp4: row 1: a weight must be a number of at least 0, got nan",
    ),
    "weights by class": (lambda: data().weighted([1, 2, 3]), "weights must be one for each of 2 rows, got 3"),
    "a rate the wrong way round": (
        lambda: data().where(fps=(31, 23)),
        "fps must be (lowest, highest), got (31, 23): write (23, 31)",
    ),
    "a label in SQL": (
        lambda: data().where("label = 0"),
        "condition 'label = 0' is not SQL over the facts of … frames_without_key, time_rule",
    ),
    "a path for a row": (
        lambda: data()["a.mp4"],
        "rows are chosen by numbers, as data[3], data[10:20], … data.table.column(name) is a column",
    ),
    "a column of a data set": (
        lambda: data().column("x"),
        "a VideoDataset has no attribute column: write entry.columns of a row, or data.table.column(name)",
    ),
    "a DataFrame of a data set": (
        lambda: data().to_pandas(),
        "a VideoDataset has no attribute to_pandas: make a DataFrame of data.paths and data.labels",
    ),
    "path and label of a row": (
        lambda: [path for path, label in data()],
        "a VideoEntry is no tuple: write entry.path, entry.label or entry.columns[name]",
    ),
    "a class name of a row": (
        lambda: data()[0].class_name,
        "a VideoEntry has no attribute class_name: it has … stop, stop_seconds, times",
    ),
    "a number of frames of a data set": (
        lambda: data().num_frames,
        "a VideoDataset has no attribute num_frames: write … or Video(data.paths[0]) for one",
    ),
    "a pattern for an ending": (
        lambda: VD.from_folder("classes", extensions=["*.mp4"]),
        "classes: no video in this folder: no file ends with … extensions=… says which are videos",
    ),
    "a folder that is no class": (
        lambda: VD.from_folder("classes", class_names=["run"]),
        "classes: folder 'walk' is not in class_names",
    ),
    "a recursive folder": (
        lambda: VD.from_folder("classes", recursive=True),
        "VideoDataset.from_folder has no argument recursive: it takes folder, extensions, class_names",
    ),
    "a root of paths": (
        lambda: VD.from_paths(["1.mp4"], root="classes/run")[0].path,
        "root is only for sources='inside root': paths are … path) for path in paths]",
    ),
    "a video for an archive": (
        lambda: VD.from_archives("a.mp4"),
        "a.mp4: is not an archive: neither tar, zip, TFRecord, RecordIO nor LMDB",
    ),
    "a pattern without archives": (lambda: VD.from_archives("no-*.tar"), "no-*.tar: no archive fits the pattern"),
    "a layout that there is not": (
        lambda: vl.layouts.charades("x"),
        "module videoloader.layouts has no attribute charades: dir(videoloader.layouts) lists what it has",
    ),
    "a table for ActivityNet": (
        lambda: vl.layouts.activitynet("plain.csv", "classes", subset="training"),
        "plain.csv: is not a JSON file that holds a dict",
    ),
}


@pytest.mark.parametrize(("call", "words"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_answered(call: Callable[[], object], words: str) -> None:
    check_answer(call, words)
