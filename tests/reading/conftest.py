"""Processes that make clips."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from reading_processes import Waiting

from videoloader.reading import process_pool
from videoloader.reading.clip_reader import ClipReader
from videoloader.reading.process_pool import ProcessPool, ProcessReader


@pytest.fixture(scope="module")
def processes_at_once() -> Iterator[None]:
    """Processes start with the first clip."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(process_pool, "_CLIPS_BEFORE", 0)
        yield


@pytest.fixture(scope="module")
def processes(processes_at_once: None) -> ProcessPool:
    """One process, which takes a second or two to start."""
    return Waiting(1)


@pytest.fixture
def only_there(processes: ProcessPool, monkeypatch: pytest.MonkeyPatch) -> ProcessReader:
    """A reader whose thread cannot read by itself."""
    reader = ProcessReader(ClipReader(torch.device("cpu")), processes)
    monkeypatch.setattr(reader, "local", None)
    return reader
