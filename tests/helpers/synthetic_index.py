"""Synthetic indexes with every GOP structure that a codec may produce."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import strategies as st

from videoloader.indexing import StreamInfo, VideoIndex
from videoloader.indexing.index import DISPOSABLE_NO, DISPOSABLE_UNKNOWN, DISPOSABLE_YES
from videoloader.indexing.packet_times import reorder_depth

STEP = 512


def make_index(
    pts: list[int],
    keys: set[int],
    *,
    disposable: list[int] | None = None,
    configs: list[int] | None = None,
    frames: list[int] | None = None,
    codec: str = "h264",
    method: str = "tables",
    time_base: Fraction = Fraction(1, 12800),
) -> VideoIndex:
    """An index with packets of these timestamps; ``frames`` are the packets shown, by default all."""
    times = np.array(pts, np.int64)
    count = len(times)
    shown = np.argsort(times, kind="stable") if frames is None else np.array(frames, np.int64)
    return VideoIndex(
        source="a video",
        container="mp4",
        method=method,
        packet_offset=np.arange(count) * 100,
        packet_size=np.full(count, 100, np.int32),
        packet_pts=times,
        packet_key=np.isin(np.arange(count), list(keys)),
        packet_disposable=np.array(disposable or [DISPOSABLE_UNKNOWN] * count, np.uint8),
        packet_config=np.array(configs or [0] * count, np.uint8),
        frame_packet=shown.astype(np.int32),
        frame_pts=np.sort(times[shown]),
        byte_ranges=True,
        stream=StreamInfo(
            codec, (b"",) * (max(configs or [0]) + 1), time_base, 64, 64, reorder_depth=reorder_depth(times)
        ),
    )


@st.composite
def indexes(draw: st.DrawFn) -> VideoIndex:
    """Closed and open GOPs, pyramids, disposable and hidden packets, several configuration records."""
    codec = draw(st.sampled_from(["h264", "hevc"]))
    pts: list[int] = []
    keys: set[int] = set()
    disposable: list[int] = []
    configs: list[int] = []
    clock = config = 0
    for _ in range(draw(st.integers(1, 6))):
        changes = draw(st.integers(0, 4)) == 0
        config = (config + changes) % 2
        # Leading frames refer to the GOP before, so a new configuration cannot have any.
        leading = draw(st.integers(0, 3)) if keys and not changes else 0
        groups = [leading, *draw(st.lists(st.integers(0, 3), max_size=4))]
        keys.add(len(pts))
        for between in groups:
            # A key or reference picture, then those shown before it.
            order = [between, *draw(st.permutations(range(between)))]
            pts += [(clock + place) * STEP for place in order]
            clock += between + 1
            disposable.append(DISPOSABLE_NO)
            disposable += [
                draw(st.sampled_from([DISPOSABLE_UNKNOWN, DISPOSABLE_NO, DISPOSABLE_YES])) for _ in range(between)
            ]
            configs += [config] * (between + 1)
    hidden = draw(st.sets(st.integers(0, len(pts) - 1), max_size=3))
    frames = [packet for packet in np.argsort(pts).tolist() if packet not in hidden] or [0]
    return make_index(pts, keys, disposable=disposable, configs=configs, frames=frames, codec=codec)


@st.composite
def indexes_and_frames(draw: st.DrawFn) -> tuple[VideoIndex, list[int]]:
    """An index and some of its frames, in any order, with repeats."""
    index = draw(indexes())
    return index, draw(st.lists(st.integers(0, len(index) - 1), min_size=1, max_size=20))
