"""Reads ActivityNet."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any, NamedTuple

from videoloader.dataset import VideoDataset
from videoloader.dataset.missing import Missing
from videoloader.errors import ConfigurationError
from videoloader.errors.argument_names import tells_of_arguments
from videoloader.indexing.exact_numbers import float_of
from videoloader.indexing.sources.natural_order import natural_order
from videoloader.layouts.list_files import read_json, segment_of
from videoloader.layouts.rows import AnyPath, dataset_of_list, videos_in


@tells_of_arguments
def activitynet(
    annotations: AnyPath, videos: AnyPath, *, subset: str = "training", missing: Missing = "raise"
) -> VideoDataset:
    """Read ActivityNet 1.2 or 1.3, or another data set in its format (HACS, FCVID, THUMOS14): one row for each segment.

    The paper is Caba Heilbron et al., "ActivityNet: A Large-Scale Video Benchmark", CVPR 2015. The published files:

        activity_net.v1-3.min.json    {"database": {"sJQn6o5fHKw": {"duration": 82.73,
                                         "subset": "training", "resolution": "1920x1080", "url": …,
                                         "annotations": [{"segment": [6.19, 17.15],
                                                          "label": "Hand washing clothes"}, …]}, …}, …}
        videos/v_sJQn6o5fHKw.mp4      or without the v_, with any ending

    Args:
        annotations: str or path. The JSON file.
        videos: str or path. The folder of the videos.
        subset: str, default ``"training"``. ``"training"``, ``"validation"`` or ``"testing"``, in any case. If a subset
            has no annotations, its rows are whole videos without labels.
        missing: str, default ``"raise"``. The treatment of missing videos and empty segments: ``"raise"``, or
            ``"skip"`` into ``left_out``.

    Returns:
        Rows with the columns ``youtube_id``, ``duration`` (of the whole video in seconds, as in the file) and
        ``segment``, its number in the video. Labels number the classes of all subsets in natural order.

    Raises:
        SourceError: the file or the folder cannot be read, or a video is missing.
        ConfigurationError: the file has another format, or nothing of this subset.

    Examples:
        ``activitynet("activity_net.v1-3.min.json", "videos", subset="validation", missing="skip")``
    """
    source = os.fspath(annotations)
    database = read_json(source, dict).get("database")
    if not isinstance(database, dict):
        raise ConfigurationError('there is no object "database"', source)
    names: set[str] = set()
    listed: list[_Segment] = []
    empty: list[_Segment] = []
    for name, video in database.items():
        segments = _segments(name, video, source)
        names.update(segment.label for segment in segments if segment.label)
        if str(video.get("subset")).lower() == subset.lower():
            for segment in segments or [_Segment(name, video.get("duration"), 0)]:
                (empty if segment.is_empty else listed).append(segment)
    if not listed:
        subsets = ", ".join(sorted({str(video.get("subset")) for video in database.values()}))
        raise ConfigurationError(f"there is no subset {subset!r}: {subsets or 'videos name none'}", source)
    if empty and missing != "skip":
        told = f"{empty[0].place} and {len(empty) - 1} more are empty"
        raise ConfigurationError(f"{told}; missing='skip' leaves them out", source)
    labelled = any(segment.label for segment in listed)
    for segment in listed:
        if labelled and segment.label is None:
            raise ConfigurationError(f"{segment.name} has no annotations, unlike other videos of {subset!r}", source)
    folder = videos_in(videos)
    ids, durations, numbers, labels, starts, stops = map(list, zip(*listed, strict=True))
    data = dataset_of_list(
        source,
        [folder.find(f"v_{name}", name, otherwise=f"v_{name}.mp4") for name in ids],
        lambda row: listed[row].place,
        labels if labelled else None,
        natural_order(names),
        missing,
        ends={"start_seconds": starts, "stop_seconds": stops},
        columns={"youtube_id": ids, "duration": durations, "segment": numbers},
    )
    return replace(data, left_out=[*data.left_out, *((segment.place, "the segment is empty") for segment in empty)])


class _Segment(NamedTuple):
    """A row: an annotation of a video, or without label and times, the whole video."""

    name: str
    duration: Any
    number: int
    label: str | None = None
    start: float | None = None
    stop: float | None = None

    @property
    def place(self) -> str:
        return f"{self.name}, segment {self.number}"

    @property
    def is_empty(self) -> bool:
        return self.start is not None and self.stop is not None and not self.start < self.stop


def _segments(name: str, video: Any, source: str) -> list[_Segment]:
    """The annotations of a video."""
    try:
        found = []
        for number, annotation in enumerate(video.get("annotations") or ()):
            begin, end = map(float_of, segment_of(annotation))
            if not isinstance(annotation["label"], str):
                raise TypeError
            found.append(_Segment(name, video.get("duration"), number, annotation["label"], begin, end))
        return found
    except (AttributeError, TypeError, KeyError, ValueError, ArithmeticError):
        wanted = "annotations must be objects with a label and a segment of two times"
        raise ConfigurationError(f"{name}: {wanted}", source) from None
