"""What is done to the frames of a clip on their way into the batch."""

from videoloader.transforms.borders import Letterbox, Pad, PadToMultiple
from videoloader.transforms.geometry import CenterCrop, RandomHorizontalFlip, RandomResizedCrop, Resize
from videoloader.transforms.normalize import Normalize
from videoloader.transforms.plan import Transform, plan_geometry, plan_output

__all__ = [
    "CenterCrop",
    "Letterbox",
    "Normalize",
    "Pad",
    "PadToMultiple",
    "RandomHorizontalFlip",
    "RandomResizedCrop",
    "Resize",
    "Transform",
    "plan_geometry",
    "plan_output",
]
