"""Queries of a store that a Ctrl-C or the end of the program interrupts."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from child_environment import SAFE_PATH, child_environment
from waiting import PATIENCE

import videoloader as vl

# The query takes hours.
PREPARE = """
import os, signal, sys, threading, time
import videoloader as vl
from videoloader.indexing.store.read_only import Guard

store = vl.IndexStore(sys.argv[1])
begun = threading.Event()
plain = Guard._fetch
def fetch(guard, cursor):
    begun.set()
    return plain(guard, cursor)
Guard._fetch = fetch
def query():
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n WHERE i = 1 OR i < 0"
    store.query(endless, timeout=1e5)
"""
PROGRAMS = {
    "a Ctrl-C": """
def interrupt():
    begun.wait()
    time.sleep(0.1)
    os.kill(os.getpid(), signal.SIGINT)
signal.signal(signal.SIGINT, signal.default_int_handler)
threading.Thread(target=interrupt).start()
try:
    query()
except KeyboardInterrupt:
    print("interrupted")
""",
    "the end of the program, in a daemon thread": """
threading.Thread(target=query, daemon=True).start()
begun.wait()
time.sleep(0.1)
print("interrupted")
""",
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_a_query_ends_with(sample: Callable[[str], Path], tmp_path: Path, program: str) -> None:
    vl.VideoDataset.from_paths([sample("h264_mp4")]).build_store(tmp_path / "index.db", workers=1)
    command = [sys.executable, *SAFE_PATH, "-c", PREPARE + program, str(tmp_path / "index.db")]
    done = subprocess.run(command, env=child_environment(), capture_output=True, text=True, timeout=PATIENCE)
    assert (done.returncode, done.stdout, done.stderr) == (0, "interrupted\n", "")
