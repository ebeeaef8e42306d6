"""Names that objects and modules do not have: one line that says what to write, in place of Python's own error.

The names are those of PyTorch's DataLoader, torchvision, torchcodec, decord, DALI, PyTorchVideo and MMAction2.
"""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from typing import Any, TypeVar, cast

from videoloader.argument_names import named_elsewhere
from videoloader.errors import MissingAttributeError

_C = TypeVar("_C", bound=type)
_LISTED = "video[[0, 5, 9]]"
_AT_TIMES = "video.read(Timestamps([0.5, 1.5]))"
_READ = "video.read(mode, transforms=[…])"
_TRANSFORMS = "VideoLoader(data, …, transforms=[…])"
_DATASET = "loader.num_clips for the clips in an epoch; the data set is what the loader was made of"
# What to write, for each class, in place of a name that it does not have.
_INSTEAD: Mapping[str, Mapping[str, str]] = {
    "Video": {
        "average_fps": "video.fps",
        "count_frames": "len(video)",
        "duration_seconds": "video.duration",
        "frame_count": "len(video)",
        "frame_rate": "video.fps",
        "get_avg_fps": "video.fps",
        "get_batch": _LISTED,
        "get_clip": "video.between(2.0, 4.0)",
        "get_frame_at": "video[5]",
        "get_frame_played_at": "video.at(1.5)",
        "get_frame_timestamp": "video.timestamps[5]",
        "get_frames_at": _LISTED,
        "get_frames_in_range": "video[10:40:2]",
        "get_frames_played_at": _AT_TIMES,
        "get_frames_played_in_range": "video.between(2.0, 4.0)",
        "get_key_indices": "video.read_clips(Keyframes())",
        "get_metadata": "video.fps, video.duration, video.shape or video.codec",
        "metadata": "video.fps, video.duration, video.shape or video.codec",
        "next": "for frame in video",
        "num_frames": "len(video)",
        "seek": "video[5] or video.at(1.5)",
        "seek_accurate": "video[5]",
        "set_current_stream": "Video(source, stream_index=1)",
        "size": "video.height and video.width, or video.shape",
        "skip_frames": "video[10:40:2]",
        "transform": _READ,
        "transforms": _READ,
    },
    "Clip": {"fps": "video.fps", "labels": "batch.labels; clips of a Video have none", "pts": "clip.timestamps"},
    "Batch": {
        "clip": "batch.frames",
        "cpu": 'batch.to("cpu")',
        "cuda": 'batch.to("cuda")',
        "data": "batch.frames",
        "fps": "batch.timestamps",
        "image": "batch.frames",
        "images": "batch.frames",
        "imgs": "batch.frames",
        "indices": "batch.rows or batch.clips",
        "items": "batch.frames, batch.labels, …",
        "keys": "batch.frames, batch.labels, …",
        "label": "batch.labels",
        "pixel_values": "batch.frames",
        "video": "batch.frames",
        "videos": "batch.frames",
        "x": "batch.frames",
        "y": "batch.labels",
    },
    "VideoDataset": {
        "class_to_idx": "data.class_names.index(name)",
        "classes": "data.class_names",
        "column_names": "data.table",
        "columns": "data[0].columns, or data.table",
        "map": _TRANSFORMS,
        "num_clips": "VideoLoader(data, mode, …).num_clips",
        "random_split": "data.split(0.8)",
        "samples": "data.paths and data.labels",
        "select": "data[[0, 3]]",
        "shuffle": "VideoLoader(data, …, shuffle=True)",
        "targets": "data.labels",
        "train_test_split": "data.split(0.8)",
        "transform": _TRANSFORMS,
        "transforms": _TRANSFORMS,
        "video_paths": "data.paths",
    },
    "VideoEntry": {"end": "entry.stop", "name": "entry.path", "video_path": "entry.path"},
    "VideoLoader": {
        "batch_sampler": "loader.set_epoch(epoch); the order is chosen by shuffle=",
        "dataset": _DATASET,
        "epoch": "loader.set_epoch(epoch)",
        "epoch_size": "loader.num_clips, or len(loader) batches",
        "next": "next(iter(loader))",
        "reset": "for batch in loader: every loop is an epoch",
        "run": "next(iter(loader))",
        "sampler": "loader.set_epoch(epoch); the order is chosen by shuffle=",
        "size": "len(loader)",
    },
    "module": {
        "ConvertImageDtype": "ToFloat",
        "DataLoader": "VideoLoader",
        "EncodedVideo": "Video",
        "Lambda": "PythonFunction",
        "RandomShortSideScale": "Resize",
        "RandomShortestSize": "Resize",
        "ShortSideScale": "Resize",
        "ToTensor": "ToFloat",
        "UniformTemporalSubsample": "UniformFrames, a frame mode",
        "VideoClips": "VideoDataset and a frame mode, such as RandomWindow(16)",
        "VideoDecoder": "Video",
        "VideoReader": "Video",
        "cpu": 'device="cpu"',
        "gpu": 'device="cuda"',
        "interop": "from videoloader.interop.torch import ClipDataset (or lightning, huggingface, arrays, ray)",
        "k400": "layouts.kinetics",
        "read_video": "Video(path)[:]",
        "ssv2": "layouts.something_something",
    },
}


