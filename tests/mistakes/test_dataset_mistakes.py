"""Mistakes with data sets, their tables and index stores."""

# mypy: ignore-errors
from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch.utils.data
from first_day import Mistakes, check_answer, data, video

import videoloader as vl
from videoloader import VideoDataset as VD


def store() -> vl.IndexStore:
    data().build_store("made.db", workers=1)
    return vl.IndexStore("made.db")


def images() -> str:
    folder = Path("pictures/cat")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "1.png").touch()
    return "pictures"


def table(text: str, encoding: str = "utf-8", **arguments) -> VD:
    Path("table.csv").write_text(text, encoding)
    return VD.from_csv("table.csv", **arguments)


MISTAKES: Mistakes = {
    "a table of UTF-16": (lambda: table("path,label\na.mp4,0\n", "utf-16"), "not UTF-8: save the table as UTF-8"),
    "quotes that nothing closes": (
        lambda: table('path,label\n"a.mp4,0\n'),
        "table.csv: after line 0: a value begins with quotes that nothing closes",
    ),
    "a data set saved as a table": (
        lambda: data().save("saved.csv"),
        "saved.csv: save writes an Arrow file, not one of .csv: name it data.arrow",
    ),
    "a data set saved over a store": (lambda: data().save("made.db"), "made.db: save writes an Arrow file, not one of"),
    "torchvision's loader": (lambda: VD.from_folder("classes", loader=print), "argument loader … leave it out"),
    "torchvision's split": (lambda: VD.from_folder("classes", split="train"), "name the folder of the split, as"),
    "scikit-learn's test_size": (lambda: data().split(test_size=0.2), "argument test_size: write the other share"),
    "scikit-learn's random_state": (lambda: data().split(0.5, random_state=1), "argument random_state: write seed"),
    "a folder that is not there": (lambda: VD.from_folder("nofolder"), "nofolder … the folder cannot be read (No"),
    "a file for a folder": (lambda: VD.from_folder("a.mp4"), "a.mp4 … the folder cannot be read (Not a directory)"),
    "a folder of nothing": (lambda: VD.from_folder("nothing"), "nothing: no video in this … no file ends with"),
    "a folder of other files": (lambda: VD.from_folder("others"), "others: no video in this … extensions="),
    "a pattern for a folder": (lambda: VD.from_folder("classes/*"), "classes/* … the folder cannot be read (No"),
    "a list of folders": (lambda: VD.from_folder(["classes"]), "folder must be a string or a Path, got ['classes']"),
    "None for a folder": (lambda: VD.from_folder(None), "folder must be a string or a Path, got None"),
    "one ending in a string": (
        lambda: VD.from_folder("classes", extensions="mp4"),
        "extensions must be a list of file name endings, got 'mp4'",
    ),
    "torchvision's transform": (
        lambda: VD.from_folder("classes", transform=vl.Resize(32)),
        "VideoDataset.from_folder has no argument transform … give it to the loader, as VideoLoader(data",
    ),
    "torchvision's frames_per_clip": (
        lambda: VD.from_folder("classes", frames_per_clip=16),
        "VideoDataset.from_folder has no argument frames_per_clip … give it to the loader's mode, as",
    ),
    "torchvision's step_between_clips": (
        lambda: VD.from_folder("classes", step_between_clips=1),
        "VideoDataset.from_folder has no argument step_between_clips … give it to the loader's mode, as",
    ),
    "one path for a list": (lambda: VD.from_paths("a.mp4"), "paths must be a list of paths, got 'a.mp4'"),
    "one Path for a list": (lambda: VD.from_paths(Path("a.mp4")), "paths must be a list of … got PosixPath('a.mp4'"),
    "None for paths": (lambda: VD.from_paths(None), "paths must be a list of paths, got None"),
    "a glob that finds nothing": (
        lambda: VD.from_paths(sorted(Path(".").glob("*.avi"))),
        "there is no video: check what the list of paths",
    ),
    "bytes for a path": (lambda: VD.from_paths([b"a.mp4"]), "paths[0] must be a string or a Path, got b'a.mp4'"),
    "videos for paths": (lambda: VD.from_paths([video()]), "paths[0] must be a string or … got Video('a.mp4'"),
    "a dict of labels": (lambda: VD.from_paths({"a.mp4": 0}), "paths must be a list of paths, got {'a.mp4': 0}"),
    "torchvision's samples": (
        lambda: VD.from_paths([("a.mp4", 0), ("b.mp4", 1)]),
        "paths[0] must be a string or a Path, got ('a.mp4', 0) … give labels=[",
    ),
    "too few labels": (lambda: VD.from_paths(["a.mp4", "b.mp4"], [0]), "labels must be one for each of 2 … got 1"),
    "labels of two kinds": (lambda: VD.from_paths(["a.mp4", "b.mp4"], [0, "x"]), "labels[1] of b.mp4 … got 'x'"),
    "labels that are floats": (
        lambda: VD.from_paths(["a.mp4", "b.mp4"], [0.5, 1.0]),
        "labels[0] of a.mp4: labels must be all integers or all names, got 0.5",
    ),
    "labels in one string": (lambda: VD.from_paths(["a.mp4", "b.mp4"], "xy"), "labels must be a list … got 'xy'"),
    "one label for all": (lambda: VD.from_paths(["a.mp4", "b.mp4"], 3), "labels must be a list of one … got 3"),
    "labels by path": (lambda: VD.from_paths(["a.mp4"], {"a.mp4": 0}), "labels must be a list … got {'a.mp4': 0}"),
    "one-hot labels": (
        lambda: VD.from_paths(["a.mp4", "b.mp4"], np.eye(2, dtype=int)),
        "labels[0] of a.mp4: labels must be all integers or all names, got [1, 0]",
    ),
    "a label below -1": (lambda: VD.from_paths(["a.mp4", "b.mp4"], [-2, 0]), "paths[0]: a.mp4: label must … got -2"),
    "a class without a name": (
        lambda: VD.from_paths(["a.mp4", "b.mp4"], ["x", "y"], class_names=["x"]),
        "labels[1] of b.mp4 … label 'y' is not in class_names",
    ),
    "torchvision's targets": (
        lambda: VD.from_paths(["a.mp4"], targets=[0]),
        "VideoDataset.from_paths has no argument targets … write labels",
    ),
    "paths for entries": (lambda: VD(["a.mp4", "b.mp4"]), "entries[0] must be a … got 'a.mp4' … VideoDataset.from"),
    "a folder for entries": (lambda: VD("classes"), "entries must be a list … got 'classes' … VideoDataset.from"),
    "a root": (lambda: VD(root="classes"), "VideoDataset has no argument root … write"),
    "None for entries": (lambda: VD(None), "entries must be a list of VideoEntry, got None"),
    "a class name for a list": (
        lambda: VD([vl.VideoEntry("a.mp4", 0)], class_names="walk"),
        "class_names must be different names in order, … got 'walk'",
    ),
    "too few class names": (lambda: VD([vl.VideoEntry("a.mp4", 5)], class_names=["walk"]), "a.mp4 … label 5 has no"),
    "an entry of None": (lambda: vl.VideoEntry(None), "path must be a non-empty string, got None"),
    "a label by name": (lambda: vl.VideoEntry("a.mp4", label="x"), "a.mp4: label must be the number of a … got 'x'"),
    "a label of 1.5": (lambda: vl.VideoEntry("a.mp4", 1.5), "a.mp4: label must be the number of a class … got 1.5"),
    "seconds for frames": (lambda: vl.VideoEntry("a.mp4", start=5.5), "a.mp4: start must be the … got 5.5"),
    "a start in quotes": (lambda: vl.VideoEntry("a.mp4", start="1"), "a.mp4: start must be the … got '1'"),
    "seconds in quotes": (lambda: vl.VideoEntry("a.mp4", start_seconds="1"), "a.mp4: start_seconds … got '1'"),
    "a start_time": (lambda: vl.VideoEntry("a.mp4", start_time=5.5), "VideoEntry has no … write"),
    "an end": (lambda: vl.VideoEntry("a.mp4", end=5), "VideoEntry has no argument end … write stop"),
    "PyTorchVideo's end_sec": (lambda: vl.VideoEntry("a.mp4", end_sec=5.0), "VideoEntry has no … write"),
    "a start below 0": (lambda: vl.VideoEntry("a.mp4", start=-3), "a.mp4: start must be at … got start=-3"),
    "a start twice": (
        lambda: vl.VideoEntry("a.mp4", start=1, start_seconds=1.0),
        "a.mp4: give start and stop each once, in frames or in seconds, got start=1, start_seconds=",
    ),
    "columns in a list": (lambda: vl.VideoEntry("a.mp4", columns=[1]), "a.mp4: columns must be a dict of … got [1]"),
    "a table that is not there": (lambda: VD.from_csv("no.csv"), "no.csv … the table cannot be read (No"),
    "a folder for a table": (lambda: VD.from_csv("classes"), "classes … the table cannot be read (Is a directory)"),
    "None for a table": (lambda: VD.from_csv(None), "path must be a string or a Path, got None"),
    "a video for a table": (
        lambda: VD.from_csv("a.mp4"),
        "a.mp4: is not text, so it cannot be a table … VideoDataset.from_paths takes videos",
    ),
    "other names of columns": (lambda: VD.from_csv("other_names.csv"), "other_names.csv: give … header=['path'"),
    "a slip in a column": (
        lambda: VD.from_csv("other_names.csv", columns={"path": "clip_name"}),
        "other_names.csv: columns must map path, label, start, stop … got 'path': 'clip_name'",
    ),
    "columns the wrong way round": (
        lambda: VD.from_csv("other_names.csv", columns={"clip": "path"}),
        "other_names.csv: columns must map path, label, start, stop … got 'clip': 'path'",
    ),
    "columns of a table in a list": (
        lambda: VD.from_csv("plain.csv", columns=["path", "label"]),
        "VideoDataset.from_csv's columns must be a dict or None, got ['path', 'label']",
    ),
    "a list with spaces": (lambda: VD.from_csv("spaces.txt"), "spaces.txt: give columns={'path' … header=['path'"),
    "a list without a header": (lambda: VD.from_csv("headless.csv"), "headless.csv: give … header=['path'"),
    "pandas' header=None": (lambda: VD.from_csv("headless.csv", header=None), "headless.csv: give … header=['path'"),
    "a header of False": (lambda: VD.from_csv("headless.csv", header=False), "headless.csv: header … got False"),
    "too short a header": (
        lambda: VD.from_csv("headless.csv", header=["path"]),
        "headless.csv: line 1 … 2 values, header of 1",
    ),
    "pandas' sep": (lambda: VD.from_csv("spaces.txt", sep=" "), "VideoDataset.from_csv has no … write separator"),
    "a delimiter": (lambda: VD.from_csv("spaces.txt", delimiter=" "), "VideoDataset.from_csv … write separator"),
    "pandas' names": (
        lambda: VD.from_csv("headless.csv", names=["path", "label"]),
        "VideoDataset.from_csv has no argument names … write header",
    ),
    "a separator of two": (lambda: VD.from_csv("spaces.txt", separator="ab"), "spaces.txt: separator … got 'ab'"),
    "MMAction2's data_prefix": (
        lambda: VD.from_csv("plain.csv", data_prefix="videos"),
        "VideoDataset.from_csv has no argument data_prefix … write root",
    ),
    "an end before the start": (lambda: VD.from_csv("backwards.csv"), "backwards.csv: line 2 … got start_seconds="),
    "times of a clock": (lambda: VD.from_csv("clock.csv"), "clock.csv: line 2 … start_seconds '00:00:01' is no"),
    "a file that is gone": (lambda: VD.from_csv("gone.csv", missing="raise"), "not_here.mp4 … this video and"),
    "a root that is not there": (
        lambda: VD.from_csv("plain.csv", root="nodir", missing="raise"),
        "nodir/a.mp4 … this video and 1 more of 2 in",
    ),
    "no such way with what is gone": (
        lambda: VD.from_csv("gone.csv", missing="ignore"),
        "missing must be 'raise', 'skip' or, where offered, 'unchecked', got 'ignore'",
    ),
    "a label that is missing": (lambda: VD.from_csv("one_label.csv"), "one_label.csv: line 3 … -1 stands for"),
    "a tar that is not there": (lambda: VD.from_tars("x.tar"), "x.tar … cannot be opened (No such file"),
    "a pattern of folders": (
        lambda: VD.from_folder("classes/*"),
        "classes/*: the folder cannot be read (No such file or directory): from_paths takes glob.glob(…)",
    ),
    "a folder of folders of images": (
        lambda: VD.from_folder(images()),
        "pictures: no video in this folder: no file … .png (1): … with extensions=IMAGE_EXTENSIONS each",
    ),
    "a number for values of a query": (
        lambda: store().query("SELECT * FROM videos WHERE height > ?", 3),
        "parameters must be a list with a value for each ?, got 3",
    ),
    "folders without images": (lambda: VD.from_frame_folders("classes"), "classes … no folder in this one holds"),
    "a column for a row": (lambda: data()["label"], "rows are chosen by numbers … got 'label'"),
    "a row of 1.5": (lambda: data()[1.5], "rows are chosen by numbers … got 1.5"),
    "a row after the end": (lambda: data()[5], "row 5 is outside"),
    "a list with a row after the end": (lambda: data()[[5]], "row 5 is outside"),
    "a mask that is too short": (lambda: data()[[True]], "a mask must have one value for each of"),
    "no rows": (lambda: data()[:0], "none of the 2 rows is left, but a data set … widen the selection"),
    "a list that is added": (
        lambda: data().__add__(["a.mp4"]),
        "what is added must be a VideoDataset, got ['a.mp4'] … make one with VideoDataset.from_paths",
    ),
    "a name that pandas misses": (
        lambda: VD.from_paths(["a.mp4", "b.mp4"], ["x", float("nan")]),
        "labels[1] of b.mp4: labels must be all integers or all names, got nan; None means no label",
    ),
    "SQL with a slip": (
        lambda: data().where("fpss > 3"),
        "condition 'fpss > 3' is no … fpss (write fps)); these are id",
    ),
    "SQL that is a number": (lambda: data().where(3), "condition must be SQL over facts of videos, as … got 3"),
    "a function for SQL": (lambda: data().where(lambda entry: True), "condition must be SQL over facts of"),
    "SQL that does more": (lambda: data().where("1; DROP TABLE videos"), "condition '1; DROP … one statement"),
    "a codec that no video has": (
        lambda: data().where(codec="prores"),
        "none of the 2 rows is left, but a data set … widen the selection",
    ),
    "a codec that is a number": (lambda: data().where(codec=264), "codec must be a name, as 'h264', or … got 264"),
    "a rate in quotes": (lambda: data().where(fps="30"), "fps must be a number or a pair … got '30'"),
    "a rate of one in brackets": (lambda: data().where(fps=(1,)), "fps must be a number or a pair … got (1,)"),
    "a number of frames in quotes": (lambda: data().where(min_frames="3"), "min_frames must be a … got '3'"),
    "a store that is not there": (lambda: data().where(codec="h264", store="no.db"), "no.db … the index store"),
    "a filter that keeps nothing": (
        lambda: data().filter(lambda entry: False),
        "none of the 2 rows is left, but a data set … widen the selection",
    ),
    "a filter with a slip": (lambda: data().filter(lambda entry: entry.lable == 0), "a VideoEntry has no … write"),
    "another name of a condition": (lambda: data().where(min_width=3), "VideoDataset.where has no argument min_width"),
    "SQL for a filter": (lambda: data().filter("label == 2"), "keep must be a function, got 'label == 2'"),
    "a mask for a filter": (lambda: data().filter([True, False]), "keep must be a function, got [True, False]"),
    "weights of None": (lambda: data().weighted(None), "weights must be … got None"),
    "per cent": (lambda: data().split(80), "share must be a number between 0 and 1, got 80 … 0.8 means 80 %"),
    "several shares": (lambda: data().split([0.8, 0.2]), "share must be a number … got [0.8, 0.2] … 0.8 means"),
    "a share in quotes": (lambda: data().split("0.8"), "share must be a number … got '0.8' … 0.8 means 80 %"),
    "a share of 0": (lambda: data().split(0), "share must be a number between 0 and 1, got 0 … 0.8 means 80 %"),
    "no seed": (lambda: data().split(0.5, seed=None), "seed must be an integer in [0, 2**64), got None"),
    "stratified by name": (lambda: data().split(0.5, stratified="label"), "stratified must be … got 'label'"),
    "balance without labels": (lambda: VD.from_paths(["a.mp4"]).balanced(), "a.mp4 … has no label, so classes"),
    "rows in quotes": (lambda: data().balanced(rows_per_class="3"), "rows_per_class must be a positive … got '3'"),
    "weights that are not there": (
        lambda: data().weighted("weight"),
        "the data set has no column 'weight'; its",
    ),
    "weights below 0": (lambda: data().weighted([-1, 1]), "a.mp4: row 0: a weight must be a number of at … got -1"),
    "too few weights": (lambda: data().weighted([1]), "weights must be one for each of 2 rows, got 1"),
    "a number for a mode": (lambda: data().describe(16), "mode must be a frame mode … got 16"),
    "no videos to describe": (lambda: data().describe(videos=0), "videos must be a positive integer, got 0"),
    "no workers": (lambda: data().build_store("new.db", workers=0), "workers must be a positive integer, got 0"),
    "a folder for a store": (
        lambda: data().build_store("classes"),
        "classes: is a folder: name the file of the index store in it",
    ),
    "a folder of a store": (lambda: vl.IndexStore("classes"), "classes: is a folder: name the file of the index store"),
    "a store like a dict": (lambda: store()["a.mp4"], "write store.get(path), or store.query(sql)"),
    "the paths of a store": (
        lambda: store().paths,
        "an IndexStore has no attribute paths: write store.q",
    ),
    "a query without words": (lambda: store().query(), "IndexStore.query needs the argument sql"),
    "a number for a path": (lambda: store().get(3), "source must be a string … got 3"),
    "a video for a store": (lambda: data().build_store("a.mp4"), "a.mp4 … is not an index store (file is not a"),
    "one path for a store's list": (lambda: vl.build_store("a.mp4", "new.db"), "paths must be a list … got 'a.mp4'"),
    "a store of None": (lambda: vl.build_store(["a.mp4"], None), "build_store's store must be a string … got None"),
    "a store to read that is not there": (lambda: vl.IndexStore("none.db"), "none.db … the index store cannot"),
    "a store to read of None": (lambda: vl.IndexStore(None), "IndexStore's path must be a string … got None"),
    "torchvision's targets of a data set": (lambda: data().targets, "a VideoDataset has no … write data.labels"),
    "torchvision's classes": (lambda: data().classes, "a VideoDataset has no attribute … write data.class_names"),
    "torchvision's class_to_idx": (lambda: data().class_to_idx, "a VideoDataset has no attribute … write"),
    "torchvision's samples of a data set": (lambda: data().samples, "a VideoDataset has no … write data.paths and"),
    "Hugging Face's select": (lambda: data().select([0]), "a VideoDataset has no attribute … write data[[0, 3]]"),
    "Hugging Face's train_test_split": (lambda: data().train_test_split(0.2), "a VideoDataset has no … write"),
    "Hugging Face's map": (lambda: data().map(abs), "a VideoDataset has no attribute map … write VideoLoader(data,"),
    "a shuffle": (lambda: data().shuffle(), "a VideoDataset has no attribute shuffle … write VideoLoader(data,"),
    "a transform that is set": (lambda: setattr(data(), "transform", abs), "a VideoDataset has no … write"),
    "labels that are set": (lambda: setattr(data(), "labels", [0, 1]), "labels of a VideoDataset … make another"),
    "class names that are set": (
        lambda: setattr(data(), "class_names", ("a", "b")),
        "class_names of a VideoDataset cannot be set … dataclasses.replace(data, class_names=",
    ),
    "a label of a row that is set": (
        lambda: setattr(data()[0], "label", 1),
        "label of a VideoEntry cannot be set … dataclasses.replace(entry, label=",
    ),
    "PyTorch's DataLoader around a data set": (
        lambda: next(iter(torch.utils.data.DataLoader(data()))),
        "a VideoDataset has rows and no frames … write VideoLoader(data, mode, batch_size=",
    ),
    "a DataLoader around a Subset": (
        lambda: next(iter(torch.utils.data.DataLoader(torch.utils.data.Subset(data(), [0])))),
        "a VideoDataset has rows and no frames … write VideoLoader(data, mode, batch_size=",
    ),
    "a list of Kinetics with other columns": (
        lambda: vl.layouts.kinetics("other_names.csv", "."),
        "other_names.csv: has no column 'youtube_id'; its columns are 'clip', 'kind'",
    ),
    "a list of Kinetics that is not there": (
        lambda: vl.layouts.kinetics("zz.csv", "."),
        "zz.csv … the table cannot be read (No such file or",
    ),
    "Kinetics without its videos": (lambda: vl.layouts.kinetics("plain.csv"), "kinetics needs the argument videos"),
    "Kinetics by number": (lambda: vl.layouts.k400, "module videoloader.layouts has no … write layouts.kinetics"),
    "Something-Something in short": (lambda: vl.layouts.ssv2, "module videoloader.layouts has no … write"),
}


@pytest.mark.parametrize(("call", "words"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_answered(call: Callable[[], object], words: str) -> None:
    check_answer(call, words)
