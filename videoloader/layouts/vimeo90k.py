"""Vimeo-90K (Xue et al., "Video Enhancement with Task-Oriented Flow", IJCV 2019)."""

from __future__ import annotations

import os

from videoloader.dataset import VideoDataset
from videoloader.errors import ConfigurationError, SourceError
from videoloader.layouts.list_files import read_lines
from videoloader.layouts.rows import Rows


def vimeo90k(
    split: str | os.PathLike[str], sequences: str | os.PathLike[str] | None = None, *, missing: str = "raise"
) -> VideoDataset:
    """Vimeo-90K's triplets and septuplets, from one of its lists: a row for each folder of images, without labels.

    The published files, as they are::

        vimeo_triplet/tri_trainlist.txt       00001/0001
        vimeo_triplet/sequences/00001/0001/im1.png, im2.png, im3.png
        vimeo_septuplet/sep_trainlist.txt     00001/0001
        vimeo_septuplet/sequences/00001/0001/im1.png … im7.png

    Args:
        split: the list.
        sequences: folder of the sequences; the one beside the list unless given.
        missing: what to do where a folder is not there: ``"raise"``, or ``"skip"`` into ``left_out``.

    Returns:
        Rows with the column ``sequence``, as the list has it.

    Raises:
        SourceError: the list or the folder cannot be read, or a sequence is not there.
        ConfigurationError: a line is not such a line.

    Example:
        ``vimeo90k("vimeo_triplet/tri_trainlist.txt")``
    """
    source = os.fspath(split)
    root = os.path.join(os.path.dirname(source), "sequences") if sequences is None else os.fspath(sequences)
    names, line_of, inside = [], [], dict[str, set[str]]()
    for number, line in read_lines(source):
        group, _, name = line.partition("/")
        if not group.isalnum() or not name.isalnum():
            raise ConfigurationError(f"line {number}: {line!r} is not group/sequence", source)
        names.append(line)
        line_of.append(number)
        inside.setdefault(group, set())
    for group in inside:
        try:
            inside[group].update(os.listdir(os.path.join(root, group)))
        except FileNotFoundError:
            pass  # its sequences are missing
        except OSError as error:
            raise SourceError(f"the folder cannot be read ({error.strerror})", os.path.join(root, group)) from error
    there = [sequence in inside[group] for group, _, sequence in (name.partition("/") for name in names)]
    paths = [os.path.join(root, *name.split("/")) for name in names]
    return Rows(source, paths, there, lambda row: f"line {line_of[row]}", columns={"sequence": names}).dataset(
        None, missing
    )
