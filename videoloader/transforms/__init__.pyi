"""The public names, which ``__init__.py`` reads here."""

from videoloader.transforms.augmentation import augmentation as augmentation
from videoloader.transforms.automatic import (
    AutoAugment as AutoAugment,
    RandAugment as RandAugment,
    TrivialAugmentWide as TrivialAugmentWide,
)
from videoloader.transforms.borders import Letterbox as Letterbox, Pad as Pad, PadToMultiple as PadToMultiple
from videoloader.transforms.choice import (
    RandomApply as RandomApply,
    RandomChoice as RandomChoice,
    RandomOrder as RandomOrder,
    When as When,
)
from videoloader.transforms.color import (
    Brightness as Brightness,
    ColorJitter as ColorJitter,
    Contrast as Contrast,
    Grayscale as Grayscale,
    Hue as Hue,
    RandomGrayscale as RandomGrayscale,
    Saturation as Saturation,
)
from videoloader.transforms.color_spaces import ConvertColor as ConvertColor
from videoloader.transforms.compose import Compose as Compose
from videoloader.transforms.compression import JpegCompression as JpegCompression
from videoloader.transforms.crop_to_box import CropToBox as CropToBox
from videoloader.transforms.crops import (
    CenterCrop as CenterCrop,
    Crop as Crop,
    RandomCrop as RandomCrop,
    RandomResizedCrop as RandomResizedCrop,
)
from videoloader.transforms.curves import Linear as Linear, RandomWalk as RandomWalk, Uniform as Uniform
from videoloader.transforms.erasing import Cutout as Cutout, GridMask as GridMask, RandomErasing as RandomErasing
from videoloader.transforms.filters import GaussianBlur as GaussianBlur, Laplacian as Laplacian
from videoloader.transforms.flips import (
    HorizontalFlip as HorizontalFlip,
    RandomHorizontalFlip as RandomHorizontalFlip,
    RandomVerticalFlip as RandomVerticalFlip,
    VerticalFlip as VerticalFlip,
)
from videoloader.transforms.mixing import (
    CutMix as CutMix,
    MixChoice as MixChoice,
    Mixing as Mixing,
    MixUp as MixUp,
    VideoMix as VideoMix,
)
from videoloader.transforms.modules import Module as Module, PythonFunction as PythonFunction
from videoloader.transforms.noise import GaussianNoise as GaussianNoise, SaltAndPepper as SaltAndPepper
from videoloader.transforms.normalize import Normalize as Normalize, ToFloat as ToFloat
from videoloader.transforms.operations import (
    ClipInfo as ClipInfo,
    Operation as Operation,
    PixelTransform as PixelTransform,
    Transform as Transform,
)
from videoloader.transforms.planning.pipeline import DrawnView as DrawnView
from videoloader.transforms.planning.steps import GeometryStep as GeometryStep
from videoloader.transforms.resizing import Resize as Resize
from videoloader.transforms.time import (
    DropFrames as DropFrames,
    RepeatFrames as RepeatFrames,
    Reverse as Reverse,
    SpeedChange as SpeedChange,
    TemporalJitter as TemporalJitter,
    TimeTransform as TimeTransform,
)
from videoloader.transforms.tone import (
    AutoContrast as AutoContrast,
    Equalize as Equalize,
    Gamma as Gamma,
    Invert as Invert,
    Posterize as Posterize,
    Sharpness as Sharpness,
    Solarize as Solarize,
    SolarizeAdd as SolarizeAdd,
)
from videoloader.transforms.views import FiveCrop as FiveCrop, TenCrop as TenCrop, ThreeCrop as ThreeCrop
from videoloader.transforms.warps import Affine as Affine, Perspective as Perspective, Rotate as Rotate
