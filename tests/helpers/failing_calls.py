"""Work during which one call of the system fails, as on a network file system that is gone for a moment."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import Any

import pytest

from videoloader.errors import VideoLoaderError


def outcomes_with_a_failing(call: str, work: Callable[[], Any]) -> list[Any]:
    """What comes of work if its first call of a function of ``os`` fails, the second, and so on; and if none does.

    Each outcome is what the work returns, or its VideoLoaderError.
    """
    plain, calls, failing, outcomes = getattr(os, call), 0, 0, list[Any]()

    def fail_once(*arguments: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == failing:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return plain(*arguments, **options)

    while failing <= calls:
        calls, failing = 0, failing + 1
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, call, fail_once)
            try:
                outcomes.append(work())
            except VideoLoaderError as error:
                outcomes.append(error)
    return outcomes
