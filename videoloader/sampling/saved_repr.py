"""A stable ``repr`` for frame modes, by which saved loader states identify them."""

from __future__ import annotations

from dataclasses import fields


class SavedRepr:
    """A frozen dataclass whose ``repr`` shows fields that were added in later versions only when they are set.

    Loader states hold the ``repr`` of their modes, so states saved before a field existed still match. Declare such
    fields with ``field(repr=False)``, and the class with ``dataclass(repr=False)``.
    """

    def __repr__(self) -> str:
        named = [(each, getattr(self, each.name)) for each in fields(self)]  # type: ignore[arg-type]
        shown = [f"{each.name}={value!r}" for each, value in named if each.repr or value != each.default]
        return f"{type(self).__name__}({', '.join(shown)})"
