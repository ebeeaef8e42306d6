"""Counts the cores that this process may use."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

# Where Linux mounts its control groups, and where it says which of them a process belongs to.
_CGROUPS, _MEMBERSHIP = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")


def available_cores() -> int:
    """The number of cores that this process may use.

    These are the cores that it may run on, but no more than the time that its container may take, as in ``docker run
    --cpus 4`` or a pod's limit in Kubernetes, rounded up.
    """
    try:
        cores = len(os.sched_getaffinity(0))
    except (AttributeError, OSError):  # not Linux, or a sandbox forbids it
        cores = os.cpu_count() or 1
    return max(min(cores, _granted()), 1)


@cache
def _granted() -> int:
    """The cores' worth of time that control groups grant this process. It is read once, since files are slow."""
    least = min(_limits(), default=math.inf)
    return 1 << 16 if math.isinf(least) else math.ceil(least)


def _limits() -> Iterator[float]:
    """The limit of each control group of this process, and of those around it."""
    try:
        lines = os.fsdecode(_MEMBERSHIP.read_bytes()).split("\n")
    except OSError:  # not Linux, or hidden
        return
    for _, controllers, path in (line.split(":", 2) for line in lines if line.count(":") > 1):
        # Version 2 has one hierarchy, which names no controllers; version 1 has one for "cpu" or "cpu,cpuacct".
        if controllers and "cpu" not in controllers.split(","):
            continue
        root = _CGROUPS / controllers
        # A container may see the path as it is outside, where it has no such folder, but its own group at the root.
        inner = [part for part in path.split("/") if part not in ("", "..")]
        for depth in range(len(inner) + 1):
            yield _limit(root.joinpath(*inner[:depth]))


def _limit(group: Path) -> float:
    """The cores' worth of time that one control group grants; infinite without a limit."""
    try:
        if (group / "cpu.max").exists():
            quota, period = (group / "cpu.max").read_text().split()
        else:
            quota, period = ((group / f"cpu.cfs_{name}_us").read_text().strip() for name in ("quota", "period"))
        return int(quota) / int(period) if quota not in ("max", "-1") else math.inf
    except (OSError, ValueError, ArithmeticError):
        return math.inf
