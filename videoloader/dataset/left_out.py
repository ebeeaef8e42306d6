"""Warns about rows that a reader or a filter leaves out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from videoloader.errors import ConfigurationError, warn_user

_MOST_LISTED = 5


def none_left(total: int, hint: str = "") -> ConfigurationError:
    """The error for conditions that none of ``total`` rows meets."""
    none = "no row is" if total == 1 else f"none of the {total} rows is"
    return ConfigurationError(f"{none} left, but a data set needs at least one: widen the selection{hint}")


def tell_left_out(
    source: str, kinds: Iterable[str], total: int, what: str = "rows", hint: str = "", listed_in: str = "left_out"
) -> None:
    """Warn about the number of rows left out and the reasons, if any were.

    Args:
        source: name of the rows' origin.
        kinds: one short reason for each row left out.
        total: number of all rows.
        what: plural noun for the rows in the message.
        hint: text at the end of the message.
        listed_in: the attribute that lists them.
    """
    counts = Counter(kinds)
    if counts:
        told = [f"{count} {kind}" for kind, count in counts.most_common(_MOST_LISTED)]
        if len(counts) > _MOST_LISTED:
            told.append(f"{len(counts) - _MOST_LISTED} more kinds")
        message = f"{counts.total()} of {total} {what} are left out ({', '.join(told)}); {listed_in} lists them{hint}"
        warn_user(f"{source}: {message}")
