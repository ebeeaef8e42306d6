"""The code of each picture in the tour. ``make.py`` makes the notebook and the gallery from it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Section:
    """Pictures of one kind.

    Attributes:
        title, text: str. The heading and the introduction of the section.
        pictures: dict. The name of each picture, and the code whose last expression is the picture.
    """

    title: str
    text: str
    pictures: dict[str, str]


SETUP = """\
import videoloader as vl
from scene import CAR_BOX, write_scenes

paths = write_scenes("scenes")  # or the paths of two videos of your own
video = vl.Video(paths[0], device="cpu")
data = vl.VideoDataset([vl.VideoEntry(path, label, columns={"box": CAR_BOX}) for label, path in enumerate(paths)])
size = 151  # pixels of the longer side of a frame


def clips(mode):
    return vl.show(video.read_clips(mode), size=size)


def look(*transforms):
    return vl.show(video.read([20, 30, 40], transforms=transforms), size=size)


def batch(*transforms):
    loader = vl.VideoLoader(data, vl.FrameList([20, 30, 40]), batch_size=2, device="cpu", transforms=transforms)
    return vl.show(next(iter(loader)), size=size)


def views(transform):
    loader = vl.VideoLoader(data[:1], vl.FrameList([20, 40]), batch_size=1, device="cpu", transforms=[transform])
    return vl.show(next(iter(loader)), size=size, clips=10)
