"""Modules that tests import when they first use them."""

from __future__ import annotations

from typing import Any

import pytest


class LateModule:
    """A module that takes seconds to import: each process of pytest-xdist collects all tests, and runs some of them.

    Args:
        name: the module's name. Where there is no such module, the tests that use it are skipped.
        reason: why they are.
    """

    def __init__(self, name: str, reason: str) -> None:
        self._name, self._reason = name, reason

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # pytest looks for such names in all that a module of tests holds
            raise AttributeError(name)
        return getattr(pytest.importorskip(self._name, reason=self._reason), name)
