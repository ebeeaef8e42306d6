"""One small cluster for all tests that need one: to start it takes seconds."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session", autouse=True)
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A local one of two workers, which find the package where this process does.

    Ray has its workers import from the current folder first: in a checkout ``videoloader`` there lacks its parts.
    """
    ray = pytest.importorskip("ray")
    import videoloader

    before = Path.cwd()
    os.chdir(tmp_path_factory.mktemp("driver"))
    path = os.pathsep.join([str(Path(videoloader.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    environment = {"env_vars": {"PYTHONPATH": path}}
    ray.init(num_cpus=2, include_dashboard=False, runtime_env=environment, log_to_driver=False)
    os.chdir(before)
    yield
    ray.shutdown()