def no_such_name(module: str, name: str, known: Iterable[str]) -> MissingAttributeError:
    """The error for a name that a module does not have.

    Args:
        module: its name.
        name: that there is not.
        known: names that there are.

    Example:
        >>> print(no_such_name("videoloader", "RandomWindws", ["RandomWindow"]))
        module videoloader has no attribute RandomWindws: write RandomWindow
    """
    meant = _INSTEAD["module"].get(name) or _alike(name, known)
    told = f"write {meant}" if meant else f"dir({module}) lists what it has"
    return MissingAttributeError(f"module {module} has no attribute {name}: {told}")


def tells_of_attributes(called: str, frames: str = "") -> Callable[[_C], _C]:
    """Decorate a class: a name that its objects lack is told of when it is read, and one that does nothing when set.

    Args:
        called: name of an object in examples.
        frames: expression for the tensor of frames that it has, whose methods may be meant.
    """

    def decorate(public: _C) -> _C:
        name_of, arguments = public.__name__, list(inspect.signature(public).parameters)
        tables = [_INSTEAD.get(base.__name__, {}) for base in public.__mro__]
        instead = {name: text for table in tables for name, text in table.items()}
        is_frozen, sets = dataclasses.is_dataclass(public), cast(Any, public.__setattr__)

        def elsewhere(name: str) -> str | None:
            if name in instead:
                return f"write {instead[name]}"
            if name in arguments:
                return f"it is only an argument, {name_of}(…, {name}=…)"
            other = None if is_frozen else named_elsewhere(name, arguments)
            return other and f"{other}, where the {name_of} is made"

        def missing(self: Any, name: str) -> MissingAttributeError:
            told = elsewhere(name)
            if told is None and frames and _is_of_tensors(name):
                told = f"write {frames}.{name}"
            if told is None:
                there = [each for each in dir(self) if not each.startswith("_")]
                alike = _alike(name, there)
                told = f"write {called}.{alike}" if alike else f"it has {', '.join(there)}"
            return MissingAttributeError(f"a {name_of} has no attribute {name}: {told}")

        def read(self: Any, name: str) -> Any:
            if name.startswith("_"):
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            if hasattr(type(self), name):
                # A property that fails has an error of its own, which comes again.
                return object.__getattribute__(self, name)
            raise missing(self, name)

        def set_frozen(self: Any, name: str, value: object) -> None:
            try:
                sets(self, name, value)
            except dataclasses.FrozenInstanceError:
                if not hasattr(self, name):
                    raise missing(self, name) from None
                told = f"dataclasses.replace({called}, {name}=…) makes another" if name in arguments else "make another"
                raise MissingAttributeError(f"{name} of a {name_of} cannot be set: {told}") from None

        def set_known(self: Any, name: str, value: object) -> None:
            # The library sets what it likes, and subclasses have attributes of their own.
            of_others = not sys._getframe(1).f_globals["__name__"].startswith("videoloader.")
            if of_others and type(self) is public and not name.startswith("_"):
                if name in vars(self) or isinstance(vars(public).get(name), property):
                    raise MissingAttributeError(f"{name} of a {name_of} cannot be set: make another")
                if elsewhere(name):
                    raise missing(self, name)
            sets(self, name, value)

        changed = {"__getattr__": read, "__setattr__": set_frozen if is_frozen else set_known}
        for method, function in changed.items():
            setattr(public, method, function)
        return public

    return decorate


def _alike(name: str, known: Iterable[str]) -> str | None:
    by_lower = {each.lower(): each for each in known}
    meant = get_close_matches(name.lower(), by_lower, n=1, cutoff=0.7)
    return by_lower[meant[0]] if meant else None


def _is_of_tensors(name: str) -> bool:
    import torch

    return hasattr(torch.Tensor, name)
