"""Reads Something-Something v2."""

from __future__ import annotations

import os
from typing import Any

from videoloader.dataset import VideoDataset
from videoloader.dataset.missing import Missing
from videoloader.errors import ConfigurationError
from videoloader.errors.argument_names import tells_of_arguments
from videoloader.layouts.list_files import read_json
from videoloader.layouts.rows import AnyPath, dataset_of_list, videos_in


@tells_of_arguments
def something_something(
    annotations: AnyPath, videos: AnyPath, *, labels: AnyPath | None = None, missing: Missing = "raise"
) -> VideoDataset:
    """Read Something-Something v2 from one of its published lists.

    The paper is Goyal et al., "The 'something something' video database", arXiv:1706.04261. The published files:

        labels/labels.json       {"Holding something next to something": "63", …}
        labels/train.json        [{"id": "78687", "label": "holding potato next to vicks vaporub bottle",
                                   "template": "Holding [something] next to [something]",
                                   "placeholders": […]}, …]
        labels/test.json         [{"id": "1420"}, …]
        20bn-something-something-v2/78687.webm

    The older names (``something-something-v2-train.json``) also work. A label is the number in ``labels.json`` of the
    template without its brackets.

    Args:
        annotations: str or path. The list of a split.
        videos: str or path. The folder of the videos, with any extension.
        labels: str or path, default the file next to the list whose name has ``labels`` instead of ``train``,
            ``validation`` or ``test``. The path of ``labels.json``.
        missing: str, default ``"raise"``. The treatment of missing videos: ``"raise"``, or ``"skip"`` into
            ``left_out``.

    Returns:
        Rows with the columns ``id`` and, except in the test split, ``caption`` and ``placeholders``.

    Raises:
        SourceError: a file or the folder cannot be read, or a video is missing.
        ConfigurationError: a file has another format.

    Examples:
        ``something_something("labels/train.json", "20bn-something-something-v2")``
    """
    source = os.fspath(annotations)
    names = _class_names(_labels_beside(source) if labels is None else os.fspath(labels))
    known, folder = set(names), videos_in(videos)
    listed = read_json(source, list)
    ids, classes = [], []
    for row, video in enumerate(listed):
        if not isinstance(video, dict) or not isinstance(video.get("id"), str | int):
            raise ConfigurationError(f"video {row + 1} is not an object with an id", source)
        ids.append(str(video["id"]))
        template = video.get("template", "")
        classes.append(template.replace("[", "").replace("]", "") if isinstance(template, str) else None)
        if classes[-1] not in known and (template or any(classes)):
            raise ConfigurationError(f"video {row + 1}: its template {template!r} is not among the labels", source)
    columns: dict[str, list[Any]] = {"id": ids}
    labelled = any(classes)
    if labelled:
        columns |= {"caption": [video.get("label") for video in listed]}
        columns |= {"placeholders": [video.get("placeholders") for video in listed]}
    return dataset_of_list(
        source,
        [folder.find(name, otherwise=f"{name}.webm") for name in ids],
        lambda row: f"video {row + 1}",
        [str(name) for name in classes] if labelled else None,
        names,
        missing,
        columns=columns,
    )


def _labels_beside(source: str) -> str:
    folder, name = os.path.split(source)
    for split in ("train", "validation", "test"):
        if split in name:
            return os.path.join(folder, name.replace(split, "labels"))
    raise ConfigurationError("give labels=…: the name has none of train, validation and test in it", source)


def _class_names(path: str) -> list[str]:
    """The names in ``labels.json`` in the order of their numbers, which must be 0, 1, 2, …"""
    labels = read_json(path, dict)
    try:
        numbers_of = {name: int(str(number)) for name, number in labels.items()}
        names = sorted(labels, key=numbers_of.__getitem__)
        numbers = sorted(numbers_of.values())
    except ValueError:
        numbers = []
    if numbers != list(range(len(labels))):
        raise ConfigurationError(f"must number its {len(labels)} templates from 0 to {len(labels) - 1}", path)
    return names
