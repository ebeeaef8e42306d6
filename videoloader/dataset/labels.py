"""Converts labels between names and numbers, and matches those of several data sets."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, SupportsIndex

import numpy as np

from videoloader.dataset.entry import plain_integer
from videoloader.dataset.table import NONE, EntryTable
from videoloader.errors import ConfigurationError, warn_user
from videoloader.errors.short_text import short_text
from videoloader.indexing.sources.natural_order import natural_order

# Longer numbers are names: no data set has so many classes. pandas writes columns with gaps as 2.0.
_NUMBER = re.compile(r"([+-]?\d{1,18})(\.0*)?")
_SEVERAL = re.compile(r"\[?\d+(\s*[,;|/ ]\s*\d+)+\]?")
# What programs write for a missing value.
_MISSING = re.compile("nan|NaN|NAN|None|null|NULL|[nN]/[aA]|<NA>")
_FRACTION = re.compile(r"[+-]?\d*\.\d+")

ClassNames = Sequence[str] | Mapping[str, int]


def names_in_order(class_names: object) -> tuple[str, ...] | None:
    """Class names in the order of their numbers, from a list or from a dict of names and numbers (``class_to_idx``).

    Raises:
        ConfigurationError: it is neither, a name occurs twice, or the numbers from 0 have a gap.

    Examples:
        >>> names_in_order({"walk": 1, "run": 0})
        ('run', 'walk')
    """
    if class_names is None:
        return None
    names: list[Any] = [None]
    if isinstance(class_names, Iterable) and not isinstance(class_names, str):
        names = list(class_names)
    if isinstance(class_names, Mapping):
        name_of = {number: name for name, number in class_names.items()}
        names = [name_of.get(number) for number in range(len(names))]
    is_set = isinstance(class_names, set | frozenset)
    if is_set or not all(isinstance(name, str) for name in names) or len({name.strip() for name in names}) < len(names):
        wanted = "different names in order, as ['run', 'walk'], or with all numbers from 0, as {'run': 0, 'walk': 1}"
        hint = ": a set has no order" if is_set else ""
        raise ConfigurationError(f"class_names must be {wanted}, got {short_text(class_names)}{hint}")
    return tuple(map(str, names))


def check_rows(table: EntryTable, class_names: Sequence[str]) -> None:
    """Check that there are rows, and that every label has a name if there are class names.

    Raises:
        ConfigurationError: there are no rows, or a name is missing.
    """
    if not len(table):
        raise ConfigurationError("there is no video: check what the list of paths was made from")
    named = (table.label == NONE) | ((table.label >= 0) & (table.label < len(class_names)))
    if class_names and not named.all():
        row = int(np.argmin(named))
        raise ConfigurationError(f"label {table.label[row]} has no name in class_names", table.path[row])


def number_labels(
    labels: Sequence[SupportsIndex | str], class_names: Sequence[str] | None, where: Callable[[int], str]
) -> tuple[Sequence[int | None], Sequence[str]]:
    """Labels as numbers, and the class names; ``where(i)`` names label i in messages.

    -1 means no label, as in batches.
    """
    if all(isinstance(label, str) for label in labels):
        names = natural_order({str(label) for label in labels}) if class_names is None else class_names
        number: dict[SupportsIndex | str, int] = {name.strip(): i for i, name in enumerate(names)}
        for i, label in enumerate(labels):
            if label not in number:
                raise ConfigurationError(f"{where(i)}: label {label!r} is not in class_names")
        return [number[label] for label in labels], names
    numbers: list[Any] = [label if isinstance(label, str) else plain_integer(label) for label in labels]
    if wrong := [i for i, label in enumerate(numbers) if not isinstance(label, int)]:
        i = next((i for i in wrong if not isinstance(numbers[i], str)), wrong[0])
        told = f"labels must be all integers or all names, got {numbers[i]!r}"
        raise ConfigurationError(f"{where(i)}: {told}; None means no label")
    for i, label in enumerate(numbers):
        if abs(label) >= 2**63:
            raise ConfigurationError(f"{where(i)}: label {label!r} does not fit into 64 bits")
        if class_names is not None and not -1 <= label < len(class_names):
            raise ConfigurationError(f"{where(i)}: label {label!r} is not in class_names")
    return [None if label == -1 else int(label) for label in numbers], class_names or ()


def parse_labels(
    texts: list[str], class_names: Sequence[str] | None, where: Callable[[int], str]
) -> tuple[Sequence[int | None], Sequence[str]]:
    """Labels as numbers, and the class names, from texts that are all numbers, all names, or all missing."""
    different = set(texts)
    if different <= {""}:
        return [None] * len(texts), class_names or ()
    return number_labels(numbers_in(texts, class_names, where), class_names, where)


def numbers_in(
    texts: Sequence[str], class_names: Sequence[str] | None, where: Callable[[int], str]
) -> Sequence[int | str]:
    """Texts as numbers, if all are whole numbers and not all are class names; else the texts themselves, as names.

    Surrounding spaces are ignored.

    Raises:
        ConfigurationError: a text is empty, all are numbers but not all are whole, or most are numbers and some are
            names.
    """
    texts = [text.strip() for text in texts]
    different = set(texts)
    if "" in different:
        hint = "-1 stands for none, where labels are numbers"
        raise ConfigurationError(f"{where(texts.index(''))}: the label is missing: {hint}")
    if class_names is not None and different <= set(class_names):
        return texts
    numbers = {text: int(found[1]) for text in different if (found := _NUMBER.fullmatch(text))}
    fractions = {text for text in different - numbers.keys() if _FRACTION.fullmatch(text)}
    # A single typo would turn all numbers into names, and renumber them.
    if 2 * len(numbers.keys() | fractions) <= len(different):
        if several := next(filter(_SEVERAL.fullmatch, texts), None):
            warn_user(f"label {several!r} is taken for the name of one class: a row has one label, or none")
        if missing := next(filter(_MISSING.fullmatch, texts), None):
            warn_user(f"label {missing!r} is taken for the name of a class: leave rows out that have no label")
        if "-1" in different:
            raise ConfigurationError(f"{where(texts.index('-1'))}: -1 means no label only where labels are numbers")
        return texts
    if numbers.keys() < different:
        row = next(row for row, text in enumerate(texts) if text not in numbers)
        hint = "labels are whole numbers, or names, which class_names=[…] may list"
        raise ConfigurationError(f"{where(row)}: label {texts[row]!r} is not a whole number: {hint}")
    return [numbers[text] for text in texts]


def in_common_classes(parts: Sequence[tuple[EntryTable, Sequence[str]]]) -> tuple[list[EntryTable], tuple[str, ...]]:
    """The tables with labels that mean the same in all of them, and the common class names.

    Args:
        parts: rows and class names of each data set.

    Returns:
        The tables and the names: those of the first part, then those that later parts add. Where no part has names,
        labels are kept.

    Raises:
        ConfigurationError: some labels have names and others do not.
    """
    tables = [table for table, _ in parts]
    names = tuple(dict.fromkeys(name for _, own in parts for name in own))
    if not names:
        return tables, ()
    number = {name: i for i, name in enumerate(names)}
    joined = []
    for table, own in parts:
        labelled = table.label != NONE
        if not own and labelled.any():
            row = int(np.argmax(labelled))
            raise ConfigurationError(
                f"label {table.label[row]} has no name, but those of another data set have: give class_names to both",
                table.path[row],
            )
        new = np.array([*(number[name] for name in own), NONE], np.int64)
        joined.append(replace(table, label=new[np.where(labelled, table.label, len(own))]))
    return joined, names
