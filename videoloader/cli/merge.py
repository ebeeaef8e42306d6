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
    stores: Annotated[list[Path], typer.Argument(help="Index stores to merge.", show_default=False)],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Merged store to make or to add to.", show_default=False)
    ],
    store_root: Annotated[
        Path | None,
        typer.Option(
            help="Folder that paths in the store are relative to. Default: that of the parts, if they share one."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Merge index stores that were built in parts into one.

    If several stores contain a video, its newest state counts. The exit code is 1 if the merged store contains no
    readable video.
    """
    with errors_told("interrupted: the rows merged so far are kept; run the same command again to complete the merge"):
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
