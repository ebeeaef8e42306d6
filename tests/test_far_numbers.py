"""Numbers of huge size, in rows, settings and states, give results or errors at once."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import videoloader as vl
from videoloader.padding import pad

Sample = Callable[[str], Path]
BIG = 1 << 100_000  # more digits than Python writes
FAR = Decimal("1e9999999")  # as an integer, it would take minutes


def _load(path: Path, value: Any, mode: Any = (0,), **settings: Any) -> vl.Batch:
    data = vl.VideoDataset([vl.VideoEntry(path, columns={"c": value})])
    loader = vl.VideoLoader(
        data, mode if isinstance(mode, vl.FrameMode) else list(mode), batch_size=1, device="cpu", **settings
    )
    return next(iter(loader))


@pytest.mark.parametrize(
    "mode", [vl.Timestamps("c"), vl.Timestamps([Fraction(BIG, 3)]), vl.Timestamps([Fraction(-BIG, 3)])]
)
def test_times_that_no_float_holds_are_outside_the_video(mode: vl.FrameMode, sample: Sample) -> None:
    with pytest.raises(vl.FrameRangeError, match=r"no frame of 0 to 59 is at or near -?inf s"):
        _load(sample("h264_mp4"), "1e400", mode)


@pytest.mark.parametrize("options", [{}, {"relative": True}, {"margin": 10}, {"square": True}])
@pytest.mark.parametrize("box", ["0 0 1e308 1e308", "-1e308 -1e308 1e308 1e308"])
def test_boxes_that_reach_far_beyond_the_picture_are_cut_off(options: Any, box: str, sample: Sample) -> None:
    batch = _load(sample("h264_mp4"), box, transforms=[vl.CropToBox("c", **options), vl.Resize((8, 8))])
    assert batch.frames.shape[-2:] == (8, 8)


@pytest.mark.parametrize(
    ("value", "mode", "settings", "says"),
    [
        ([BIG] * 4, (0,), {"transforms": [vl.CropToBox("c"), vl.Resize(8)]}, "got .an integer of 100001 bits"),
        ([BIG], vl.FrameList("c"), {}, "column 'c' must be a list of integers, got .an integer of 100001 bits"),
        (0, vl.AtRate(Fraction(1, BIG), 4), {}, "asks for times that no video reaches"),
        (FAR, (0,), {"sharding": vl.ByColumn("c"), "num_shards": 1, "shard_id": 0}, "must hold the numbers of groups"),
    ],
)
def test_values_of_rows_that_are_too_large_are_named(
    value: Any, mode: Any, settings: Any, says: str, sample: Sample
) -> None:
    with pytest.raises(vl.ConfigurationError, match=says):
        _load(sample("h264_mp4"), value, mode, **settings)


def test_ratios_are_decimals_of_a_usual_size() -> None:
    data = vl.VideoDataset.from_paths(["a.mp4", "b.mp4"])
    assert len(vl.VideoDataset.mix([data, data], ratios=[Decimal("0.5"), Fraction(1, 2)])) == 4
    with pytest.raises(vl.ConfigurationError, match=r"ratios.* must be .*number"):
        vl.VideoDataset.mix([data, data], ratios=[FAR, 1])
    with pytest.raises(vl.ConfigurationError, match=r"ratios.* must be .*number"):
        vl.VideoDataset.mix([data, data], ratios=["1e99999999", 1])


@pytest.mark.parametrize("name", ["epoch", "parts"])
def test_a_state_with_other_numbers_than_integers_is_refused(name: str, sample: Sample) -> None:
    loader = vl.VideoLoader(vl.VideoDataset.from_paths([sample("h264_mp4")]), [0], batch_size=1, device="cpu")
    with pytest.raises(vl.ConfigurationError, match="state"):
        loader.load_state_dict({**loader.state_dict(), name: FAR})


def test_ends_of_a_range_that_are_too_long_to_be_written_are_named() -> None:
    with pytest.raises(
        vl.ConfigurationError, match="pad's first must be an integer of at most 64 bits, got one of 100001"
    ):
        pad([0, 1], BIG, 3, "edge")
