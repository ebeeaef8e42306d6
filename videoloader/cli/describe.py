"""``videoloader describe``: summarises a data set, and what its clips cost to decode."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from videoloader.cli.dataset_page import dataset_page, ffmpeg_command
from videoloader.cli.expressions import MODE_HELP, mode_from
from videoloader.cli.sources import Index, Json, Root, Source, check_output, dataset_of
from videoloader.cli.terminal import WRONG_DATA, errors_told, print_json, print_line
from videoloader.dataset.stores import opened_store
from videoloader.dataset.summary import DatasetSummary
from videoloader.indexing.sources.regular_file import replacing

# Modes whose cost a page shows besides that of the given mode.
_OTHER_MODES = ("RandomWindow(1)", "RandomWindow(16)", "RandomWindow(16, stride=4)", "Segments(8)")
# Copies are advised if a wanted frame would cost less than this share of its present cost.
_WORTHWHILE = 0.8


def describe(
    source: Source,
    index: Index = None,
    mode: Annotated[str, typer.Option(help=MODE_HELP)] = "RandomWindow(16, stride=4)",
    html: Annotated[Path | None, typer.Option(help="File for an HTML page with charts and example clips.")] = None,
    root: Root = None,
    json: Json = False,
) -> None:
    """Summarise a data set and the cost of decoding its clips.

    The exit code is 1 if no video can be read.
    """
    with errors_told():
        data = dataset_of(source, root)
        check_output(html, [source, *data.paths, *([] if index is None else [index])])
        with opened_store(data.paths, index) as store:
            told = data.describe(mode_from(mode), store=store)
            if html is not None:
                others = [data.describe(mode_from(each), store=store) for each in _OTHER_MODES if each != mode]
                page = dataset_page(source, data, [told, *others], store)
                with replacing(str(html)) as file:
                    file.write(page.encode())
        if json:
            print_json(_as_json(told))
        else:
            lines, cost = str(told).splitlines(), told.cost
            if cost is not None and cost.decoded_per_frame_re_encoded < _WORTHWHILE * cost.decoded_per_frame:
                lines.append(f"copies       {ffmpeg_command()}")
            for line in lines:
                print_line(line)
    if not told.videos:
        raise typer.Exit(WRONG_DATA)


def _as_json(summary: DatasetSummary) -> dict[str, object]:
    facts = {**asdict(summary), "ffmpeg": ffmpeg_command()}
    facts["sizes"] = [[height, width, count] for (height, width), count in summary.sizes.items()]
    facts["fps"] = [[rate, count] for rate, count in summary.fps.items()]
    if summary.cost is not None:
        facts["cost"]["mode"] = repr(summary.cost.mode)
    return facts
