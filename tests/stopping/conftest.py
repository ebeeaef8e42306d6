"""Small loaders, and decoders that can be made to block."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from waiting import PATIENCE

import videoloader as vl
from videoloader.decoding import cpu


@pytest.fixture(autouse=True)
def hears_ctrl_c() -> Iterator[None]:
    """Here and in programs started from here: a shell's background jobs, and what they start, have it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="module")
def data(sample: Callable[[str], Path]) -> vl.VideoDataset:
    return vl.VideoDataset.from_paths([sample(name) for name in ("h264_mp4", "hevc_mp4", "vp9_webm")] * 4)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """While it is closed decoders stand still in the middle of a clip."""
    gate, plain = threading.Event(), cpu.make_packet
    gate.set()

    def behind_gate(*arguments: Any) -> object:
        gate.wait(PATIENCE)
        return plain(*arguments)

    monkeypatch.setattr(cpu, "make_packet", behind_gate)
    yield gate
    gate.set()
