"""Whether a file is still the one that was indexed."""

from __future__ import annotations

import os


def fingerprint_of(source: str) -> str | None:
    """A text that changes when the file does: its size and time of modification. None where there is no such file.

    What is no local path has no fingerprint here: asking for it would cost a request to another machine.
    """
    try:
        status = os.stat(source)
    except (OSError, ValueError):
        return None
    return f"{status.st_size}-{status.st_mtime_ns}"
