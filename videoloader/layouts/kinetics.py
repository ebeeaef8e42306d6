"""Kinetics-400, -600 and -700 (Kay et al., "The Kinetics Human Action Video Dataset", arXiv:1705.06950)."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from videoloader.dataset import VideoDataset
from videoloader.dataset.reading import read_table
from videoloader.errors import ConfigurationError
from videoloader.layouts.list_files import read_json
from videoloader.layouts.rows import Rows, VideoFolder, videos_in


def kinetics(
    annotations: str | os.PathLike[str],
    videos: str | os.PathLike[str],
    *,
    class_names: Sequence[str] | None = None,
    missing: str = "raise",
) -> VideoDataset:
    """Kinetics, from one of its published lists.

    A list is a CSV file with the columns ``label`` (not in test lists), ``youtube_id``, ``time_start``, ``time_end``
    and others, or the JSON file with the same facts. Videos lie in class folders or in one folder, with any ending::

        train.csv                   label,youtube_id,time_start,time_end,split
        videos/abseiling/-3B32lodo2M_000059_000069.mp4       a clip, as most copies have them: it is the row
        videos/-3B32lodo2M.mp4                               a whole video: the row is what lies between the times

    Args:
        annotations: the list.
        videos: folder of the videos.
        class_names: of the labels; unless given, those in the list in natural order. Another label is an error.
        missing: what to do where YouTube has lost a video: ``"raise"``, or ``"skip"`` into ``left_out``.

    Returns:
        Rows with ``youtube_id``, ``time_start``, ``time_end`` and the list's other columns.

    Raises:
        SourceError: the list or the folder cannot be read, or a video is not there.
        ConfigurationError: the list is not such a list, with the line.

    Example:
        >>> train = kinetics("k400/train.csv", "k400/train", missing="skip")
        >>> val = kinetics("k400/val.csv", "k400/val", class_names=train.class_names)
    """
    source = os.fspath(annotations)
    listed = _from_json(source) if source.lower().endswith(".json") else _from_csv(source)
    return _rows(source, listed, videos_in(videos)).dataset(class_names, missing)


class _List(NamedTuple):
    """A list by columns; ``labels`` is None in a list without them."""

    ids: Sequence[str]
    starts: Sequence[float]
    ends: Sequence[float]
    labels: Sequence[str] | None
    others: Mapping[str, Sequence[Any]]
    where: Callable[[int], str]


def _from_csv(source: str) -> _List:
    table = read_table(source)
    columns = {name.strip().lower(): column for name, column in table.columns.items()}
    for name in ("youtube_id", "time_start", "time_end"):
        if name not in columns:
            raise ConfigurationError(f"there is no column {name}: {', '.join(columns)}", source)
    starts, ends = (
        [_seconds(text, f"{source}: {table.where(row)}") for row, text in enumerate(columns.pop(name))]
        for name in ("time_start", "time_end")
    )
    ids, labels = [str(name) for name in columns.pop("youtube_id")], columns.pop("label", None)
    others = {name: list(column) for name, column in columns.items()}
    return _List(ids, starts, ends, None if labels is None else [str(name) for name in labels], others, table.where)


def _from_json(source: str) -> _List:
    videos = read_json(source, dict)
    rows = []
    for name, video in videos.items():
        try:
            facts = video.get("annotations", {})
            begin, end = (_seconds(time, f"{source}: {name}") for time in facts["segment"])
            rows.append((name, begin, end, facts.get("label"), video.get("subset")))
        except (AttributeError, TypeError, KeyError, ValueError) as error:
            if isinstance(error, ConfigurationError):
                raise
            raise ConfigurationError(f"{name}: no annotations with a segment of two times", source) from None
    if not rows:
        raise ConfigurationError("the list has no videos", source)
    ids, starts, ends, labels, subsets = zip(*rows, strict=True)
    for name, label in zip(ids, labels, strict=True):
        if not isinstance(label, str) and any(labels):
            raise ConfigurationError(f"{name}: the label is missing", source)
    return _List(ids, starts, ends, labels if any(labels) else None, {"split": subsets}, lambda row: str(ids[row]))


def _rows(source: str, listed: _List, videos: VideoFolder) -> Rows:
    paths, there, starts, ends = [], [], [], []
    for row, (name, begin, end) in enumerate(zip(listed.ids, listed.starts, listed.ends, strict=True)):
        label = listed.labels[row] if listed.labels else ""
        clip = f"{name}_{int(begin):06d}_{int(end):06d}"
        cut = videos.find(clip, label)
        path = cut or videos.find(name, label)
        paths.append(path or os.path.join(videos.folder, label, f"{clip}.mp4"))
        there.append(path is not None)
        starts.append(begin if path and not cut else None)
        ends.append(end if path and not cut else None)
    columns = {"youtube_id": listed.ids, "time_start": listed.starts, "time_end": listed.ends, **listed.others}
    seconds = {"start_seconds": starts, "stop_seconds": ends}
    return Rows(source, paths, there, listed.where, listed.labels, seconds, columns)


def _seconds(value: Any, where: str) -> float:
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        seconds = -1.0
    if not 0 <= seconds < 1e9:
        raise ConfigurationError(f"{where}: {value!r} is no time in seconds")
    return seconds
