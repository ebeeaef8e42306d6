"""Warns of random numbers that users' code draws from global generators, which the loader's seed does not control."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

import numpy as np

from videoloader.errors import warn_user

T = TypeVar("T")
# Calls that are watched: a coin may fall alike twice, seldom this often.
WATCHED_CALLS = 8


def generator_states() -> object:
    """The states of the generators that a process has: Python's and numpy's."""
    kind, words, *rest = np.random.get_state()  # noqa: NPY002 – what programs use is looked at, not used
    return random.getstate(), kind, np.asarray(words).tobytes(), rest


def tell_of_foreign_randomness(name: str) -> None:
    """Warn that a user's code gives different results for the same clip and seed."""
    instead = "random numbers must come from its argument rng, and in modules from torch"
    warn_user(f"{name} gives another result for the same clip and seed, so no run can be repeated: {instead}")


def told_if_foreign(
    name: str, call: Callable[[], T], again: Callable[[], T], same: Callable[[T, T], bool]
) -> tuple[T, bool]:
    """The result of a user's code, with a warning if it draws random numbers from elsewhere, and whether it was given.

    The code is called again only if a global generator has advanced meanwhile, which may be another thread's doing.

    Args:
        name: name of the code.
        call: calls the code.
        again: calls it again with the same input.
        same: says whether two results are the same.
    """
    before = generator_states()
    result = call()
    if generator_states() != before:
        with suppress(Exception):  # what is wrong with a result is told where it is used
            if not same(result, again()):
                tell_of_foreign_randomness(name)
                return result, True
    return result, False
