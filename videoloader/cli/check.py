"""``videoloader check``: decode all of some videos, and compare every way of reading them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from videoloader.cli.sources import Json, Root, Sources, Workers, paths_of
from videoloader.cli.terminal import WRONG_DATA, errors_told, print_json, print_line, progress_bar


def check(
    sources: Sources,
    device: Annotated[str, typer.Option(help="cpu, cuda or auto: whether NVDEC is asked, too.")] = "auto",
    root: Root = None,
    workers: Workers = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File that the report is written to, as JSON.")
    ] = None,
    json: Json = False,
) -> None:
    """Decode videos from start to end and read them in every other way; exit with 1 if anything is wrong with one."""
    with errors_told():
        from videoloader.verification.verify_source import verify

        paths = paths_of(sources, root)
        with progress_bar("checking", len(paths)) as tell:
            report = verify(paths, device=device, workers=workers, progress=tell)
        if output is not None:
            output.write_text(report.to_json(indent=1))
        if json:
            print_json(report.to_dict())
        else:
            for line in str(report).splitlines():
                print_line(line)
    if not report.ok:
        raise typer.Exit(WRONG_DATA)
