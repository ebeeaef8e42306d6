"""Frame modes: which frames of a video make a clip."""

from videoloader.sampling.at_rate import AtRate
from videoloader.sampling.columns import Pad, PadColumn
from videoloader.sampling.frame_list import FrameList
from videoloader.sampling.frame_tuples import FrameTuples, Triplets
from videoloader.sampling.mode import CountsByLength, FrameMode, clip_frames, clip_rng
from videoloader.sampling.near_keyframes import DecodeCost, NearKeyframes
from videoloader.sampling.roles import Roles
from videoloader.sampling.sampled_video import AllFrames, SampledVideo
from videoloader.sampling.spread import Segments, UniformFrames
from videoloader.sampling.timestamps import Timestamps
from videoloader.sampling.whole import Keyframes, WholeVideo
from videoloader.sampling.windows import EvenWindows, EveryWindow, RandomWindow

__all__ = [
    "AllFrames",
    "AtRate",
    "CountsByLength",
    "DecodeCost",
    "EvenWindows",
    "EveryWindow",
    "FrameList",
    "FrameMode",
    "FrameTuples",
    "Keyframes",
    "NearKeyframes",
    "Pad",
    "PadColumn",
    "RandomWindow",
    "Roles",
    "SampledVideo",
    "Segments",
    "Timestamps",
    "Triplets",
    "UniformFrames",
    "WholeVideo",
    "clip_frames",
    "clip_rng",
]
