"""Records what torchvision's transforms v2 give for the same parameters, in filters.npz beside this script.

Made with torchvision 0.28.0 and PyTorch 2.13.0 on the CPU.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torchvision.transforms.v2 import functional

BLURS = [(3, 3, 0.4), (5, 9, 1.3), (23, 23, 2.0), (1, 7, 5.0)]  # rows, columns, sigma


def main() -> None:
    """Write filters.npz."""
    frames = np.random.default_rng(6).integers(0, 256, (2, 3, 25, 31), dtype=np.uint8)
    given = torch.from_numpy(frames)
    blurred = [functional.gaussian_blur(given, [columns, rows], [sigma] * 2) for rows, columns, sigma in BLURS]
    gray = torch.tensor([10.0, 120.0, 255.0])[:, None, None]
    np.savez_compressed(
        Path(__file__).with_name("filters.npz"),
        frames=frames,
        blurs=np.array(BLURS),
        blurred=torch.stack(blurred).numpy(),
        erased=functional.erase(given, 3, 5, 11, 20, gray).numpy(),
    )


if __name__ == "__main__":
    main()
