"""A small sample of soak/fuzz_coverage.py, without atheris: every reader answers any bytes, or refuses them."""

from __future__ import annotations

import zlib
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from soak.fuzz_indexing import Structure, patches_of
from soak.fuzz_targets import TARGETS, quiet_decoders, run_case

EXAMPLES = 25


@pytest.mark.parametrize("name", TARGETS)
def test_any_bytes_are_answered_or_refused(tmp_path: Path, name: str) -> None:
    target, outcomes = TARGETS[name], Counter[str]()
    written, used = tmp_path / "written", tmp_path / "used"
    written.mkdir()
    used.mkdir()

    # Encoding is slow: two seeds are enough here.
    seeds = list(target.seeds(written))
    kept = [seeds[0], seeds[-1]]

    @seed(zlib.crc32(name.encode()))
    @settings(max_examples=EXAMPLES, database=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
    @given(st.data())
    def use(data: st.DataObject) -> None:
        whole = data.draw(st.sampled_from(kept))
        changed = bytearray(whole[: data.draw(st.just(len(whole)) | st.integers(8, len(whole)))])
        for place, written_there in data.draw(patches_of(Structure([(0, len(changed))], []), len(changed))):
            changed[place : place + len(written_there)] = written_there
        outcomes[run_case(target, bytes(changed), used)] += 1

    with quiet_decoders():
        assert {run_case(target, whole, used) for whole in seeds} & {"answer"}
        use()
    assert sum(outcomes.values()) >= EXAMPLES
