"""Warns of random numbers that users' code draws from global generators, which the loader's seed does not control."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

import numpy as np

from videoloader.errors import warn_user

T = TypeVar("T")


def _states() -> object:
    """The states of the process's global generators: Python's and numpy's."""
    kind, words, *rest = np.random.get_state()  # noqa: NPY002 – the legacy generator is only inspected
    return random.getstate(), kind, np.asarray(words).tobytes(), rest


def tell_of_foreign_randomness(name: str) -> None:
    """Warn that a user's code gives different results for the same clip and seed."""
    instead = "random numbers must come from its argument rng, and in modules from torch"
    warn_user(f"{name} gives another result for the same clip and seed, so no run can be repeated: {instead}")


def told_if_foreign(name: str, call: Callable[[], T], again: Callable[[], T], same: Callable[[T, T], bool]) -> T:
    """The result of a user's code, with a warning if it depends on a global random generator.

    The code is called again only if a global generator has advanced meanwhile, which may be another thread's doing.

    Args:
        name: name of the code.
        call: calls the code.
        again: calls it again with the same input.
        same: says whether two results are the same.
    """
    before = _states()
    result = call()
    if _states() != before:
        with suppress(Exception):  # faults of a result are reported where it is used
            if not same(result, again()):
                tell_of_foreign_randomness(name)
    return result
