"""Clips of a data set to look at."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import numpy as np

from videoloader.cli.terminal import err, told_once
from videoloader.errors import printable

if TYPE_CHECKING:
    from videoloader.batching.batch import Batch
    from videoloader.dataset import VideoDataset
    from videoloader.dataset.stores import Store
    from videoloader.pictures import Strip
    from videoloader.sampling import FrameMode
    from videoloader.sampling.mode import FrameNumbers

# Rows that are looked at for each clip that is wanted: some may be unreadable, or too short.
_ROWS_PER_CLIP = 4


@dataclass(frozen=True)
class ExampleClip:
    """A clip with all of its frames, and what is told of it.

    Attributes:
        strip: strip of all frames.
        facts: as JSON holds them.
    """

    strip: Strip
    facts: dict[str, Any]


def some_rows(data: VideoDataset, clips: int, seed: int) -> VideoDataset:
    """Random rows, of which that many clips can be made if most are sound."""
    from videoloader.permutation import permute

    count = min(len(data), _ROWS_PER_CLIP * clips)
    return data if count == len(data) == 1 else data[permute(np.arange(count), len(data), seed, 0)]


def example_clips(
    data: VideoDataset,
    mode: FrameMode | FrameNumbers,
    transforms: list[Any],
    count: int,
    seed: int,
    device: str,
    index: Store | None,
) -> list[ExampleClip]:
    """The first clips of a loader, which may be of different sizes."""
    from videoloader.loader import VideoLoader

    shown: list[ExampleClip] = []
    loader = VideoLoader(
        data,
        mode,
        batch_size=1,
        device=device,
        transforms=transforms,
        layout="THWC",
        seed=seed,
        on_error="skip",
        index=index,
        prefetch=count,
    )
    with closing(loader):
        for batch in loader:
            shown += [_clip(batch, row, data) for row in range(len(batch))]
            if len(shown) >= count:
                break
    for path, reason in loader.unreadable:
        err.print(f"left out: {printable(told_once(path, reason))}", markup=False, highlight=False, soft_wrap=True)
    return shown[:count]


def _clip(batch: Batch, row: int, data: VideoDataset) -> ExampleClip:
    from videoloader.pictures import Strip, Tile

    numbers, times, mask = batch.frame_numbers[row], batch.timestamps[row], batch.mask[row]
    tiles = [
        Tile(frame, int(number), float(time), made_up=not real, damaged=bool(damaged))
        for frame, number, time, real, damaged in zip(
            batch.frames[row].cpu(), numbers, times, mask, batch.corrupt[row], strict=True
        )
    ]
    path, label = batch.paths[row], batch.labels[row]
    told = [PurePath(path).name]
    if label.ndim == 0 and label >= 0:
        told.append(data.class_names[int(label)] if data.class_names else f"label {int(label)}")
    facts = {
        "path": path,
        "frame_numbers": numbers.tolist(),
        "timestamps": [None if np.isnan(time) else float(time) for time in times],
        "mask": mask.tolist(),
    }
    return ExampleClip(Strip(tiles, ", ".join(told)), facts)


def spread(strip: Strip, most: int) -> Strip:
    """The strip with so many frames at most, evenly spaced, the first and the last among them."""
    count = len(strip.tiles)
    places = np.linspace(0, count - 1, min(count, most)).round().astype(int)
    return replace(strip, tiles=[strip.tiles[place] for place in places], left_out=count - len(places))
