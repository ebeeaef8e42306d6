"""Files of public data sets, written as these describe them; videos are empty files, since nothing opens them."""

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
