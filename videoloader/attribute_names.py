"""Names that objects and modules do not have: one line that says what to write, in place of Python's own error.

The names are those of PyTorch's DataLoader, torchvision, torchcodec, decord, DALI, PyTorchVideo and MMAction2.
"""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, cast

from videoloader.argument_names import alike, named_elsewhere
from videoloader.errors import MissingAttributeError

_C = TypeVar("_C", bound=type)
# What to write, for each class, in place of a name that it does not have.
_ATTRIBUTES = {
    kind: {name: text for names, text in rows for name in names.split()}
    for kind, rows in {
        "Video": (
            ("average_fps frame_rate get_avg_fps", "video.fps"),
            ("count_frames frame_count num_frames", "len(video)"),
            ("duration_seconds", "video.duration"),
            ("get_batch get_frames_at", "video[[0, 5, 9]]"),
            ("get_clip get_frames_played_in_range", "video.between(2.0, 4.0)"),
            ("get_frame_at seek_accurate", "video[5]"),
            ("get_frame_played_at", "video.at(1.5)"),
            ("get_frame_timestamp", "video.timestamps[5]"),
            ("get_frames_in_range skip_frames", "video[10:40:2]"),
            ("get_frames_played_at", "video.read(Timestamps([0.5, 1.5]))"),
            ("get_key_indices", "video.read_clips(Keyframes())"),
            ("get_metadata metadata", "video.fps, video.duration, video.shape or video.codec"),
            ("next", "for frame in video"),
            ("seek", "video[5] or video.at(1.5)"),
            ("set_current_stream", "Video(source, stream_index=1)"),
            ("size", "video.height and video.width, or video.shape"),
            ("transform transforms", "video.read(mode, transforms=[…])"),
        ),
        "Clip": (
            ("fps", "video.fps"),
            ("labels", "batch.labels; clips of a Video have none"),
            ("pts pts_seconds", "clip.timestamps"),
        ),
        "Batch": (
            ("clip data image images imgs pixel_values video videos x", "batch.frames"),
            ("cpu", 'batch.to("cpu")'),
            ("cuda", 'batch.to("cuda")'),
            ("fps", "batch.timestamps"),
            ("indices", "batch.rows or batch.clips"),
            ("items keys", "batch.frames, batch.labels, …"),
            ("label y", "batch.labels"),
        ),
        "VideoDataset": (
            ("class_to_idx", "data.class_names.index(name)"),
            ("classes", "data.class_names"),
            ("column_names", "data.table"),
            ("columns", "data[0].columns, or data.table"),
            ("map transform transforms", "VideoLoader(data, …, transforms=[…])"),
            ("num_clips", "VideoLoader(data, mode, …).num_clips"),
            ("random_split train_test_split", "data.split(0.8)"),
            ("samples", "data.paths and data.labels"),
            ("select", "data[[0, 3]]"),
            ("shuffle", "VideoLoader(data, …, shuffle=True)"),
            ("targets", "data.labels"),
            ("video_paths", "data.paths"),
        ),
        "VideoEntry": (
            ("end", "entry.stop"),
            ("name video_path", "entry.path"),
        ),
        "VideoLoader": (
            ("batch_sampler sampler", "loader.set_epoch(epoch); the order is chosen by shuffle="),
            ("dataset", "loader.num_clips for the clips in an epoch; the data set is what the loader was made of"),
            ("epoch", "loader.set_epoch(epoch)"),
            ("epoch_size", "loader.num_clips, or len(loader) batches"),
            ("next run", "next(iter(loader))"),
            ("reset", "for batch in loader: every loop is an epoch"),
            ("num_batches size", "len(loader)"),
        ),
        "IndexStore": (
            ("add build", "build_store(paths, store)"),
            ("execute sql", "store.query(sql)"),
            ("items paths sources videos", 'store.query("SELECT source FROM videos")'),
        ),
        "module": (
            ("ConvertImageDtype ToTensor", "ToFloat"),
            ("ClipDataset", "videoloader.interop.torch.ClipDataset"),
            ("ClipRequest", "videoloader.interop.torch.ClipRequest"),
            ("DataLoader", "VideoLoader"),
            ("DecodingLoader", "videoloader.interop.torch.DecodingLoader"),
            ("EncodedVideo VideoDecoder VideoReader", "Video"),
            ("Lambda", "PythonFunction"),
            ("RandomClip", "RandomWindow, a frame mode"),
            ("RandomFlip", "RandomHorizontalFlip"),
            ("RandomRotation", "Rotate"),
            ("RandomShortSideScale RandomShortestSize ShortSideScale", "Resize"),
            ("UniformTemporalSubsample", "UniformFrames, a frame mode"),
            ("VideoClips", "VideoDataset and a frame mode, such as RandomWindow(16)"),
            ("cpu", 'device="cpu"'),
            ("gpu", 'device="cuda"'),
            ("interop", "from videoloader.interop.torch import ClipDataset (or lightning, huggingface, arrays, ray)"),
            ("k400", "layouts.kinetics"),
            ("read_video", "Video(path)[:]"),
            ("ssv2", "layouts.something_something"),
        ),
    }.items()
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
    meant = _ATTRIBUTES["module"].get(name) or alike(name, known)
    told = f"write {meant}" if meant else f"dir({module}) lists what it has"
    return MissingAttributeError(f"module {module} has no attribute {name}: {told}")


def tells_of_attributes(called: str, frames: str = "") -> Callable[[_C], _C]:
    """Decorate a class: an attribute that is unknown, or is set in vain, raises an error that says what to write.

    Args:
        called: name of an object in examples.
        frames: expression for the tensor of frames that it has, whose methods may be meant.
    """

    def decorate(public: _C) -> _C:
        name_of, arguments = public.__name__, list(inspect.signature(public).parameters)
        one = f"an {name_of}" if name_of[0] in "AEIOU" else f"a {name_of}"
        tables = [_ATTRIBUTES.get(base.__name__, {}) for base in public.__mro__]
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
                close = alike(name, there)
                told = f"write {called}.{close}" if close else f"it has {', '.join(there)}"
            return MissingAttributeError(f"{one} has no attribute {name}: {told}")

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
                raise MissingAttributeError(f"{name} of {one} cannot be set: {told}") from None

        def set_known(self: Any, name: str, value: object) -> None:
            # Code of the library may set anything; subclasses may add attributes.
            of_others = not sys._getframe(1).f_globals["__name__"].startswith("videoloader.")
            if of_others and type(self) is public and not name.startswith("_"):
                if name in vars(self) or isinstance(vars(public).get(name), property):
                    raise MissingAttributeError(f"{name} of {one} cannot be set: make another")
                if elsewhere(name):
                    raise missing(self, name)
            sets(self, name, value)

        changed = {"__getattr__": read, "__setattr__": set_frozen if is_frozen else set_known}
        for method, function in changed.items():
            setattr(public, method, function)
        return public

    return decorate


def _is_of_tensors(name: str) -> bool:
    import torch

    return hasattr(torch.Tensor, name)
