"""Lies that a file may tell: its container and headers changed in ways that leave the coded pictures as they were,
or damage done to the pictures themselves.

``LIES`` names them all. Each takes a file's bytes and a seed and gives the bytes of another file, the same ones for the
same seed; None where the file has nothing to lie about. ``bases.py`` makes the files that they are told of,
``joined.py`` files of several encodes. ``tests/soak/identical_frames.py --lies`` looks for wrong frames in them.
"""

from __future__ import annotations

from lies import (  # noqa: F401 - each module enters its lies into the list
    avi,
    damage,
    elementary,
    flv,
    headers,
    matroska,
    mp4_boxes,
    mp4_descriptions,
    mp4_edits,
    mp4_fragments,
    mp4_tables,
    mpegts,
    ogg,
    parameter_sets,
    picture_numbers,
    remuxed,
)
from lies.registry import LIES, Lie, container_of, lies_of

__all__ = ["LIES", "Lie", "container_of", "lies_of"]
