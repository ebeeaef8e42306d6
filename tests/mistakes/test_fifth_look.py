"""Mistakes that were taken in silence, or answered from the inside, when several hundred more were tried."""

# mypy: ignore-errors
from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
from first_day import Mistakes, batch, check_answer, data, first, loader, video

import videoloader as vl
from videoloader import VideoDataset as VD
from videoloader.interop.torch import ClipDataset, ClipRequest, DecodingLoader, stack_clips

SMALL = vl.Resize((16, 24))
FRAMES = torch.zeros(2, 4, 3, 48, 64, dtype=torch.uint8)


def table(text: str, **arguments: object) -> VD:
    Path("fifth.csv").write_text(text)
    return VD.from_csv("fifth.csv", **arguments)


def columns(**others: object) -> VD:
    return VD([vl.VideoEntry("a.mp4", 0, columns=others or {"night": "1", "split": "val"})], ["x"])


def cut_at(*cuts: int) -> vl.Batch:
    return first(vl.Triplets(cuts="cuts"), columns(cuts=list(cuts)))


def when(condition: Callable[[vl.ClipInfo], object], dataset: VD | None = None) -> vl.Batch:
    dataset = columns() if dataset is None else dataset
    return first(dataset=dataset, transforms=[SMALL, vl.When(condition, vl.Invert())])


def decoding_loader() -> DecodingLoader:
    return DecodingLoader([[ClipRequest("a.mp4", [0])]], device="cpu", num_workers=1)


def clips() -> ClipDataset:
    return ClipDataset(data(), vl.RandomWindow(2), transforms=[SMALL])


def boxes(*values: float) -> torch.Tensor:
    return torch.tensor([values, values])


