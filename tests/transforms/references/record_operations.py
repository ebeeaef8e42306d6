"""Records what torchvision makes of two small pictures: writes operations.npz beside this file.

Run with torchvision installed (0.28.0 made the file): ``python record_operations.py``. The tests need only the file.
Arrays are uint8[2, 3, H, W]: ``input``, and the results, named by function and parameters.
"""

from pathlib import Path

import numpy as np
import torch
from torchvision.transforms import InterpolationMode
from torchvision.transforms.v2 import functional

HEIGHT, WIDTH = 14, 18
# Start and end points of the perspective: corners from the top left, clockwise, (x, y).
CORNERS = [[0, 0], [17, 0], [17, 13], [0, 13]]
MOVED = [[2.3, 1.2], [15.1, 3.4], [16.2, 12.1], [-1.3, 10.2]]


def pictures() -> torch.Tensor:
    """One with smooth shapes, one of noise."""
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    smooth = [120 + 90 * np.sin(x / 4 + channel) * np.cos(y / 3 - channel) for channel in range(3)]
    noise = rng.integers(0, 256, (3, HEIGHT, WIDTH))
    return torch.from_numpy(np.stack([smooth, noise]).round().astype(np.uint8))


def main() -> None:
    frames = pictures()
    results = {"input": frames}
    for factor in (0.0, 0.4, 1.9):
        results[f"contrast {factor}"] = functional.adjust_contrast(frames, factor)
    results["auto_contrast"] = functional.autocontrast(frames // 2 + 30)
    results["equalize"] = functional.equalize(frames)
    for factor in (-0.5, -0.2, 0.1, 0.37):
        results[f"hue {factor}"] = functional.adjust_hue(frames, factor)
    for factor in (0.0, 0.5, 1.9):
        results[f"sharpness {factor}"] = functional.adjust_sharpness(frames, factor)
    for mode in (InterpolationMode.NEAREST, InterpolationMode.BILINEAR):
        for fill in (None, [250.0, 120.0, 10.0]):
            end = f"{mode.value} {'fill' if fill else 'black'}"
            results[f"rotate {end}"] = functional.rotate(frames, 17.0, mode, fill=fill)
            results[f"affine {end}"] = functional.affine(
                frames, angle=-23.0, translate=[2, -1], scale=1.2, shear=[12.0, -7.0], interpolation=mode, fill=fill
            )
            results[f"perspective {end}"] = functional.perspective(frames, CORNERS, MOVED, mode, fill=fill)
    np.savez_compressed(
        Path(__file__).with_name("operations.npz"), **{name: each.numpy() for name, each in results.items()}
    )


if __name__ == "__main__":
    main()
