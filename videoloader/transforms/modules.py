"""Third-party transforms: modules of PyTorch, torchvision and Kornia, and plain Python functions."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, TypeVar, get_args

import numpy as np
import numpy.typing as npt
import torch

from videoloader.convert.rounding import round_to
from videoloader.convert.spec import Layout, as_planes
from videoloader.errors import ArgumentError, ConfigurationError, warn_user
from videoloader.errors.checks import array_of, check_choice
from videoloader.errors.notes import note_rows
from videoloader.errors.of_handlers import errors_suppressed
from videoloader.errors.short_text import short_text
from videoloader.transforms.foreign_randomness import WATCHED_CALLS, generator_states, tell_of_foreign_randomness
from videoloader.transforms.operations import BatchFunction, ClipInfo, Params, PixelTransform

View: TypeAlias = Literal["clip", "batch", "frames"]
Values: TypeAlias = Literal["uint8", "float"]
Per: TypeAlias = Literal["clip", "batch"]
Frames: TypeAlias = npt.NDArray[np.uint8]
_F = TypeVar("_F")
# Calls of a module whose floats are checked: a wrong scale shows in the first ones, and checking waits for a GPU.
_CHECKED_CALLS = 4
# The most that rounding may exceed [0, 1].
_TOLERANCE = 1 / 255
# torchvision's classes that change the scale of pixel values.
_CHANGE_SCALE = {"ToDtype", "ToTensor", "ConvertImageDtype", "Normalize"}


@dataclass(frozen=True, eq=False)
class Module(PixelTransform):
    """Run a ``torch.nn.Module``, or any function on a tensor, on the frames of a batch on their device.

    A module in the list of transforms is the same as ``Module(module)``. Before ``Normalize`` it gets uint8 of 0 … 255,
    or floats in [0, 1] that are rounded afterwards, and must keep dtype, scale and size. Returning floats for uint8, or
    in the first calls floats outside [0, 1], is an error; returning uint8 of only 0 and 1 gives a warning. After
    ``Normalize`` or ``ToFloat`` it gets the floats unchanged, and may change their scale and the frames' size.

    Its randomness must come from PyTorch's global generators. They are seeded for each call from the clips' own
    generators, and restored afterwards, so that the frames depend on the loader's seed alone. That is why modules run
    in the consumer's thread when it asks for a batch, and not ahead. No gradients are recorded. A module with
    parameters must be on the loader's device.

    Args:
        module: module or function. It takes a tensor and returns one.
        view: str, default None, see below. The input of one call: ``"clip"`` is [T, 3, H, W] of one clip, ``"batch"``
            [N, T, 3, H, W], ``"frames"`` [N · T, 3, H, W]. With several clips in a call, random results depend on which
            clips share the batch.
        values: str, default None, see below. The type before ``Normalize``: ``"uint8"`` or ``"float"``.

        The defaults are ``"clip"`` and ``"uint8"`` for torchvision's transforms, so that all frames of a clip are
        transformed alike; ``"batch"`` and ``"float"`` for Kornia's, which are wrapped in a ``VideoSequential`` for the
        same reason; and ``"frames"`` and ``"uint8"`` for others.

    Raises:
        ConfigurationError: the module cannot be called, or there is no such view or kind of values; in use, the module
            changes the shape, dtype or scale of frames.

    Examples:
        >>> transforms = [Module(denoiser, values="float"), Normalize()]
    """

    module: Callable[[torch.Tensor], torch.Tensor]
    view: View | None = field(default=None, kw_only=True)
    values: Values | None = field(default=None, kw_only=True)
    _checks_left: int = field(default=_CHECKED_CALLS, init=False, repr=False)
    _watches_left: int = field(default=WATCHED_CALLS, init=False, repr=False)

    def __post_init__(self) -> None:
        if not callable(self.module):
            raise ConfigurationError(f"Module's module is {self.module!r}, which cannot be called")
        view, values = "frames", "uint8"
        if _comes_from("torchvision.transforms", self.module):
            view = "clip"
        elif _comes_from("kornia", self.module):
            view, values = "batch", "float"
            if self.view is None:
                object.__setattr__(self, "module", _video_sequential(self.module))
        object.__setattr__(self, "view", view if self.view is None else self.view)
        object.__setattr__(self, "values", values if self.values is None else self.values)
        check_choice("Module's view", self.view, get_args(View))
        check_choice("Module's values", self.values, get_args(Values))

    def check_keeps_pixels(self) -> None:
        """Raise ConfigurationError if the module is known to change the scale, and so cannot come before Normalize."""
        makes_floats = ""
        for step in _nested_steps(self.module):
            name = type(step).__name__
            if name in _CHANGE_SCALE and _comes_from("torchvision.transforms", step):
                makes_floats = "" if getattr(step, "dtype", None) == torch.uint8 else name
        if makes_floats:
            instead = "vl.Normalize(mean, std)" if makes_floats == "Normalize" else "vl.ToFloat()"
            raise ConfigurationError(
                f"torchvision's {makes_floats} makes floats that would become pixels again: write {instead} in its "
                "place, after all that changes pixels, or nothing where vl.Normalize follows"
            )

    def draw(self, rng: np.random.Generator, clip: ClipInfo) -> list[BatchFunction]:
        """Return the seed of the clip's randomness."""
        return [BatchFunction(self, {"seed": np.array(rng.integers(1 << 63))})]

    def __call__(self, frames: torch.Tensor, params: Params) -> torch.Tensor:
        """Call the module on uint8[N, T, 3, H, W], or on floats in that order; ``params`` has ``seed`` int64[N].

        Raises:
            ConfigurationError: see above.
        """
        pixels = not frames.is_floating_point()
        given = frames.float() / 255 if pixels and self.values == "float" else frames
        with torch.no_grad():
            result = self._in_view(given, params["seed"])
        kept = 5 if pixels else 3
        if result.ndim != 5 or result.shape[:kept] != frames.shape[:kept]:
            instead = (
                "to change their size use vl.CenterCrop or vl.Resize, or put it after vl.Normalize or vl.ToFloat; for "
                'another order of dimensions give layout, such as layout="CTHW"'
            )
            if result.ndim == 5 and result.shape[:2] == frames.shape[:2] and result.shape[3:] == frames.shape[3:]:
                instead = "frames keep their three channels, so call it on batch.frames instead"
            raise ConfigurationError(
                f"{self._name} made {list(result.shape)} of frames {list(frames.shape)}, which are clips of TCHW: "
                f"{instead}"
            )
        if pixels and result.dtype == torch.uint8:
            self._warn_of_ones(result, frames)
            return result
        if not result.is_floating_point():
            raise ConfigurationError(f"{self._name} made {result.dtype} of {given.dtype}")
        if not pixels:
            return result.to(frames.dtype)
        self._check_scale(result, given)
        return round_to(result.float() * 255, torch.uint8)

    def _warn_of_ones(self, result: torch.Tensor, frames: torch.Tensor) -> None:
        """Warn if a module that expects floats in [0, 1], and clamps to that, has turned uint8 pixels black."""
        if self._checks_left and result.numel():
            object.__setattr__(self, "_checks_left", self._checks_left - 1)
            if int(result.max()) == 1 < int(frames.max()):
                object.__setattr__(self, "_checks_left", 0)
                told = 'of 0 … 255, so the frames are black: write Module(…, values="float") if it expects [0, 1]'
                warn_user(f"{self._name} made uint8 of 0 and 1 only out of uint8 {told}")

    def _check_scale(self, result: torch.Tensor, given: torch.Tensor) -> None:
        """Raise ConfigurationError if floats that will become pixels have another scale than the input."""
        keeps_type = given.is_floating_point()
        if keeps_type and not self._checks_left:
            return
        low, high = (float(each) for each in result.aminmax()) if result.numel() else (0.0, 1.0)
        if keeps_type and low >= -_TOLERANCE and high <= 1 + _TOLERANCE:
            object.__setattr__(self, "_checks_left", self._checks_left - 1)
            return
        scale, keep = ("floats in [0, 1]", "clamp to [0, 1]") if keeps_type else ("uint8", "round to uint8")
        raise ConfigurationError(
            f"{self._name} made floats in {low:.3g} … {high:.3g} of {scale}, whose scale it must keep: put vl.ToFloat()"
            " or vl.Normalize(mean, std) before it, write one of these in its place if that is all it does, "
            f"or {keep} in it"
        )

    def in_layout(self, frames: torch.Tensor, layout: Layout, seeds: npt.NDArray[np.int64]) -> torch.Tensor:
        """Call the module on a batch of floats, after ``Normalize``.

        Args:
            frames: tensor, [B, ...]. The clips' dimensions have the order of the layout.
            layout: str. ``"TCHW"``, ``"CTHW"`` or ``"THWC"``.
            seeds: array, int64[B]. The seeds drawn for the clips.
        """
        result = self(as_planes(frames, layout), {"seed": seeds})
        return result.permute(0, *(1 + "TCHW".index(axis) for axis in layout))

    def _in_view(self, frames: torch.Tensor, seeds: npt.NDArray[np.int64]) -> torch.Tensor:
        if self.view == "clip":
            results = [self._call_for(row, clip, int(seeds[row])) for row, clip in enumerate(frames)]
            kinds = {(result.dtype, result.shape, result.device): None for result in results}
            if len(kinds) > 1:
                several = " and ".join(f"{dtype} {list(shape)}" for dtype, shape, _ in list(kinds)[:2])
                raise ConfigurationError(f"{self._name} gave clips of several shapes or types: {several}")
            return torch.stack(results)
        if self.view == "batch":
            return self._call(frames, _common_seed(seeds))
        result = self._call(frames.flatten(0, 1), _common_seed(seeds))
        if len(result) != frames.shape[0] * frames.shape[1]:
            return result
        return result.reshape(*frames.shape[:2], *result.shape[1:])

    def _call_for(self, row: int, frames: torch.Tensor, seed: int) -> torch.Tensor:
        with note_rows([row]):
            return self._call(frames, seed)

    def _call(self, frames: torch.Tensor, seed: int) -> torch.Tensor:
        def call(frames: torch.Tensor) -> torch.Tensor:
            with _seeded(seed, frames.device):
                return self.module(frames)

        result = _watched(self, call, frames, frames.clone)
        if not isinstance(result, torch.Tensor) or result.is_nested or not result.ndim:
            raise ConfigurationError(f"{self._name} gave {type(result).__name__}, not a tensor of frames")
        if result.layout is not torch.strided or result.is_meta:
            raise ConfigurationError(f"{self._name} gave a {result.layout} tensor on {result.device}, without pixels")
        return result

    @property
    def _name(self) -> str:
        return getattr(self.module, "__name__", type(self.module).__name__)


