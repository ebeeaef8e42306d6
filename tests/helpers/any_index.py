"""Indexes with arbitrary values in their fields, and equality of indexes."""

from __future__ import annotations

import dataclasses
import typing
from fractions import Fraction

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from videoloader.indexing.index import VideoIndex
from videoloader.indexing.stream_info import StreamInfo, TransportLayout

NUMBERS = st.integers(-(2**63), 2**63 - 1)
# Strategies by type, so that fields added later are drawn, too, or fail for want of a strategy.
STRATEGIES = {
    str: st.text(max_size=8),
    int: NUMBERS,
    bool: st.booleans(),
    Fraction: st.builds(Fraction, st.integers(0, 2**40), st.integers(1, 2**40)),
    tuple[int, int]: st.tuples(NUMBERS, NUMBERS),
    tuple[bytes, ...]: st.lists(st.binary(max_size=40), min_size=1, max_size=3).map(tuple),
}
STREAMS = st.builds(StreamInfo, **{n: STRATEGIES[t] for n, t in typing.get_type_hints(StreamInfo).items()})
LAYOUTS = st.builds(TransportLayout, **{n: STRATEGIES[t] for n, t in typing.get_type_hints(TransportLayout).items()})


def columns(dtype: type, size: int, low: int | None = None, high: int | None = None) -> st.SearchStrategy[np.ndarray]:
    """Arrays like those of videos (slowly growing, nearly constant, few outliers), and arbitrary ones."""
    limits = np.iinfo(dtype)
    low, high = limits.min if low is None else low, limits.max if high is None else high
    anything = arrays(dtype, size, elements=st.integers(low, high))
    small = arrays(np.int64, size, elements=st.integers(0, 20))
    steps = st.tuples(small, st.integers(0, 1000), st.integers(0, 10**6))
    growing = steps.map(lambda drawn: np.clip(np.cumsum(drawn[0] + drawn[1]) + drawn[2], low, high).astype(dtype))
    outliers = st.tuples(small, arrays(np.bool_, size, fill=st.just(False)), st.integers(low, high)).map(
        lambda drawn: np.where(drawn[1], drawn[2], np.clip(drawn[0], low, high)).astype(dtype)
    )
    return st.one_of(anything, growing, outliers)


@st.composite
def any_indexes(draw: st.DrawFn) -> VideoIndex:
    """Indexes whose fields need not be consistent, except that frames refer to existing packets."""
    packets = draw(st.integers(0, 40))
    frames = draw(st.integers(0, 40)) if packets else 0
    stream = draw(STREAMS)
    in_order = packets == frames and draw(st.booleans())
    frame_packet = np.arange(packets, dtype=np.int32)
    return VideoIndex(
        source="a video",
        container=draw(st.text(max_size=5)),
        method=draw(st.sampled_from(["tables", "demuxed", "decoded"])),
        packet_offset=draw(columns(np.int64, packets)),
        packet_size=draw(columns(np.int32, packets)),
        packet_pts=draw(columns(np.int64, packets)),
        packet_key=draw(arrays(np.bool_, packets)),
        packet_disposable=draw(columns(np.uint8, packets, 0, 2)),
        packet_config=draw(columns(np.uint8, packets, 0, len(stream.codec_configs) - 1)),
        frame_packet=frame_packet if in_order else draw(columns(np.int32, frames, 0, max(packets - 1, 0))),
        frame_pts=draw(columns(np.int64, frames)),
        byte_ranges=draw(st.booleans()),
        stream=stream,
        transport=draw(st.none() | LAYOUTS),
        start_time=draw(NUMBERS),
        other_starts=draw(st.lists(st.tuples(NUMBERS, NUMBERS), max_size=3).map(tuple)),
        keys_from=draw(st.sampled_from(["headers", "decoder", "container"])),
    )


def assert_same_index(one: VideoIndex, other: VideoIndex) -> None:
    """Assert that two indexes are the same, whatever they were made of."""
    for field in dataclasses.fields(VideoIndex):
        if field.name == "state":
            continue
        mine, others = getattr(one, field.name), getattr(other, field.name)
        if isinstance(mine, np.ndarray):
            assert (mine.dtype, mine.tolist()) == (others.dtype, others.tolist()), field.name
        else:
            assert (type(mine), mine) == (type(others), others), field.name
