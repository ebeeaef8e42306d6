"""Reads the display matrix that libav gives a frame."""

from __future__ import annotations

import struct
from fractions import Fraction
from typing import Any

import av
import av.filter
from av.sidedata.sidedata import Type

from videoloader.indexing.stream_info import orientation

# The kinds of side data have numbers. PyAV 18 knows them up to 27, and Exif is 31. So many numbers are tried, since
# FFmpeg's filter accepts any number and does not say how many kinds there are.
_MOST_UNKNOWN = 32


def frame_orientation(frame: av.VideoFrame) -> dict[str, Any]:
    """Return the ``rotation`` and ``mirrored`` of a ``StreamInfo`` by the display matrix of a frame."""
    try:
        matrix: Any = frame.side_data.get("DISPLAYMATRIX")
    except ValueError:  # PyAV does not know a kind of side data that the frame has
        matrix = _with_known_side_data(frame).side_data.get("DISPLAYMATRIX")
    if matrix is None:
        return {}
    a, b, _, c, d = struct.unpack_from("=5i", matrix)
    return dict(zip(("rotation", "mirrored"), orientation(a, b, c, d), strict=True))


def _with_known_side_data(frame: av.VideoFrame) -> av.VideoFrame:
    """Return a frame without the side data whose kinds PyAV does not know, such as Exif (PyAV 18)."""
    kinds: Any = Type
    known = max(kind.value for kind in kinds)
    graph = av.filter.Graph()
    nodes = [graph.add_buffer(width=frame.width, height=frame.height, format=frame.format, time_base=Fraction(1))]
    nodes += [graph.add("sidedata", f"mode=delete:type={known + more}") for more in range(1, _MOST_UNKNOWN)]
    nodes.append(graph.add("buffersink"))
    graph.link_nodes(*nodes).configure()
    graph.push(frame)
    kept = graph.pull()
    assert isinstance(kept, av.VideoFrame)
    return kept
