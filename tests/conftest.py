"""What many tests need: the corpus of real files, and small videos encoded once a session."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
from corpus_files import CORPUS
from example_count import examples
from hypothesis import settings
from sample_videos import RECIPES, write_video

# Threads of torch that wait for each other would keep cores busy that other tests need. OpenMP reads this when torch is
# imported, here and in the processes that tests start.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# How long an example takes says more of the machine than of the code. On a build server the examples are always the
# same: new ones are found where somebody looks at them.
settings.register_profile("videoloader", deadline=None, derandomize="CI" in os.environ, max_examples=examples(100))
settings.load_profile("videoloader")


_SCHEDULING = (os.sched_getscheduler(0), os.sched_getparam(0)) if hasattr(os, "sched_setscheduler") else None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says what was skipped, one line a reason."""
    reasons = Counter(str(report.longrepr[2]) for report in terminalreporter.stats.get("skipped", ()))
    if reasons:
        terminalreporter.section("skipped")
    for reason, tests in reasons.most_common():
        terminalreporter.line(f"{tests:5}  {reason.removeprefix('Skipped: ')}")


@pytest.fixture(autouse=True)
def scheduling() -> Iterator[None]:
    """Undoes what SVT-AV1 does when run by root: it makes the calling thread a real-time one, which starves others."""
    yield
    if _SCHEDULING:
        os.sched_setscheduler(0, *_SCHEDULING)


@pytest.fixture(scope="session")
def corpus() -> Path:
    """The folder of real files."""
    if not (CORPUS / "MANIFEST.tsv").is_file():
        pytest.skip("the corpus of real files is not here: set VIDEOLOADER_CORPUS")
    return CORPUS


@pytest.fixture(scope="session")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """``sample(name)`` is the path of the video made by the recipe of that name."""
    folder = tmp_path_factory.mktemp("samples")

    @cache
    def path(name: str) -> Path:
        return write_video(folder / f"{name}.{RECIPES[name].suffix}", RECIPES[name])

    return path
