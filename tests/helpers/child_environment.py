"""The environment of programs that tests start."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import videoloader

# For a child's command line: do not import modules from its working folder. Python 3.10 lacks this option.
SAFE_PATH = ["-P"] if sys.version_info >= (3, 11) else []


def child_environment(*folders: Path) -> dict[str, str]:
    """This process's environment, in which Python imports the package under test from any working folder.

    Args:
        folders: folders of further modules.
    """
    places = [Path(videoloader.__file__).absolute().parents[1], *folders]
    inherited = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    return {**os.environ, "PYTHONPATH": os.pathsep.join([*map(str, places), *inherited])}
