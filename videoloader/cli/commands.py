"""Collects all subcommands.

Their modules import what needs PyTorch inside functions, so that help and completion are fast.
"""

from __future__ import annotations

import io
import os
import sys
from typing import Annotated, Any

import typer

from videoloader import __version__
from videoloader.cli.bench import bench
from videoloader.cli.check import check
from videoloader.cli.describe import describe
from videoloader.cli.doctor import doctor
from videoloader.cli.export import export
from videoloader.cli.index import index
from videoloader.cli.info import info
from videoloader.cli.merge import merge
from videoloader.cli.preview import preview
from videoloader.cli.query import query
from videoloader.cli.terminal import errors_told
from videoloader.errors import ConfigurationError


class _App(typer.Typer):
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if isinstance(sys.stdout, io.TextIOWrapper):  # it may be unable to show a name, or the × of sizes
            sys.stdout.reconfigure(errors="backslashreplace")
        try:
            with errors_told():  # commands tell their own, but help is printed by Typer
                _check_current_folder()
                return super().__call__(*args, **kwargs)
        except typer.Exit as told:
            sys.exit(told.exit_code)


def _check_current_folder() -> None:
    try:
        os.getcwd()
    except FileNotFoundError:  # PyTorch would end the program without a word on this
        raise ConfigurationError("the current folder was deleted: change to another one") from None
    except OSError:  # one that this user may not read
        pass


app = _App(no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode="markdown")
for _command in (index, info, check, preview, describe, bench, query, export, merge, doctor):
    app.command()(_command)
app.command("verify", hidden=True)(check)


def _print_version(asked: bool) -> None:
    if asked:
        with errors_told():
            print(f"videoloader {__version__}")
        raise typer.Exit


@app.callback()
def _videoloader(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Index, inspect and check videos for training.

    Exit codes: 0 fine; 1 something is wrong with the data; 2 the command cannot run; 130 interrupted.
    """
