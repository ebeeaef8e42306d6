"""Loaders of a dozen clips, which tests stop in the middle of their work."""

from __future__ import annotations

import linecache
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import videoloader as vl
from videoloader.runtime import threads

OWN_THREADS = ("videoloader-decode", "videoloader-plan", "videoloader-batch")


def make(data: vl.VideoDataset, **settings: object) -> vl.VideoLoader:
    defaults = {"batch_size": 2, "device": "cpu", "num_workers": 2, "prefetch": 3}
    return vl.VideoLoader(data, vl.RandomWindow(2, stride=5), **(defaults | settings))


def clips_of(batches: list[vl.Batch]) -> list[int]:
    return [clip for batch in batches for clip in batch.clips.tolist()]


def own_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith(OWN_THREADS)}


def all_idle() -> bool:
    """Whether all of these threads wait for calls. An error that refers to an idle one keeps it alive."""
    frames = sys._current_frames()
    waits = threads._make_calls.__code__
    return all(frames[each.ident].f_code is waits for each in own_threads() if each.ident in frames)


@contextmanager
def at_line(chosen: int, act: Callable[[], object]) -> Iterator[list[str]]:
    """Do something before the chosen line, counted from 1, that this thread executes in the library.

    Yields:
        The place of that line, once it was reached.
    """
    root, lines = str(Path(vl.__file__).parent), count(1)
    reached: list[str] = []

    def trace(frame: FrameType, event: str, _: object) -> Any:
        name = frame.f_code.co_filename
        if not name.startswith(root):
            return None
        # Lines of with statements are skipped: a tracer can interrupt where Python allows no signal, between taking a
        # lock and the block that releases it.
        is_with = linecache.getline(name, frame.f_lineno).lstrip().startswith("with ")
        if event == "line" and not is_with and not reached and next(lines) == chosen:
            reached.append(f"{name}:{frame.f_lineno}")
            act()
        return trace

    sys.settrace(trace)
    try:
        yield reached
    finally:
        sys.settrace(None)


def failing_with(mark: int) -> Callable[[object], object]:
    """A transform that fails for the clip whose last frame has this number, and only once."""
    left = [mark]

    def fail(frames: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        if left and frames.shape[0] == left[0]:
            left.clear()
            raise ZeroDivisionError("in a transform")
        return frames

    return fail
