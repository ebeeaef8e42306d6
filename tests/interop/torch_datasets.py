"""Torch data sets with requests, importable by worker processes."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch.utils.data import Dataset, IterableDataset

import videoloader as vl
from videoloader.interop.torch import ClipRequest, DecodingLoader

GPU_PACKAGES = ("cupy", "PyNvVideoCodec")


def make(loader: Any, **settings: Any) -> DecodingLoader:
    """A DecodingLoader on the CPU with two threads, unless the settings say otherwise."""
    return DecodingLoader(loader, **({"device": "cpu", "num_workers": 2} | settings))


class Captioned(Dataset[dict[str, Any]]):
    """Rows of several videos with a caption, a number and a tensor beside the clip."""

    def __init__(self, paths: Sequence[str], rows: int, *, seeded: bool) -> None:
        self.paths, self.rows, self.seeded = list(paths), rows, seeded

    def __len__(self) -> int:
        return self.rows

    def __getitem__(self, row: int) -> dict[str, Any]:
        if row >= self.rows:
            raise IndexError(row)
        return {
            "video": self.request(row),
            "text": f"row {row}",
            "row": row,
            "more": (torch.full((2,), row), {"process": os.getpid(), "cuda": touches_cuda()}),
        }

    def request(self, row: int) -> ClipRequest:
        path = self.paths[row % len(self.paths)]
        return ClipRequest(path, vl.RandomWindow(3, stride=2), seed=row if self.seeded else None)


class Failing(Captioned):
    """Of which one row cannot be made."""

    def __getitem__(self, row: int) -> dict[str, Any]:
        if row == self.rows - 1:
            raise KeyError("the last row")
        return super().__getitem__(row)


class Dying(Captioned):
    """Of which one row ends its process."""

    def __getitem__(self, row: int) -> dict[str, Any]:
        if row == self.rows - 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__getitem__(row)


class Streamed(IterableDataset[dict[str, Any]]):
    """The same rows one after the other, each from one of the workers."""

    def __init__(self, rows: Captioned) -> None:
        self.rows = rows

    def __iter__(self) -> Iterator[dict[str, Any]]:
        worker = torch.utils.data.get_worker_info()
        first, step = (0, 1) if worker is None else (worker.id, worker.num_workers)
        yield from (self.rows[row] for row in range(first, len(self.rows), step))


class Pair(NamedTuple):
    left: Any
    right: Any


@dataclass(frozen=True)
class Sample:
    clip: Any
    name: str


def touches_cuda() -> bool:
    return torch.cuda.is_initialized() or any(name in sys.modules for name in GPU_PACKAGES)


def as_they_are(samples: list[Any]) -> list[Any]:
    return samples
