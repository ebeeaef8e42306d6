"""Reads Kinetics."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from videoloader.dataset import VideoDataset
from videoloader.dataset.labels import ClassNames, names_in_order
from videoloader.dataset.missing import Missing
from videoloader.dataset.raw_table import RawTable
from videoloader.dataset.reading import read_table
from videoloader.errors import ConfigurationError
from videoloader.errors.argument_names import tells_of_arguments
from videoloader.errors.attribute_names import no_such_column
from videoloader.indexing.exact_numbers import float_of
from videoloader.layouts.list_files import read_json, segment_of
from videoloader.layouts.rows import AnyPath, VideoFolder, dataset_of_list, videos_in


@tells_of_arguments
def kinetics(
    annotations: AnyPath, videos: AnyPath, *, class_names: ClassNames | None = None, missing: Missing = "raise"
) -> VideoDataset:
    """Read Kinetics-400, -600 or -700 from one of its published lists.

    The paper is Kay et al., "The Kinetics Human Action Video Dataset", arXiv:1705.06950.

    A list is a CSV file with the columns ``label`` (not in test lists), ``youtube_id``, ``time_start``, ``time_end``
    and others, or the JSON file with the same facts. Videos are in class folders or in one folder, with any extension:

        train.csv                                         label,youtube_id,time_start,time_end,split
        videos/abseiling/-3B32lodo2M_000059_000069.mp4    a clip, as in most copies: it is the row
        videos/-3B32lodo2M.mp4                            a whole video: the row is the part between the times

    Args:
        annotations: str or path. The list.
        videos: str or path. The folder of the videos.
        class_names: list or dict, default those in the list, in natural order. The name of each label; any other label
            is an error.
        missing: str, default ``"raise"``. The treatment of videos that YouTube has lost: ``"raise"``, or ``"skip"``
            into ``left_out``.

    Returns:
        Rows with ``youtube_id``, ``time_start``, ``time_end`` and the list's other columns.

    Raises:
        SourceError: the list or the folder cannot be read, or a video is missing.
        ConfigurationError: the list has another format; the message has the line.

    Examples:
        >>> train = kinetics("k400/train.csv", "k400/train", missing="skip")
        >>> val = kinetics("k400/val.csv", "k400/val", class_names=train.class_names)
    """
    source = os.fspath(annotations)
    table = _from_json(source) if source.lower().endswith(".json") else read_table(source)
    return _dataset(table, videos_in(videos), names_in_order(class_names), missing)


def _from_json(source: str) -> RawTable:
    """The rows of a JSON list, with the column names of the CSV files."""
    rows = []
    for name, video in read_json(source, dict).items():
        try:
            facts = video.get("annotations", {})
            begin, end = segment_of(facts)
            rows.append((name, begin, end, facts.get("label"), video.get("subset")))
        except (AttributeError, TypeError, KeyError, ValueError):
            raise ConfigurationError(f"{name} has no annotations with a segment of two times", source) from None
    names = ("youtube_id", "time_start", "time_end", "label", "split")
    columns = {name: [row[place] for row in rows] for place, name in enumerate(names)}
    labels = columns.pop("label")
    if any(label not in (None, "") for label in labels):
        columns["label"] = [label if isinstance(label, str) else "" for label in labels]
    return RawTable(source, columns, lambda row: str(rows[row][0]))


def _dataset(table: RawTable, videos: VideoFolder, class_names: Sequence[str] | None, missing: Missing) -> VideoDataset:
    columns = {name.strip().lower(): list(column) for name, column in table.columns.items()}
    for name in ("youtube_id", "time_start", "time_end"):
        if name not in columns:
            raise no_such_column(name, columns, source=table.source)
    starts, ends = (
        [_seconds(value, f"{table.source}: {table.where(row)}") for row, value in enumerate(columns.pop(name))]
        for name in ("time_start", "time_end")
    )
    ids = [str(name) for name in columns.pop("youtube_id")]
    labels = [str(name) for name in columns.pop("label")] if "label" in columns else None
    found, first, stop = [], [], []
    for row, (name, begin, end) in enumerate(zip(ids, starts, ends, strict=True)):
        label = labels[row] if labels else ""
        clip = f"{name}_{int(begin):06d}_{int(end):06d}"
        path, is_there = videos.find(clip, name, class_name=label, otherwise=os.path.join(label, f"{clip}.mp4"))
        is_whole = is_there and clip not in videos.paths
        found.append((path, is_there))
        first.append(begin if is_whole else None)
        stop.append(end if is_whole else None)
    return dataset_of_list(
        table.source,
        found,
        table.where,
        labels,
        class_names,
        missing,
        ends={"start_seconds": first, "stop_seconds": stop},
        columns={"youtube_id": ids, "time_start": starts, "time_end": ends, **columns},
    )


def _seconds(value: Any, where: str) -> float:
    try:
        seconds = float_of(value)
    except (ArithmeticError, TypeError, ValueError):
        seconds = -1.0
    if not 0 <= seconds < 1e9:
        raise ConfigurationError(f"{where}: {value!r} is not a time in seconds")
    return seconds
