"""Processes of the library that are killed while they start."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

from videoloader.runtime import child_process


def killed_at_the_start(monkeypatch: pytest.MonkeyPatch, times: int) -> list[int]:
    """Kill so many of the next processes as soon as they have been started; return a list that gets their numbers."""
    start, killed = child_process.start_process, list[int]()

    def start_and_kill(*arguments: Any) -> Any:
        process, connection = start(*arguments)
        if len(killed) < times:
            killed.append(process.pid)
            os.kill(process.pid, signal.SIGKILL)
        return process, connection

    monkeypatch.setattr(child_process, "start_process", start_and_kill)
    return killed
