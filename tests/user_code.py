"""What type checkers are to say of a user's program: ``make lint`` checks this file, nothing runs it.

Each ``type: ignore`` names an error that must be there: mypy tells of those that are not needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_type

import numpy as np
import numpy.typing as npt
import torch

import videoloader as vl
from videoloader.interop.torch import ClipRequest, DecodingLoader
from videoloader.sampling import SampledVideo


@dataclass(frozen=True)
class Around:
    """A frame mode of one's own: nothing needs to be derived."""

    pad: str = "edge"

    def num_clips(self, video: SampledVideo) -> int:
        return video.stop - video.first

    def frame_numbers(self, video: SampledVideo, clip: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        return video.first + clip + np.array([-1, 0, 1])


class Nothing(vl.PixelTransform):
    """A transform of one's own."""

    def draw(self, rng: np.random.Generator, clip: vl.ClipInfo) -> Sequence[vl.Operation]:
        return ()


MODES: dict[str, vl.FrameMode] = {
    "AtRate": vl.AtRate(5, length=4),
    "Around": Around(),
    "EvenWindows": vl.EvenWindows(4),
    "EveryWindow": vl.EveryWindow(4),
    "FrameList": vl.FrameList([1, 2]),
    "FrameTuples": vl.FrameTuples((0, 2), 1),
    "Keyframes": vl.Keyframes(),
    "NearKeyframes": vl.NearKeyframes(vl.RandomWindow(4), within=2),
    "RandomWindow": vl.RandomWindow(4, pad=vl.PadColumn("pad")),
    "Segments": vl.Segments(3),
    "Timestamps": vl.Timestamps([1.5]),
    "Triplets": vl.Triplets((1, 4), clips=2),
    "UniformFrames": vl.UniformFrames(4),
    "WholeVideo": vl.WholeVideo(),
}
TRANSFORMS: list[vl.Transform] = [
    vl.Affine((-15, 15)),
    vl.AutoAugment(),
    vl.AutoContrast(),
    vl.Brightness((0.6, 1.4)),
    vl.CenterCrop(100),
    vl.ColorJitter(0.4),
    vl.Contrast((0.6, 1.4)),
    vl.ConvertColor("rgb", "bgr"),
    vl.CropToBox(("x0", "y0", "x1", "y1"), margin=0.1, square=True),
    vl.CutMix(1.0, num_classes=10),
    vl.Cutout(16),
    vl.DropFrames(count=1),
    vl.Equalize(),
    vl.FiveCrop(64),
    vl.Gamma(0.6),
    vl.GaussianBlur(3),
    vl.GaussianNoise(3),
    vl.Grayscale(),
    vl.GridMask(),
    vl.HorizontalFlip(),
    vl.Hue(0.1),
    vl.Invert(),
    vl.JpegCompression(),
    vl.Laplacian(),
    vl.Letterbox(64),
    vl.MixChoice([vl.MixUp(0.8, num_classes=10), vl.VideoMix(1.0, num_classes=10)]),
    vl.Module(torch.nn.Identity()),
    vl.Normalize(),
    vl.Pad(64),
    vl.PadToMultiple(32),
    vl.Perspective(),
    vl.Posterize(4),
    vl.PythonFunction(lambda frames, rng: frames),
    vl.RandAugment(),
    vl.RandAugment(operations={"rotate": (-10, 10), "equalize": None}),
    vl.TrivialAugmentWide(operations=["invert", ("posterize", (8, 6))]),
    vl.RandomApply([vl.Invert()]),
    vl.RandomChoice([vl.Invert(), [vl.Solarize(128), vl.CenterCrop(64)], []]),
    vl.RandomCrop(64),
    vl.RandomErasing(),
    vl.RandomGrayscale(),
    vl.RandomHorizontalFlip(),
    vl.RandomOrder([vl.Invert(), vl.RandomVerticalFlip()]),
    vl.RandomResizedCrop(64),
    vl.RepeatFrames(count=1),
    vl.Resize(64),
    vl.Reverse(),
    vl.Rotate(vl.Linear(-10, 10)),
    vl.SaltAndPepper(0.1),
    vl.Saturation((0.6, 1.4)),
    vl.Sharpness((0.6, 1.4)),
    vl.SolarizeAdd(10),
    vl.SpeedChange(2),
    vl.TemporalJitter(1),
    vl.TenCrop(64),
    vl.ThreeCrop(64),
    vl.ToFloat(),
    vl.TrivialAugmentWide(),
    vl.VerticalFlip(),
    vl.When(lambda clip: clip.height > 10, vl.Invert()),
    Nothing(),
    vl.RandomWindow(4),  # type: ignore[list-item]
]
pair: torch.Tensor = vl.Compose(vl.Invert())(torch.zeros(2, 4, 3, 8, 8))
moved, others = vl.Compose([vl.Invert()])(pair[0], seed=1, apply_to={"mask": pair[0, :, 0]})
mask: torch.Tensor = others["mask"]
vl.RandomWindws  # type: ignore[attr-defined]  # noqa: B018
vl.transforms.Cropp  # type: ignore[attr-defined]  # noqa: B018


def train(data: vl.VideoDataset) -> None:
    steps = [vl.Resize(64), vl.Invert(), vl.Normalize()]
    loader = vl.VideoLoader(data, vl.RandomWindow(4), batch_size=2, transforms=steps, dtype="float16")
    for batch in loader:
        assert_type(batch, vl.Batch)
        assert_type(batch.frames, torch.Tensor)
        assert_type(batch.frame_numbers, npt.NDArray[np.int64])
        assert_type(batch.timestamps, npt.NDArray[np.float64])
        assert_type(batch.mask, npt.NDArray[np.bool_])
        assert_type(batch.inputs, torch.Tensor)
        assert_type(batch.target_times, torch.Tensor)
        assert_type(batch.roles, vl.Roles | None)
        assert_type(batch.replay(0, batch.frames[0], "mask"), torch.Tensor)
        assert_type(batch.replay(0, batch.frames[0], "boxes"), tuple[torch.Tensor, torch.Tensor])
        batch.frmes  # type: ignore[attr-defined]  # noqa: B018
    for batch in vl.VideoLoader(data, vl.WholeVideo(), batch_size=2, collate="list", transforms=[torch.nn.Identity()]):
        assert isinstance(batch, vl.ListBatch)
        assert_type(batch.frames, list[torch.Tensor])
        assert_type(batch.targets, list[torch.Tensor])
        assert_type(batch.to("cuda"), vl.ListBatch)
    vl.VideoLoader(data, vl.RandomWindow(4), batch_size=2, last_batch="dropp")  # type: ignore[arg-type]
    vl.VideoLoader(data, vl.RandomWindow(4), batch_size=2, dtype="float61")  # type: ignore[arg-type]
    vl.VideoLoader(data, vl.RandomWindow(4), batch_size=2, layout="CHWT")  # type: ignore[arg-type]
    vl.VideoLoader(data, vl.RandomWindow(4), batch_size=2, decode="gpu")  # type: ignore[arg-type]
    vl.VideoLoader(data, vl.RandomWindow(4), batch_size=2, on_error="ignore")  # type: ignore[arg-type]
    vl.VideoLoader(data, vl.RandomWindow(4), batch_size=2, on_corrupt="warn")  # type: ignore[arg-type]
    vl.Video("clip.mp4", on_corrupt="replace")  # type: ignore[arg-type]
    vl.VideoLoader(data, vl.RandomWindow(4), batch_size=2, collate="lists")  # type: ignore[arg-type]
    vl.VideoLoader(data, vl.RandomWindow(4), batch_size=2, sharding="block")  # type: ignore[arg-type]
    vl.VideoLoader(data, "random", batch_size=2)  # type: ignore[arg-type]
    DecodingLoader([ClipRequest("clip.mp4", [1, 2])], on_error="replace")  # type: ignore[arg-type]
