"""``benchmarks/gil.py`` counts what a program takes of the GIL."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from child_environment import child_environment

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
PROGRAM = """
import time
from gil import counters

found = counters()
releases, held = found["releases"], found["held"]
before, begin = (releases(), held()), time.monotonic_ns()
for _ in range(100):
    time.sleep(0.001)
in_sleep = releases() - before[0], held() - before[1], time.monotonic_ns() - begin
before = releases(), held()
end = time.monotonic() + 0.1
while time.monotonic() < end:
    pass
print(*in_sleep, releases() - before[0], held() - before[1])
"""


def test_releases_and_the_time_between_them_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)
    from gil import compile_counter

    counter = compile_counter(tmp_path)
    if counter is None:
        pytest.skip("there is no compiler, or this Python's functions cannot be replaced")
    environment = {**child_environment(BENCHMARKS), "LD_PRELOAD": str(counter)}
    ran = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True)
    releases, held, taken, others, busy = map(int, ran.stdout.split())
    assert (releases, others) == (100, 0)
    assert held <= taken - 100e6, "a thread that sleeps holds nothing"
    assert busy >= 100e6