@dataclass(frozen=True, eq=False)
class PythonFunction(PixelTransform):
    """Run a Python function on frames in CPU memory, anywhere in the list before ``Normalize``.

    Frames on a GPU are copied to pinned memory and back; while the function works on one clip, others are copied.

    Args:
        function: function. ``function(frames, rng)`` gets uint8[T, 3, H, W], which it may change, and a numpy generator
            seeded by the clip's own; it returns frames of the same shape and dtype. Its randomness must come from
            ``rng``.
        per: str, default ``"clip"``. The input of one call: ``"clip"``, or ``"batch"`` for uint8[N, T, 3, H, W], which
            waits for all clips.

    Raises:
        ConfigurationError: the function does not take these arguments, or there is no such ``per``; in use, it returns
            another shape or dtype.

    Examples:
        >>> def flip_some_frames(frames, rng):
        ...     chosen = rng.random(len(frames)) < 0.5
        ...     frames[chosen] = frames[chosen, ..., ::-1]
        ...     return frames
        >>> transforms = [PythonFunction(flip_some_frames)]
    """

    function: Callable[[Frames, np.random.Generator], Frames]
    per: Per = field(default="clip", kw_only=True)
    _watches_left: int = field(default=WATCHED_CALLS, init=False, repr=False)

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise ConfigurationError(f"PythonFunction's function is {self.function!r}, which cannot be called")
        check_choice("PythonFunction's per", self.per, get_args(Per))
        try:
            takes = inspect.signature(self.function)
        except (TypeError, ValueError):  # some functions have no known signature
            return
        try:
            takes.bind(None, None)
            if next(iter(takes.parameters)) == "rng":
                raise TypeError
        except TypeError:
            raise ArgumentError(
                f"PythonFunction calls function(frames, rng), rng the clip's numpy generator: {self.function!r} takes "
                f"{takes}"
            ) from None

    def draw(self, rng: np.random.Generator, clip: ClipInfo) -> list[BatchFunction]:
        """Return the seed of the clip's randomness."""
        return [BatchFunction(self, {"seed": np.array(rng.integers(1 << 63))})]

    def __call__(self, frames: torch.Tensor, params: Params) -> torch.Tensor:
        """Apply the function to uint8[N, T, 3, H, W] in place; ``params`` has ``seed`` int64[N].

        Raises:
            ConfigurationError: see above.
        """
        seeds = [int(seed) for seed in params["seed"]] if self.per == "clip" else [_common_seed(params["seed"])]
        # One view for each clip, without the first dimension, or the whole batch.
        parts = list(frames.unbind(0)) if self.per == "clip" else [frames]
        if frames.device.type == "cuda":
            self._through_host(frames, parts, seeds)
        else:
            for number, part in enumerate(parts):
                self._call(part.numpy(), seeds, number)
        return frames

    def _call(self, frames: Frames, seeds: Sequence[int], part: int) -> None:
        """Overwrite the frames of a part with the function's result."""

        def call(frames: Frames) -> Frames:
            return self.function(frames, np.random.default_rng(seeds[part]))

        with note_rows([part]) if self.per == "clip" else nullcontext():
            given = _watched(self, call, frames, frames.copy)
        result = array_of(given)
        if result is None or result.shape != frames.shape or result.dtype != np.uint8:
            got = short_text(given)
            if result is not None and result.ndim:
                got = f"{result.dtype} of shape {result.shape}"
            raise ConfigurationError(f"{self._name} gave {got} for uint8 of shape {frames.shape}")
        if result is not frames:
            frames[...] = result

    @property
    def _name(self) -> str:
        return getattr(self.function, "__name__", type(self.function).__name__)

    def _through_host(self, frames: torch.Tensor, parts: Sequence[torch.Tensor], seeds: Sequence[int]) -> None:
        current = torch.cuda.current_stream(frames.device)
        down, up = (torch.cuda.Stream(frames.device) for _ in range(2))  # type: ignore[no-untyped-call]
        for stream in (down, up):
            frames.record_stream(stream)
        copies = [torch.empty(part.shape, dtype=torch.uint8, device="cpu", pin_memory=True) for part in parts]
        down.wait_stream(current)
        arrived = []
        with torch.cuda.stream(down):
            for part, copy in zip(parts, copies, strict=True):
                copy.copy_(part, non_blocking=True)
                arrived.append(down.record_event())
        for number, (part, copy, event) in enumerate(zip(parts, copies, arrived, strict=True)):
            event.synchronize()
            self._call(copy.numpy(), seeds, number)
            with torch.cuda.stream(up):
                part.copy_(copy, non_blocking=True)
        current.wait_stream(up)