MISTAKES: Mistakes = {
    "a cut after the end": (
        lambda: cut_at(5, 500),
        "a.mp4: column 'cuts' has a cut at frame 500, which is outside the video's 30 frames: cuts are frame numbers",
    ),
    "a cut from the end": (lambda: cut_at(-5), "column 'cuts' has a cut at frame -5, which is outside the video's 30"),
    "a column with a slip in a filter": (
        lambda: columns().filter(lambda entry: entry.columns["nigth"] == "1"),
        "the row has no column 'nigth'; its columns are 'night', 'split': write 'night'",
    ),
    "a column with a slip for a clip": (
        lambda: when(lambda clip: clip.columns["nigth"] == "1"),
        "a.mp4: row 0 of the data set: the row has no column 'nigth'; its columns are 'night', 'split': write 'night'",
    ),
    "a column without rows": (
        lambda: video().read([0], transforms=[vl.When(lambda clip: clip.columns["night"] == "1", vl.Invert())]),
        "a.mp4: the row has no column 'night'; its columns are none",
    ),
    "a column with a slip in Compose": (
        lambda: vl.Compose([vl.When(lambda clip: clip.columns["nigth"], SMALL)])(FRAMES[0], columns={"night": 1}),
        "the row has no column 'nigth'; its columns are 'night': write 'night'",
    ),
    "a column of a batch with a slip": (
        lambda: first(dataset=columns()).columns[0]["splits"],
        "the row has no column 'splits'; its columns are 'night', 'split': write 'split'",
    ),
    "a column as an attribute of a row": (
        lambda: columns().filter(lambda entry: entry.night == "1"),
        "a VideoEntry has no attribute night: write entry.columns['night']",
    ),
    "a column as an attribute of a clip": (
        lambda: when(lambda clip: clip.nigth == "1"),
        "a ClipInfo has no attribute nigth: write clip.columns['night']",
    ),
    "an attribute of a row whose columns have numbers": (
        lambda: VD([vl.VideoEntry("a.mp4", columns={1: 2})])[0].nigth,
        "a VideoEntry has no attribute nigth: it has columns, label",
    ),
    "a slip in a fact of a clip": (
        lambda: when(lambda clip: clip.lable == 0),
        "a ClipInfo has no attribute lable: write clip.label",
    ),
    "a column of weights with a slip": (
        lambda: columns().weighted("nights"),
        "the data set has no column 'nights'; its columns are 'night', 'split': write 'night'",
    ),
    "a column of frames with a slip": (
        lambda: first(vl.FrameList("splits"), columns()),
        "a.mp4: has no column 'splits'; its columns are 'night', 'split': write 'split'",
    ),
    "a fact with a slip": (lambda: data().where("duration > 3"), "no such column: duration (write duration_s)); these"),
    "a column for a fact of videos": (
        lambda: columns().where("split = 'val'"),
        "no such column: split (text is written in single … filter takes a function of rows' own columns",
    ),
    "a data set times two": (lambda: data() * 2, "rows are repeated by addition, as data + data, or by data.weighted"),
    "two times a data set": (lambda: 2 * data(), "rows are repeated by addition"),
    "a number in a video": (lambda: 5 in video(), "nothing can be looked for in a Video: that would decode all of it"),
    "a number in a loader": (lambda: 5 in loader(), "nothing can be looked for in a VideoLoader: that would decode"),
    "a number in another loader": (lambda: 5 in decoding_loader(), "nothing can be looked for in a DecodingLoader"),
    "labels of Compose that are no integers": (
        lambda: vl.Compose(SMALL)(FRAMES, labels=[1.7, 0.2]),
        "labels must be integers of at least -1, or None, got 1.7",
    ),
    "labels of Compose below -1": (
        lambda: vl.Compose(SMALL)(FRAMES, labels=torch.tensor([-3, 0])),
        "labels must be integers of at least -1, or None, got tensor(-3)",
    ),
    "columns of Compose that are no dicts": (
        lambda: vl.Compose(SMALL)(FRAMES, columns=["x", "y"]),
        "columns must be a dict of names and values for each clip, got 'x'",
    ),
    "boxes of (x, y, width, height) to the video": (
        lambda: batch().to_source(boxes(20.0, 12.0, 3.0, 4.0)),
        "boxes must be (x1, y1, x2, y2) with x1 <= x2 and y1 <= y2, got [20.0, 12.0, 3.0, 4.0]: sort the corners",
    ),
    "half a row of a batch": (
        lambda: batch().to_source(boxes(1.0, 2.0, 3.0, 4.0), [0.7, 1.0]),
        "rows must be a list of integers, got [0.7, 1.0]",
    ),
    "a mask of rows": (
        lambda: batch().to_source(boxes(1.0, 2.0, 3.0, 4.0), torch.tensor([True, False])),
        "rows must be a list of integers, got torch.bool of shape (2,)",
    ),
    "a frame of a clip from its end": (
        lambda: batch().to_source(boxes(1.0, 2.0, 3.0, 4.0), times=[-1, 0]),
        "times must be in [0, …], got -1",
    ),
    "a time in quotes": (lambda: video().index.frame_at("1"), "seconds must be finite numbers, got '1'"),
    "no number for a time": (lambda: video().index.frame_at([0.5, np.nan]), "seconds must be finite numbers, got [0.5"),
    "a rate of an index": (lambda: video().index.fps, "a VideoIndex has no attribute fps: write video.fps"),
    "times in a set": (lambda: vl.Timestamps({0.1, 0.5}), "seconds must be a list of seconds, got {0."),
    "times in a dict": (lambda: vl.Timestamps({0.1: 0.5}), "seconds must be a list of seconds, got {0.1: 0.5}"),
    "half a row": (lambda: data()[0:1.5], "the ends of a slice must be integers and its step not 0, got slice(0, 1.5"),
    "seconds to stream": (lambda: video().stream(slice(0, 1.5)), "the ends of a slice must be … video.between(start"),
    "a flag for a start": (lambda: vl.VideoEntry("a.mp4", start=True), "a.mp4: start must be the … got True"),
    "a flag for seconds": (lambda: vl.VideoEntry("a.mp4", stop_seconds=True), "a.mp4: stop_seconds must be … got True"),
    "the state of a loader for another": (
        lambda: decoding_loader().load_state_dict(loader().state_dict()),
        "not the state of a DecodingLoader, which state_dict() gives: {'epoch': 0",
    ),
    "a state with text for numbers": (
        lambda: decoding_loader().load_state_dict({**decoding_loader().state_dict(), "requests": "0"}),
        "not the state of a DecodingLoader, which state_dict() gives: {",
    ),
    "a state with too large a number": (
        lambda: decoding_loader().load_state_dict({**decoding_loader().state_dict(), "requests": 1 << 63}),
        "not the state of a DecodingLoader, which state_dict() gives: {",
    ),
    "None for a state": (lambda: decoding_loader().load_state_dict(None), "not the state of a DecodingLoader, which"),
    "no state": (lambda: decoding_loader().load_state_dict({}), "not the state of a DecodingLoader, which … gives: {}"),
    "an epoch in quotes": (lambda: decoding_loader().set_epoch("1"), "epoch must be an integer in [0, 2**64), got '1'"),
    "frames of a data set of clips": (
        lambda: clips().frames,
        "a ClipDataset has no attribute frames: write clips[0], a dict with frames, label, path",
    ),
    "a slip in a data set of clips": (
        lambda: clips().set_epochs(1),
        "a ClipDataset has no attribute set_epochs: write clips.set_epoch",
    ),
}


