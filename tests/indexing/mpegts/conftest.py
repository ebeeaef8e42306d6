"""Transport streams encoded once a session."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from transport_samples import SHAPES, write_transport


@pytest.fixture(scope="session")
def transport(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """``transport(name)`` is the path of the transport stream of that shape."""
    folder = tmp_path_factory.mktemp("transport")

    @cache
    def path(name: str) -> Path:
        return write_transport(folder / f"{name}.ts", SHAPES[name])

    return path
