"""Summarises an index store by codec."""

from __future__ import annotations

from typing import Any

from rich.table import Table

from videoloader.cli.terminal import out, plain
from videoloader.indexing import IndexStore

_COLUMNS = ("codec", "videos", "frames", "hours", "longest_gop", "variable_rate")


def store_facts(store: IndexStore) -> dict[str, Any]:
    """The figures of a store, for JSON."""
    groups = store.query(
        "SELECT codec, count(*), sum(frames), sum(duration_s) / 3600, max(longest_gop), sum(is_vfr) FROM videos "
        "WHERE error_type IS NULL GROUP BY codec ORDER BY count(*) DESC"
    )
    # With a single max(), SQLite takes the other columns from the row of the maximum, so the size is that of one video.
    largest = store.query(
        "SELECT codec, width, height, max(width * height) FROM videos WHERE error_type IS NULL GROUP BY codec"
    )
    sizes = {codec: {"width": width, "height": height} for codec, width, height, _ in largest}
    codecs = [{**dict(zip(_COLUMNS, group, strict=True)), **sizes[group[0]]} for group in groups]
    readable = sum(each["videos"] for each in codecs)
    return {
        "store": store.path,
        "videos": readable,
        "unreadable": len(store) - readable,
        "frames": sum(each["frames"] for each in codecs),
        "hours": sum(each["hours"] for each in codecs),
        "codecs": codecs,
    }


def print_store(store: IndexStore) -> None:
    facts = store_facts(store)
    table = Table("codec", "videos", "frames", "hours", "largest", "longest GOP", "variable rate")
    for each in facts["codecs"]:
        size = f"{each['width']}×{each['height']}"
        cells = (each["videos"], each["frames"], f"{each['hours']:.3f}", size)
        table.add_row(plain(each["codec"]), *map(str, (*cells, each["longest_gop"], each["variable_rate"])))
    table.add_section()
    table.add_row("all", str(facts["videos"]), str(facts["frames"]), f"{facts['hours']:.3f}", "", "", "")
    if facts["unreadable"]:
        table.add_row("unreadable", str(facts["unreadable"]), "", "", "", "", "")
    out.print(table)
