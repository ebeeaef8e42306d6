"""Arguments that a function does not have: one line that names the right one, in place of Python's own TypeError."""

from __future__ import annotations

import inspect
import reprlib
from collections.abc import Callable, Collection, Mapping
from difflib import get_close_matches
from functools import wraps
from types import FunctionType
from typing import Any, TypeVar, cast

from videoloader.errors import ArgumentError

_F = TypeVar("_F", bound=Callable[..., Any])
_LEAVE_OUT = "leave it out, "
# What other libraries call an argument: the names that it has here, of which the first that there is is meant.
_ELSEWHERE: Mapping[str, str] = {
    "augmentations": "transforms",
    "batch_sampler": "shuffle",
    "clip_len": "length",
    "clip_length": "length",
    "clips_per_video": "clips",
    "ctx": "device",
    "data_format": "layout",
    "dilation": "stride",
    "delimiter": "separator",
    "device_id": "device",
    "frame_interval": "stride",
    "frame_rate": "fps",
    "frame_step": "stride",
    "frames": "length count mode",
    "frames_per_clip": "length",
    "generator": "seed",
    "gpu": "device",
    "magnitude": "m",
    "num_clips": "clips",
    "num_frames": "length count frames_per_segment",
    "num_magnitude_bins": "bins",
    "num_ops": "n",
    "num_replicas": "num_shards",
    "num_samples": "count length",
    "num_segments": "segments",
    "num_threads": "num_workers",
    "output_format": "layout",
    "padding_mode": "mode pad",
    "path": "source dataset",
    "pipeline": "transforms",
    "prefetch_factor": "prefetch",
    "prefetch_queue_depth": "prefetch",
    "random_shuffle": "shuffle",
    "rank": "shard_id",
    "sampler": "shuffle",
    "sampling_rate": "stride",
    "sep": "separator",
    "sequence_length": "length",
    "threads": "num_workers",
    "timestamp": "seconds",
    "train_size": "share",
    "transform": "transforms",
    "weights": "ratios",
    "workers": "num_workers",
    "world_size": "num_shards",
}
# The same, where it takes more than another name: the name here, and what to do.
_OTHERWISE: Mapping[str, tuple[str, str]] = {
    "drop_last": ("last_batch", 'write last_batch="drop"'),
    "collate_fn": ("collate", 'write collate="stack", "pad" or "list"'),
    "persistent_workers": ("num_workers", _LEAVE_OUT + "threads live as long as the loader"),
    "multiprocessing_context": ("num_workers", _LEAVE_OUT + "there are threads and no processes"),
    "pin_memory": ("device", _LEAVE_OUT + "frames lie on the device asked for (see Batch.pin_memory)"),
    "min_width": ("condition", 'write condition="width >= …"'),
    "worker_init_fn": ("seed", _LEAVE_OUT + "all that is random follows from seed"),
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
        ArgumentError: an argument that there is not, is missing, or is given twice.
    """
    if isinstance(given, type):
        tell_of_arguments(given, methods=True)
        return given

    @wraps(given)
    def call(*args: Any, **arguments: Any) -> Any:
        try:
            return given(*args, **arguments)
        except TypeError as error:
            # One from inside of the function has a frame of its own.
            if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                raise
            raise ArgumentError(_what_is_wrong(given, args, arguments) or str(error)) from None

    return cast(_F, call)


def tell_of_arguments(public: object, *, methods: bool = False) -> None:
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
    parameters = dict(inspect.signature(function).parameters)
    name = function.__qualname__
    if (first := next(iter(parameters), None)) in ("self", "cls"):
        parameters.pop(first)
        owner, args = args[0], args[1:]
        name = (owner if first == "cls" else type(owner)).__name__
        name += "" if function.__name__ == "__init__" else f".{function.__name__}"
    by_place = [each.name for each in parameters.values() if each.kind is not each.KEYWORD_ONLY]
    by_name = [each for each in parameters if each not in by_place and each not in arguments]
    for given in arguments:
        if given not in parameters:
            return f"{name} has no argument {given}: {_instead(given, list(parameters))}"
    if len(args) > len(by_place):
        shown = f"{name} takes {' and '.join(by_place) or 'nothing'} by position and all else by name"
        extra = args[len(by_place) :]
        if by_place == ["size"] and len(args) == 2:
            return f"{shown}: write {name}(({', '.join(map(reprlib.repr, args))})) for a (height, width)"
        if not by_name:
            return f"{name} takes {len(by_place)} arguments, got {len(args)}: {reprlib.repr(extra[0])} is too many"
        return f"{shown}: write {by_name[0]}={reprlib.repr(extra[0])}, if that is what is meant"
    for twice in by_place[: len(args)]:
        if twice in arguments:
            return f"{name} is given {twice} twice: by position and by name"
    for each in parameters.values():
        if each.default is each.empty and each.name not in (*by_place[: len(args)], *arguments):
            example = f", such as {each.name}={_EXAMPLES[each.name]}" if each.name in _EXAMPLES else ""
            return f"{name} needs the argument {each.name}{example}"
    return None


def named_elsewhere(given: str, known: Collection[str]) -> str | None:
    """What to write for an argument that other libraries have; None where none of the known ones is meant.

    Example:
        >>> named_elsewhere("drop_last", ["last_batch"]), named_elsewhere("num_threads", ["num_workers"])
        ('write last_batch="drop"', 'write num_workers')
    """
    ours, instead = _OTHERWISE.get(given, ("", ""))
    if ours in known:
        return instead
    return next((f"write {name}" for name in _ELSEWHERE.get(given, "").split() if name in known), None)


def _instead(given: str, known: list[str]) -> str:
    alike = [f"write {name}" for name in get_close_matches(given.lower(), known, n=1)]
    return (
        named_elsewhere(given, known) or next(iter(alike), None) or f"it takes {', '.join(known) if known else 'none'}"
    )
