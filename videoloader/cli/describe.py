"""``videoloader describe``: what a data set holds, and what its clips cost."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from videoloader.cli.expressions import MODE_HELP, mode_from
from videoloader.cli.sources import Json, Root, dataset_of
from videoloader.cli.terminal import errors_told, out, print_json
from videoloader.dataset.summary import DatasetSummary


def describe(
    source: Annotated[str, typer.Argument(help="A folder of videos, a table, a list, an index store, or a video.")],
    index: Annotated[
        Path | None, typer.Option(help="The videos' index store. Without one they are indexed now.")
    ] = None,
    mode: Annotated[str, typer.Option(help=MODE_HELP)] = "RandomWindow(16, stride=4)",
    root: Root = None,
    json: Json = False,
) -> None:
    """What a data set holds, and what clips of it cost to decode."""
    with errors_told():
        told = dataset_of(source, root).describe(mode_from(mode), store=index)
        if json:
            print_json(_as_json(told))
        else:
            out.print(str(told), markup=False, highlight=False)


def _as_json(summary: DatasetSummary) -> dict[str, object]:
    facts = asdict(summary)
    facts["sizes"] = [[height, width, count] for (height, width), count in summary.sizes.items()]
    facts["fps"] = [[rate, count] for rate, count in summary.fps.items()]
    if summary.cost is not None:
        facts["cost"]["mode"] = repr(summary.cost.mode)
    return facts
