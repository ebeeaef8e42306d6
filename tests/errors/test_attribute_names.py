"""Messages of objects and modules about unknown names."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import videoloader as vl
from videoloader.errors import MissingAttributeError
from videoloader.errors.attribute_names import tells_of_attributes


@pytest.fixture(scope="module")
def objects(sample: Callable[[str], Path]) -> dict[str, Any]:
    data = vl.VideoDataset.from_paths([sample("h264_mp4"), sample("hevc_mp4")])
    loader = vl.VideoLoader(data, vl.RandomWindow(4), batch_size=2, device="cpu", num_workers=1)
    video = vl.Video(sample("h264_mp4"), device="cpu")
    some = {"video": video, "clip": video.read([0, 1]), "data": data, "entry": data[0], "loader": loader}
    return some | {"batch": next(iter(loader)), "lists": next(iter(make_lists(data)))}


def make_lists(data: vl.VideoDataset) -> vl.VideoLoader:
    return vl.VideoLoader(data, vl.RandomWindow(4), batch_size=2, device="cpu", num_workers=1, collate="list")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("from_list", r"VideoDataset has no from_list: write VideoDataset.from_paths\(paths, labels\)"),
        ("from_json", r'write VideoDataset.from_csv\("rows.jsonl"\)'),
        ("from_dataframe", r'write VideoDataset.from_paths\(df\["path"\], df\["label"\]\)'),
        ("from_folders", "write VideoDataset.from_folder$"),
        ("zzz", "it has from_archives, from_csv, from_folder, from_frame_folders, from_paths, from_store, from_tars, "),
    ],
)
def test_a_constructor_that_there_is_not_says_which_is_meant(name: str, says: str) -> None:
    assert not hasattr(vl.VideoDataset, name)
    with pytest.raises(MissingAttributeError, match=says):
        getattr(vl.VideoDataset, name)


def test_a_users_class_answers_as_its_base() -> None:
    class Mine(vl.VideoDataset):
        pass

    with pytest.raises(MissingAttributeError, match=r"Mine has no from_json: write VideoDataset.from_csv\("):
        _ = Mine.from_json  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("name", "attribute", "says"),
    [
        ("video", "get_batch", r"a Video has no attribute get_batch: write video\[\[0, 5, 9\]\]"),
        ("video", "frame_rate", "a Video has no attribute frame_rate: write video.fps"),
        ("video", "permute", r"a Video has no attribute permute: write video\[:\].permute"),
        ("video", "Fps", "a Video has no attribute Fps: write video.fps"),
        ("video", "fill_value", r"it is only an argument, Video\(…, fill_value=…\)"),
        ("video", "zzz", "a Video has no attribute zzz: it has at, between, close, "),
        ("clip", "numpy", "a Clip has no attribute numpy: write clip.frames.numpy"),
        ("batch", "video", "a Batch has no attribute video: write batch.frames"),
        ("lists", "video", "a ListBatch has no attribute video: write batch.frames"),
        ("lists", "mean", r"a ListBatch has no attribute mean: write batch.frames\[0\].mean"),
        ("loader", "batch_size", r"it is only an argument, VideoLoader\(…, batch_size=…\)"),
        ("loader", "drop_last", 'write last_batch="drop", where the VideoLoader is made'),
        ("data", "classes", "a VideoDataset has no attribute classes: write data.class_names"),
        ("entry", "end", "a VideoEntry has no attribute end: write entry.stop"),
        ("entry", "lable", "a VideoEntry has no attribute lable: write entry.label"),
    ],
)
def test_one_line_says_what_to_write(objects: dict[str, Any], name: str, attribute: str, says: str) -> None:
    assert not hasattr(objects[name], attribute)
    with pytest.raises(MissingAttributeError, match=says) as raised:
        getattr(objects[name], attribute)
    assert "\n" not in str(raised.value)
    assert isinstance(raised.value, vl.VideoLoaderError)


@pytest.mark.parametrize(
    ("name", "attribute", "says"),
    [
        ("video", "fps", "fps of a Video cannot be set"),
        ("video", "device", "device of a Video cannot be set"),
        ("video", "fill_value", "a Video has no attribute fill_value: it is only an argument"),
        ("loader", "shuffle", "a VideoLoader has no attribute shuffle: it is only an argument"),
        ("loader", "num_threads", "write num_workers, where the VideoLoader is made"),
        ("loader", "unreadable", "unreadable of a VideoLoader cannot be set"),
        ("batch", "frames", r"frames of a Batch cannot be set: dataclasses.replace\(batch, frames=…\) makes another"),
        ("lists", "labels", "labels of a ListBatch cannot be set: dataclasses.replace"),
        ("data", "labels", "labels of a VideoDataset cannot be set: make another"),
        ("data", "transform", r"a VideoDataset has no attribute transform: write VideoLoader\(data, "),
        ("entry", "label", r"label of a VideoEntry cannot be set: dataclasses.replace\(entry, label=…\)"),
    ],
)
def test_what_does_nothing_where_it_is_set_is_told(
    objects: dict[str, Any], name: str, attribute: str, says: str
) -> None:
    with pytest.raises(MissingAttributeError, match=says):
        setattr(objects[name], attribute, 1)


def test_names_that_mean_nothing_here_and_those_of_subclasses_can_be_set(objects: dict[str, Any]) -> None:
    objects["video"].note = "seen"
    assert objects["video"].note == "seen"

    class OwnVideo(vl.Video):
        def __init__(self, path: str) -> None:
            super().__init__(path, device="cpu")
            self.transform = torch.nn.Identity()

    assert OwnVideo(objects["entry"].path).transform is not None


def test_the_error_of_a_property_is_its_own() -> None:
    class Broken(vl.Video):
        def __init__(self) -> None: ...

        @property
        def mine(self) -> int:
            return None.real  # type: ignore[attr-defined, no-any-return]

    with pytest.raises(AttributeError, match="'NoneType' object has no attribute 'real'"):
        Broken().mine  # noqa: B018


def test_copies_and_pickles_are_as_ever(objects: dict[str, Any]) -> None:
    for name in ("batch", "lists", "clip", "data", "entry"):
        for other in (
            copy.copy(objects[name]),
            copy.deepcopy(objects[name]),
            pickle.loads(pickle.dumps(objects[name])),
        ):
            assert repr(other) == repr(objects[name])


@pytest.mark.parametrize(
    ("module", "name", "says"),
    [
        (vl, "VideoReader", "module videoloader has no attribute VideoReader: write Video"),
        (vl, "videodataset", "write VideoDataset"),
        (vl, "zzz", r"module videoloader has no attribute zzz: dir\(videoloader\) lists what it has"),
        (vl.transforms, "Lambda", "module videoloader.transforms has no attribute Lambda: write PythonFunction"),
        (vl.layouts, "kinetcs", "module videoloader.layouts has no attribute kinetcs: write kinetics"),
    ],
)
def test_modules_say_it_too(module: object, name: str, says: str) -> None:
    with pytest.raises(AttributeError, match=says):
        getattr(module, name)


def test_an_error_that_only_interrupts_a_property_is_not_lost() -> None:
    """As where a signal's handler raises in it: Python asks ``__getattr__``, and a second attempt succeeds."""
    errors = [AttributeError("in a handler")]

    @tells_of_attributes("clock")
    class Clock:
        @property
        def time(self) -> int:
            if errors:
                raise errors.pop()
            return 5

    clock = Clock()
    with pytest.raises(AttributeError, match=r"an AttributeError of another place, .*, ended reading time"):
        _ = clock.time
    assert clock.time == 5
