"""Writes geometry.npz: what torchvision's transforms.v2 (0.28) makes of geometric operations.

Run it where torchvision is installed: ``python record_geometry.py``. The tests need the arrays only.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import torch
from torchvision.transforms.v2 import functional as F
from torchvision.transforms.v2.functional import InterpolationMode

SIZES = [(48, 64), (64, 48), (33, 97), (50, 50), (1080, 1920), (7, 200)]
EDGES = [(32, None), (32, 40), (50, 51), (100, 300), (None, 80), (None, 31), (33, 97)]
ROTATE = [-170.0, -45.5, 12.0, 90.0, 133.7]
AFFINE = [
    {"angle": 20.0, "translate": (3, -2), "scale": 0.8, "shear": (10.0, 0.0)},
    {"angle": -35.0, "translate": (0, 4), "scale": 1.4, "shear": (-12.0, 7.0)},
    {"angle": 0.0, "translate": (-5, 1), "scale": 1.0, "shear": (0.0, 25.0)},
    {"angle": 100.0, "translate": (0, 0), "scale": 0.6, "shear": (30.0, -20.0), "center": (5.0, 16.0)},
]
ENDS = [
    [(2, 1), (25, 4), (24, 18), (1, 17)],
    [(0, 0), (27, 5), (22, 19), (4, 14)],
    [(9, 5), (17, 1), (27, 19), (0, 12)],
]


def picture() -> torch.Tensor:
    """uint8[3, 20, 28]: waves with some noise."""
    y, x = np.mgrid[:20, :28]
    waves = [np.sin(x / a + y / b) for a, b in ((3, 5), (-4, 2), (6, -2))]
    noise = np.random.default_rng(0).normal(0, 12, (3, 20, 28))
    return torch.from_numpy((128 + 90 * np.stack(waves) + noise).clip(0, 255).astype(np.uint8))


def main() -> None:
    image = picture()
    arrays = {"picture": image.numpy()}
    modes = {"bilinear": InterpolationMode.BILINEAR, "nearest": InterpolationMode.NEAREST}
    for (name, mode), (number, fill) in itertools.product(modes.items(), enumerate((None, [200.0, 90.0, 10.0]))):
        made = {
            "rotate": [F.rotate(image, angle, mode, fill=fill) for angle in ROTATE],
            "affine": [F.affine(image, interpolation=mode, fill=fill, **given) for given in AFFINE],
            "perspective": [
                F.perspective(image, [(0, 0), (27, 0), (27, 19), (0, 19)], ends, mode, fill) for ends in ENDS
            ],
        }
        arrays |= {f"{kind}_{name}_{number}": torch.stack(frames).numpy() for kind, frames in made.items()}
    numbered = torch.arange(23 * 31, dtype=torch.int16).reshape(1, 23, 31)
    arrays["five_crop"] = torch.stack(F.five_crop(numbered, [10, 12])).numpy()
    for vertical in (False, True):
        arrays[f"ten_crop_{int(vertical)}"] = torch.stack(F.ten_crop(numbered, [10, 12], vertical)).numpy()
    sizes = []
    for (rows, columns), (size, longest) in itertools.product(SIZES, EDGES):
        if size is None or longest is None or longest > size:
            edge = None if size is None else [size]
            resized = F.resize(torch.empty(1, rows, columns), edge, max_size=longest)
            sizes.append((rows, columns, size or 0, longest or 0, *resized.shape[1:]))
    arrays["sizes"] = np.array(sizes)
    given = json.dumps({"rotate": ROTATE, "affine": AFFINE, "perspective": ENDS})
    np.savez_compressed(Path(__file__).with_name("geometry.npz"), given=np.array(given), **arrays)


if __name__ == "__main__":
    main()
