"""Frame modes: which frames of a video make a clip."""

from videoloader.sampling.at_rate import AtRate as AtRate
from videoloader.sampling.columns import PadColumn as PadColumn
from videoloader.sampling.frame_list import FrameList as FrameList
from videoloader.sampling.frame_tuples import FrameTuples as FrameTuples
from videoloader.sampling.frame_tuples import Triplets as Triplets
from videoloader.sampling.mode import CountsByLength as CountsByLength
from videoloader.sampling.mode import FrameMode as FrameMode
from videoloader.sampling.mode import clip_frames as clip_frames
from videoloader.sampling.mode import clip_rng as clip_rng
from videoloader.sampling.near_keyframes import DecodeCost as DecodeCost
from videoloader.sampling.near_keyframes import NearKeyframes as NearKeyframes
from videoloader.sampling.roles import Roles as Roles
from videoloader.sampling.sampled_video import AllFrames as AllFrames
from videoloader.sampling.sampled_video import SampledVideo as SampledVideo
from videoloader.sampling.spread import Segments as Segments
from videoloader.sampling.spread import UniformFrames as UniformFrames
from videoloader.sampling.timestamps import Timestamps as Timestamps
from videoloader.sampling.whole import Keyframes as Keyframes
from videoloader.sampling.whole import WholeVideo as WholeVideo
from videoloader.sampling.windows import EvenWindows as EvenWindows
from videoloader.sampling.windows import EveryWindow as EveryWindow
from videoloader.sampling.windows import RandomWindow as RandomWindow
