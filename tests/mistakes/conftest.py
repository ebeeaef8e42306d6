"""Each mistake is made in its own folder of files."""

from __future__ import annotations

from pathlib import Path

import first_day
import pytest


@pytest.fixture(scope="session")
def first_day_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("first_day")
    first_day.make_files(folder)
    return folder


@pytest.fixture(autouse=True)
def in_folder(first_day_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(first_day_folder)
