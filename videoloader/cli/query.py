"""``videoloader query``: selects rows of an index store."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from videoloader.cli.sources import Json
from videoloader.cli.terminal import errors_told, out, plain, print_json
from videoloader.errors import ConfigurationError, counted, printable
from videoloader.errors.checks import check
from videoloader.indexing import IndexStore
from videoloader.indexing.store.export import as_utf8
from videoloader.indexing.store.keys import from_sql
from videoloader.indexing.store.schema import COLUMNS

_DEFAULT = "path, codec, width, height, frames, duration_s"


def query(
    store: Annotated[Path, typer.Argument(help="The index store.", show_default=False)],
    where: Annotated[str, typer.Argument(help="SQL condition, such as 'height >= 720 AND NOT is_vfr'.")] = "",
    columns: Annotated[
        str, typer.Option("--columns", "-c", help="SQL columns or expressions, separated by commas.")
    ] = _DEFAULT,
    group_by: Annotated[
        str, typer.Option(help="Columns to group rows by, as in -c 'codec, count(*)' --group-by codec.")
    ] = "",
    order_by: Annotated[str, typer.Option(help="Order of the rows, such as 'duration_s DESC'.")] = "",
    limit: Annotated[int | None, typer.Option(min=1, help="Maximum number of rows. Default: all.")] = None,
    csv_format: Annotated[bool, typer.Option("--csv", help="Print CSV (RFC 4180) to stdout.")] = False,
    json: Json = False,
) -> None:
    """Print the rows of an index store that meet a condition.

    The column path is the full path of a video; IndexStore.query lists the other columns. error is NULL for readable
    videos.
    """
    with errors_told():
        names = split_columns(columns)
        if csv_format and json:
            raise ConfigurationError("--csv and --json exclude each other")
        opened = IndexStore(store)
        rows = _rows(opened, names, where, group_by, order_by, limit)
        if json:
            print_json([dict(zip(names, row, strict=True)) for row in rows])
        elif csv_format:
            writer = csv.writer(sys.stdout)
            writer.writerow(names)
            # Control characters steer terminals. A program needs the names as they are.
            shown = printable if sys.stdout.isatty() else as_utf8
            writer.writerows([shown(each) if isinstance(each, str) else each for each in row] for row in rows)
        else:
            _print_table(names, rows)


def split_columns(columns: str) -> list[str]:
    """Split a list of SQL expressions at commas outside brackets and quotes.

    Raises:
        ConfigurationError: there is none, or one is empty.
    """
    parts, depth, quote = [""], 0, ""
    for each in columns:
        if quote:
            quote = "" if each == quote else quote
        elif each in "'\"":
            quote = each
        depth += (each == "(") - (each == ")") if not quote else 0
        if each == "," and not depth and not quote:
            parts.append("")
        else:
            parts[-1] += each
    names = [part.strip() for part in parts]
    check("columns", columns, all(names) and len(set(names)) == len(names), "different names or expressions")
    return names


def _rows(
    store: IndexStore, names: list[str], where: str, group_by: str, order_by: str, limit: int | None
) -> list[list[object]]:
    expressions = ", ".join("source" if name == "path" else name for name in names)
    sql = f"SELECT {expressions} FROM videos"
    for word, clause in (("WHERE", where), ("GROUP BY", group_by), ("ORDER BY", order_by or (not group_by and "id"))):
        sql += f" {word} {clause}" if clause else ""
    found = store.query(sql if limit is None else f"{sql} LIMIT {limit}")
    columns = list(zip(*found, strict=True))
    return [list(row) for row in zip(*map(partial(_values, store), names, columns), strict=True)]


def _values(store: IndexStore, name: str, column: Sequence[object]) -> Iterable[object]:
    """The values of a column for tables and JSON."""
    texts = [from_sql(each) if isinstance(each, bytes) else each for each in column]
    if name != "path":
        return texts
    # An aggregate over no rows still returns one row, without a path.
    paths = store.keys.paths_of(str(each) for each in texts if each is not None)
    return [None if each is None else next(paths) for each in texts]


def _print_table(names: list[str], rows: list[list[object]]) -> None:
    table = Table()
    for name in names:
        is_long = name in ("path", "source", "archive", "error")
        is_text = COLUMNS.get(name, "TEXT" if is_long else "") == "TEXT"
        # Paths are useless without their end, and numbers must not be broken.
        table.add_column(
            plain(name),
            justify="left" if is_text else "right",
            overflow="fold",
            no_wrap=not is_long,
            min_width=10 if is_long else None,
        )
    for row in rows:
        table.add_row(*("" if each is None else plain(_told(each)) for each in row))
    out.print(table)
    out.print(counted(len(rows), "row"))


def _told(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
