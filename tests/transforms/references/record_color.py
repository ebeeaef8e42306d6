"""Records what torchvision v2 and Pillow make of a small picture: run it with both installed to write color.npz.

python tests/transforms/references/record_color.py
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageEnhance, ImageOps
from torchvision.transforms.v2 import InterpolationMode
from torchvision.transforms.v2 import functional as tv


def picture() -> np.ndarray:
    """uint8[3, 16, 22]: gradients, flat patches and noise; no channel uses all values."""
    rng = np.random.default_rng(6)
    y, x = np.mgrid[0:16, 0:22]
    channels = np.stack([9 + x * 10.2, 30 + y * 10.6, 128 + 90 * np.sin(x / 3 + y / 5)])
    channels[:, 3:8, 3:9] = [[[200]], [[40]], [[90]]]
    channels[:, 11:14, 9:18] = 140
    channels += rng.normal(0, 6, channels.shape) * (x > 11)
    return np.clip(np.round(channels), 5, 235).astype(np.uint8)


def main() -> None:
    source = picture()
    tensor = torch.from_numpy(source)
    image = Image.fromarray(source.transpose(1, 2, 0))
    recorded: dict[str, np.ndarray] = {"picture": source}

    def torchvision(name: str, result: torch.Tensor) -> None:
        recorded[f"torchvision {name}"] = result.expand(3, -1, -1).numpy()

    def pillow(name: str, result: Image.Image) -> None:
        recorded[f"pillow {name}"] = np.asarray(result.convert("RGB")).transpose(2, 0, 1)

    for factor in (0, 0.3, 1.7):
        torchvision(f"brightness {factor}", tv.adjust_brightness(tensor, factor))
        pillow(f"brightness {factor}", ImageEnhance.Brightness(image).enhance(factor))
    for factor in (0.1, 0.6, 1.9):
        torchvision(f"contrast {factor}", tv.adjust_contrast(tensor, factor))
        pillow(f"contrast {factor}", ImageEnhance.Contrast(image).enhance(factor))
    for factor in (0, 0.1, 0.45, 0.7, 1.9):
        torchvision(f"saturation {factor}", tv.adjust_saturation(tensor, factor))
        pillow(f"saturation {factor}", ImageEnhance.Color(image).enhance(factor))
    for turns in (-0.5, -0.2, 0.1, 0.35):
        torchvision(f"hue {turns}", tv.adjust_hue(tensor, turns))
    for gamma, gain in ((0.4, 1), (2.2, 1), (1.5, 1.3)):
        torchvision(f"gamma {gamma} {gain}", tv.adjust_gamma(tensor, gamma, gain))
    for bits in (1, 4, 7):
        torchvision(f"posterize {bits}", tv.posterize(tensor, bits))
        pillow(f"posterize {bits}", ImageOps.posterize(image, bits))
    for threshold in (0, 101, 200):
        torchvision(f"solarize {threshold}", tv.solarize(tensor, threshold))
        pillow(f"solarize {threshold}", ImageOps.solarize(image, threshold))
    for factor in (0, 0.4, 2):
        torchvision(f"sharpness {factor}", tv.adjust_sharpness(tensor, factor))
        pillow(f"sharpness {factor}", ImageEnhance.Sharpness(image).enhance(factor))
    torchvision("grayscale", tv.rgb_to_grayscale(tensor, 3))
    pillow("grayscale", image.convert("L"))
    torchvision("invert", tv.invert(tensor))
    torchvision("auto_contrast", tv.autocontrast(tensor))
    pillow("auto_contrast", ImageOps.autocontrast(image))
    torchvision("equalize", tv.equalize(tensor))
    pillow("equalize", ImageOps.equalize(image))

    # The geometric operations of torchvision's automatic policies. With a fill it would weigh border pixels twice.
    bilinear = {"interpolation": InterpolationMode.BILINEAR, "fill": None}
    still = {"angle": 0.0, "translate": [0, 0], "scale": 1.0, "shear": [0.0, 0.0]}
    degrees = float(np.degrees(np.arctan(0.2)))
    torchvision("rotate 17", tv.rotate(tensor, 17, **bilinear))
    torchvision("shear_x 0.2", tv.affine(tensor, **{**still, "shear": [degrees, 0.0]}, center=[0, 0], **bilinear))
    torchvision("shear_y 0.2", tv.affine(tensor, **{**still, "shear": [0.0, degrees]}, center=[0, 0], **bilinear))
    torchvision("translate_x 5", tv.affine(tensor, **{**still, "translate": [5, 0]}, **bilinear))
    torchvision("translate_y -4", tv.affine(tensor, **{**still, "translate": [0, -4]}, **bilinear))
    np.savez_compressed(Path(__file__).with_name("color.npz"), **recorded)


if __name__ == "__main__":
    main()
