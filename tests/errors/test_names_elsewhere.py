"""Names of other libraries: the table refers only to names that exist."""

from __future__ import annotations

import dataclasses
import inspect
import re

import pytest

import videoloader as vl
from videoloader.dataset.columns import PackedStrings
from videoloader.errors.names_elsewhere import _OURS, _SAID, alike, meant
from videoloader.interop.torch import ClipDataset

OBJECTS = {
    "video": vl.Video,
    "clip": vl.Clip,
    "batch": vl.Batch,
    "data": vl.VideoDataset,
    "entry": vl.VideoEntry,
    "loader": vl.VideoLoader,
    "stats": vl.LoaderStats,
    "store": vl.IndexStore,
}
CLASSES = {each.__name__: each for each in (*OBJECTS.values(), ClipDataset, PackedStrings, vl.VideoIndex)}


def names_of(public: type) -> set[str]:
    fields = dataclasses.fields(public) if dataclasses.is_dataclass(public) else ()
    return {each.name for each in fields} | set(dir(public)) | set(public.__annotations__)


def argument_names() -> set[str]:
    public = [getattr(vl, name) for name in vl.__all__]
    called = [each for each in public if callable(each) and not (isinstance(each, type) and issubclass(each, Warning))]
    methods = [made for kind in (vl.Video, vl.VideoDataset) for _, made in inspect.getmembers(kind, inspect.isroutine)]
    own = [each for each in methods if str(getattr(each, "__module__", "")).startswith("videoloader.")]
    own = [*called, *filter(callable, own)]  # cached properties are routines, too, for ``inspect``
    return {name for each in own for name in inspect.signature(each).parameters}


def test_a_synonym_is_the_name_of_something() -> None:
    known = argument_names().union(vl.__all__, *map(names_of, OBJECTS.values()))
    assert {ours for places in _OURS.values() for ours in places} <= known


def test_other_texts_are_about_arguments_classes_or_modules() -> None:
    places = {place for texts in _SAID.values() for place in texts}
    assert {each for each in places if each.islower()} - {"import"} <= argument_names()
    assert {each for each in places if not each.islower()} <= set(CLASSES)


def test_a_class_has_none_of_the_names_for_which_something_else_is_written() -> None:
    for name, texts in _SAID.items():
        for place in texts.keys() & CLASSES.keys():
            assert name not in names_of(CLASSES[place]), (place, name)
        assert "import" not in texts or name not in vl.__all__


def test_what_is_written_in_texts_is_there() -> None:
    texts = [text for places in _SAID.values() for text in places.values()]
    found = [each for text in texts for each in re.findall(rf"\b({'|'.join(OBJECTS)})\.(\w+)", text)]
    assert len(found) > 30
    for name, attribute in found:
        assert attribute in names_of(OBJECTS[name]), (name, attribute)
    called = {each for text in texts for each in re.findall(r"(?<!v2\.)\b([A-Z]\w+)\b(?= ?[\(,]|$)", text)}
    assert called <= {*vl.__all__, "ClipDataset", "ClipRequest", "DecodingLoader", "False", "RGB", "True"}


@pytest.mark.parametrize(
    ("given", "known", "written"),
    [
        ("clip_len", ["length", "stride"], "write length"),
        ("clip_len", ["dataset", "batch_size"], "give it to the mode, as RandomWindow(16, stride=4)"),
        ("num_threads", ["source", "num_workers"], "leave it out, all cores are used, and every frame is exact"),
        ("num_frames", ["count", "length"], "write count"),
        ("zzz", ["length"], None),
    ],
)
def test_the_first_name_that_there_is_is_meant_or_what_is_written_in_its_place(
    given: str, known: list[str], written: str | None
) -> None:
    assert meant(given, known) == written


def test_attributes_are_not_taken_for_arguments() -> None:
    assert meant("num_frames", ["length", "batch_size"], ["VideoLoader"], "loader.") == "write loader.length"
    assert meant("num_frames", ["batch_size"], ["VideoLoader"], "loader.") is None
    assert meant("num_frames", ["batch_size"], ["Video"], "video.") == "write len(video)"


def test_the_name_that_is_spelled_most_alike_is_found_whatever_its_case() -> None:
    assert alike("Shufle", ["shuffle", "stride"]) == "write shuffle"
    assert alike("zzz", ["shuffle", "stride"]) == "it takes shuffle, stride"
