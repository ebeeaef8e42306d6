"""Arguments that a function does not have: one line that names the right one, in place of Python's own TypeError."""

from __future__ import annotations

import inspect
import reprlib
from collections.abc import Callable, Collection, Iterable, Mapping
from difflib import get_close_matches
from functools import wraps
from types import FunctionType
from typing import Any, TypeVar, cast

from videoloader.argument_types import argument_of_wrong_type, may_be
from videoloader.errors import ArgumentError, VideoLoaderError

_F = TypeVar("_F", bound=Callable[..., Any])
_LEAVE_OUT = "leave it out, "
# Names of other libraries, and the names here; the first one that the function has is meant.
_ELSEWHERE = {
    name: ours
    for names, ours in (
        ("annotation_file", "path"),
        ("area_range", "scale"),
        ("aspect_ratio_range", "ratio"),
        ("augmentations pipeline transform", "transforms"),
        ("batch_sampler random_shuffle sampler", "shuffle"),
        ("clip_len clip_length frames_per_clip sequence_length", "length"),
        ("clips_per_video num_clips", "clips"),
        ("crop_size short_side", "size"),
        ("ctx device_id gpu", "device"),
        ("data_format output_format", "layout"),
        ("data_prefix data_root", "root"),
        ("delimiter sep", "separator"),
        ("dilation frame_interval frame_step sampling_rate step", "stride"),
        ("end", "stop"),
        ("end_sec end_time", "stop_seconds"),
        ("flip_ratio prob", "p"),
        ("frame_rate", "fps"),
        ("frames", "length count mode"),
        ("generator", "seed"),
        ("magnitude", "m"),
        ("mixup_alpha", "alpha"),
        ("names", "header class_names"),
        ("num_frames", "length count frames_per_segment"),
        ("num_magnitude_bins", "bins"),
        ("num_ops", "n"),
        ("num_replicas world_size", "num_shards"),
        ("num_samples", "count length"),
        ("num_segments", "segments"),
        ("num_threads threads workers", "num_workers"),
        ("padding_mode", "mode pad"),
        ("path", "source dataset"),
        ("prefetch_factor prefetch_queue_depth", "prefetch"),
        ("rank shard", "shard_id"),
        ("start_sec start_time", "start_seconds"),
        ("targets", "labels"),
        ("timestamp", "seconds"),
        ("train_size", "share"),
        ("video_path", "source path"),
        ("weights", "ratios"),
    )
    for name in names.split()
}
# The same, where it takes more than another name: names elsewhere, the argument here, and what to do.
_INSTEAD = (
    ("drop_last", "last_batch", 'write last_batch="drop"'),
    ("collate_fn", "collate", 'write collate="stack", "pad" or "list"'),
    (
        "in_order pin_memory_device timeout",
        "num_workers",
        _LEAVE_OUT + "batches come in order, and on the device asked for",
    ),
    ("persistent_workers", "num_workers", _LEAVE_OUT + "threads live as long as the loader"),
    ("multiprocessing_context", "num_workers", _LEAVE_OUT + "there are threads and no processes"),
    ("min_width", "condition", 'write condition="width >= …"'),
    ("pin_memory", "device", _LEAVE_OUT + "frames lie on the device asked for (see Batch.pin_memory)"),
    ("worker_init_fn", "seed", _LEAVE_OUT + "all that is random follows from seed"),
    ("epochs num_epochs", "seed", _LEAVE_OUT + "each loop over the loader is an epoch"),
    (
        "clip_len clip_length clip_sampler clips_per_video frame_interval frames_per_clip num_clips num_frames "
        "sampling_rate sequence_length step stride",
        "batch_size",
        "give it to the mode, as RandomWindow(16, stride=4)",
    ),
    (
        "crop_size height image_size img_size input_size mean resize shape size std width",
        "transforms",
        "give it to a transform, as transforms=[Resize(224), Normalize()]",
    ),
    (
        "file_list file_root filenames labels paths root video_path",
        "dataset",
        "give it to the dataset, as VideoDataset.from_folder(root)",
    ),
    ("fps frame_rate", "stride", "write AtRate(fps, length), a mode of its own"),
    (
        "clip_length_in_frames clip_sampler frame_rate frames_between_clips frames_per_clip num_frames "
        "step_between_clips",
        "class_names",
        "give it to the loader's mode, as RandomWindow(16, stride=4)",
    ),
    ("folder root", "entries", "write VideoDataset.from_folder(root)"),
    ("transform transforms", "class_names", "give it to the loader, as VideoLoader(data, mode, transforms=[…])"),
    ("num_ffmpeg_threads num_threads", "source", _LEAVE_OUT + "all cores are used"),
    ("seek_mode", "source", _LEAVE_OUT + "every frame is exact"),
    ("dimension_order", "source", _LEAVE_OUT + "frames are [3, H, W]; video.read has layout="),
    ("height width", "source", _LEAVE_OUT + "frames have the video's size; video.read has transforms="),
    ("inplace to_bgr to_rgb", "mean", _LEAVE_OUT + "frames are RGB, and new"),
    ("test_mode", "jitter", "write jitter=False"),
)
_OTHERWISE: Mapping[str, Mapping[str, str]] = {
    name: {ours: instead for names, ours, instead in _INSTEAD if name in names.split()}
    for each, _, _ in _INSTEAD
    for name in each.split()
}
_EXAMPLES: Mapping[str, str] = {
    "dataset": 'VideoDataset.from_folder("videos")',
    "mode": "RandomWindow(16, stride=4)",
    "batch_size": "8",
    "length": "16",
    "size": "224",
    "alpha": "0.8",
    "num_classes": "400",
}


