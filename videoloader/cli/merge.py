"""``videoloader merge``: merges index stores that were built in parts."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from videoloader.cli.sources import Json
from videoloader.cli.store_table import print_store
from videoloader.cli.terminal import WRONG_DATA, errors_told, out, print_json
from videoloader.indexing import IndexStore, merge_stores


def merge(
    stores: Annotated[list[Path], typer.Argument(help="Index stores: the parts.", show_default=False)],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The merged store: made, or added to.", show_default=False)
    ],
    store_root: Annotated[
        Path | None,
        typer.Option(help="Folder that the store keeps paths relative to. Default: that of the parts, if it is one."),
    ] = None,
    json: Json = False,
) -> None:
    """Merge index stores that were built in parts into one. Where several know a video, its newest state counts.

    The exit code is 1 if the merged store knows no video that can be read.
    """
    with errors_told("interrupted: what was merged is kept; run the same command again to complete it"):
        report = merge_stores(stores, output, root=store_root)
        merged = IndexStore(output, root=store_root)
        if json:
            print_json({"store": str(output), "videos": len(merged), **asdict(report)})
        else:
            out.print(
                f"{report.added} added, {report.replaced} replaced by newer ones, {report.same} the same, "
                f"{report.older} older and left out in {report.seconds:.1f} s"
            )
            print_store(merged)
        readable = merged.query("SELECT EXISTS (SELECT 1 FROM videos WHERE error_type IS NULL)")[0][0]
    if not readable:
        raise typer.Exit(WRONG_DATA)
