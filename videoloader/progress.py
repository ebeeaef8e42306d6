"""A live progress bar for a loop over batches."""

from __future__ import annotations

import reprlib
from collections.abc import Iterator

from videoloader.argument_names import tells_of_arguments
from videoloader.batching.batch import Batch
from videoloader.errors import ArgumentError, needs
from videoloader.loader import VideoLoader


@tells_of_arguments
def show_progress(loader: VideoLoader, description: str = "batches") -> Iterator[Batch]:
    """The batches of a loader, with a progress bar in the terminal: rate, and the share of time spent waiting.

    Args:
        loader: VideoLoader. The loader whose next epoch is shown, or what is left of it.
        description: str, default ``"batches"``. The text before the bar.

    Raises:
        ConfigurationError: ``loader`` is no loader, or Rich is not installed (``pip install videoloader[cli]``).

    Examples:
        >>> for batch in show_progress(loader, "epoch 3"):
        ...     train(batch.frames, batch.labels)
        epoch 3 ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━ 80/80 74.3 clips/s, waited 1% 0:00:00
    """
    if not callable(getattr(loader, "stats", None)):
        wanted = "a VideoLoader, as VideoLoader(data, mode, batch_size=8)"
        raise ArgumentError(f"show_progress takes {wanted}, got {reprlib.repr(loader)}")
    return _shown(loader, description)


def _shown(loader: VideoLoader, description: str) -> Iterator[Batch]:
    with needs("a progress bar needs Rich: pip install 'videoloader[cli]'"):
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    before = loader.stats()
    with Progress(*columns) as progress:
        task = progress.add_task(description, total=len(loader), rate="")
        for batch in loader:
            spent = loader.stats() - before
            rate = f"{spent.clips / spent.seconds:.1f} clips/s, waited {spent.waiting / spent.seconds:.0%}"
            progress.update(task, advance=1, rate=rate)
            yield batch
