"""The command ``videoloader``, with one module for each subcommand."""

import sys

try:
    import rich  # noqa: F401
    import typer  # noqa: F401
except ImportError:
    sys.exit("the videoloader command needs typer and rich: pip install 'videoloader[cli]'")

from videoloader.cli.commands import app

__all__ = ["app"]