"""


def _looks(*calls: str) -> dict[str, str]:
    return {call.partition("(")[0]: f"look(vl.{call})" for call in calls}


SECTIONS = (
    Section(
        "Objects",
        "A notebook draws a video, a clip, a batch or a data set that is the last line of a cell. `vl.show` returns "
        "the picture alone, so that you can save or enlarge it.",
        {
            "Video": "vl.show(video, size=size)",
            "Clip": "vl.show(video.read([0, 20, 40, 60]), size=size)",
            "Batch": "batch(vl.RandomResizedCrop(96), vl.Normalize())",
            "VideoDataset": "vl.show(data, size=size)",
        },
    ),
    Section(
        "Frame modes",
        "A frame mode chooses the frames of each clip. The video has 80 frames at 25 per second, and a keyframe "
        "every 16 frames.",
        {
            name.partition("(")[0]: f"clips(vl.{name})"
            for name in (
                "RandomWindow(5, stride=4, clips=2)",
                "EvenWindows(5, stride=2, clips=2)",
                "EveryWindow(5, stride=4, step=40)",
                "Segments(5, jitter=True)",
                "UniformFrames(5)",
                "AtRate(2, 5, start=0)",
                "WholeVideo(stride=16)",
                "FrameList([70, 10, 40])",
                "Timestamps([0.5, 1.25, 2.0])",
                "Triplets(gap=8, step=32)",
                "FrameTuples((0, 24), (6, 12, 18), step=64)",
                "Keyframes()",
                "NearKeyframes(vl.RandomWindow(6, stride=2), within=4)",
            )
        },
    ),
    Section(
        "Padding",
        "Each clip asks for frames 70 to 90, but the last frame of the video is 79. Frames that padding made up are "
        "hatched. (The mode `none` gives no clip here.)",
        {
            mode: f'clips(vl.FrameList(range(70, 91, 5), pad="{mode}"))'
            for mode in ("edge", "constant", "reflect_101", "reflect_1001", "wrap")
        },
    ),
    Section(
        "Crops and sizes",
        "These are part of the conversion from the decoder's picture, and cost nothing extra. Random ones are drawn "
        "once per clip.",
        {
            "Untransformed": "look()",
            **_looks(
                "Resize((96, 96))",
                "Crop((96, 128), top=20, left=40)",
                "CenterCrop(128)",
                "RandomCrop(128)",
                "RandomResizedCrop(112)",
                "Letterbox(128, fill=(128, 128, 128))",
                "Pad((224, 288), fill=(128, 128, 128))",
                "PadToMultiple(144, fill=(128, 128, 128))",
                "HorizontalFlip()",
                "RandomHorizontalFlip(p=1)",
                "VerticalFlip()",
                "RandomVerticalFlip(p=1)",
            ),
            "CropToBox": "batch(vl.CropToBox(margin=0.1), vl.Resize((64, 96)))",
        },
    ),
    Section(
        "Views",
        "Each of these makes several rows of the batch from one clip.",
        {name: f"views(vl.{name}(96))" for name in ("ThreeCrop", "FiveCrop", "TenCrop")},
    ),
    Section(
        "Geometry",
        "Neighbouring transforms in the list are combined into one resampling.",
        _looks(
            "Rotate((-30, 30))",
            "Affine(15, translate=(0.1, 0.1), scale=(0.7, 0.9), shear=10)",
            "Perspective(0.5, p=1)",
        ),
    ),
    Section(
        "Colours",
        "The CPU and CUDA give the same pixels.",
        {
            **_looks(
                "Brightness(1.5)",
                "Contrast(1.8)",
                "Saturation(2.0)",
                "Hue(0.3)",
                "ColorJitter(0.4, 0.4, 0.4, 0.2)",
                "Grayscale()",
                "RandomGrayscale(p=1)",
                "Gamma(2.2)",
                "Invert()",
                "Posterize(2)",
                "Solarize(128)",
                "SolarizeAdd(60)",
                "AutoContrast()",
                "Equalize()",
                "Sharpness(6.0)",
            ),
            "ConvertColor": 'look(vl.ConvertColor("rgb", "bgr"))',
        },
    ),
    Section(
        "Noise, blur and holes",
        "These keep a network from relying on a single detail.",
        _looks(
            "GaussianBlur(13, 4.0)",
            "Laplacian(1, 4.0)",
            "GaussianNoise(std=40.0)",
            "SaltAndPepper(0.1)",
            "RandomErasing(p=1)",
            "Cutout(64)",
            "GridMask(64)",
            "JpegCompression(5)",
        ),
    ),
    Section(
        "Time",
        "Frames that the clip no longer shows are not decoded.",
        {
            call.partition("(")[0]: f"vl.show(video.read(range(20, 50, 5), transforms=[vl.{call}]), size=size)"
            for call in (
                "Reverse(p=1)",
                "DropFrames(share=0.4)",
                "RepeatFrames(count=2)",
                "TemporalJitter(2)",
                "SpeedChange(2.0)",
            )
        },
    ),
    Section(
        "Values that run over the frames",
        "Every transform that takes a range also takes one of these.",
        {
            call.partition("(")[0]: f"look(vl.Brightness(vl.{call}))"
            for call in ("Uniform(0.3, 2)", "Linear(0.3, 2)", "RandomWalk(0.3, 2, step=1)")
        },
    ),
    Section(
        "Choice",
        "The choice is drawn anew for each clip.",
        {
            "RandomApply": "look(vl.RandomApply([vl.Invert()], p=1))",
            "RandomChoice": "look(vl.RandomChoice([vl.Invert(), vl.Hue(0.5), vl.Grayscale()]))",
            "RandomOrder": "look(vl.RandomOrder([vl.Posterize(2), vl.Hue(0.5)]))",
            "When": "batch(vl.When(lambda clip: clip.label == 1, [vl.Invert()]))",
        },
    ),
    Section(
        "Automatic policies",
        "All frames of a clip get the same operations.",
        {
            "AutoAugment": 'batch(vl.AutoAugment("image_net"))',
            "RandAugment": "batch(vl.RandAugment(n=2, m=15))",
            "TrivialAugmentWide": "batch(vl.TrivialAugmentWide())",
        },
    ),
    Section(
        "Mixing",
        "Labels become soft: each clip has a share of several classes.",
        {
            "MixUp": "batch(vl.MixUp(0.8, num_classes=2))",
            "CutMix": "batch(vl.CutMix(1.0, num_classes=2))",
            "VideoMix": "batch(vl.VideoMix(1.0, num_classes=2))",
            "MixChoice": "batch(vl.MixChoice([vl.MixUp(0.8, num_classes=2), vl.CutMix(1.0, num_classes=2)]))",
        },
    ),
    Section(
        "Values, and other people's transforms",
        "Pictures of floats undo the transform that made them.",
        {
            "ToFloat": "look(vl.ToFloat())",
            "Normalize": "look(vl.Normalize())",
            "Module": "look(vl.Module(lambda frames: frames.flip(-1)))",
            "PythonFunction": "look(vl.PythonFunction(lambda frames, rng: 255 - frames))",
        },
    ),
)
