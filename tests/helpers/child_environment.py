"""What a program that a test starts finds in its environment."""

from __future__ import annotations

import os
from pathlib import Path

import videoloader


def child_environment(*folders: Path) -> dict[str, str]:
    """This process's environment, in which Python imports the package that is tested, in whatever folder it runs.

    Args:
        folders: of further modules.
    """
    places = [Path(videoloader.__file__).absolute().parents[1], *folders]
    inherited = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    return {**os.environ, "PYTHONPATH": os.pathsep.join([*map(str, places), *inherited])}
