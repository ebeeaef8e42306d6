"""A short text for any value, in messages."""

from __future__ import annotations

import reprlib


class _Short(reprlib.Repr):
    def repr_int(self, x: int, level: int) -> str:
        """An integer, or its size: Python refuses to write the longest."""
        return super().repr_int(x, level) if x.bit_length() <= 256 else f"an integer of {x.bit_length()} bits"


short_text = _Short().repr


def repr_of(value: object) -> str:
    """The ``repr`` of a value, or a short text where Python refuses to write it, since an integer in it is too long."""
    try:
        return repr(value)
    except ValueError:
        return short_text(value)
