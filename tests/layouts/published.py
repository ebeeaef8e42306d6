"""Files of public data sets as their publishers describe them, with empty files for videos, which nothing opens."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def write(root: Path, files: dict[str, Any]) -> Path:
    """Files by their paths: text as it is, anything else as JSON, None for an empty video."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("" if content is None else content if isinstance(content, str) else json.dumps(content))
    return root
