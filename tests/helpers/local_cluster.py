"""A Ray cluster on this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from waiting import PATIENCE

# On a busy machine processes may take longer to start than the 30 and 60 seconds that Ray waits by default.
PATIENT_RAY = {
    "RAY_gcs_server_port_wait_time_s": str(PATIENCE),
    "RAY_gcs_server_request_timeout_seconds": str(PATIENCE),
    "RAY_worker_register_timeout_seconds": str(PATIENCE),
}


@contextmanager
def local_cluster(folder: Path, **resources: int) -> Iterator[None]:
    """Run Ray while the block lasts; its workers import the package from where this process does.

    Args:
        folder: an empty folder. Ray's workers import from the current folder first, and in a checkout ``videoloader``
            there is incomplete.
        resources: resources of the cluster, as for ``ray.init``.
    """
    os.environ.update(PATIENT_RAY)
    import ray

    import videoloader

    before = Path.cwd()
    path = os.pathsep.join([str(Path(videoloader.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    os.chdir(folder)
    try:
        for tries_left in (2, 1, 0):
            try:
                ray.init(
                    include_dashboard=False,
                    runtime_env={"env_vars": {"PYTHONPATH": path}},
                    log_to_driver=False,
                    **resources,
                )
                break
            except Exception as error:
                # Ray waits 30 seconds for its own node, whatever the variables say.
                if not tries_left or "timed out during startup" not in str(error):
                    raise
                ray.shutdown()
    finally:
        os.chdir(before)
    try:
        yield
    finally:
        ray.shutdown()
