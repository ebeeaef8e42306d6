"""Invalid arguments of transforms are refused when they are given, in one line that names the argument."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch

import videoloader as vl
from videoloader.errors import ConfigurationError

NUMBER = dict.fromkeys(
    ("Brightness", "Contrast", "Cutout", "GaussianNoise", "Gamma", "Hue", "Posterize", "Rotate", "SaltAndPepper",
     "Saturation", "Sharpness", "Solarize", "SolarizeAdd", "SpeedChange", "TemporalJitter"), (0.5,)
)  # fmt: skip
# What each needs at least; those that are not here need nothing, or a size.
NEEDS: dict[str, tuple[Any, ...]] = NUMBER | {
    "ConvertColor": ("rgb", "bgr"),
    "CutMix": (1.0, 3),
    "Cutout": (8,),
    "DropFrames": (0.5,),
    "GaussianBlur": (3,),
    "MixChoice": ([vl.MixUp(1.0, num_classes=3)],),
    "MixUp": (1.0, 3),
    "Module": (torch.nn.Identity(),),
    "Posterize": (4,),
    "PythonFunction": (lambda frames, rng: frames,),
    "RandomApply": ([vl.Invert()],),
    "RandomChoice": ([vl.Invert()],),
    "RandomOrder": ([vl.Invert()],),
    "RepeatFrames": (0.5,),
    "TemporalJitter": (1,),
    "VideoMix": (1.0, 3),
    "When": (lambda clip: True, [vl.Invert()]),
}
SIZED = ("Crop", "Resize", "Letterbox", "Pad")
MISTAKES = [
    b"bytes", b"5", "text", "5", None, [], (), object(), float("nan"), -1, 1.5, 0, True, (1, 2, 3), [1, "a"],
    ("a", "b"), {}, {"a": 1}, (2, 1), [None], int, np.array([[1, 2], [3, 4]]), torch.zeros(2, 2), slice(3),
]  # fmt: skip


def transforms() -> Iterator[Any]:
    for name in vl.transforms.__all__:
        public = getattr(vl.transforms, name)
        if not isinstance(public, type) or not issubclass(public, vl.Transform) or not is_dataclass(public):
            continue
        needs = (8,) if any(word in name for word in SIZED) and name != "CropToBox" else ()
        yield public(*NEEDS.get(name, needs))


@pytest.mark.parametrize("transform", list(transforms()), ids=lambda each: type(each).__name__)
def test_an_argument_that_cannot_be_is_refused_by_name(transform: Any) -> None:
    kind = type(transform).__name__
    for field in fields(transform):
        for mistake in MISTAKES if field.init else ():
            try:
                replace(transform, **{field.name: mistake})
            except ConfigurationError as error:
                said = str(error)
                assert kind in said or field.name in said or "pad" in said, said
                assert "\n" not in said or isinstance(mistake, np.ndarray | torch.Tensor)
            else:
                assert not isinstance(field.default, bool) or isinstance(mistake, bool)


def test_a_number_is_no_flag_and_a_flag_no_number() -> None:
    for make in (
        lambda: vl.Resize(True),
        lambda: vl.RandomCrop((8, True)),
        lambda: vl.Rotate(True),
        lambda: vl.Brightness(True),
        lambda: vl.MixUp(True, num_classes=3),
    ):
        with pytest.raises(ConfigurationError, match="True"):
            make()
    with pytest.raises(ConfigurationError, match="Resize's antialias must be True or False, got 'False'"):
        vl.Resize(8, antialias="False")  # type: ignore[arg-type]
    assert vl.Resize(8, antialias=np.bool_(False)) == vl.Resize(8, antialias=False)  # type: ignore[arg-type]
