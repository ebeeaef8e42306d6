"""Keep the indexes of a whole data set in one SQLite file, built once and shared by all processes."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    """Return a name of ``videoloader.indexing``: an import path of earlier versions, to be removed in the next one."""
    return getattr(import_module("videoloader.indexing"), name)
