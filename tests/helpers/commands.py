"""The command ``videoloader``, run in this process or in one of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from child_environment import SAFE_PATH
from typer.testing import CliRunner, Result

from videoloader.cli import app

_COMMAND = [sys.executable, *SAFE_PATH, "-c", "from videoloader.cli import app; app()"]


def run(*arguments: object) -> Result:
    """What the command prints, and its exit code; an exception that it does not know is the caller's."""
    return CliRunner().invoke(app, [str(each) for each in arguments], catch_exceptions=False)


def run_json(*arguments: object) -> Any:
    """The JSON that a command which succeeds prints to stdout, and nothing else."""
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def start(*arguments: object, **settings: Any) -> subprocess.Popen[str]:
    """The command in a process of its own."""
    environment = os.environ | {"NO_COLOR": "1"}
    return subprocess.Popen(
        [*_COMMAND, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        **settings,
    )
