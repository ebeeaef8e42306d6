"""The cores that a process may use, in containers with a limit of time."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from videoloader.runtime import cores

Limits = Callable[[str, Mapping[str, str]], int]


@pytest.fixture
def with_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Limits:
    """A function of the process's groups and of files below the mount, which counts the cores."""

    def count(membership: str, files: Mapping[str, str]) -> int:
        (tmp_path / "membership").write_bytes(os.fsencode(membership))
        for name, text in files.items():
            file = tmp_path / "groups" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text + "\n")
        cores._granted.cache_clear()
        return cores.available_cores()

    monkeypatch.setattr(cores, "_CGROUPS", tmp_path / "groups")
    monkeypatch.setattr(cores, "_MEMBERSHIP", tmp_path / "membership")
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(64)), raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    yield count  # type: ignore[misc]
    cores._granted.cache_clear()


V1 = "4:memory:/pod\n3:cpu,cpuacct:/pod/one\n1:name=systemd:/pod\n"


@pytest.mark.parametrize(
    ("membership", "files", "expected"),
    [
        ("0::/\n", {"cpu.max": "400000 100000"}, 4),
        ("0::/\n", {"cpu.max": "max 100000"}, 64),
        ("0::/\n", {"cpu.max": "150000 100000"}, 2),
        ("0::/\n", {"cpu.max": "1000 100000"}, 1),
        ("0::/\n", {"cpu.max": "99900000 100000"}, 64),
        ("0::/pod/one\n", {"pod/cpu.max": "300000 100000", "pod/one/cpu.max": "max 100000"}, 3),
        ("0::/not/seen/from/here\n", {"cpu.max": "500000 100000"}, 5),
        ("0::/../../pod\n", {"pod/cpu.max": "500000 100000"}, 5),
        ("0::/\n", {}, 64),
        ("0::/\n", {"cpu.max": "nonsense"}, 64),
        ("0::/\n", {"cpu.max": "100000 0"}, 64),
        ("0::/\n", {"cpu.max": "9" * 400 + " 1"}, 64),
        ("", {}, 64),
        ("nonsense\n0::/\n", {"cpu.max": "300000 100000"}, 3),
        ("0::/\udcff\n", {"cpu.max": "300000 100000"}, 3),
        (V1, {"cpu,cpuacct/cpu.cfs_quota_us": "800000", "cpu,cpuacct/cpu.cfs_period_us": "100000"}, 8),
        (V1, {"cpu,cpuacct/pod/one/cpu.cfs_quota_us": "-1", "cpu,cpuacct/pod/one/cpu.cfs_period_us": "100000"}, 64),
        (V1, {"memory/cpu.max": "100000 100000"}, 64),
    ],
)
def test_the_limit_of_time_counts(with_limits: Limits, membership: str, files: dict[str, str], expected: int) -> None:
    assert with_limits(membership, files) == expected


@pytest.mark.parametrize("error", [OSError("forbidden"), AttributeError()])
def test_cores_are_counted_where_nobody_says_which_may_be_used(
    with_limits: Limits, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def refuse(_: int) -> set[int]:
        raise error

    monkeypatch.setattr(os, "sched_getaffinity", refuse, raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    assert with_limits("", {}) == 3


def test_a_system_without_control_groups_has_no_limit(
    with_limits: Limits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cores, "_MEMBERSHIP", tmp_path / "none")
    cores._granted.cache_clear()
    assert cores.available_cores() == 64
