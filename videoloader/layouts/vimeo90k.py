"""Reads Vimeo-90K."""

from __future__ import annotations

import os

from videoloader.dataset import VideoDataset
from videoloader.dataset.missing import Missing
from videoloader.errors import ConfigurationError, SourceError
from videoloader.errors.argument_names import tells_of_arguments
from videoloader.layouts.list_files import read_lines
from videoloader.layouts.rows import AnyPath, dataset_of_list


@tells_of_arguments
def vimeo90k(split: AnyPath, sequences: AnyPath | None = None, *, missing: Missing = "raise") -> VideoDataset:
    """Read Vimeo-90K's triplets or septuplets from one of its lists: one row for each folder of images, without labels.

    The paper is Xue et al., "Video Enhancement with Task-Oriented Flow", IJCV 2019. The published files:

        vimeo_triplet/tri_trainlist.txt       00001/0001
        vimeo_triplet/sequences/00001/0001/im1.png, im2.png, im3.png
        vimeo_septuplet/sep_trainlist.txt     00001/0001
        vimeo_septuplet/sequences/00001/0001/im1.png … im7.png

    Args:
        split: str or path. The list.
        sequences: str or path, default the one next to the list. The folder of the sequences.
        missing: str, default ``"raise"``. The treatment of missing folders: ``"raise"``, or ``"skip"`` into
            ``left_out``.

    Returns:
        Rows with the column ``sequence``, as in the list.

    Raises:
        SourceError: the list or the folder cannot be read, or a sequence is missing.
        ConfigurationError: a line has another format.

    Examples:
        ``vimeo90k("vimeo_triplet/tri_trainlist.txt")``
    """
    source = os.fspath(split)
    root = os.path.join(os.path.dirname(source), "sequences") if sequences is None else os.fspath(sequences)
    names, line_of, videos, inside = [], [], [], dict[str, set[str]]()
    for number, line in read_lines(source):
        group, _, name = line.partition("/")
        if not group.isalnum() or not name.isalnum():
            raise ConfigurationError(f"line {number}: {line!r} is not group/sequence", source)
        folder = os.path.join(root, group)
        if group not in inside:
            inside[group] = _names_in(folder)
        names.append(line)
        line_of.append(number)
        videos.append((os.path.join(folder, name), name in inside[group]))
    columns = {"sequence": names}
    return dataset_of_list(source, videos, lambda row: f"line {line_of[row]}", None, None, missing, columns=columns)


def _names_in(folder: str) -> set[str]:
    """The names in a folder; empty if it does not exist."""
    try:
        return set(os.listdir(folder))
    except FileNotFoundError:
        return set()
    except OSError as error:
        raise SourceError(f"the folder cannot be read ({error.strerror})", folder) from error
