"""Which videos, or parts of videos, an epoch goes through, and what is known about each."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from numbers import Integral, Real
from typing import Any

import numpy as np

from videoloader.csv_table import ENDS, find_columns, read_number, read_table
from videoloader.errors import ConfigurationError, FrameRangeError
from videoloader.folders import files_below, frame_folders_below, list_folder
from videoloader.indexing import BuildReport, VideoIndex, build_store
from videoloader.indexing.sources.folder import is_image_name
from videoloader.labels import number_labels, parse_labels
from videoloader.webdataset import read_shards

VIDEO_EXTENSIONS = (
    "3gp",
    "avi",
    "flv",
    "m2ts",
    "m4v",
    "mkv",
    "mov",
    "mp4",
    "mpeg",
    "mpg",
    "mts",
    "ogv",
    "ts",
    "webm",
    "wmv",
)


@dataclass(frozen=True, slots=True)
class VideoEntry:
    """One row of a data set: a video or a part of one. Each end is given in frames, in seconds or not at all.

    Args:
        path: of the video, in any form that ``Video`` takes.
        label: number of its class.
        start, stop: frame numbers, stop exclusive.
        start_seconds, stop_seconds: presentation times; the frames from the first to before the second.
        columns: anything else known about it; travels with the clips.

    Raises:
        ConfigurationError: an argument has the wrong type, an end is given twice, or the part is empty.

    Example:
        ``VideoEntry("match.mp4", label=3, start_seconds=61.5, stop_seconds=64.0)``
    """

    path: str
    label: int | None = None
    _: KW_ONLY
    start: int | None = None
    stop: int | None = None
    start_seconds: float | None = None
    stop_seconds: float | None = None
    columns: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.path, str) or not self.path:
            raise ConfigurationError(f"path must be a non-empty string, got {self.path!r}")
        for name in ("label", *ENDS):
            value, kind = getattr(self, name), Real if name.endswith("_seconds") else Integral
            if value is not None and not (issubclass(type(value), kind) and abs(value) < math.inf):
                raise ConfigurationError(f"{name} must be a {kind.__name__} number, got {value!r}", self.path)
        ends = ", ".join(f"{name}={getattr(self, name)}" for name in ENDS)
        if None not in (self.start, self.start_seconds) or None not in (self.stop, self.stop_seconds):
            raise ConfigurationError(f"an end must be given in frames or in seconds, got {ends}", self.path)
        first, begin, end = self.start or 0, self.start_seconds, self.stop_seconds
        no_frames = first < 0 or (self.stop is not None and self.stop <= first)
        if no_frames or (begin is not None and end is not None and begin >= end):
            raise ConfigurationError(f"start must be at least 0 and less than stop, got {ends}", self.path)


@dataclass(frozen=True)
class VideoDataset:
    """A table of videos: an immutable sequence of ``VideoEntry``.

    Args:
        entries: the rows, at least one.
        class_names: name of each label; empty where labels are plain numbers or missing.

    Raises:
        ConfigurationError: there are no entries, or a label has no class name.

    Example:
        >>> data = VideoDataset.from_paths(["a.mp4", "b.mp4"], ["walk", "run"])
        >>> len(data), data[0].label, data.class_names
        (2, 1, ('run', 'walk'))
    """

    entries: Sequence[VideoEntry]
    class_names: Sequence[str] = ()

    def __post_init__(self) -> None:
        if isinstance(self.class_names, str) or len(set(self.class_names)) < len(self.class_names):
            raise ConfigurationError(f"class_names must be different names, got {self.class_names!r}")
        object.__setattr__(self, "entries", tuple(self.entries))
        object.__setattr__(self, "class_names", tuple(self.class_names))
        if not self.entries:
            raise ConfigurationError("entries must hold at least one video, got ()")
        for entry in self.entries if self.class_names else ():
            if entry.label is not None and not 0 <= entry.label < len(self.class_names):
                raise ConfigurationError(f"label {entry.label} has no name in class_names", entry.path)

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[VideoEntry]:
        return iter(self.entries)

    def __getitem__(self, index: int) -> VideoEntry:
        return self.entries[index]

    def build_index(
        self,
        store: str | os.PathLike[str],
        *,
        root: str | os.PathLike[str] | None = None,
        workers: int | None = None,
        progress: Callable[[int, int], object] = lambda done, total: None,
        retry: bool = False,
        prune: bool = False,
    ) -> BuildReport:
        """Index all videos into a store, for ``VideoLoader(…, index=store)``; arguments as for ``build_store``.

        Raises:
            SourceError: the store cannot be written.
            IndexingError: there is another kind of file at its path.

        Example:
            >>> report = data.build_index("train.db")  # doctest: +SKIP
            >>> report.indexed, len(report.unreadable)  # doctest: +SKIP
            (239871, 129)
        """
        paths = (entry.path for entry in self.entries)
        return build_store(paths, store, root=root, workers=workers, progress=progress, retry=retry, prune=prune)

    @classmethod
    def from_paths(
        cls,
        paths: Iterable[str | os.PathLike[str]],
        labels: Iterable[int | str] | None = None,
        *,
        class_names: Sequence[str] | None = None,
    ) -> VideoDataset:
        """One entry for each path, in their order.

        Args:
            paths: of the videos, in any form that ``Video`` takes. They are not opened here.
            labels: one for each path: all numbers, or all names.
            class_names: the name of each number; for names, unless given, those that occur in natural order.
                Give it where several splits of one data set must agree.

        Raises:
            ConfigurationError: there are no paths, not as many labels as paths, or a label has no class name.

        Example:
            ``VideoDataset.from_paths(sorted(Path("clips").glob("*.mp4")))``
        """
        if isinstance(paths, (str, os.PathLike)):
            raise ConfigurationError(f"paths must be a list of paths, got {paths!r}")
        names = [os.fspath(path) for path in paths]
        if labels is None:
            return cls([VideoEntry(name) for name in names], class_names or ())
        given = list(labels)
        if len(given) != len(names):
            raise ConfigurationError(f"labels must be one for each of {len(names)} paths, got {len(given)}")
        numbers, known = number_labels(given, class_names, names.__getitem__)
        return cls([VideoEntry(name, label) for name, label in zip(names, numbers, strict=True)], known)

    @classmethod
    def from_folder(
        cls,
        folder: str | os.PathLike[str],
        *,
        extensions: Collection[str] = VIDEO_EXTENSIONS,
        class_names: Sequence[str] | None = None,
    ) -> VideoDataset:
        """All videos in a folder and the folders in it, in natural order ("clip2" before "clip10").

        With no video directly in ``folder``, each folder in it is a class, with or without videos, so that
        splits with the same folders agree on the labels. Otherwise there are no labels. Hidden files and
        folders (with a leading dot) are skipped, links are followed.

        Args:
            folder: the root.
            extensions: of the files that are videos, in any case, with or without the dot. ``IMAGE_EXTENSIONS``
                makes a video of one frame of each image file (ImageNet's ``class/image.jpg``).
            class_names: unless given, the folders' names in natural order. Another folder is an error.

        Raises:
            SourceError: a folder cannot be read.
            ConfigurationError: there is no video, or the folders are not those of ``class_names``.

        Example:
            ``VideoDataset.from_folder("kinetics/train")`` for ``kinetics/train/archery/….mp4``
        """
        root = os.fspath(folder)
        endings = _endings(extensions)
        files, _ = list_folder(root)
        flat = any(name.lower().endswith(endings) for name in files)
        found = _labelled(root, flat, lambda folder: files_below(folder, endings), class_names)
        if not found:
            raise ConfigurationError(f"no video in this folder: no file ends with {', '.join(endings)}", root)
        return cls(*found)

    @classmethod
    def from_frame_folders(
        cls, folder: str | os.PathLike[str], *, class_names: Sequence[str] | None = None
    ) -> VideoDataset:
        """All folders in a folder that hold image files, each a video with one frame a file, in natural order.

        With such a folder (or an image) directly in ``folder``, there are no labels: ``davis/480p/bear/00000.jpg``.
        Otherwise each folder in it is a class: ``ucf101/Archery/clip1/1.jpg``. Where these only group the videos, as
        in Vimeo-90K's ``sequences/00001/0001/im1.png``, the labels are the groups' numbers. Hidden folders are
        skipped, links are followed. The image files are not opened here.

        Frames come at one a second: seconds are frame numbers.

        Args:
            folder: the root.
            class_names: unless given, the folders' names in natural order. Another folder is an error.

        Raises:
            SourceError: a folder cannot be read.
            ConfigurationError: there is no image file, or the folders are not those of ``class_names``.

        Example:
            ``VideoDataset.from_frame_folders("vimeo_septuplet/sequences")``
        """
        root = os.fspath(folder)
        _, folders = list_folder(root)
        within = (root, *(os.path.join(root, name) for name in folders))
        flat = any(is_image_name(name) for path in within for name in list_folder(path)[0])
        found = _labelled(root, flat, frame_folders_below, class_names)
        if not found:
            raise ConfigurationError("no folder in this one holds image files", root)
        return cls(*found)

    @classmethod
    def from_csv(
        cls,
        path: str | os.PathLike[str],
        *,
        columns: Mapping[str, str] | None = None,
        root: str | os.PathLike[str] | None = None,
        class_names: Sequence[str] | None = None,
    ) -> VideoDataset:
        """One entry for each row of a CSV file (RFC 4180, UTF-8) with a header.

        The separator is the comma, tab or semicolon, whichever is most in the header. Columns are found by
        name, in any case, the first that is there::

            path            path, video, filename, file
            label           label, class                      numbers in every row, or names
            start           start_frame                       frame number
            stop            end_frame, stop_frame             frame number, exclusive
            start_seconds   start, start_time, start_seconds  looked at where there are no frame columns
            stop_seconds    end, stop, end_time, stop_time, end_seconds, stop_seconds

        An empty start or stop is that of the video. Other columns travel as text in ``VideoEntry.columns``.

        Args:
            path: of the table.
            columns: the file's names for columns above, e.g. ``{"path": "clip", "start_seconds": "t0"}``.
            root: folder that relative paths start from; the table's own unless given.
            class_names: as for ``from_paths``.

        Raises:
            SourceError: the file cannot be read.
            ConfigurationError: the table or a value makes no sense, with the line; or a column is missing.

        Example:
            ``VideoDataset.from_csv("train.csv", columns={"label": "verb"})``
        """
        source = os.fspath(path)
        header, rows = read_table(source)
        place = find_columns(header, columns or {}, source)
        folder = os.path.dirname(source) if root is None else os.fspath(root)
        texts = [cells[place["label"]].strip() if "label" in place else "" for _, cells in rows]
        # A column without a single label is no label column.
        if "" in texts and any(texts):
            raise ConfigurationError(f"line {rows[texts.index('')][0]}: the label is missing", source)
        labels, known = parse_labels(texts, class_names, lambda i: f"{source}: line {rows[i][0]}")
        extra = [i for i in range(len(header)) if i not in place.values()]
        entries = []
        for (line, cells), label in zip(rows, labels, strict=True):
            video = cells[place["path"]].strip()
            try:
                entry = VideoEntry(
                    video and os.path.join("" if "://" in video else folder, video),
                    label,
                    columns={header[i]: cells[i] for i in extra},
                    **{end: read_number(end, cells[place[end]].strip()) for end in ENDS if end in place},
                )
            except ConfigurationError as error:
                raise ConfigurationError(f"line {line}: {error}", source) from None
            entries.append(entry)
        return cls(entries, known)

    @classmethod
    def from_tars(
        cls,
        shards: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
        *,
        extensions: Collection[str] = VIDEO_EXTENSIONS,
        class_names: Sequence[str] | None = None,
    ) -> VideoDataset:
        """All videos in tar archives, in their order there; in the layout of WebDataset or any other.

        Nothing is unpacked: videos are read where they lie. A file with the same path as a video up to the first
        dot of its name belongs to it: ``key.cls`` is its label, a number or a name, and others of at most 64 KiB
        are ``VideoEntry.columns`` by extension: ``json`` parsed, ``txt`` as text, else bytes. ``"__key__"`` is
        the key.

        Args:
            shards: paths or URLs of the archives, or one of them.
            extensions: of the files that are videos, in any case, with or without the dot.
            class_names: as for ``from_paths``.

        Raises:
            SourceError, IndexingError: an archive cannot be read, or is damaged.
            UnsupportedError: it is compressed.
            ConfigurationError: there is no video, or a file beside one is not what its name says.

        Example:
            ``VideoDataset.from_tars(f"s3://bucket/train-{i:04}.tar" for i in range(100))``
        """
        given = [shards] if isinstance(shards, str | os.PathLike) else list(shards)
        endings = _endings(extensions)
        rows = read_shards([os.fspath(shard) for shard in given], endings)
        if not rows:
            raise ConfigurationError(f"no video in {len(given)} archives: no file ends with {', '.join(endings)}")
        texts = [row.columns.pop("cls", "") for row in rows]
        if "" in texts and any(texts):
            raise ConfigurationError("the label is missing: no .cls file beside it", rows[texts.index("")].path)
        labels, known = parse_labels(texts, class_names, lambda i: rows[i].path)
        return cls(
            [VideoEntry(row.path, label, columns=row.columns) for row, label in zip(rows, labels, strict=True)], known
        )


def _labelled(
    root: str, flat: bool, find: Callable[[str], Iterable[str]], class_names: Sequence[str] | None
) -> tuple[list[VideoEntry], Sequence[str]] | None:
    """Entries for what is found in a folder, one class for each folder in it unless flat; None where nothing is."""
    if flat:
        if class_names:
            raise ConfigurationError("class_names are given, but videos lie outside class folders", root)
        return [VideoEntry(path) for path in find(root)], ()
    _, folders = list_folder(root)
    names = folders if class_names is None else class_names
    number = {name: i for i, name in enumerate(names)}
    if unknown := [name for name in folders if name not in number]:
        raise ConfigurationError(f"folder {unknown[0]!r} is none of the class_names", root)
    entries = [VideoEntry(path, number[name]) for name in folders for path in find(os.path.join(root, name))]
    return (entries, names) if entries else None


def entry_range(entry: VideoEntry, index: VideoIndex) -> tuple[int, int]:
    """The frames ``[first, stop)`` of a video that an entry means.

    Seconds choose the frames whose timestamps lie in ``[start_seconds, stop_seconds)``, to half a millisecond
    or half a unit of the video's time base, whichever is less: parts that touch share no frame and lose none.
    Seconds may reach beyond the video; frame numbers may not.

    Raises:
        FrameRangeError: there is no such frame, or a frame number lies outside the video.

    Example:
        At 25 frames a second, ``start_seconds=1, stop_seconds=2`` are the frames ``(25, 50)``.
    """
    first, stop = entry.start, entry.stop
    if entry.start_seconds is not None:
        first = _first_frame_from(entry.start_seconds, index)
    if entry.stop_seconds is not None:
        stop = _first_frame_from(entry.stop_seconds, index)
    return _checked_range(entry, first, stop, len(index), index.source)


def numbered_range(entry: VideoEntry, frames: int) -> tuple[int, int]:
    """The frames ``[first, stop)`` that an entry without seconds means, of a video with so many.

    Raises:
        FrameRangeError: a frame number lies outside the video.
    """
    return _checked_range(entry, entry.start, entry.stop, frames, entry.path)


def _checked_range(entry: VideoEntry, first: int | None, stop: int | None, frames: int, source: str) -> tuple[int, int]:
    first, stop = first or 0, frames if stop is None else stop
    if not first < stop <= frames:
        raise FrameRangeError(f"no frames [{first}, {stop}) among {frames} for {entry}", source)
    return int(first), int(stop)


def _first_frame_from(seconds: float, index: VideoIndex) -> int:
    # Slack, so that a time which was rounded (to a float, to the container's milliseconds) finds its frame.
    base = float(index.stream.time_base)
    return int(np.searchsorted(index.frame_pts, np.ceil((seconds - min(base / 2, 0.0005)) / base)))


def _endings(extensions: Collection[str]) -> tuple[str, ...]:
    if isinstance(extensions, str) or not extensions:
        raise ConfigurationError(f"extensions must be a list of file name endings, got {extensions!r}")
    return tuple(f".{extension.lower().removeprefix('.')}" for extension in extensions)
