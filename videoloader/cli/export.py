"""``videoloader export``: writes the rows of an index store to a table file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from videoloader.cli.sources import Json, check_output
from videoloader.cli.terminal import errors_told, print_json, print_line
from videoloader.errors import ConfigurationError, counted
from videoloader.indexing import IndexStore

_ENDINGS = ".csv, .jsonl, .ndjson, .parquet or .pq"


def export(
    store: Annotated[Path, typer.Argument(help="The index store.", show_default=False)],
    output: Annotated[Path, typer.Argument(help=f"The file: {_ENDINGS}.", show_default=False)],
    where: Annotated[str, typer.Option(help="SQL condition that rows must meet. Default: all rows.")] = "",
    json: Json = False,
) -> None:
    """Write the rows of an index store, unreadable videos included, to CSV, JSON lines or Parquet."""
    with errors_told():
        check_output(output, [store])
        ending = output.suffix.lower()
        opened = IndexStore(store)
        writers = {".csv": opened.to_csv} | dict.fromkeys((".jsonl", ".ndjson"), opened.to_jsonl)
        writers |= dict.fromkeys((".parquet", ".pq"), opened.to_parquet)
        if ending not in writers:
            raise ConfigurationError(f"the name must end with {_ENDINGS}", str(output))
        rows = opened.query(f"SELECT count(*) FROM videos{f' WHERE {where}' if where else ''}")[0][0]
        writers[ending](output, where=where)
        if json:
            print_json({"output": str(output), "rows": rows})
        else:
            print_line(f"{counted(rows, 'row')} written to {output}")