@pytest.mark.parametrize(("call", "words"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_answered(call: Callable[[], object], words: str) -> None:
    check_answer(call, words)


MADE_UP = "but there are frames 0 to 29, which last 0–1.2 s: all frames of the clip are made up by padding (mask False)"

WARNINGS: dict[str, tuple[Callable[[], object], str]] = {
    "a clip after the end": (lambda: video().read(vl.AtRate(8, 4, start=500)), MADE_UP),
    "a clip before the start": (lambda: video().read(vl.AtRate(8, 4, start=-500)), "asks for frames -"),
    "times after the end": (lambda: video().read(vl.Timestamps([500], pad="edge")), MADE_UP),
    "frames after the end": (lambda: video().read(vl.FrameList([500, 501], pad="wrap")), "asks for frames 500 to 501"),
    "several clips after the end": (lambda: video().read_clips(vl.AtRate(8, 4, start=500)), MADE_UP),
    "clips of a loader": (lambda: list(loader(vl.AtRate(8, 4, start=500), batch_size=1)), "asks for frames 1"),
    "clips for a torch loader": (lambda: ClipDataset(data(), vl.AtRate(8, 4, start=500))[0], MADE_UP),
    "clips of requests": (
        lambda: list(DecodingLoader([[ClipRequest("a.mp4", vl.AtRate(8, 4, start=500))]] * 2, device="cpu")),
        MADE_UP,
    ),
    "labels compared with -1": (
        lambda: data().filter(lambda entry: entry.label != -1),
        "a label is compared with -1, but labels are numbers from 0 to 1, and None where missing",
    ),
    "labels compared with too much": (
        lambda: data().filter(lambda entry: entry.label != 2),
        "a label is compared with 2, but labels are numbers from 0 to 1",
    ),
    "labels of clips compared with -1": (
        lambda: when(lambda clip: clip.label == -1),
        "a label is compared with -1, but labels are numbers from 0 on, and None where missing",
    ),
    "points in shares": (
        lambda: batch().replay(0, torch.tensor([[0.1, 0.2]]), "points"),
        "points are in pixels of the video, got [0.1",
    ),
    "points in shares of a clip": (
        lambda: batch().to_source(torch.tensor([[0.1, 0.2], [0.3, 0.4]])),
        "points are in pixels of the clip's frames, got [0.1",
    ),
    "boxes in shares of a clip": (
        lambda: batch().to_source(boxes(0.1, 0.2, 0.5, 0.6)),
        "boxes are in pixels of the clip's frames, got [0.1",
    ),
    "a speed in per cent": (lambda: vl.SpeedChange((80, 120)), "SpeedChange's factor is a factor, not a difference of"),
    "a label that pandas misses": (
        lambda: table("path,label\na.mp4,nan\nb.mp4,x\n"),
        "label 'nan' is taken for the name of a class: leave rows out that have no label",
    ),
}


@pytest.mark.parametrize(("call", "words"), WARNINGS.values(), ids=WARNINGS)
def test_what_may_be_meant_is_a_warning(call: Callable[[], object], words: str) -> None:
    with pytest.warns(vl.VideoLoaderWarning) as told:
        call()
    # Python shows one of those that are alike.
    assert [words in message for message in {str(each.message) for each in told}].count(True) == 1


def test_a_loader_tells_of_the_first_clip_without_a_frame_of_its_own() -> None:
    rows = VD.from_paths(["a.mp4", "b.mp4"] * 4)
    with pytest.warns(vl.VideoLoaderWarning, match="all frames of the clip") as told:
        made = list(loader(vl.AtRate(8, 4, start=500), rows))
    assert not any(each.mask.any() for each in made)
    assert ["all frames of the clip" in str(each.message) for each in told].count(True) == 1


CLEAN: dict[str, Callable[[], object]] = {
    "a clip that begins at the last frame": lambda: video().read(vl.AtRate(8, 4, start=1.19)),
    "a cut at the end": lambda: cut_at(5, 30),
    "a share of numpy": lambda: data().split(np.float32(0.5)),
    "the first pixel's centre": lambda: batch().replay(0, torch.tensor([[0.5, 0.5]]), "points"),
    "times of all kinds": lambda: video().index.frame_at([0, Fraction(1, 2), 0.5]) + video().index.frame_at([]).sum(),
    "rows of all kinds": lambda: [
        batch().to_source(boxes(1.0, 2.0, 3.0, 4.0), rows, times)
        for rows, times in [(None, None), ([0, np.int64(1)], None), (torch.tensor([1, 0]), np.array([3, 0]))]
    ],
    "no boxes": lambda: batch().to_source(torch.zeros(2, 0, 4)),
    "a class of no action": lambda: table("path,label\na.mp4,none\nb.mp4,x\n"),
    "labels of Compose": lambda: vl.Compose(SMALL)(FRAMES, labels=[-1, np.int64(3)]),
    "a fast clip": lambda: vl.SpeedChange((0.1, 10)),
    "a label in range": lambda: data().filter(lambda entry: entry.label in (0, None)),
    "clips in batches": lambda: stack_clips([clips()[0], clips()[1]]),
}


@pytest.mark.parametrize("call", CLEAN.values(), ids=CLEAN)
def test_what_is_right_says_nothing(call: Callable[[], object]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        call()


def test_a_missing_column_is_a_key_error_and_columns_are_dicts() -> None:
    row = columns()[0]
    with pytest.raises(KeyError):
        row.columns["day"]
    assert row.columns.get("day") is None
    assert "day" not in row.columns
    assert row.columns == pickle.loads(pickle.dumps(row)).columns == {"night": "1", "split": "val"}
    assert repr(row.columns) == "{'night': '1', 'split': 'val'}"
