"""A live line for a loop over batches."""

from __future__ import annotations

import time
from collections.abc import Iterator

from videoloader.batching.batch import Batch
from videoloader.errors import ArgumentError
from videoloader.errors.argument_names import tells_of_arguments
from videoloader.errors.short_text import short_text
from videoloader.live_line import shown_line, told
from videoloader.loader import VideoLoader


@tells_of_arguments
def show_progress(loader: VideoLoader, description: str = "batches") -> Iterator[Batch]:
    """Iterate over a loader's batches, and show their rate and the share of time spent waiting.

    The line appears in a terminal or notebook. Elsewhere, as in a job whose output goes to a file, nothing is written.

    Args:
        loader: VideoLoader. The loader. Its next epoch, or the rest of a resumed one, is iterated.
        description: str, default ``"batches"``. The text before the bar.

    Raises:
        ConfigurationError: ``loader`` is not a loader.

    Examples:
        >>> for batch in show_progress(loader, "epoch 3"):
        ...     train(batch.frames, batch.labels)

        In a terminal this shows:

            epoch 3 ━━━━━━━━━━────────── 40/80, 74.3 clips/s, waited 1%, 0:04 left
    """
    if not callable(getattr(loader, "stats", None)):
        wanted = "a VideoLoader, as VideoLoader(data, mode, batch_size=8)"
        raise ArgumentError(f"show_progress takes {wanted}, got {short_text(loader)}")
    return _shown(loader, description)


def _shown(loader: VideoLoader, description: str) -> Iterator[Batch]:
    before, began, total = loader.stats(), time.monotonic(), len(loader)
    with shown_line(stays=True) as show:
        for done, batch in enumerate(loader, 1):

            def line(done: int = done) -> str:
                spent = loader.stats() - before
                seconds = spent.seconds or 1e-9
                rate = f"{spent.clips / seconds:.1f} clips/s, waited {spent.waiting / seconds:.0%}"
                return told(description, done, total, time.monotonic() - began, rate)

            show(line)
            yield batch
