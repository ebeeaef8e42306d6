"""The operations on a clip's pixels, with all random numbers drawn: transforms make them, backends carry them out.

A transform draws a clip's operations once (``PixelTransform.draw``). They do not depend on the device, and can be kept
and replayed on another tensor. Arrays have F rows: one for the whole clip, or one for each of its T frames.

Frames are uint8 between operations. Values are clamped to 0 … 255 and rounded to the nearest, halves up. Unless stated
otherwise, arithmetic is in float32, in the order in which formulas are written, with each step rounded: no fused
multiply-add.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NoReturn, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
import torch

from videoloader.convert.spec import Interpolation, fill_color
from videoloader.errors import ArgumentError, ConfigurationError, MissingAttributeError, no_method, wrong_result
from videoloader.errors.checks import check_choice, check_flag
from videoloader.errors.names_elsewhere import nearest
from videoloader.errors.notes import note

# The parameters of a batch function for its clips, by name.
Params: TypeAlias = Mapping[str, npt.NDArray[Any]]
Function: TypeAlias = Callable[[torch.Tensor, Params], torch.Tensor]
Statistic = Literal["contrast", "auto_contrast", "equalize"]
# The key of ``checked`` in a field's metadata.
_CHECK = "videoloader.transforms.checked"


class ClipInfo(NamedTuple):
    """The facts about a clip that a transform may use when it draws.

    Attributes:
        length: int. T, the number of frames.
        height: int. The height of the transform's input frames in pixels.
        width: int. The width of these frames in pixels.
        label: int or None. The label of the clip's video; None where it has none.
        columns: mapping. The other columns of the data set for the video.
    """

    length: int
    height: int
    width: int
    label: int | None = None
    columns: Mapping[str, Any] = {}


def _no_such_fact(clip: ClipInfo, name: str) -> NoReturn:
    columns = {each: f"clip.columns[{each!r}]" for each in clip.columns}
    written = columns | {each: f"clip.{each}" for each in clip._fields}
    near = nearest(name, written)
    others = f"it has {', '.join(written.values())}; a data set's column is clip.columns[{name!r}]"
    told = f"write {written[near]}" if near else others
    raise MissingAttributeError(f"a ClipInfo has no attribute {name}: {told}")


# Set outside the class, so that type checkers do not allow any attribute name.
ClipInfo.__getattr__ = _no_such_fact  # type: ignore[attr-defined]


@dataclass(frozen=True, eq=False)
class Table:
    """Map each channel through its own table: ``out = values[f, channel, in]``.

    Attributes:
        values: uint8[F, 3, 256].
    """

    values: npt.NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class StatisticTable:
    """A table computed from the histogram of the whole clip or of each frame.

    - ``"contrast"``: ``mean + factor · (in − mean)`` with the mean of the gray values, (19595 R + 38470 G + 7471 B +
      32768) >> 16 of each pixel (ITU-R BT.601 in Pillow's integers); it is not rounded to a whole number.
    - ``"auto_contrast"``: each channel's smallest value becomes 0 and its largest 255; a channel with a single value
      is unchanged.
    - ``"equalize"``: each channel's histogram is flattened as by Pillow's ``ImageOps.equalize``: with ``step = (pixels
      − pixels of the largest value) // 255``, value v becomes ``(pixels below v + step // 2) // step``, at most 255; a
      step of 0 leaves the channel unchanged.

    Attributes:
        statistic: one of these statistics.
        factor: float32[F], the factor of contrast; ones for the others.
        per_frame: whether each frame has its own histogram.
    """

    statistic: Statistic
    factor: npt.NDArray[np.float32]
    per_frame: bool


@dataclass(frozen=True, eq=False)
class ColorMatrix:
    """``out = matrix[f, :, :3] @ (R, G, B) + matrix[f, :, 3]``, values 0 … 255.

    Attributes:
        matrix: float32[F, 3, 4].
    """

    matrix: npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class HueShift:
    """Rotate the hue of HSV (hexcone model, Smith 1978); saturation and value stay the same.

    Attributes:
        turns: float32[F], 1 is a full turn.
    """

    turns: npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Sharpen:
    """``smooth + factor · (in − smooth)``; smooth is the rounded 3×3 mean with a central weight of 5 out of 13.

    The frame's outermost pixels are unchanged (Pillow's ``ImageEnhance.Sharpness``).

    Attributes:
        factor: float32[F]: 0 smooths, 1 changes nothing, 2 sharpens.
    """

    factor: npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Warp:
    """Resample frames: output pixel (x, y) shows input point ``matrix[f] @ (x, y, 1)``, divided by its third component.

    Coordinates in both are in pixels from the corner of the top left pixel, whose centre is (0.5, 0.5). The input is
    surrounded by pixels of colour ``fill``, so bilinear and bicubic blend it in at the border. (Without a fill
    torchvision does the same on tensors. With a fill torchvision weights border pixels twice by the part of them that
    is inside, and results differ there.) An undefined point, 0 / 0, gets the fill's colour.

    Attributes:
        matrix: float64[F, 3, 3]. Coordinates are computed in float64, with products added one by one, so that every
            device gets the same.
        size: (height, width) of the output, pixels.
        interpolation: ``"nearest"`` (the pixel around the point), ``"bilinear"``, ``"bicubic"`` (a = −0.75, as
            PyTorch's grid_sample).
        fill: red, green, blue, 0 … 255.
        samples: (down, across) points for each output pixel, spread evenly over it (row i of n at (i + 0.5) / n) and
            averaged; more than one where the picture gets smaller.
        extend: whether the input's nearest pixel fills the outside, instead of ``fill``, as in resizes.
    """

    matrix: npt.NDArray[np.float64]
    size: tuple[int, int]
    interpolation: Interpolation
    fill: tuple[float, float, float]
    samples: tuple[int, int] = (1, 1)
    extend: bool = False


@dataclass(frozen=True, eq=False)
class Erase:
    """Fill boxes with a colour.

    Attributes:
        boxes: int32[F, N, 4], (top, left, height, width), in pixels, inside the frames; a height or width of 0 fills
            nothing.
        fill: red, green, blue, 0 … 255.
    """

    boxes: npt.NDArray[np.int32]
    fill: tuple[float, float, float]


@dataclass(frozen=True, eq=False)
class BatchFunction:
    """A torch function for all clips of a batch that draw it, on the device of the frames.

    Attributes:
        function: ``function(frames, params)`` takes uint8[N, T, 3, H, W], returns frames of the same shape and type,
            and may change them in place. Clips that run together have the same function object.
        params: the clip's parameters. Those of N clips are stacked: ``function`` gets an array [N, ...] for each name.
        by_frame: names of the parameters that are arrays [T, ...] with a value for each frame of the clip. If the clip
            is padded to the length of others, the last value holds for the frames of padding.
        geometric: the function to use instead of ``function`` for masks, which only moves pixels; None if no pixels
            move.
    """

    function: Function
    params: Params = field(default_factory=dict)
    geometric: Function | None = None
    by_frame: Collection[str] = ()


Operation: TypeAlias = Table | StatisticTable | ColorMatrix | HueShift | Sharpen | Warp | Erase | BatchFunction
# The array of each operation: its name, type, and shape after the rows. The kernels (``backends/step.cu``) number the
# operations in this order, from 1.
ARRAYS: dict[type, tuple[str, np.dtype[Any], tuple[int, ...]]] = {
    Table: ("values", np.dtype(np.uint8), (3, 256)),
    StatisticTable: ("factor", np.dtype(np.float32), ()),
    ColorMatrix: ("matrix", np.dtype(np.float32), (3, 4)),
    HueShift: ("turns", np.dtype(np.float32), ()),
    Sharpen: ("factor", np.dtype(np.float32), ()),
    Warp: ("matrix", np.dtype(np.float64), (3, 3)),
    Erase: ("boxes", np.dtype(np.int32), (4,)),
}


# The note on errors of a transform.
IN_TRANSFORM = "in the transform {}"


# This is not an ABC: each clip calls ``isinstance`` on it, which takes six times as long with ABCMeta.
class Transform:
    """The base of all kinds of transforms.

    Derive your own transform from one of its subclasses, usually from ``PixelTransform``.
    """

    def __post_init__(self) -> None:
        is_ours = type(self).__module__.startswith("videoloader.")
        for each in fields(self):  # type: ignore[arg-type]  # it is only called on dataclasses
            # The library's transforms can be compared and hashed whatever their arguments; arrays in users' transforms
            # stay arrays.
            if each.init and is_ours:
                object.__setattr__(self, each.name, _as_tuples(getattr(self, each.name)))
            if is_ours and isinstance(each.default, bool):
                check_flag(f"{type(self).__name__}'s {each.name}", getattr(self, each.name))
            if own := each.metadata.get(_CHECK) or (is_ours and _OF_ALL.get(each.name)):
                check, bounds = own
                check(f"{type(self).__name__}'s {each.name}", getattr(self, each.name), *bounds)

    if not TYPE_CHECKING:  # type checkers report this themselves

        def __call__(self, *args: object) -> NoReturn:
            name = type(self).__name__
            raise ArgumentError(f"a {name} is not a function: write Compose([{name}(…)])(frames, seed=0)")


# No argument is a list of lists of more levels.
_DEEPEST = 8
# Fields that have the same meaning in all transforms.
_OF_ALL: dict[str, tuple[Callable[..., object], tuple[object, ...]]] = {
    "fill": (lambda name, value: fill_color(value, name), ()),
    "interpolation": (check_choice, (get_args(Interpolation),)),
}


def _as_tuples(value: Any, depth: int = 0) -> Any:
    if isinstance(value, np.ndarray | np.generic | torch.Tensor):
        with suppress(NotImplementedError, RuntimeError):  # tensors without values, or with few: the checks refuse them
            value = value.tolist()
    is_list = type(value) in (list, tuple) and depth < _DEEPEST  # a list may hold itself
    return tuple(_as_tuples(each, depth + 1) for each in value) if is_list else value


def checked(check: Callable[..., object], *bounds: object) -> dict[str, Any]:
    """Metadata for a transform's field that defines how its value is checked when the transform is made.

    Args:
        check: ``check(name, value, *bounds)`` raises ConfigurationError, which names the field, for a wrong value.
        bounds: further arguments of ``check``.
    """
    return {_CHECK: (check, bounds)}


class PixelTransform(Transform):
    """A transform of pixels. It is stateless: everything that it draws is in the operations.

    Examples:
        A complete custom transform:

            class Fade(vl.PixelTransform):
                def draw(self, rng, clip):
                    return vl.Brightness((0.5, 1.0)).draw(rng, clip)
    """

    @abstractmethod
    def draw(self, rng: np.random.Generator, clip: ClipInfo) -> Sequence[Operation]:
        """Draw the operations on one clip, in order. The output size must be the same for all clips of a batch."""
        raise no_method(self, "draw(self, rng, clip), which gives a list of operations")


def operations_of(transform: PixelTransform, rng: np.random.Generator, clip: ClipInfo) -> Sequence[Operation]:
    """``transform.draw(rng, clip)``, with errors that name the transform.

    Raises:
        ConfigurationError: the result is not a list of operations.
    """
    with note(IN_TRANSFORM, transform):
        drawn = transform.draw(rng, clip)
        if not isinstance(drawn, list | tuple) or any(isinstance(each, Transform) for each in drawn):
            wanted = "a list of operations, as Brightness(0.5).draw(rng, clip) does"
            raise wrong_result(transform, "draw", wanted, drawn)
    return drawn


def not_an_operation(drawn: object) -> ConfigurationError:
    """The error for what a user's transform has drawn."""
    return ConfigurationError(f"{drawn!r} is not an operation on pixels")


def hold_last(operation: Operation, length: int, new_length: int) -> Operation:
    """Extend an operation to a longer clip: new frames get the parameters of the last frame.

    Args:
        operation: operation as drawn for the clip.
        length: number of frames of the clip.
        new_length: number of frames of the longer clip.
    """

    def held(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return np.concatenate([values, np.repeat(values[-1:], new_length - length, 0)])

    changed: dict[str, Any]
    if isinstance(operation, BatchFunction):
        changed = {name: held(operation.params[name]) for name in operation.by_frame}
        return replace(operation, params={**operation.params, **changed})
    if type(operation) not in ARRAYS:
        raise not_an_operation(operation)
    name = ARRAYS[type(operation)][0]
    values = getattr(operation, name)
    changed = {} if len(values) == 1 else {name: held(values)}  # a single row holds for all frames already
    return replace(operation, **changed)
