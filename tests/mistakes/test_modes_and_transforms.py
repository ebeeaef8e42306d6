"""Mistakes with frame modes, orders and transforms."""

# mypy: ignore-errors
from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from first_day import Mistakes, check_answer

import videoloader as vl

MISTAKES: Mistakes = {
    "no length": (lambda: vl.RandomWindow(), "RandomWindow needs the argument length, such as length=16"),
    "a length of 0": (lambda: vl.RandomWindow(0), "length must be a positive integer, got 0"),
    "a negative length": (lambda: vl.RandomWindow(-3), "length must be a positive integer, got -3"),
    "a length in quotes": (lambda: vl.RandomWindow("16"), "length must be a positive integer, got '16'"),
    "a length of 16.0": (lambda: vl.RandomWindow(16.0), "length must be a positive integer, got 16.0"),
    "a stride by position": (lambda: vl.RandomWindow(16, 4), "RandomWindow takes length by … write stride=4, if"),
    "a step of a window": (lambda: vl.RandomWindow(16, step=2), "RandomWindow has no argument step: write stride"),
    "a name by position": (
        lambda: vl.RandomWindow(16, "edge"),
        "RandomWindow takes length by position and all else by name (stride, clips, reverse, pad), got 'edge'",
    ),
    "a flip by another name": (lambda: vl.RandomFlip(), "no attribute RandomFlip: write RandomHorizontalFlip"),
    "a rotation by another name": (lambda: vl.RandomRotation(5), "no attribute RandomRotation: write Rotate"),
    "a window by another name": (lambda: vl.RandomClip(5), "no attribute RandomClip: write RandomWindow, a frame mode"),
    "a name of interop": (lambda: vl.ClipRequest, "write videoloader.interop.torch.ClipRequest"),
    "a stride of 0": (lambda: vl.RandomWindow(16, stride=0), "stride must be a positive integer, got 0"),
    "a stride of 2.5": (lambda: vl.RandomWindow(16, stride=2.5), "stride must be a positive integer, got 2.5"),
    "a stride of None": (lambda: vl.RandomWindow(16, stride=None), "stride must be a positive integer, got None"),
    "a range the wrong way round": (lambda: vl.RandomWindow(16, stride=(5, 1)), "stride must be … (5, 1)"),
    "a range of one": (lambda: vl.RandomWindow(16, stride=(1,)), "stride must be … (1,)"),
    "clips in quotes": (lambda: vl.RandomWindow(16, clips="2"), "clips must be a positive integer, got '2'"),
    "a reverse that is no probability": (lambda: vl.RandomWindow(16, reverse=2), "reverse must be a … got 2"),
    "a padding mode that there is not": (
        lambda: vl.RandomWindow(16, pad="edges"),
        "pad must be one of none, edge, constant, reflect_101, reflect_1001 … got 'edges'",
    ),
    "padding by None": (lambda: vl.RandomWindow(16, pad=None), "pad must be one of none, edge, constant … got None"),
    "padding by True": (lambda: vl.RandomWindow(16, pad=True), "pad must be one of none, edge, constant … got True"),
    "a number of frames": (lambda: vl.RandomWindow(num_frames=16), "RandomWindow has no argument … write length"),
    "MMAction2's clip_len": (lambda: vl.RandomWindow(clip_len=16), "RandomWindow has no argument … write length"),
    "MMAction2's frame_interval": (
        lambda: vl.RandomWindow(16, frame_interval=2),
        "RandomWindow has no argument frame_interval … write stride",
    ),
    "DALI's sequence_length": (lambda: vl.RandomWindow(sequence_length=16), "RandomWindow has no … write length"),
    "DALI's step": (lambda: vl.RandomWindow(16, step=2), "RandomWindow has no argument step … write stride"),
    "a rate of a window": (lambda: vl.RandomWindow(16, fps=8), "RandomWindow has no argument … write AtRate(fps"),
    "torchvision's frame_rate": (lambda: vl.RandomWindow(16, frame_rate=8), "RandomWindow has no … write"),
    "a step of 0": (lambda: vl.EveryWindow(16, step=0), "step must be a positive integer, got 0"),
    "no clips": (lambda: vl.EvenWindows(16, clips=0), "clips must be a positive integer, got 0"),
    "a count in quotes": (lambda: vl.UniformFrames("8"), "count must be a positive integer, got '8'"),
    "segments of 0": (lambda: vl.Segments(0), "segments must be a positive integer, got 0"),
    "frames of a segment by position": (lambda: vl.Segments(8, 16), "Segments takes segments by position … write"),
    "MMAction2's test_mode": (lambda: vl.Segments(8, test_mode=True), "Segments has no … write"),
    "jitter in words": (lambda: vl.Segments(8, jitter="yes"), "jitter must be True or False, got 'yes'"),
    "one frame for a list": (lambda: vl.FrameList(5), "frames must be a list of one or more integers, got 5"),
    "floats in a list": (lambda: vl.FrameList([0.5]), "frames must be a list of one or more integers, got [0.5]"),
    "an empty list": (lambda: vl.FrameList([]), "frames must be a list of one or more integers, got []"),
    "one time for a list": (lambda: vl.Timestamps(1.5), "seconds must be a list of seconds, got 1.5"),
    "times in quotes": (lambda: vl.Timestamps(["1"]), "seconds must be a finite number, got '1'"),
    "no times": (lambda: vl.Timestamps([]), "seconds must be a list of one or more seconds, got []"),
    "a time of None": (lambda: vl.Timestamps([None]), "seconds must be a finite number, got None"),
    "no such side": (lambda: vl.Timestamps([0.1], at="near"), "at must be one of nearest, before … got 'near'"),
    "a rate of 0": (lambda: vl.AtRate(0, 8), "fps must be positive, got 0"),
    "a rate in quotes": (lambda: vl.AtRate("8", 8), "fps must be a finite number, got '8'"),
    "a rate without a length": (lambda: vl.AtRate(8), "AtRate needs the argument length, such as length=16"),
    "a place that there is not": (lambda: vl.AtRate(8, 8, start="middle"), "start must be 'random' … got 'middle'"),
    "a length of a rate of 2.5": (lambda: vl.AtRate(8, 2.5), "length must be a positive integer, got 2.5"),
    "frames of a rate by another name": (
        lambda: vl.AtRate(8, num_frames=8),
        "AtRate has no argument num_frames … write length",
    ),
    "a gap in quotes": (lambda: vl.Triplets(gap="1"), "gap must be … '1'"),
    "no targets": (lambda: vl.FrameTuples((0, 2)), "FrameTuples needs the argument targets"),
    "a stride by position of all": (lambda: vl.WholeVideo(4), "WholeVideo takes nothing by … write stride=4, if"),
    "a stride of all in quotes": (lambda: vl.WholeVideo(stride="2"), "stride must be a positive integer, got '2'"),
    "a mode that is a number": (lambda: vl.NearKeyframes(16, within=2), "mode must be a frame mode, got 16"),
    "no distance": (lambda: vl.NearKeyframes(vl.RandomWindow(4)), "NearKeyframes needs the argument within"),
    "a column that is a number": (lambda: vl.PadColumn(3), "column must be the name of a column, got 3"),
    "a block in quotes": (lambda: vl.ShuffleBlocks("a"), "block must be a positive integer, got 'a'"),
    "webdataset's buffer": (lambda: vl.ShuffleVideos(buffer=3), "ShuffleVideos has no … it takes together"),
    "no size": (lambda: vl.Resize(), "Resize needs the argument size, such as size=224"),
    "a size of 0": (lambda: vl.Resize(0), "Resize's size must be a positive integer or … got 0"),
    "a negative size": (lambda: vl.Resize(-3), "Resize's size must be a positive integer or … got -3"),
    "a size in quotes": (lambda: vl.CenterCrop("224"), "CenterCrop's size must be a positive integer or … got '224'"),
    "a size of 224.0": (lambda: vl.Resize(224.0), "Resize's size must be a positive integer or … got 224.0"),
    "a size of one number in brackets": (lambda: vl.Resize((224,)), "Resize's size must be a positive integer"),
    "a size of None": (lambda: vl.Resize(None), "Resize needs a size, a max_size, or both"),
    "two sizes": (lambda: vl.Resize(32, 48), "Resize takes size by position and … write Resize((32, 48))"),
    "OpenCV's number for an interpolation": (
        lambda: vl.Resize(224, interpolation=2),
        "interpolation must be one of bilinear, bicubic, nearest, got 2",
    ),
    "no such interpolation": (
        lambda: vl.Resize(224, interpolation="nearest-exact"),
        "interpolation must be one of bilinear, bicubic, nearest, got 'nearest-exact'",
    ),
    "MMAction2's short_side": (lambda: vl.Resize(short_side=256), "Resize has no argument short_side … write size"),
    "a scale of one number": (lambda: vl.RandomResizedCrop(224, scale=0.5), "RandomResizedCrop's scale … 0.5"),
    "a scale of words": (lambda: vl.RandomResizedCrop(224, scale=("a", "b")), "RandomResizedCrop's scale … ('a', 'b')"),
    "a scale the wrong way round": (
        lambda: vl.RandomResizedCrop(112, scale=(1.0, 0.08)),
        "RandomResizedCrop … (1.0, 0.08)",
    ),
    "a scale in percent": (
        lambda: vl.RandomResizedCrop(112, scale=(8, 100)),
        "RandomResizedCrop's scale must be (low, high) with 0 < low <= high <= 1, got (8, 100)",
    ),
    "a ratio of 0": (lambda: vl.RandomResizedCrop(224, ratio=(0, 1)), "RandomResizedCrop … (0, 1)"),
    "MMAction2's area_range": (
        lambda: vl.RandomResizedCrop(224, area_range=(0.1, 1)),
        "RandomResizedCrop has no argument area_range … write scale",
    ),
    "MMAction2's flip_ratio": (lambda: vl.RandomHorizontalFlip(flip_ratio=0.5), "RandomHorizontalFlip … write p"),
    "another prob": (lambda: vl.RandomHorizontalFlip(prob=0.5), "RandomHorizontalFlip has no argument … write p"),
    "a probability of 2": (lambda: vl.RandomHorizontalFlip(p=2), "RandomHorizontalFlip's p must be a … got 2"),
    "a probability in quotes": (lambda: vl.RandomHorizontalFlip("0.5"), "RandomHorizontalFlip's p … got '0.5'"),
    "means of 0 to 255": (
        lambda: vl.Normalize([123.7, 116.3, 103.5], [58.4, 57.1, 57.4]),
        "Normalize's mean must be three values in [0, 1], got (123.7, 116.3, 103.5) … divide both by 255",
    ),
    "deviations of 0 to 255": (
        lambda: vl.Normalize([0.5] * 3, [58.4, 57.1, 57.4]),
        "Normalize's std must be three values in [0, 1], got (58.4, 57.1, 57.4) … divide both by 255",
    ),
    "means that are no numbers": (
        lambda: vl.Normalize([float("nan")] * 3),
        "Normalize's mean must be three values in [0, 1], got (nan, nan, nan) … divide both by 255",
    ),
    "means by name": (lambda: vl.Normalize("imagenet"), "Normalize's mean must be three … got 'imagenet'"),
    "means of two channels": (lambda: vl.Normalize(mean=[0.5, 0.5]), "Normalize's mean must be … got (0.5, 0.5)"),
    "a mean of grey": (lambda: vl.Normalize([0.5], [0.5]), "Normalize's mean must be three … got (0.5,)"),
    "deviations of 0": (lambda: vl.Normalize([0.5] * 3, [0.0] * 3), "Normalize's std must be … got (0.0"),
    "torchvision's inplace": (lambda: vl.Normalize(inplace=True), "Normalize has no … leave it out"),
    "MMAction2's to_bgr": (lambda: vl.Normalize(to_bgr=False), "Normalize has no argument … leave it out, frames"),
    "a jitter in quotes": (lambda: vl.ColorJitter("0.4"), "ColorJitter's brightness must be at … got '0.4'"),
    "a jitter below 0": (lambda: vl.ColorJitter(-1), "ColorJitter's brightness must be at least 0, or … got -1"),
    "a hue of 2": (lambda: vl.ColorJitter(hue=2), "ColorJitter's hue must be in [0, 0.5], or a … got 2"),
    "a contrast the wrong way round": (
        lambda: vl.ColorJitter(contrast=(2, 1)),
        "ColorJitter's contrast must be at least 0, or a range (low, high) or a … got (2, 1)",
    ),
    "an even kernel": (lambda: vl.GaussianBlur(4), "GaussianBlur's kernel_size must be one or two … got 4"),
    "a sigma below 0": (lambda: vl.GaussianBlur(3, sigma=-1), "GaussianBlur's sigma must be at … got -1"),
    "degrees in quotes": (lambda: vl.Rotate("10"), "Rotate's degrees must be a finite number, or a … got '10'"),
    "timm's word": (lambda: vl.RandAugment("rand-m9-n2"), "RandAugment's n must be an integer … got 'rand-m9-n2'"),
    "torchvision's num_ops": (lambda: vl.RandAugment(num_ops=2), "RandAugment has no argument num_ops … write n"),
    "torchvision's magnitude": (lambda: vl.RandAugment(magnitude=9), "RandAugment has no argument … write m"),
    "a magnitude of 100": (lambda: vl.RandAugment(m=100), "RandAugment's m must be an integer in [0, 30], got 100"),
    "a policy that there is not": (lambda: vl.AutoAugment("imagenet"), "AutoAugment's policy … got 'imagenet'"),
    "an alpha in quotes": (lambda: vl.MixUp("0.8", num_classes=10), "MixUp's alpha … '0.8'"),
    "an alpha below 0": (lambda: vl.MixUp(-1, num_classes=10), "MixUp's alpha … -1"),
    "no alpha": (lambda: vl.MixUp(), "MixUp needs the argument alpha, such as alpha=0.8"),
    "no classes": (lambda: vl.MixUp(0.8), "MixUp needs the argument num_classes, such as num_classes=400"),
    "timm's mixup_alpha": (lambda: vl.MixUp(mixup_alpha=0.8, num_classes=10), "MixUp has no argument … write alpha"),
    "classes in quotes": (lambda: vl.MixUp(0.8, num_classes="10"), "MixUp's num_classes must be a … got '10'"),
    "transforms one by one": (lambda: vl.Compose(vl.Resize(32), vl.Normalize()), "Compose takes … write"),
    "no transforms": (lambda: vl.Compose(), "Compose needs the argument transforms"),
    "transforms by name": (lambda: vl.Compose(["resize"]), "number 0 of the transforms is … write the transform it"),
    "both kinds of floats": (lambda: vl.Compose([vl.ToFloat(), vl.Normalize()]), "there is more … drop the ToFloat"),
    "weights by position": (
        lambda: vl.RandomChoice([vl.Invert(), vl.Grayscale()], [0.5, 0.5]),
        "RandomChoice takes transforms by position … write p=[0.5, 0.5]",
    ),
    "a transform that is called": (lambda: vl.Resize(32)(torch.zeros(3, 8, 8)), "a Resize is not a function … write"),
    "a probability of 3": (lambda: vl.RandomApply([vl.Invert()], p=3), "RandomApply's p must be a … got 3"),
    "a choice of none": (lambda: vl.RandomChoice([]), "RandomChoice's transforms must be a list of … got ()"),
    "a function that is none": (lambda: vl.PythonFunction(3), "PythonFunction's function is 3, which cannot be"),
    "a predicate that is none": (lambda: vl.When(3, vl.Invert()), "When's predicate must be a function … got 3"),
    "a divisor of ToFloat": (lambda: vl.ToFloat(255), "ToFloat's dtype must be one of float32, float16 … got 255"),
    "float64": (lambda: vl.ToFloat("float64"), "ToFloat's dtype must be one of float32, float16 … got 'float64'"),
    "four sides": (lambda: vl.Pad((1, 2, 3, 4)), "Pad's size must be a positive integer or … got (1, 2, 3, 4)"),
    "torchvision's padding_mode": (
        lambda: vl.Pad(64, padding_mode="constant", other=1),
        "Pad has no argument padding_mode … write mode",
    ),
    "a colour of a border by name": (lambda: vl.Pad(64, fill="red"), "Pad's fill must be one or three … got 'red'"),
    "a colour of shares": (
        lambda: vl.Letterbox(64, fill=(0.485, 0.456, 0.406)),
        "Letterbox's fill takes values from 0 to 255, got (0.485, 0.456, 0.406): multiply it by 255",
    ),
    "white as a share": (lambda: vl.Pad(64, fill=1.0), "Pad's fill takes values from 0 to 255, got 1.0: multiply it"),
    "gray as a share": (
        lambda: vl.RandomErasing(value=0.5),
        "RandomErasing's value takes values from … got 0.5: multiply it",
    ),
    "a colour of a policy above 255": (lambda: vl.RandAugment(fill=300), "RandAugment's fill must be … got 300"),
    "a colour of a crop's border": (lambda: vl.RandomCrop(9, fill=-1), "RandomCrop's fill must be … got -1"),
    "two channels of a warp's colour": (lambda: vl.Rotate(9, fill=(1, 2)), "Rotate's fill must be … got (1, 2)"),
    "two channels to erase with": (lambda: vl.RandomErasing(value=(1, 2)), "RandomErasing's value … got (1, 2)"),
    "a probability of erasing above 1": (lambda: vl.RandomErasing(p=1.5), "RandomErasing's p must be a … got 1.5"),
    "a scale of erasing of one number": (lambda: vl.RandomErasing(scale=0.5), "RandomErasing's scale … 0.5"),
    "a colour space that there is not": (lambda: vl.ConvertColor("rgb", "xyz"), "ConvertColor's target … got 'xyz'"),
    "a factor of 0": (lambda: vl.SpeedChange(0), "SpeedChange's factor … 0"),
    "an offset in quotes": (lambda: vl.TemporalJitter("1"), "TemporalJitter's max_offset must be … got '1'"),
    "PyTorchVideo's UniformTemporalSubsample": (
        lambda: vl.UniformTemporalSubsample,
        "module videoloader has no attribute UniformTemporalSubsample … write UniformFrames, a frame mode",
    ),
    "PyTorchVideo's ShortSideScale": (lambda: vl.transforms.ShortSideScale, "module … write Resize"),
    "torchvision's RandomRotation": (lambda: vl.RandomRotation, "module … write Rotate((-10, 10))"),
    "torchvision's RandomAffine": (lambda: vl.RandomAffine, "module … write Affine((-10, 10), translate="),
    "torchvision's RandomEqualize": (lambda: vl.RandomEqualize, "module … write RandomApply(Equalize(), p=0.5)"),
    "torchvision's RandomInvert": (lambda: vl.RandomInvert, "module … write RandomApply(Invert(), p=0.5)"),
    "torchvision's ElasticTransform": (lambda: vl.ElasticTransform, "write torchvision.transforms.v2.ElasticTransform"),
    "PyTorchVideo's RandomShortSideScale": (
        lambda: vl.RandomShortSideScale,
        "module … write RandomChoice([Resize(256), Resize(320)])",
    ),
    "PyTorchVideo's ApplyTransformToKey": (lambda: vl.ApplyTransformToKey, "module … leave it out"),
    "MMAction2's Flip": (lambda: vl.Flip, "module videoloader has no attribute Flip … write RandomHorizontalFlip"),
    "MMAction2's SampleFrames": (lambda: vl.SampleFrames, "module … write a frame mode, as RandomWindow(16"),
    "a crop in time": (lambda: vl.TemporalRandomCrop, "module … write RandomWindow, a frame mode"),
    "torchvision's ToTensor": (lambda: vl.transforms.ToTensor, "module … write ToFloat"),
    "torchvision's Lambda": (lambda: vl.Lambda, "module videoloader has no attribute Lambda … write PythonFunction"),
    "a mode that is changed": (
        lambda: setattr(vl.VideoEntry("a.mp4"), "label", 3),
        "label of a VideoEntry cannot be set … dataclasses.replace(entry, label=",
    ),
}
FRAMES = torch.zeros(4, 3, 8, 8, dtype=torch.uint8)
NO_METHOD = type("Mine", (vl.FrameMode,), {"pad": "edge"})
MISTAKES |= {
    "no draw": (
        lambda: vl.Compose([type("Mine", (vl.PixelTransform,), {})()])(FRAMES),
        "Mine lacks a method: write draw(self, rng, clip), which gives a list of operations",
    ),
    "no plan": (
        lambda: vl.Compose([type("Mine", (vl.GeometryStep,), {})()])(FRAMES),
        "Mine lacks a method: write plan(self, geometry, rng), which gives a Geometry",
    ),
    "no positions": (
        lambda: vl.Compose([type("Mine", (vl.TimeTransform,), {})()])(FRAMES),
        "Mine lacks a method: write positions(self, rng, length)",
    ),
    "a list of tensors": (
        lambda: vl.Compose([])(list(FRAMES)),
        "frames must be a tensor, got list: torch.stack makes one of several tensors",
    ),
    "a clip": (
        lambda: vl.Compose([])(vl.Video("a.mp4", device="cpu").read([0])),
        "frames must be a tensor, got Clip: give its frames, clip.frames",
    ),
    "a list to apply to": (
        lambda: vl.Compose([])(FRAMES, apply_to=[1]),
        "apply_to must be a dict of tensors … got a list",
    ),
    "a kind in the plural": (
        lambda: vl.Compose([])(FRAMES, apply_to={"masks": FRAMES[:, 0]}),
        "the keys of apply_to must be one of frames, mask, flow … got 'masks'",
    ),
    "masks by name": (
        lambda: vl.Compose([])(FRAMES, apply_to={"mask": {"person": FRAMES[:, 0]}}),
        "mask of apply_to must be a tensor, got a dict",
    ),
    "a set of transforms": (
        lambda: vl.Compose({vl.Invert(), vl.Resize(4)}),
        "transforms must be a list, got a set, which has no order",
    ),
    "a function of frames alone": (
        lambda: vl.PythonFunction(lambda frames: frames),
        "PythonFunction calls function(frames, rng), rng … takes (frames)",
    ),
    "a function of frames that come second": (
        lambda: vl.PythonFunction(lambda rng, frames: frames),
        "PythonFunction calls function(frames, rng), rng … takes (rng, frames)",
    ),
    "no num_clips": (lambda: NO_METHOD().num_clips(None), "Mine lacks a method: write num_clips(self, video)"),
    "no frame_numbers": (
        lambda: NO_METHOD().frame_numbers(None, 0, None),
        "Mine lacks a method: write frame_numbers(self, video, clip, rng), which gives int64[T]",
    ),
    "a column for a fact": (
        lambda: vl.Compose([vl.When(lambda clip: clip.night, vl.Invert())])(FRAMES),
        "a ClipInfo has no attribute night … it has clip.length, clip.height … clip.columns; a … clip.columns['night']",
    ),
}


@pytest.mark.parametrize(("call", "words"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_answered(call: Callable[[], object], words: str) -> None:
    check_answer(call, words)
