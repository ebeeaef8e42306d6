"""Names that files hold: loader states those of modes and orders, index stores those of errors.

A name that changes makes states and stores of earlier versions useless, so each is written down here.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from store_contents import make_store

import videoloader as vl
from videoloader.indexing.store.frame_counts import stored_error
from videoloader.order.shuffle import InOrder, ShuffleClips

MODES_AND_ORDERS = [
    (vl.AtRate(5, length=4), "AtRate(fps=5, length=4, start='random', pad='edge')"),
    (vl.AtRate(5, 4, start=0.5, step=2.5), "AtRate(fps=5, length=4, start=0.5, pad='edge', step=2.5)"),
    (vl.EvenWindows(4), "EvenWindows(length=4, stride=1, clips=10, pad='edge')"),
    (vl.EveryWindow(4, stride=2, pad="edge"), "EveryWindow(length=4, stride=2, step=None, pad='edge')"),
    (vl.FrameList([1, 2]), "FrameList(frames=(1, 2), pad='none')"),
    (
        vl.FrameTuples((0, 2), 1),
        "FrameTuples(inputs=(0, 2), targets=(1,), gap=1, step=1, even=False, cuts=None, pad='none')",
    ),
    (vl.Keyframes(), "Keyframes(limit=None, pad='none')"),
    (
        vl.NearKeyframes(vl.RandomWindow(4), within=2),
        "NearKeyframes(mode=RandomWindow(length=4, stride=1, clips=1, reverse=0.0, pad='edge'), within=2)",
    ),
    (
        vl.RandomWindow(4, pad=vl.PadColumn("pad")),
        "RandomWindow(length=4, stride=1, clips=1, reverse=0.0, pad=PadColumn(column='pad'))",
    ),
    (vl.Segments(3), "Segments(segments=3, frames_per_segment=1, jitter=False, pad='edge')"),
    (vl.Timestamps([1.5]), "Timestamps(seconds=(1.5,), at='nearest', pad='none')"),
    (vl.Triplets(), "Triplets(gap=1, step=1, even=False, cuts=None, pad='none')"),
    (vl.Triplets((1, 4), clips=2), "Triplets(gap=(1, 4), step=1, even=False, cuts=None, pad='none', clips=2)"),
    (vl.UniformFrames(4), "UniformFrames(count=4, pad='none')"),
    (vl.WholeVideo(), "WholeVideo(stride=1, max_frames=None, pad='none')"),
    (InOrder(), "InOrder()"),
    (ShuffleClips(), "ShuffleClips()"),
    (vl.ShuffleBlocks(), "ShuffleBlocks(block=64, window=4096)"),
    (vl.ShuffleVideos(), "ShuffleVideos(together=1)"),
    (vl.ByColumn("camera"), "ByColumn(column='camera')"),
]


@pytest.mark.parametrize(("given", "name"), MODES_AND_ORDERS, ids=[name for _, name in MODES_AND_ORDERS])
def test_modes_and_orders_keep_the_names_in_saved_states(given: object, name: str) -> None:
    assert repr(given) == name


def test_a_state_saved_before_names_moved_still_fits(tmp_path: Path) -> None:
    lengths = {f"video{number}.mp4": 20 + number for number in range(4)}
    store = make_store(tmp_path / "index.db", lengths)
    data = vl.VideoDataset.from_paths([tmp_path / name for name in lengths])
    loader = vl.VideoLoader(
        data,
        vl.RandomWindow(4, clips=2),
        batch_size=3,
        index=store,
        device="cpu",
        shuffle=True,
        seed=7,
        shard_id=0,
        num_shards=1,
    )
    state = {"epoch": 1, "parts": 1, "dealt": "1x1x1 drop 3", "fingerprint": "92ea3bb4678591e7b11ef63cdd00f01b"}
    loader.load_state_dict(state)
    assert loader.state_dict().items() >= state.items()


@pytest.mark.parametrize("kind", [vl.SourceError, vl.IndexingError, vl.UnsupportedError, vl.DecodeError])
def test_errors_keep_the_names_in_index_stores(kind: type[vl.VideoLoaderError]) -> None:
    names = {
        vl.SourceError: "SourceError",
        vl.IndexingError: "IndexingError",
        vl.UnsupportedError: "UnsupportedError",
        vl.DecodeError: "DecodeError",
    }
    assert type(stored_error("video.mp4", None, names[kind], "what was wrong")) is kind
