"""Warns of random numbers that users' code draws from global generators, which the loader's seed does not control."""

from __future__ import annotations

import random

import numpy as np

from videoloader.errors import warn_user

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
