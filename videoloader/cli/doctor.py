"""``videoloader doctor``: checks what this machine decodes with, and what to install."""

from __future__ import annotations

import typer
from rich.table import Column, Table

from videoloader.cli.sources import Json
from videoloader.cli.terminal import WRONG_DATA, errors_told, out, plain, print_json

_MARKS = {"ok": "[green]✓[/]", "note": "[yellow]–[/]", "wrong": "[red]✗[/]"}


def doctor(json: Json = False) -> None:
    """Check the driver, CUDA, NVDEC, packages and native code, and decode a test video.

    The exit code is 1 if something does not work. A missing optional part is only a note.
    """
    with errors_told():
        import torch

        from videoloader.cli.diagnosis import findings, nvdec_capabilities

        found = list(findings())
        asked = [each.name for each in found if each.name.startswith("NVDEC of ") and each.state == "ok"]
        gpus = [name.removeprefix("NVDEC of ") for name in asked]
        nvdec = {gpu: nvdec_capabilities(torch.device(gpu).index) for gpu in gpus}
        ok = all(each.state != "wrong" for each in found)
        if json:
            print_json({"ok": ok, "findings": [each._asdict() for each in found], "nvdec": nvdec})
        else:
            # Commands to copy, which are on one line where there is room; in less, the column would be left out.
            least = 25 if out.width >= 80 else None
            table = Table("", "", "", "found", Column("what to do", overflow="fold", min_width=least))
            for each in found:
                table.add_row(_MARKS[each.state], each.group, *map(plain, (each.name, each.told, each.advice)))
            out.print(table)
            for gpu, rows in nvdec.items():
                _print_nvdec(gpu, rows)
    if not ok:
        raise typer.Exit(WRONG_DATA)


def _print_nvdec(gpu: str, rows: list[dict[str, object]]) -> None:
    table = Table(f"NVDEC of {gpu}", "chroma", "bits", "smallest", "largest", "engines")
    for row in rows:
        sizes = ["×".join(map(str, row[name])) for name in ("smallest", "largest")]  # type: ignore[call-overload]
        cells = (row["codec"], row["chroma"], row["bit_depth"], *sizes, row["engines"])
        table.add_row(*map(str, cells))
    out.print(table)
