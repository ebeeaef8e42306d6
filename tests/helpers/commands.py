"""Runs the command ``videoloader`` in this process or in a separate one."""

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
    """Run a command, and return its output and exit code; unexpected exceptions are raised."""
    return CliRunner().invoke(app, [str(each) for each in arguments], catch_exceptions=False)


def run_json(*arguments: object) -> Any:
    """Run a command that must succeed and print only JSON to stdout, and return that JSON."""
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def start(*arguments: object, **settings: Any) -> subprocess.Popen[str]:
    """Start the command in a separate process."""
    environment = os.environ | {"NO_COLOR": "1"}
    return subprocess.Popen(
        [*_COMMAND, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        **settings,
    )
