"""The corpus of real files, listed at collection so that each file is a test."""

from __future__ import annotations

import os
from pathlib import Path

CORPUS = Path(os.environ.get("VIDEOLOADER_CORPUS", Path(__file__).parents[3] / "shared" / "corpus"))


def _manifest() -> list[dict[str, str]]:
    try:
        header, *rows = (CORPUS / "MANIFEST.tsv").read_text().splitlines()
    except OSError:
        return []
    files = [dict(zip(header.split("\t"), row.split("\t"), strict=False)) for row in rows if row]
    return [file for file in files if (CORPUS / file["file"]).is_file()]


_MANIFEST = _manifest()
_FILES = [file["file"] for file in _MANIFEST]
# Without the corpus each list has one placeholder, which the fixture `corpus` skips with a message.
GOOD_FILES = [name for name in _FILES if not name.startswith("corrupt/")] or ["no corpus"]
CORRUPT_FILES = [name for name in _FILES if name.startswith("corrupt/")] or ["no corpus"]
# Files with a variable frame rate.
VFR_FILES = [file["file"] for file in _MANIFEST if file["vfr"] == "y" and file["file"] in GOOD_FILES] or ["no corpus"]
