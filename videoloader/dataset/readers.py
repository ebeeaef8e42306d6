"""The constructors of ``VideoDataset`` that read paths, folders, tables, archives and stores."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Literal, SupportsIndex

from videoloader.dataset.allowed_sources import Sources, check_sources
from videoloader.dataset.archives import archive_entries
from videoloader.dataset.entry import VideoEntry
from videoloader.dataset.folders import VIDEO_EXTENSIONS, entries_of_files, entries_of_frame_folders, file_endings
from videoloader.dataset.known_columns import entries_of
from videoloader.dataset.labels import ClassNames, names_in_order
from videoloader.dataset.missing import without_missing
from videoloader.dataset.paths import entries_of_paths
from videoloader.dataset.preparing import prepare
from videoloader.dataset.reading import read_table
from videoloader.dataset.saving import map_rows
from videoloader.dataset.stores import Store
from videoloader.dataset.where import entries_of_store
from videoloader.errors import ConfigurationError
from videoloader.errors.attribute_names import TellsOfReaders
from videoloader.errors.checks import check, path_text
from videoloader.indexing import IndexStore
from videoloader.indexing.sources.folder import times_suffix

if TYPE_CHECKING:
    from typing_extensions import Self

    from videoloader.dataset.dataset import VideoDataset


class DatasetReaders(metaclass=TellsOfReaders):
    """The constructors of ``VideoDataset`` that read rows."""

    if TYPE_CHECKING:

        def __init__(
            self, entries: Sequence[VideoEntry], class_names: ClassNames = (), left_out: Sequence[tuple[str, str]] = ()
        ) -> None: ...

    @classmethod
    def from_paths(
        cls,
        paths: Iterable[str | os.PathLike[str]],
        labels: Iterable[SupportsIndex | str | None] | None = None,
        *,
        class_names: ClassNames | None = None,
        sources: Sources = "any",
        root: str | os.PathLike[str] = "",
    ) -> Self:
        """Make one entry for each path, in order.

        Args:
            paths: iterable of str or path. The videos, in any form that ``Video`` takes. They are not opened here.
            labels: iterable of int or str, default None. One label for each path: all integers from 0 (a list, an
                array, a tensor), or all names; None or -1 for a video without a label. Texts that are all whole numbers
                ("2", "2.0") are read as numbers, unless all are in ``class_names``; if most are numbers, any other text
                is an error.
            class_names: list or dict, default the names that occur, in natural order. The name of each class, as a list
                or as a dict of names and numbers (``class_to_idx``). Pass it where several splits must agree.
            sources: str, default ``"any"``. The sources that the paths may name: ``"any"``, ``"local"`` or
                ``"inside root"``, as in ``from_csv``.
            root: str or path, default the working directory. The folder for ``"inside root"``.

        Raises:
            ConfigurationError: there are no paths, the number of labels differs, a label has no class name, or paths
                name a source that is not allowed.

        Examples:
            ``VideoDataset.from_paths(sorted(Path("clips").glob("*.mp4")))``
        """
        if root and sources != "inside root":
            told = "root is only for sources='inside root': paths are taken as they are"
            raise ConfigurationError(f"{told}, so give [os.path.join(root, path) for path in paths]")
        table, known = entries_of_paths(paths, labels, names_in_order(class_names))
        check_sources(table.path, sources, path_text("root", root), lambda row: f"paths[{row}]")
        return cls(table, known)

    @classmethod
    def from_folder(
        cls,
        folder: str | os.PathLike[str],
        *,
        extensions: Collection[str] = VIDEO_EXTENSIONS,
        class_names: ClassNames | None = None,
    ) -> Self:
        """Find all videos below a folder, in natural order ("clip2" before "clip10").

        If no video is directly in ``folder``, each folder in it is a class, even an empty one, so that splits with the
        same folders agree on the labels; a warning is given for folders that look like the splits themselves. Otherwise
        there are no labels, and a warning says so where most videos are in folders. Hidden files and folders (with a
        leading dot) are skipped, and links are followed; a link with a video's extension is taken for a file. Without
        ``extensions``, a warning counts files with other extensions, and ``left_out`` lists them, except for lists,
        notes and subtitles.

        Args:
            folder: str or path. The root.
            extensions: collection of str, default ``VIDEO_EXTENSIONS``. The extensions of videos, in any case, with or
                without the dot. ``IMAGE_EXTENSIONS`` makes a video of one frame of each image file (ImageNet's
                ``class/image.jpg``).
            class_names: list or dict, default the folders' names in natural order, ignoring case. The name of each
                class; any other folder is an error. torchvision's ``ImageFolder`` sorts by character codes ("Z" before
                "a", "c10" before "c2"): to get its labels, pass ``class_names=sorted(os.listdir(folder))``.

        Raises:
            SourceError: a folder cannot be read.
            ConfigurationError: there is no video, or a folder is not in ``class_names``.

        Examples:
            ``VideoDataset.from_folder("kinetics/train")`` for ``kinetics/train/archery/….mp4``
        """
        names = names_in_order(class_names)
        return cls(*entries_of_files(path_text("folder", folder), file_endings(extensions), names))

    @classmethod
    def from_frame_folders(
        cls,
        folder: str | os.PathLike[str],
        *,
        class_names: ClassNames | None = None,
        fps: float | Fraction | None = None,
        timestamps: str | os.PathLike[str] | None = None,
    ) -> Self:
        """Find all folders of image files below a folder, each a video with one frame per file, in natural order.

        If such a folder (or an image) is directly in ``folder``, there are no labels: ``davis/480p/bear/00000.jpg``.
        Otherwise each folder in it is a class: ``ucf101/Archery/clip1/1.jpg``. If these folders only group the videos,
        as in Vimeo-90K's ``sequences/00001/0001/im1.png``, the labels are the groups' numbers. Hidden folders are
        skipped, and links are followed. The image files are not opened here.

        The numbers in the file names are the times of the frames; see ``FolderSource``. ``fps`` or ``timestamps`` are
        appended to the paths of the entries: ``davis/480p/bear::fps=24``.

        Args:
            folder: str or path. The root.
            class_names: list or dict, default the folders' names in natural order. The name of each class; any other
                folder is an error.
            fps: float or ``Fraction``, default 1 a second. The rate at which the numbers in the file names count.
            timestamps: str or path, default none. The path of a list of times, relative to each of the folders; see
                ``FolderSource``.

        Raises:
            SourceError: a folder cannot be read.
            ConfigurationError: there is no image file, a folder is not in ``class_names``, or ``fps`` is not a positive
                number.

        Examples:
            ``VideoDataset.from_frame_folders("davis/480p", fps=24)``
        """
        root = path_text("folder", folder)
        listed = None if timestamps is None else path_text("timestamps", timestamps)
        names = names_in_order(class_names)
        return cls(*entries_of_frame_folders(root, names, times_suffix(root, fps, listed)))

    @classmethod
    def from_csv(
        cls,
        path: str | os.PathLike[str],
        *,
        columns: Mapping[str, str] | None = None,
        root: str | os.PathLike[str] | None = None,
        class_names: ClassNames | None = None,
        missing: Literal["unchecked", "raise", "skip"] = "unchecked",
        header: Sequence[str] | None = None,
        separator: str | None = None,
        sources: Sources = "any",
    ) -> Self:
        """Make one entry for each row of a table: CSV (RFC 4180, UTF-8, with a header), JSON lines or Parquet.

        The file's extension decides: ``.jsonl``, ``.ndjson`` and ``.json`` are JSON lines (one object per line),
        ``.parquet`` and ``.pq`` are Parquet, and anything else is CSV, separated by the most frequent of comma, tab,
        semicolon and bar in the header. Columns are found by name, in any case, in this order:

            path            path, video, filename, file, video_path, file_path, filepath, file_name
            label           label, class, label_name, class_name         numbers in every row, or names
            start           start_frame                                  frame number
            stop            end_frame, stop_frame                        frame number, exclusive
            start_seconds   start, start_time, start_seconds, time_start                            seconds
            stop_seconds    end, stop, end_time, stop_time, end_seconds, stop_seconds, time_end     seconds

        So ``start``, ``end`` and ``stop`` in a file are seconds, unlike ``start`` and ``stop`` of ``VideoEntry``;
        ``columns={"start": "start", "stop": "stop"}`` makes them frames. Seconds count from the file's start, as in
        players; see ``with_times``. They are used only where there are no frame columns. An empty start or stop is that
        of the video. Other columns go into ``VideoEntry.columns``: from CSV as text (``"0"`` is true, so compare with
        ``== "1"``), otherwise with the file's types. A warning names those that look like a label or an end
        (``class_id``, ``t_start``) where no column above provides it, and a length (``duration``) next to a start
        without a stop.

        Args:
            path: str or path. The path of the table.
            columns: mapping, default None. The file's names for the columns above, such as ``{"path": "clip",
                "start_seconds": "t0"}``.
            root: str or path, default the table's own folder. The folder that relative paths start from.
            class_names: list or dict, default None. See ``from_paths``. By default only names in this table are
                numbered, so read a second table with the names of the first: ``class_names=train.class_names``.
            missing: str, default ``"unchecked"``. The treatment of local files that do not exist: ``"raise"`` raises,
                ``"skip"`` puts the rows into ``left_out``, and ``"unchecked"`` leaves the check to indexing.
            header: sequence of str, default None. The names of the columns of a text table without a header; its first
                line is then a row.
            separator: str, default None. The character between the values of a text table; spaces after it are not part
                of a value. A space means any number of spaces and tabs, as in lists for DALI and MMAction2, and the
                last values of a line may then be missing.
            sources: str, default ``"any"``. The sources that the rows may name. ``"any"`` allows whatever ``Video``
                takes, including URLs and absolute paths, so the table must be trusted; ``"local"`` allows files on this
                machine; ``"inside root"`` allows files that are in ``root`` after links are followed (for members of
                archives, the archive).

        Raises:
            SourceError: the table cannot be read, or a file does not exist.
            ConfigurationError: the table or a value is invalid (the message has the line), rows name a source that is
                not allowed, a column is missing, the table exceeds one of the ``Limits``, or pyarrow is not installed
                (``pip install 'videoloader[parquet]'``).
            NoMemoryError: the table does not fit into memory.

        Examples:
            ``VideoDataset.from_csv("train.csv", columns={"label": "verb"})``, or for lines ``clips/a.mp4 3 1.5 4.0``:

                VideoDataset.from_csv("train.txt", header=["path", "label", "start", "end"], separator=" ")
        """
        source, folder = path_text("path", path), None if root is None else path_text("root", root)
        rows, names = read_table(source, header, separator), names_in_order(class_names)
        table, known = entries_of(rows, columns or {}, folder, names, headless=header is not None, sources=sources)
        there, left_out = without_missing(table, missing, source)
        return cls(there, known, left_out)

    @classmethod
    def from_archives(
        cls,
        archives: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
        *,
        video: str | Collection[str] | None = None,
        label: str | None = None,
        class_names: ClassNames | None = None,
    ) -> Self:
        """Find all videos in archives (tar, zip, LMDB, TFRecord, RecordIO), in archive order.

        Nothing is unpacked: videos are read in place. What else the archive says about a video becomes its label and
        columns:

            tar, zip, LMDB   files (keys) with the same path up to the first dot of their name, of at most 64 KiB, by
                             extension, as WebDataset writes them: ``key.cls`` is the label, ``json`` and
                             ``left.json`` are parsed, ``txt`` and ``left.txt`` are text, others are bytes;
                             ``"__key__"`` is the key
            TFRecord         features of the ``tf.train.Example`` of at most 64 KiB: numbers, lists of them, and bytes,
                             as text where they are UTF-8 in all records
            RecordIO         ``id``, and one whole number as the label; other labels as ``label`` or ``labels``

        Only headers and what becomes columns are read. Index files next to the archives are used and checked against
        the archive: ``x.idx`` of DALI's wds2idx and tfrecord2idx, and of MXNet. With the default ``video``, a warning
        counts files that belong to no video, and ``left_out`` lists them, as in ``from_folder``.

        Args:
            archives: str, path, or several. Paths or URLs, or patterns of them: ``{0000..0099}``, ``{a,b}``, ``*``, and
                ``**`` for folders at any depth. Web servers do not list files, so there only braces are patterns. A
                path that exists is not read as a pattern.
            video: str or several, default None: ``VIDEO_EXTENSIONS``, or the whole record. The extension of videos, in
                any case; "" for all members. For TFRecord, the feature that holds the video.
            label: str, default None, as above. The column that holds the label; ``"json.category"`` for a JSON field.
            class_names: list or dict, default None. See ``from_paths``.

        Raises:
            SourceError, IndexingError: an archive cannot be read, is damaged, or its index file belongs to another one.
            UnsupportedError: a tar archive is compressed.
            ConfigurationError: there is no video, or the content of a file next to one does not match its extension.

        Examples:
            ``VideoDataset.from_archives("s3://bucket/train-{0000..0099}.tar")``, and for TFRecord features:

                VideoDataset.from_archives("train-*.tfrecord", video="video/encoded", label="video/class")
        """
        return cls(*archive_entries(archives, video, label, names_in_order(class_names)))

    @classmethod
    def from_tars(
        cls,
        shards: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
        *,
        extensions: Collection[str] = VIDEO_EXTENSIONS,
        class_names: ClassNames | None = None,
    ) -> Self:
        """Find all videos in tar archives: the same as ``from_archives(shards, video=extensions)``.

        Args:
            shards: str, path, or several of them. The paths or URLs of the archives.
            extensions: collection of str, default ``VIDEO_EXTENSIONS``. The extensions of videos, in any case, with or
                without the dot.
            class_names: list or dict, default None. See ``from_paths``.

        Raises:
            SourceError, IndexingError, UnsupportedError, ConfigurationError: as in ``from_archives``.

        Examples:
            ``VideoDataset.from_tars(f"s3://bucket/train-{i:04}.tar" for i in range(100))``
        """
        file_endings(extensions)
        return cls.from_archives(shards, video=extensions, class_names=class_names)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Map a data set that ``save`` wrote into memory: it opens at once, and all processes share it.

        Args:
            path: str or path. The path of the file; it must not be written to while the data set is in use.

        Raises:
            SourceError: the file cannot be read.
            ConfigurationError: the file is not a saved data set, or pyarrow is not installed (``pip install
                'videoloader[parquet]'``).

        Examples:
            ``VideoDataset.load("train.arrow")``
        """
        return cls(*map_rows(path_text("path", path)))

    @classmethod
    def load_or_make(
        cls, path: str | os.PathLike[str], make: Callable[[], VideoDataset], *, store: Store | None = None
    ) -> Self:
        """Load the data set saved at a path; if there is none, one process makes and saves it first.

        The other processes wait, and load what it has saved: folders and buckets are listed once, and videos indexed
        once. If ``torch.distributed`` is initialised, that process is rank 0, else the first one to come (by a lock on
        ``path + ".lock"``, which is not deleted). If it dies, the next one takes over, and continues a store where it
        was. Delete the file to have it made again.

        Args:
            path: str or path. The path of the file, as ``save`` writes it. On a shared file system it is made once, on
                local ones once on each machine.
            make: function without arguments. It makes the data set.
            store: ``IndexStore`` or its path, default None. The index store, which is built for its videos and saved
                along.

        Raises:
            SourceError: the file cannot be read, written or locked, or rank 0 failed.
            ConfigurationError: as in ``save`` and ``load``.

        Examples:
            ``VideoDataset.load_or_make("train.arrow", lambda: VideoDataset.from_folder("kinetics/train"))``, or with a
            store, which the loader then takes as ``index="train.db"``:

                data = VideoDataset.load_or_make("train.arrow", list_videos, store="train.db")
        """
        file = path_text("path", path)
        prepare(file, lambda: _make_and_save(file, make, store))
        return cls.load(file)

    @classmethod
    def from_store(cls, store: Store, *, where: str = "") -> Self:
        """Make one entry for each video that an index store could index, in the order of indexing.

        Args:
            store: ``IndexStore`` or its path. The store.
            where: str, default none. An SQL condition over the columns that ``IndexStore.query`` lists.

        Raises:
            SourceError, IndexingError: the store cannot be read.
            ConfigurationError: the condition is not SQL, or no video meets it.

        Examples:
            ``VideoDataset.from_store("train.db", where="duration_s > 10 AND NOT is_vfr")``
        """
        return cls(*entries_of_store(store, where))


def _make_and_save(path: str, make: Callable[[], VideoDataset], store: Store | None) -> None:
    data = make()
    check("what make gives", data, isinstance(data, DatasetReaders), "a VideoDataset")
    if store is not None:
        data.build_store(store.path if isinstance(store, IndexStore) else store)
    data.save(path, store=store)
