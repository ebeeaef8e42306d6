"""The summary of a data set, and the decode cost of its clips."""

from __future__ import annotations

import shutil
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic_index import indexes

from videoloader.dataset import VideoDataset, VideoEntry
from videoloader.dataset.clip_cost import with_gops_of
from videoloader.errors import ConfigurationError, NotIndexedError
from videoloader.indexing import VideoIndex, build_index
from videoloader.packets.decode_plan import plan_frames
from videoloader.sampling.frame_list import FrameList
from videoloader.sampling.windows import EveryWindow


@pytest.fixture(scope="module")
def data(sample: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> VideoDataset:
    """Three videos of two classes, one of them in two rows, and a file that is none; ``index.db`` beside them."""
    folder = tmp_path_factory.mktemp("summary")
    entries = []
    for label, name in enumerate(("h264_mp4", "vp9_webm", "h264_mp4_vfr")):
        entries.append(VideoEntry(str(shutil.copy(sample(name), folder)), label % 2))
    (folder / "text.mp4").write_text("no video")
    entries += [VideoEntry(entries[0].path, 0, start=7), VideoEntry(str(folder / "text.mp4"))]
    data = VideoDataset(entries, ["a", "b", "c"], [("gone.mp4", "there is no such file")])
    data.build_store(folder / "index.db", workers=1)
    return data


def store_of(data: VideoDataset) -> Path:
    return Path(data[0].path).parent / "index.db"


def longest_gop(index: VideoIndex) -> int:
    return int(np.diff([*np.flatnonzero(index.packet_key), len(index.packet_key)]).max())


def test_figures_are_those_of_the_indexes(data: VideoDataset) -> None:
    told = data.describe(store=store_of(data))
    readable = [build_index(data[row].path) for row in range(3)]
    assert (told.rows, told.videos, told.classes, told.unreadable, told.left_out) == (5, 3, 2, 1, 1)
    assert told.frames == sum(map(len, readable))
    assert told.hours == pytest.approx(sum(len(index) / index.average_fps for index in readable) / 3600)
    assert told.codecs == {"h264": 2, "vp9": 1}
    assert list(told.codecs) == ["h264", "vp9"]
    assert sum(told.sizes.values()) == sum(told.fps.values()) == 3
    assert told.sizes[readable[0].stream.display_size] >= 1
    assert told.variable_rate == sum(index.is_vfr for index in readable) == 1
    packets, keys = (
        sum(int(part(index)) for index in readable)
        for part in (lambda i: len(i.packet_key), lambda i: i.packet_key.sum())
    )
    assert told.frames_per_keyframe == packets / keys
    gops = sorted(map(longest_gop, readable))
    assert told.longest_gop == (gops[1], gops[2], gops[2])
    assert told.cost is None


def test_the_cost_is_that_of_the_plans(data: VideoDataset) -> None:
    mode = EveryWindow(5, step=20)
    told = data.describe(mode, store=store_of(data))
    assert told.cost is not None
    wanted = decoded = short = 0
    for row in range(4):
        index = build_index(data[row].path)
        first = data[row].start or 0
        for start in range(first, len(index) - 4, 20):
            frames = np.arange(start, start + 5)
            wanted += 5
            decoded += plan_frames(index, frames).packets
            short += plan_frames(with_gops_of(index, 12), frames).packets
    assert (told.cost.videos, told.cost.decoded_per_frame) == (4, pytest.approx(decoded / wanted))
    assert told.cost.decoded_per_frame_re_encoded == pytest.approx(short / wanted)


def test_it_prints_as_a_table(data: VideoDataset) -> None:
    text = str(data.describe(FrameList([30]), store=store_of(data)))
    for line in (
        "videos       3 in 5 rows, 2 classes",
        "not usable   1 video unreadable, 1 row left out",
        "codecs       h264: 66.7 %, vp9: 33.3 %",
        "variable in 33.3 %",
        "re-encode with GOP 12: ",
        "(4 clips of 4 videos, FrameList(frames=(30,)",
    ):
        assert line in text
    assert "decode cost  1 wanted frame costs" in text


def test_without_a_store_videos_are_indexed_now(data: VideoDataset) -> None:
    assert data.describe(FrameList([0])) == data.describe(FrameList([0]), store=store_of(data))


def test_arguments_of_a_wrong_kind_are_named(data: VideoDataset) -> None:
    with pytest.raises(ConfigurationError, match=r"mode must be a frame mode, such as .* got 16"):
        data.describe(16)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="videos must be a positive integer, got 0"):
        data.describe(videos=0)


def test_what_cannot_be_read_has_no_figures(data: VideoDataset) -> None:
    told = data[4:].describe(FrameList([0]), store=store_of(data))
    assert (told.videos, told.unreadable, told.cost) == (0, 1, None)
    assert str(told) == "videos       0 in 1 row\nnot usable   1 video unreadable, 1 row left out"
    with pytest.raises(NotIndexedError, match=r"other.mp4: is not in the index store"):
        VideoDataset([VideoEntry("/other.mp4")]).describe(store=store_of(data))


@given(indexes(), st.integers(1, 12), st.data())
def test_encoded_again_a_frame_needs_its_gop_at_most(index: VideoIndex, gop: int, drawn: st.DataObject) -> None:
    short = with_gops_of(index, gop)
    assert len(short) == len(index)
    frame = drawn.draw(st.integers(0, len(index) - 1))
    plan = plan_frames(short, [frame])
    (run,) = plan.runs
    own = range(frame // gop * gop, min((frame // gop + 1) * gop, len(index)))
    shown = np.argsort(short.packet_pts)  # the packet of each frame
    assert set(run.packets.tolist()) <= set(shown[own].tolist())
    assert run.packets[0] == shown[own[0]]
    assert short.packet_key[run.packets[0]]
    # Within a GOP, but for its first frame, packets come in the order they were coded in.
    order = [int(index.frame_packet[short.packet_pts[packet]]) for packet in run.packets[1:]]
    assert order == sorted(order)


def test_a_million_rows_would_take_little_more_than_their_paths(tmp_path: Path) -> None:
    rows = 20_000
    with (tmp_path / "rows.csv").open("w") as file:
        file.write("path,label,time_start,time_end,split,youtube_id\n")
        file.writelines(f"{i % 400:03}/{i:011}.mp4,class {i % 400},10,20,train,{i:011}\n" for i in range(rows))
    tracemalloc.start()
    data = VideoDataset.from_csv(tmp_path / "rows.csv", root="/data")
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept / rows < len(data[0].path) + 100
