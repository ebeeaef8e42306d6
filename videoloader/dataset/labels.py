"""Labels: names to numbers, and numbers to the names they must have."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from numbers import Integral

from videoloader.errors import ConfigurationError
from videoloader.indexing.sources.folder import natural_order

# Longer ones are names: no data set has so many classes.
_NUMBER = re.compile(r"[+-]?\d{1,18}")


def number_labels(
    labels: Sequence[int | str], class_names: Sequence[str] | None, where: Callable[[int], str]
) -> tuple[list[int], Sequence[str]]:
    """Labels as numbers, and the class names; ``where(i)`` says in messages which label it is."""
    if all(isinstance(label, str) for label in labels):
        names = natural_order({str(label) for label in labels}) if class_names is None else class_names
        number: dict[int | str, int] = {name: i for i, name in enumerate(names)}
        for i, label in enumerate(labels):
            if label not in number:
                raise ConfigurationError(f"{where(i)}: label {label!r} is none of the class_names")
        return [number[label] for label in labels], names
    for i, label in enumerate(labels):
        if not isinstance(label, Integral):
            raise ConfigurationError(f"{where(i)}: labels must be all numbers or all names, got {label!r}")
        if abs(label) >= 2**63:
            raise ConfigurationError(f"{where(i)}: label {label!r} does not fit into 64 bits")
        if class_names is not None and not 0 <= label < len(class_names):
            raise ConfigurationError(f"{where(i)}: label {label!r} is none of the class_names")
    return [int(label) for label in labels], class_names or ()


def parse_labels(
    texts: list[str], class_names: Sequence[str] | None, where: Callable[[int], str]
) -> tuple[Sequence[int | None], Sequence[str]]:
    """Labels that are all numbers or all names, or all missing."""
    different = set(texts)
    if different <= {""}:
        return [None] * len(texts), class_names or ()
    are_names = class_names is not None and different <= set(class_names)
    if are_names or not all(map(_NUMBER.fullmatch, different)):
        return number_labels(texts, class_names, where)
    number = {text: int(text) for text in different}
    return number_labels([number[text] for text in texts], class_names, where)
