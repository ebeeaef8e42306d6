"""Builds and merges wait for other programs that use a store, but not beyond an error of a signal's handler."""

from __future__ import annotations

import signal
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

import videoloader as vl
from videoloader.indexing.store import connection


class TimeUpError(Exception):
    """What a user's handler raises."""


def _raise(*_: object) -> None:
    raise TimeUpError


@pytest.mark.parametrize("use", ["build", "merge"])
@pytest.mark.parametrize("lock", ["BEGIN IMMEDIATE", "SELECT source FROM videos", "BEGIN EXCLUSIVE"])
def test_an_error_of_a_handler_ends_the_wait_for_a_store_that_another_program_uses(
    sample: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, use: str, lock: str
) -> None:
    monkeypatch.setattr(connection, "BUSY_TIMEOUT", 1e5)
    before = signal.signal(signal.SIGUSR1, _raise)
    for name in ("s.db", "part.db"):
        vl.build_store([sample("h264_mp4"), sample("vp9_webm")], tmp_path / name, workers=1)
    timer = threading.Timer(0.2, signal.pthread_kill, (threading.get_ident(), signal.SIGUSR1))

    def interrupted() -> None:
        timer.start()
        if use == "build":
            vl.build_store([sample("hevc_mp4")], tmp_path / "s.db", workers=1)
        else:
            vl.merge_stores([tmp_path / "part.db"], tmp_path / "s.db")

    with closing(sqlite3.connect(tmp_path / "s.db", isolation_level=None)) as other:
        held = other.execute(lock)
        held.fetchone()
        with pytest.raises(TimeUpError):
            interrupted()
        held.close()
    timer.join()
    signal.signal(signal.SIGUSR1, before)
    assert len(vl.IndexStore(tmp_path / "s.db")) == 2
