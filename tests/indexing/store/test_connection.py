"""Connections of a store are closed with it."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import videoloader as vl
from videoloader.runtime.forks import no_forks


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="shows the open files of a process")
def test_a_store_that_is_dropped_while_its_thread_does_other_work_is_closed(
    sample: Callable[[str], Path], tmp_path: Path
) -> None:
    vl.VideoDataset.from_paths([sample("h264_mp4")]).build_store(tmp_path / "index.db", workers=1)
    stores = [vl.IndexStore(tmp_path / "index.db")]
    used, go_on = threading.Event(), threading.Event()

    def use() -> None:
        assert len(stores[0]) == 1
        with no_forks():  # as in a call to another store
            used.set()
            go_on.wait()

    def is_open() -> bool:
        links = (f"/proc/self/fd/{each}" for each in os.listdir("/proc/self/fd"))
        return str(tmp_path / "index.db") in [os.readlink(each) for each in links if os.path.islink(each)]

    thread = threading.Thread(target=use)
    thread.start()
    used.wait()
    try:
        assert is_open()
        stores.clear()
        gc.collect()
        assert not is_open()
    finally:
        go_on.set()
        thread.join()
