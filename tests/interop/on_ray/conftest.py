"""One small cluster for all tests that need it, since starting it takes seconds.

It ends with them, since its threads would make forks of other tests unsafe. That takes a package: ``__init__.py``.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from local_cluster import local_cluster


@pytest.fixture(scope="package", autouse=True)
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A local one of two workers, and two GPUs that are not there."""
    pytest.importorskip("ray")
    with local_cluster(tmp_path_factory.mktemp("driver"), num_cpus=2, num_gpus=2):
        yield