def tells_of_arguments(given: _F) -> _F:
    """The same function, which names the right arguments where it is called with others; of a class all public ones.

    Methods of a class that Python calls by itself, such as ``__getitem__``, stay as they are, and cost no more.

    Raises:
        ArgumentError: an argument that there is not, is missing, or is given twice; or the function fails with an
            error that is none of the library, and an argument is not of its type.
    """
    if isinstance(given, type):
        wrap_constructors(given, methods=True)
        return given

    @wraps(given)
    def call(*args: Any, **arguments: Any) -> Any:
        try:
            return given(*args, **arguments)
        except VideoLoaderError:
            raise
        except Exception as error:
            # A TypeError of the call itself (wrong arguments) has no traceback entry below this one.
            if isinstance(error, TypeError) and error.__traceback__ and error.__traceback__.tb_next is None:
                raise ArgumentError(_what_is_wrong(given, args, arguments) or str(error)) from None
            if (wrong := argument_of_wrong_type(given, args, arguments)) is None:
                raise
            raise ArgumentError(f"{_name(given, args)}'s {wrong}") from error

    return cast(_F, call)


def wrap_constructors(public: object, *, methods: bool = False) -> None:
    """Let a class's constructors name the right arguments, in place; whatever is no class stays as it is.

    Args:
        public: the class.
        methods: whether all other public methods do so, too.
    """
    if not isinstance(public, type):
        return
    for owner in public.__mro__:
        for name, made in list(vars(owner).items()):
            kind = type(made) if isinstance(made, classmethod | staticmethod) else None
            function = made if kind is None else made.__func__
            # A protocol's constructor is Python's own.
            if not isinstance(function, FunctionType) or not function.__module__.startswith("videoloader."):
                continue
            told = name == "__init__" or kind is classmethod or (methods and not name.startswith("_"))
            if told and not hasattr(function, "__wrapped__"):
                wrapped = tells_of_arguments(function)
                setattr(owner, name, wrapped if kind is None else kind(wrapped))


def _what_is_wrong(function: Callable[..., Any], args: tuple[Any, ...], arguments: Mapping[str, Any]) -> str | None:
    parameters, all_args = dict(inspect.signature(function).parameters), args
    name = _name(function, args)
    if next(iter(parameters), None) in ("self", "cls"):
        parameters.pop(next(iter(parameters)))
        args = args[1:]
    by_place = [each.name for each in parameters.values() if each.kind is not each.KEYWORD_ONLY]
    by_name = [each for each in parameters if each not in by_place and each not in arguments]
    for given in arguments:
        if given not in parameters:
            instead = named_elsewhere(given, parameters)
            if instead is None:
                close = alike(given, parameters)
                instead = f"write {close}" if close else f"it takes {', '.join(parameters) or 'none'}"
            return f"{name} has no argument {given}: {instead}"
    if len(args) > len(by_place):
        shown = f"{name} takes {' and '.join(by_place) or 'nothing'} by position and all else by name"
        extra = args[len(by_place) :]
        if by_place == ["size"] and len(args) == 2:
            return f"{shown}: write {name}(({', '.join(map(reprlib.repr, args))})) for a (height, width)"
        if by_place == ["transforms"]:
            return f"{shown}: write {name}([{', '.join(type(each).__name__ + '(…)' for each in args)}])"
        if not by_name:
            return f"{name} takes {len(by_place)} arguments, got {len(args)}: {reprlib.repr(extra[0])} is too many"
        if not may_be(function, all_args, by_name[0], extra[0]):
            return f"{shown} ({', '.join(by_name)}), got {reprlib.repr(extra[0])}"
        return f"{shown}: write {by_name[0]}={reprlib.repr(extra[0])}, if that is what is meant"
    for twice in by_place[: len(args)]:
        if twice in arguments:
            return f"{name} is given {twice} twice: by position and by name"
    for each in parameters.values():
        if each.default is each.empty and each.name not in (*by_place[: len(args)], *arguments):
            example = f", such as {each.name}={_EXAMPLES[each.name]}" if each.name in _EXAMPLES else ""
            return f"{name} needs the argument {each.name}{example}"
    return None


def _name(function: Callable[..., Any], args: tuple[Any, ...]) -> str:
    """What a user calls it: a class, a method by the class that the user has, or a function."""
    first = next(iter(inspect.signature(function).parameters), None)
    if first not in ("self", "cls") or not args:
        return function.__qualname__
    owner = (args[0] if first == "cls" else type(args[0])).__name__
    return owner if function.__name__ == "__init__" else f"{owner}.{function.__name__}"


def named_elsewhere(given: str, known: Collection[str]) -> str | None:
    """What to write for an argument that other libraries have; None where none of the known ones is meant.

    Example:
        >>> named_elsewhere("drop_last", ["last_batch"]), named_elsewhere("num_threads", ["num_workers"])
        ('write last_batch="drop"', 'write num_workers')
    """
    for ours, instead in _OTHERWISE.get(given, {}).items():
        if ours in known:
            return instead
    return next((f"write {name}" for name in _ELSEWHERE.get(given, "").split() if name in known), None)


def alike(given: str, known: Iterable[str]) -> str | None:
    """Of the known names the one that is spelled most alike, whatever the case; None where none is close."""
    by_lower = {each.lower(): each for each in known}
    meant = get_close_matches(given.lower(), by_lower, n=1, cutoff=0.65)
    return by_lower[meant[0]] if meant else None
