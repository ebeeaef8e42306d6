"""What torchvision made of geometric operations; see references/record_geometry.py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

ARRAYS = dict(np.load(Path(__file__).parent / "references" / "geometry.npz"))
GIVEN: dict[str, list[Any]] = json.loads(str(ARRAYS.pop("given")))
