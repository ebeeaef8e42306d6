"""Builds an index store on a Ray cluster: tasks read the videos, and only the driver writes the store."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import ray

from videoloader.errors.argument_names import tells_of_arguments
from videoloader.errors.checks import check_positive_or_none
from videoloader.indexing.store.building import BuildReport, StoreBuild
from videoloader.indexing.store.fingerprints import FingerprintKind
from videoloader.indexing.store.tasks import Answer, Task
from videoloader.interop.ray_workers import answer_chunk

# Chunks in flight for each core: one being indexed, and the next one, to start while the answer is sent.
_CHUNKS_A_CORE = 2


@tells_of_arguments
def build_store(
    paths: Iterable[str | os.PathLike[str]],
    store: str | os.PathLike[str],
    *,
    root: str | os.PathLike[str] | None = None,
    max_in_flight: int | None = None,
    progress: Callable[[int, int], object] = lambda done, total: None,
    retry: bool = False,
    prune: bool = False,
    fingerprint: FingerprintKind | None = None,
) -> BuildReport:
    """Run ``videoloader.build_store`` on a Ray cluster, with the same report; it is incremental and resumable, too.

    The workers must see the videos under the same paths as the driver, and have this library installed. The call
    connects to the cluster of the environment, or starts Ray locally, unless ``ray.init`` was called before. If a
    worker dies, Ray retries its chunk on another one; a chunk that kills every worker raises Ray's error, and the next
    build continues from there.

    Args:
        paths, store, root, progress, retry, prune, fingerprint: as in ``build_store``, with the same defaults. Only the
            driver writes the store.
        max_in_flight: int, default two for each core of the cluster. The most chunks of 32 videos in flight.

    Raises:
        SourceError: the store cannot be written.
        IndexingError: another kind of file is at its path.
        ConfigurationError: ``max_in_flight`` is not positive.

    Examples:
        >>> ray.init("auto")
        >>> report = build_store(paths, "train.db")
    """
    check_positive_or_none(max_in_flight=max_in_flight)
    if not ray.is_initialized():
        ray.init()
    resources = ray.cluster_resources()  # type: ignore[no-untyped-call]
    in_flight = max_in_flight or _CHUNKS_A_CORE * max(int(resources.get("CPU", 1)), 1)
    with StoreBuild(paths, store, root=root, progress=progress, retry=retry, fingerprint=fingerprint) as build:
        for answers in _answer_on_cluster(build.chunks(), in_flight):
            build.add(answers)
        return build.finish(prune=prune)


def _answer_on_cluster(chunks: Iterator[list[Task]], in_flight: int) -> Iterator[list[Answer]]:
    """Yield answers as they come, with at most ``in_flight`` chunks in flight."""
    remote = ray.remote(num_cpus=1, max_retries=3)(answer_chunk)
    waiting: list[Any] = []
    try:
        while True:
            while len(waiting) < in_flight and (tasks := next(chunks, None)) is not None:
                waiting.append(remote.remote(tasks))
            if not waiting:
                return
            done, waiting = ray.wait(waiting, num_returns=1, timeout=0.5)
            yield [answer for answers in ray.get(done) for answer in answers]
    finally:
        for reference in waiting:
            ray.cancel(reference)
