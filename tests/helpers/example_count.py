"""How many random examples a test tries."""

from __future__ import annotations

import os


def examples(count: int) -> int:
    """The number for Hypothesis: a third on a build server, where the examples are the same in every run."""
    return max(count // 3, 5) if "CI" in os.environ else count
