"""Makes example clips of a data set."""

from __future__ import annotations

import itertools
from contextlib import closing
from dataclasses import replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import numpy as np

from videoloader.cli.terminal import err, told_once
from videoloader.errors import printable

if TYPE_CHECKING:
    from videoloader.batching.batch import Batch
    from videoloader.dataset import VideoDataset
    from videoloader.dataset.stores import Store
    from videoloader.sampling.mode import FrameMode, FrameNumbers
    from videoloader.showing.contact_sheet import Strip

# Rows to try for each clip, since some may be unreadable or too short.
_ROWS_PER_CLIP = 4


def some_rows(data: VideoDataset, clips: int, seed: int) -> VideoDataset:
    """Random rows, enough for so many clips if most are readable."""
    from videoloader.permutation import permute

    count = min(len(data), _ROWS_PER_CLIP * clips)
    return data if count == len(data) == 1 else data[permute(np.arange(count), len(data), seed, 0)]


def example_clips(
    data: VideoDataset,
    mode: FrameMode | FrameNumbers,
    transforms: list[Any],
    count: int,
    frames: int | None,
    seed: int,
    device: str,
    index: Store | None,
) -> list[tuple[Strip, dict[str, Any]]]:
    """The first clips of a loader, perhaps of different sizes: strips of at most ``frames`` frames, and facts."""
    from videoloader.loader import VideoLoader

    loader = VideoLoader(
        data,
        mode,
        batch_size=1,
        device=device,
        transforms=transforms,
        seed=seed,
        on_error="skip",
        index=index,
        prefetch=count,
    )
    with closing(loader):
        shown = [_clip(batch, data, frames) for batch in itertools.islice(loader, count)]
    for path, reason in loader.unreadable:
        err.print(f"left out: {printable(told_once(path, reason))}", markup=False, soft_wrap=True)
    return shown


def _clip(batch: Batch, data: VideoDataset, frames: int | None) -> tuple[Strip, dict[str, Any]]:
    from videoloader.showing.show import batch_strip, label_text

    times, mask = batch.timestamps[0], batch.mask[0]
    label = batch.labels[0]
    named = label_text(data, int(label)) if label.ndim == 0 and label >= 0 else ""
    title = ", ".join(filter(None, [PurePath(batch.paths[0]).name, named]))
    facts = {
        "path": batch.paths[0],
        "frame_numbers": batch.frame_numbers[0].tolist(),
        "timestamps": [None if np.isnan(time) else float(time) for time in times],
        "mask": mask.tolist(),
    }
    return replace(batch_strip(batch, 0, len(mask) if frames is None else frames), title=title), facts
