"""A text for any value, in messages."""

from __future__ import annotations

import reprlib


class _Short(reprlib.Repr):
    def repr_int(self, x: int, level: int) -> str:
        """An integer, or its size: Python refuses to write the longest."""
        return super().repr_int(x, level) if x.bit_length() <= 256 else f"an integer of {x.bit_length()} bits"


_short = _Short().repr


def short_text(value: object) -> str:
    """A value in a few words: classes by name, arrays by type and shape, other values as a short ``repr``."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    return given(value) if getattr(value, "ndim", False) else _short(value)


def given(value: object) -> str:
    """A value in full; arrays and tensors by type and shape, huge integers by their size."""
    if isinstance(value, int) and value.bit_length() > 256:
        return _short(value)
    is_array = hasattr(value, "dtype") and bool(getattr(value, "ndim", None))
    try:
        return f"{value.dtype} of shape {tuple(value.shape)}" if is_array else repr_of(value)  # type: ignore[attr-defined]
    except RuntimeError:  # PyTorch's nested tensors have no shape
        return f"a {type(value).__name__} without a shape"


def repr_of(value: object) -> str:
    """The ``repr`` of a value, or a short text where Python refuses to write it, since an integer in it is too long."""
    try:
        return repr(value)
    except ValueError:
        return _short(value)
