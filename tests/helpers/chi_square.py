"""A chi-square test of whether counts may come from a distribution."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def fits(counts: Sequence[int], shares: Sequence[float]) -> bool:
    """Whether a chi-square test at 0.1 % accepts the shares (quantile by Wilson and Hilferty, 1931)."""
    observed, expected = np.asarray(counts, np.float64), np.asarray(shares, np.float64)
    expected = expected / expected.sum() * observed.sum()
    assert expected.min() >= 5, "too few draws to tell"
    freedom = len(observed) - 1
    quantile = freedom * (1 - 2 / (9 * freedom) + 3.0902 * np.sqrt(2 / (9 * freedom))) ** 3
    return bool(((observed - expected) ** 2 / expected).sum() <= quantile)
