"""Reads UCF101."""

from __future__ import annotations

import os

from videoloader.dataset import VideoDataset
from videoloader.dataset.missing import Missing
from videoloader.errors import ConfigurationError
from videoloader.errors.argument_names import tells_of_arguments
from videoloader.layouts.list_files import read_lines
from videoloader.layouts.rows import AnyPath, dataset_of_list, videos_in


@tells_of_arguments
def ucf101(
    split: AnyPath, videos: AnyPath, *, classes: AnyPath | None = None, missing: Missing = "raise"
) -> VideoDataset:
    """Read UCF101 from one of its split files.

    The paper is Soomro, Zamir and Shah, "UCF101: A Dataset of 101 Human Actions Classes", arXiv:1212.0402. The
    published files:

        ucfTrainTestlist/classInd.txt       1 ApplyEyeMakeup
        ucfTrainTestlist/trainlist01.txt    ApplyEyeMakeup/v_ApplyEyeMakeup_g08_c01.avi 1
        ucfTrainTestlist/testlist01.txt     ApplyEyeMakeup/v_ApplyEyeMakeup_g01_c01.avi
        UCF-101/ApplyEyeMakeup/v_ApplyEyeMakeup_g08_c01.avi

    Labels count from 0, in the order of ``classInd.txt``. Videos may have any extension, and be in class folders or
    not.

    Args:
        split: str or path. A ``trainlist`` or ``testlist`` file.
        videos: str or path. The folder of the videos.
        classes: str or path, default the one next to the split file. The path of ``classInd.txt``.
        missing: str, default ``"raise"``. The treatment of missing videos: ``"raise"``, or ``"skip"`` into
            ``left_out``.

    Returns:
        Rows with the columns ``group`` (clips of one group show the same scene) and ``split_path``.

    Raises:
        SourceError: a file or the folder cannot be read, or a video is missing.
        ConfigurationError: a line has another format.

    Examples:
        ``ucf101("ucfTrainTestlist/trainlist01.txt", "UCF-101")``
    """
    source = os.fspath(split)
    beside = os.path.join(os.path.dirname(source), "classInd.txt")
    names = _class_names(beside if classes is None else os.fspath(classes))
    known, folder = set(names), videos_in(videos)
    found, labels, groups, listed, line_of = [], [], [], [], []
    for number, line in read_lines(source):
        name, _, label = line.partition(" ")
        class_name, _, file = name.partition("/")
        if class_name not in known or not file:
            raise ConfigurationError(f"line {number}: {name!r} is not class/video with a known class", source)
        if label and (not label.strip().isascii() or label.strip() != str(names.index(class_name) + 1)):
            raise ConfigurationError(f"line {number}: {label!r} is not the number of {class_name}", source)
        stem = os.path.splitext(os.path.basename(file))[0]
        found.append(folder.find(stem, class_name=class_name, otherwise=name))
        labels.append(class_name)
        groups.append(stem.rsplit("_c", 1)[0])
        listed.append(name)
        line_of.append(number)
    columns = {"group": groups, "split_path": listed}
    return dataset_of_list(source, found, lambda row: f"line {line_of[row]}", labels, names, missing, columns=columns)


def _class_names(path: str) -> list[str]:
    """The names in ``classInd.txt``, which must be numbered from 1."""
    names: list[str] = []
    for number, line in read_lines(path):
        count, _, name = line.partition(" ")
        if count != str(len(names) + 1) or not name.strip():
            raise ConfigurationError(f"line {number}: {line!r} is not {len(names) + 1} followed by a name", path)
        names.append(name.strip())
    return names
