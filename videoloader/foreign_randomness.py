"""Random numbers that a user's code draws from generators of its own, which no seed of a loader repeats."""

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
    """Warn that a user's code gives two results for one clip of one seed."""
    instead = "random numbers must come from its argument rng, and in modules from torch"
    warn_user(f"{name} gives another result for the same clip and seed, so no run can be repeated: {instead}")


def told_if_foreign(
    name: str, call: Callable[[], T], again: Callable[[], T], same: Callable[[T, T], bool]
) -> tuple[T, bool]:
    """The result of a user's code, with a warning if it draws random numbers from elsewhere, and whether it was given.

    It is called again only if a generator of the process has drawn meanwhile, which another thread may have done.

    Args:
        name: name of the code.
        call: calls it.
        again: calls it for the same.
        same: tells whether two results are the same.
    """
    before = generator_states()
    result = call()
    if generator_states() != before:
        with suppress(Exception):  # what is wrong with a result is told where it is used
            if not same(result, again()):
                tell_of_foreign_randomness(name)
                return result, True
    return result, False
