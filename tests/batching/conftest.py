"""Fixtures for tests of image files and folders whose clips processes make."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kept_processes import KeptProcesses, kept_processes

import videoloader as vl
from videoloader.batching import batch_maker


@pytest.fixture(scope="class")
def one_process() -> Iterator[KeptProcesses]:
    with kept_processes(1) as processes:
        yield processes


@pytest.fixture
def in_one_process(one_process: KeptProcesses, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loaders of the test share the process that the tests of a class keep."""
    one_process.share(monkeypatch)


@pytest.fixture
def by_columns(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The rows of each batch that was put together from columns."""
    batches: list[int] = []
    collate = batch_maker.collate_columns

    def counted(*arguments: Any) -> vl.Batch:
        batch = collate(*arguments)
        batches.append(len(batch))
        return batch

    monkeypatch.setattr(batch_maker, "collate_columns", counted)
    return batches
