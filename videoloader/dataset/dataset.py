"""``VideoDataset``: a table of videos or parts of videos."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NoReturn, overload

import numpy as np
import numpy.typing as npt

from videoloader.dataset.choosing import chosen_rows, split_rows
from videoloader.dataset.entry import VideoEntry, for_condition
from videoloader.dataset.labels import check_rows, in_common_classes, names_in_order
from videoloader.dataset.left_out import none_left
from videoloader.dataset.readers import DatasetReaders
from videoloader.dataset.repeating import apportion, balance, repeat_by_weight, repeat_to, with_ratios
from videoloader.dataset.row_frames import resolved
from videoloader.dataset.saving import write_rows
from videoloader.dataset.stores import Store
from videoloader.dataset.summary import DatasetSummary, summarize
from videoloader.dataset.table import NONE, EntryTable
from videoloader.dataset.unchanging import Unchanging
from videoloader.dataset.where import conditions_in_sql, rows_where
from videoloader.errors import ArgumentError, counted
from videoloader.errors.argument_names import tells_of_arguments
from videoloader.errors.attribute_names import tells_of_attributes
from videoloader.errors.checks import check_type, is_true, path_text
from videoloader.errors.notes import note
from videoloader.indexing import BuildReport, build_store
from videoloader.indexing.index import Times
from videoloader.indexing.store.fingerprints import FingerprintKind
from videoloader.notebook import ShownInNotebooks
from videoloader.sampling.mode import FrameMode, FrameNumbers

if TYPE_CHECKING:
    import torch


@tells_of_arguments
@tells_of_attributes("data")
@dataclass(frozen=True, repr=False)
class VideoDataset(ShownInNotebooks, DatasetReaders, Unchanging[VideoEntry]):
    """A table of videos: an immutable sequence of ``VideoEntry``, stored by columns.

    Rows are made when they are accessed, so a million of them take little more memory than their paths, and changes to
    the columns of a row do not change the data set. ``data[3]`` is a row; ``data[10:20]``, ``data[[0, 3]]`` and the
    mask ``data[data.labels == 2]`` are data sets of these rows. ``a + b`` has the rows of both: labels are matched by
    class name, and names of ``b`` that ``a`` lacks follow its own; where neither has names, numbers are kept.

    Args:
        entries: sequence of ``VideoEntry``. The rows, at least one.
        class_names: sequence of str, default none. The name of each label; empty where labels are plain numbers or
            missing.
        left_out: sequence of (str, str), default none. (path, reason) for each row or file that was left out because it
            could not be used.

    Raises:
        ConfigurationError: there are no entries, or a label has no class name.

    Examples:
        >>> data = VideoDataset.from_paths(["a.mp4", "b.mp4"], ["walk", "run"])
        >>> len(data), data[0].label, data.class_names
        (2, 1, ('run', 'walk'))
        >>> data[[1]].paths
        ['b.mp4']
    """

    entries: Sequence[VideoEntry]
    class_names: Sequence[str] = ()
    left_out: Sequence[tuple[str, str]] = field(default=(), compare=False, repr=False)
    _holds = VideoEntry, "data.paths has the paths of the rows"

    def __post_init__(self) -> None:
        table = self.entries if isinstance(self.entries, EntryTable) else EntryTable.of_entries(self.entries)
        names = names_in_order(self.class_names) or ()
        for name, value in (("entries", table), ("class_names", names), ("left_out", tuple(self.left_out))):
            object.__setattr__(self, name, value)
        check_rows(table, names)

    @property
    def table(self) -> EntryTable:
        """The rows as columns."""
        assert isinstance(self.entries, EntryTable)
        return self.entries

    @property
    def paths(self) -> Sequence[str]:
        """The path of each row's video."""
        return self.table.path

    @property
    def labels(self) -> npt.NDArray[np.int64]:
        """int64[N], read-only: the label of each row, -1 where it has none, as in batches.

        Examples:
            ``VideoDataset([replace(entry, label=0) for entry in data])`` has other labels (``dataclasses.replace``).
        """
        labels = np.where(self.table.label == NONE, -1, self.table.label)
        labels.flags.writeable = False
        return labels

    @property
    def num_classes(self) -> int:
        """The number of classes that a classifier needs: the class names, or without them the highest label plus 1."""
        return len(self.class_names) or int(self.labels.max()) + 1

    def __repr__(self) -> str:
        labelled = float((self.table.label != NONE).mean())
        left_out = f", {len(self.left_out)} left out" if self.left_out else ""
        counts = f"{counted(len(self), 'row')}, {counted(self.num_classes, 'class')}"
        return f"VideoDataset({counts}, {100 * labelled:.3g} % labelled{left_out}, from {self.paths[0]!r})"

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[VideoEntry]:
        return iter(self.entries)

    @overload
    def __getitem__(self, index: int | np.integer[Any]) -> VideoEntry: ...
    @overload
    def __getitem__(self, index: slice | Sequence[int] | npt.NDArray[Any] | torch.Tensor) -> VideoDataset: ...
    def __getitem__(self, index: Any) -> VideoEntry | VideoDataset:
        rows, is_one = chosen_rows(index, len(self))
        return self.entries[int(rows[0])] if is_one else self._take(rows)

    if not TYPE_CHECKING:  # type checkers report this themselves

        def __getitems__(self, rows: object) -> NoReturn:  # called by PyTorch's DataLoader
            raise ArgumentError(
                "a VideoDataset has rows and no frames: write VideoLoader(data, mode, batch_size=…) in place of the "
                "DataLoader, or give it a videoloader.interop.torch.ClipDataset(data, mode)"
            )

    def __add__(self, other: VideoDataset) -> VideoDataset:
        hint = ": make one with VideoDataset.from_paths, from_folder or from_csv"
        check_type("what is added", other, isinstance(other, VideoDataset), "a VideoDataset", hint)
        return _joined((self, other))

    def _take(self, rows: npt.NDArray[np.int64], left_out: Iterable[tuple[str, str]] = ()) -> VideoDataset:
        if not len(rows):
            labels = f"labels are numbers, 0 for {self.class_names[0]!r}, and " if self.class_names else ""
            raise none_left(len(self), f"; {labels}columns of CSV are text")
        return VideoDataset(self.table.take(rows), self.class_names, (*self.left_out, *left_out))

    def where(
        self,
        condition: str = "",
        *,
        store: Store | None = None,
        min_frames: int | None = None,
        min_height: int | None = None,
        codec: str | Collection[str] | None = None,
        fps: float | tuple[float, float] | None = None,
    ) -> VideoDataset:
        """The rows whose videos meet all conditions.

        Rows that cannot be read, or are shorter than ``min_frames``, go to ``left_out``, and a warning counts them.

        Args:
            condition: str, default none. An SQL condition over the columns that ``IndexStore.query`` lists.
            store: ``IndexStore`` or its path, default None. The videos' indexes (``build_store``). Without it the
                videos are indexed now, and the indexes are discarded.
            min_frames: int, default None, any. The minimum number of frames in the row's part of its video.
            min_height: int, default None, any. The minimum height of the displayed picture (after rotation), in pixels.
            codec: str or several, default None, any. The codec, or several allowed ones.
            fps: float or (float, float), default None, any. The average frame rate, matched to within 1 in 2000 (29.97
                is not 30), or the lowest and the highest rate.

        Raises:
            ConfigurationError: the condition is not SQL, or no row is left; in that case the message says what the
                videos have.
            NotIndexedError: a video is not in the store.
            SourceError, IndexingError: the store cannot be read.

        Examples:
            >>> small = data.where("duration_s < 60 AND NOT is_vfr", codec="h264", store="k400.db")
        """
        conditions = conditions_in_sql(condition, min_height, codec, fps)
        rows, left_out = rows_where(self.table, store, conditions, min_frames)
        return self._take(rows, left_out)

    def with_times(self, times: Times) -> VideoDataset:
        """The same rows with another zero point of seconds, for their ends, for modes, and for clips and batches.

        Args:
            times: str. ``"start"`` is the file's start as in players, which all readers assume; ``"pts"`` is the zero
                of the container's own timestamps, as ffprobe prints them.

        Raises:
            ConfigurationError: ``times`` is neither.

        Examples:
            ``VideoDataset.from_csv("shots_by_ffprobe.csv").with_times("pts")``
        """
        return replace(self, entries=self.table.with_times(times))

    def filter(self, keep: Callable[[VideoEntry], object]) -> VideoDataset:
        """The rows for which ``keep`` is true.

        Args:
            keep: function of a row. Labels are numbers, and CSV columns are text: ``entry.columns["night"] == "1"``.

        Raises:
            ConfigurationError: no row is left, or ``keep`` returns a text that says no (``"0"``), which Python takes
                for True.

        Examples:
            ``data.filter(lambda entry: entry.columns["split"] == "val")``
        """
        kept, classes = list[bool](), self.num_classes
        for row, entry in enumerate(self):
            with note("in filter, for row {}: {}", row, entry):
                kept.append(is_true("keep", keep(for_condition(entry, classes))))
        return self._take(np.flatnonzero(kept))

    def split(self, share: float, *, seed: int = 0, stratified: bool = False) -> tuple[VideoDataset, VideoDataset]:
        """Split the videos at random, the same way every time, into a given share and the rest.

        All rows of a video go into the same part, so that no frame is in both. Rows keep their order, columns and class
        names.

        Args:
            share: float. The fraction of the videos, between 0 and 1, in the first part, to the nearest video. Each
                part gets at least one.
            seed: int, default 0. The seed of the choice.
            stratified: bool, default False. Whether each class is split by this share, to within one video. The class
                of a video is that of its first row; videos without a label form a class of their own.

        Raises:
            ConfigurationError: the share is not between 0 and 1, or there is only one video.

        Examples:
            >>> train, val = data.split(0.5, seed=1)
            >>> len(train), len(val)
            (1, 1)
        """
        first, second = split_rows(self.table, share, seed, stratified)
        return self._take(first), self._take(second)

    def balanced(self, *, rows_per_class: int | None = None, seed: int = 0) -> VideoDataset:
        """Repeat rows until all classes have equally many, so that an epoch sees every class equally often.

        The rows of a class are repeated equally often, and a random choice of them once more. The result is the same in
        every epoch.

        Args:
            rows_per_class: int, default as many as the largest class has, so that no row is lost. The number of rows
                for each class.
            seed: int, default 0. The seed of the choice.

        Raises:
            ConfigurationError: a row has no label, or ``rows_per_class`` is not positive.
        """
        return self._take(balance(self.table, rows_per_class, seed))

    def weighted(self, weights: str | Sequence[float], *, rows: int | None = None, seed: int = 0) -> VideoDataset:
        """Repeat rows in proportion to weights: a row with twice the weight comes twice as often in an epoch.

        A row comes ``rows · weight / sum of weights`` times, rounded up or down at random so that the expected number
        is exact and the total is ``rows`` (systematic sampling; Madow, "On the theory of systematic sampling, II",
        1949). The result is the same in every epoch.

        Args:
            weights: str or sequence of float. The weight of each row, or the name of the column that holds it; at least
                0, on any scale.
            rows: int, default as many as now. The number of rows of the new data set.
            seed: int, default 0. The seed of the rounding.

        Raises:
            ConfigurationError: weights are missing or negative, or all 0.
        """
        return self._take(repeat_by_weight(self.table, weights, len(self) if rows is None else rows, seed))

    @staticmethod
    def mix(
        datasets: Sequence[VideoDataset] | Mapping[VideoDataset, float],
        ratios: Sequence[float] | None = None,
        *,
        rows: int | None = None,
        seed: int = 0,
    ) -> VideoDataset:
        """Join data sets (as ``+`` does) in a given ratio of their numbers of rows.

        The rows of a data set are repeated equally often, and a random choice of them once more. The rows of each data
        set stay together, so shuffle, or most batches come from one of them.

        Args:
            datasets: list of ``VideoDataset``, or dict. A list may hold equal data sets; a dict maps different data
                sets to their ratios.
            ratios: sequence of float, default None. The share of each data set of the list, positive, on any scale.
            rows: int, default the fewest with which no row of any data set is lost. The number of rows of the result.
            seed: int, default 0. The seed of the choice.

        Raises:
            ConfigurationError: the number of ratios is not that of the data sets, a ratio is not positive, or labels
                cannot be matched.

        Examples:
            >>> len(VideoDataset.mix([data, data[:1]], ratios=[0.5, 0.5]))
            4
        """
        parts, shares = with_ratios(datasets, ratios)
        sizes = apportion(shares, [len(data) for data in parts], rows)
        return _joined([data._take(repeat_to(len(data), size, seed)) for data, size in zip(parts, sizes, strict=True)])

    def describe(
        self, mode: FrameMode | FrameNumbers | None = None, *, store: Store | None = None, videos: int = 64
    ) -> DatasetSummary:
        """Summarise videos, hours, codecs, sizes, rates, GOPs and the cost of clips; ``print`` shows a table.

        Args:
            mode: frame mode or frame numbers, default None. The mode of the clips whose decode cost and share of
                padding are estimated.
            store: ``IndexStore`` or its path, default None. The videos' indexes (``build_store``). Without it they are
                indexed now.
            videos: int, default 64. The number of randomly chosen videos from which the cost is computed.

        Raises:
            NotIndexedError: a video is not in the store.
            SourceError, IndexingError: the store cannot be read.

        Examples:
            >>> print(data.describe(RandomWindow(16, stride=4), store="train.db"))
            videos       2 in 2 rows, 2 classes
            length       0.007 hours, 600 frames
            codecs       h264: 100 %
            sizes        640×360: 100 %
            fps          25: 100 %
            keyframes    one in 25.0 frames; longest GOP 25 (median), 25 (9 in 10 videos), 25 (all)
            decode cost  1 wanted frame costs 4.2 decoded; re-encode with GOP 12: 3.6
                         (2 clips of 2 videos, RandomWindow(length=16, stride=4, clips=1, reverse=0.0, pad='edge'))
        """
        return summarize(self.table, len(self.left_out), mode, store, videos)

    def save(self, path: str | os.PathLike[str], *, store: Store | None = None) -> None:
        """Write all rows to an Arrow file, which ``VideoDataset.load`` maps into memory that all processes share.

        With a store, the range of frames of each row is computed now and saved, too: a loader with that store then
        starts at once, until the store is rebuilt. Files are compared with the store now, and again when clips are
        read.

        Args:
            path: str or path. The path of the file; an existing one is replaced atomically.
            store: ``IndexStore`` or its path, default None. The store that holds the videos.

        Raises:
            NotIndexedError: a video is not in the store.
            SourceError: the file cannot be written, or the store cannot be read.
            ConfigurationError: pyarrow (``pip install 'videoloader[parquet]'``) is not installed, or a column holds
                anything but text, numbers, bytes, or lists and dicts of these.

        Examples:
            ``data.save("train.arrow", store="train.db")``, and on each rank:

                loader = VideoLoader(VideoDataset.load("train.arrow"), mode, index="train.db", batch_size=8)
        """
        write_rows(path_text("path", path), resolved(self.table, store), self.class_names, self.left_out)

    def build_store(
        self,
        store: str | os.PathLike[str],
        *,
        root: str | os.PathLike[str] | None = None,
        workers: int | None = None,
        progress: Callable[[int, int], object] | None = None,
        retry: bool = False,
        prune: bool = False,
        fingerprint: FingerprintKind | None = None,
    ) -> BuildReport:
        """Index all videos into a store, for ``VideoLoader(…, index=store)``; ``build_store`` explains the arguments.

        Raises:
            SourceError: the store cannot be written.
            IndexingError: another kind of file is at its path.

        Examples:
            >>> report = data.build_store("train.db")
            >>> report.indexed, len(report.unreadable)
            (239871, 129)
        """
        return build_store(
            self.table.path,
            store,
            root=root,
            workers=workers,
            progress=progress,
            retry=retry,
            prune=prune,
            fingerprint=fingerprint,
        )

    build_index = build_store  # the name in version 0.1, to be removed in the next one


def _joined(parts: Sequence[VideoDataset]) -> VideoDataset:
    tables, names = in_common_classes([(data.table, data.class_names) for data in parts])
    return VideoDataset(EntryTable.join(tables), names, [row for data in parts for row in data.left_out])