def _watched(owner: Module | PythonFunction, call: Callable[[_F], _F], frames: _F, copied: Callable[[], _F]) -> _F:
    """The result of a user's code on frames; its first calls are watched for random numbers from elsewhere.

    The code is called again only if a global generator has advanced meanwhile, which may be another thread's doing.
    """
    if owner._watches_left <= 0:  # several threads may count down at once
        return call(frames)
    object.__setattr__(owner, "_watches_left", owner._watches_left - 1)
    copy, before = copied(), generator_states()
    result = call(frames)
    if generator_states() != before:
        with errors_suppressed():  # what is wrong with a result is told where it is used
            if not torch.as_tensor(result == call(copy), device="cpu").all():
                tell_of_foreign_randomness(owner._name)
                object.__setattr__(owner, "_watches_left", 0)
    return result


@contextmanager
def _seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Seed PyTorch's generators of the CPU and a device in the block, and restore them afterwards."""
    gpu = device.type == "cuda"
    with torch.random.fork_rng([device.index] if gpu else []):
        torch.default_generator.manual_seed(seed)
        if gpu:
            torch.cuda.default_generators[device.index].manual_seed(seed)
        yield


def _common_seed(seeds: npt.NDArray[np.int64]) -> int:
    """One seed that depends on the seeds of all clips in a call."""
    return int(np.random.SeedSequence([int(seed) for seed in seeds]).generate_state(1, np.uint64)[0] >> np.uint64(1))


def _steps(module: Any) -> list[Any]:
    return list(module) if type(module) is torch.nn.Sequential else [module]


def _nested_steps(module: Any) -> Iterator[Any]:
    """The steps of a module in order, flattening plain sequences and torchvision's Compose."""
    steps = getattr(module, "transforms", None) if type(module).__name__ == "Compose" else _steps(module)
    for step in steps or ():
        if step is module:
            yield step
        else:
            yield from _nested_steps(step)


def _comes_from(package: str, module: object) -> bool:
    """Whether a module, or each module of a plain sequence, has a class from this package."""
    names = [type(step).__module__ + "." for step in _steps(module)]
    return bool(names) and all(name.startswith(package + ".") for name in names)


def _video_sequential(module: Any) -> Any:
    sequential = importlib.import_module("kornia.augmentation").VideoSequential
    if isinstance(module, sequential):
        return module
    return sequential(*_steps(module), data_format="BTCHW", same_on_frame=True)
