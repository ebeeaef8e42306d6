"""The corpus of real files: where it is, and what is in it. Read at collection, to make one test a file."""

from __future__ import annotations

import os
from pathlib import Path

CORPUS = Path(os.environ.get("VIDEOLOADER_CORPUS", Path(__file__).parents[2] / "shared" / "corpus"))


def _manifest() -> list[str]:
    try:
        rows = (CORPUS / "MANIFEST.tsv").read_text().splitlines()
    except OSError:
        return []
    names = [row.split("\t")[0] for row in rows[1:] if row]
    return [name for name in names if (CORPUS / name).is_file()]


_FILES = _manifest()
# Without the corpus one stand-in each, which the fixture `corpus` skips with a message.
GOOD_FILES = [name for name in _FILES if not name.startswith("corrupt/")] or ["no corpus"]
CORRUPT_FILES = [name for name in _FILES if name.startswith("corrupt/")] or ["no corpus"]
