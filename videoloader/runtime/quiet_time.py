"""A short time after a batch is handed over in which decoding threads leave the GIL to the training loop.

A loop that reads its loss waits for the GPU. Then the GPU has nothing to do until the loop launches the first kernels
of the next step, and each operation needs the GIL. If other threads take it in between, the GPU idles.
"""

from __future__ import annotations

import threading
import time

# Longer times take too much from loaders that are only a little faster than their network.
_SECONDS, _SHARE = 0.03, 0.3

_last = _until = 0.0
_loop = 0  # the thread that took the last batch


def begin_quiet_time() -> None:
    """Begin a quiet time, of at most 30 ms, and at most three tenths of the time since the last one began.

    Only a loader that has batches in store may call this. There is one quiet time for all loaders, as there is one GIL.
    """
    global _last, _until, _loop
    now = time.perf_counter()
    _until = max(_until, now + min(_SECONDS, _SHARE * (now - _last)))
    _last, _loop = now, threading.get_ident()


def wait_for_quiet_time() -> None:
    """Wait until no quiet time is left. The thread that took the batch does not wait for itself."""
    while (left := _until - time.perf_counter()) > 0 and threading.get_ident() != _loop:
        time.sleep(left)
