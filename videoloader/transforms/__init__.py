"""What is done to the frames of a clip on their way into the batch."""

from videoloader.transforms.augmentation import augmentation
from videoloader.transforms.automatic import AutoAugment, RandAugment, TrivialAugmentWide
from videoloader.transforms.borders import Letterbox, Pad, PadToMultiple
from videoloader.transforms.choice import RandomApply, RandomChoice, RandomOrder, When
from videoloader.transforms.color import Brightness, ColorJitter, Contrast, Grayscale, Hue, RandomGrayscale, Saturation
from videoloader.transforms.color_spaces import ConvertColor
from videoloader.transforms.compose import Compose
from videoloader.transforms.compression import JpegCompression
from videoloader.transforms.crops import CenterCrop, RandomCrop, RandomResizedCrop
from videoloader.transforms.curves import Linear, RandomWalk, Uniform
from videoloader.transforms.erasing import Cutout, GridMask, RandomErasing
from videoloader.transforms.filters import GaussianBlur, Laplacian
from videoloader.transforms.flips import HorizontalFlip, RandomHorizontalFlip, RandomVerticalFlip, VerticalFlip
from videoloader.transforms.mixing import CutMix, MixChoice, MixUp, VideoMix
from videoloader.transforms.modules import Module, PythonFunction
from videoloader.transforms.noise import GaussianNoise, SaltAndPepper
from videoloader.transforms.normalize import Normalize, ToFloat
from videoloader.transforms.operations import ClipInfo, Operation
from videoloader.transforms.planning.conversion_plan import plan_geometries, plan_geometry
from videoloader.transforms.planning.pipeline import DrawnView, Transform, TransformPlan, arrange_transforms
from videoloader.transforms.resizing import Resize
from videoloader.transforms.time import DropFrames, RepeatFrames, Reverse, SpeedChange, TemporalJitter
from videoloader.transforms.tone import (
    AutoContrast,
    Equalize,
    Gamma,
    Invert,
    Posterize,
    Sharpness,
    Solarize,
    SolarizeAdd,
)
from videoloader.transforms.views import FiveCrop, TenCrop, ThreeCrop
from videoloader.transforms.warps import Affine, Perspective, Rotate

__all__ = [
    "Affine",
    "AutoAugment",
    "AutoContrast",
    "Brightness",
    "CenterCrop",
    "ClipInfo",
    "ColorJitter",
    "Compose",
    "Contrast",
    "ConvertColor",
    "CutMix",
    "Cutout",
    "DrawnView",
    "DropFrames",
    "Equalize",
    "FiveCrop",
    "Gamma",
    "GaussianBlur",
    "GaussianNoise",
    "Grayscale",
    "GridMask",
    "HorizontalFlip",
    "Hue",
    "Invert",
    "JpegCompression",
    "Laplacian",
    "Letterbox",
    "Linear",
    "MixChoice",
    "MixUp",
    "Module",
    "Normalize",
    "Operation",
    "Pad",
    "PadToMultiple",
    "Perspective",
    "Posterize",
    "PythonFunction",
    "RandAugment",
    "RandomApply",
    "RandomChoice",
    "RandomCrop",
    "RandomErasing",
    "RandomGrayscale",
    "RandomHorizontalFlip",
    "RandomOrder",
    "RandomResizedCrop",
    "RandomVerticalFlip",
    "RandomWalk",
    "RepeatFrames",
    "Resize",
    "Reverse",
    "Rotate",
    "SaltAndPepper",
    "Saturation",
    "Sharpness",
    "Solarize",
    "SolarizeAdd",
    "SpeedChange",
    "TemporalJitter",
    "TenCrop",
    "ThreeCrop",
    "ToFloat",
    "Transform",
    "TransformPlan",
    "TrivialAugmentWide",
    "Uniform",
    "VerticalFlip",
    "VideoMix",
    "When",
    "arrange_transforms",
    "augmentation",
    "plan_geometries",
    "plan_geometry",
]
