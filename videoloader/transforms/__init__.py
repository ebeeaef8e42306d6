"""What is done to the frames of a clip on their way into the batch."""

from videoloader.transforms.borders import Letterbox, Pad, PadToMultiple
from videoloader.transforms.crops import CenterCrop, RandomCrop, RandomResizedCrop
from videoloader.transforms.flips import HorizontalFlip, RandomHorizontalFlip, RandomVerticalFlip, VerticalFlip
from videoloader.transforms.normalize import Normalize
from videoloader.transforms.pipeline import Stages, Transform, TransformPlan, arrange_transforms
from videoloader.transforms.plan import plan_geometries, plan_geometry
from videoloader.transforms.resizing import Resize
from videoloader.transforms.views import FiveCrop, TenCrop, ThreeCrop, count_views

__all__ = [
    "CenterCrop",
    "FiveCrop",
    "HorizontalFlip",
    "Letterbox",
    "Normalize",
    "Pad",
    "PadToMultiple",
    "RandomCrop",
    "RandomHorizontalFlip",
    "RandomResizedCrop",
    "RandomVerticalFlip",
    "Resize",
    "Stages",
    "TenCrop",
    "ThreeCrop",
    "Transform",
    "TransformPlan",
    "VerticalFlip",
    "arrange_transforms",
    "count_views",
    "plan_geometries",
    "plan_geometry",
]
