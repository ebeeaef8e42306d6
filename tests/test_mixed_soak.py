"""A small sample of soak/mixed.py: one round of each kind of work, and the evaluation of its numbers."""

from __future__ import annotations

from pathlib import Path

import pytest
from soak.footprint import Footprint
from soak.mixed import WARM_UP, WORK, Rates, Round, made_world, rates_of, run


@pytest.mark.filterwarnings("ignore")
def test_a_round_of_everything(tmp_path: Path) -> None:
    with made_world(tmp_path, tmp_path / "no corpus", ("h264_intra", "mpeg4_mp4")) as world:
        (once,) = run(world, 0)
    assert once.clips >= len(WORK)
    assert once.held.done == 1


def test_the_last_tenth_is_compared_with_the_first() -> None:
    rates = [99] * WARM_UP + [5, 4, 6, 8, 7] + [9] * 20 + [2, 3, 7, 1, 9]
    rounds = [Round(Footprint(n, 0, 0, 0, 0), clips, 1) for n, clips in enumerate(rates, 1)]
    assert rates_of(rounds) == Rates(first=6, last=3, spread=4)
    assert rates_of(rounds[: WARM_UP + 9]) is None
