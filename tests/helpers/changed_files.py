"""Makes a file another one, in the ways in which programs do."""

from __future__ import annotations

import os
from pathlib import Path

CHANGES = ["replace", "replace with the same times", "rewrite", "cut", "grow", "touch"]


def change(path: Path, how: str, data: bytes | None = None) -> None:
    """Make a file another one. Times are set, since a clock may not tell two writings after another apart."""
    before = path.stat()
    data = path.read_bytes()[::-1] if data is None else data
    if how.startswith("replace"):
        other = path.with_suffix(".new")
        other.write_bytes(data)
        os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
        other.replace(path)
    elif how == "rewrite":
        path.write_bytes(data)
    elif how == "cut":
        os.truncate(path, before.st_size - 1)
    elif how == "grow":
        with path.open("ab") as file:
            file.write(b"\0")
    if how != "replace with the same times":
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1_000_000_000))
