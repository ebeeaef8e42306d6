"""Reads HMDB51."""

from __future__ import annotations

import os
from typing import Literal, TypeAlias

from videoloader.dataset import VideoDataset
from videoloader.dataset.folders import list_folder
from videoloader.dataset.missing import Missing
from videoloader.errors import ConfigurationError
from videoloader.errors.argument_names import tells_of_arguments
from videoloader.errors.checks import check_choice
from videoloader.layouts.list_files import read_lines
from videoloader.layouts.rows import AnyPath, dataset_of_list, videos_in

Part: TypeAlias = Literal["train", "test", "unused"]
_PARTS = {"train": "1", "test": "2", "unused": "0"}


@tells_of_arguments
def hmdb51(
    splits: AnyPath, videos: AnyPath, *, split: int = 1, part: Part = "train", missing: Missing = "raise"
) -> VideoDataset:
    """Read HMDB51 from its split files, one for each class and split.

    The paper is Kuehne et al., "HMDB: A Large Video Database for Human Motion Recognition", ICCV 2011. The published
    files:

        testTrainMulti_7030_splits/brush_hair_test_split1.txt    April_09_brush_hair_u_nm_np1_ba_goo_0.avi 1
        hmdb51/brush_hair/April_09_brush_hair_u_nm_np1_ba_goo_0.avi

    A line ends with 1 for training, 2 for testing, or 0 for videos in neither. Labels number the classes in natural
    order. Videos may have any extension, and be in class folders or not.

    Args:
        splits: str or path. The folder of the split files.
        videos: str or path. The folder of the videos.
        split: int, default 1. The number of the split, 1 to 3.
        part: str, default ``"train"``. ``"train"``, ``"test"`` or ``"unused"``.
        missing: str, default ``"raise"``. The treatment of missing videos: ``"raise"``, or ``"skip"`` into
            ``left_out``.

    Raises:
        SourceError: a file or a folder cannot be read, or a video is missing.
        ConfigurationError: a line has another format, or there is no file of this split.

    Examples:
        ``hmdb51("testTrainMulti_7030_splits", "hmdb51", split=1, part="test")``
    """
    check_choice("part", part, _PARTS)
    source, ending = os.fspath(splits), f"_test_split{split}.txt"
    names = [name.removesuffix(ending) for name in list_folder(source)[0] if name.endswith(ending)]
    if not names:
        raise ConfigurationError(f"no file in this folder ends with {ending}", source)
    folder = videos_in(videos)
    found, labels, places = [], [], []
    for class_name in names:
        file = os.path.join(source, class_name + ending)
        for number, line in read_lines(file):
            video, _, mark = line.rpartition(" ")
            if mark not in _PARTS.values() or not video.strip():
                raise ConfigurationError(f"line {number}: {line!r} is not a file name followed by 0, 1 or 2", file)
            if mark != _PARTS[part]:
                continue
            stem, _ = os.path.splitext(video.strip())
            expected = os.path.join(class_name, video.strip())
            found.append(folder.find(stem, class_name=class_name, otherwise=expected))
            labels.append(class_name)
            places.append(f"{class_name}{ending}, line {number}")
    return dataset_of_list(source, found, places.__getitem__, labels, names, missing)
