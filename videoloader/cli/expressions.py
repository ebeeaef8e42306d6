"""Evaluates frame modes and transforms written on the command line as in Python."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from videoloader.errors import ConfigurationError

MODE_HELP = "Frame mode, written as in Python: 'RandomWindow(16, stride=4)', or frame numbers: '[0, 10, 20]'."


def mode_from(text: str) -> Any:
    """The frame mode, or list of frame numbers, that a text describes.

    Raises:
        ConfigurationError: it describes neither; the message quotes the text.
    """
    from videoloader import sampling

    return _value(text, _classes(sampling), "a frame mode, such as 'RandomWindow(16, stride=4)'")


def transforms_from(text: str) -> list[Any]:
    """The transforms that a text describes: one, or several separated by commas.

    Raises:
        ConfigurationError: it describes none; the message quotes the text.
    """
    from videoloader import transforms

    value = _value(f"[{text}]", _classes(transforms), "transforms, such as 'Resize(128), CenterCrop(112)'")
    return value[0] if len(value) == 1 and isinstance(value[0], list) else list(value)


def _classes(module: Any) -> dict[str, Any]:
    import videoloader  # whose names tell of wrong arguments

    classes = (name for name, each in vars(module).items() if isinstance(each, type))
    return {name: getattr(videoloader, name) for name in classes if name in dir(videoloader)}


def _value(text: str, known: Mapping[str, Any], wanted: str) -> Any:
    try:
        return _evaluated(ast.parse(text.strip(), mode="eval").body, known)
    except (SyntaxError, TypeError, ValueError, RecursionError, MemoryError) as error:  # the last two for deep ones
        if isinstance(error, ConfigurationError):
            raise
        raise ConfigurationError(f"{text!r} is not {wanted}") from None


def _evaluated(node: ast.expr, known: Mapping[str, Any]) -> Any:
    """The value of an expression of literals and calls of known classes; nothing else is evaluated."""
    if isinstance(node, ast.List | ast.Tuple):
        values = [_evaluated(each, known) for each in node.elts]
        return values if isinstance(node, ast.List) else tuple(values)
    if not isinstance(node, ast.Call):
        return ast.literal_eval(node)
    if not isinstance(node.func, ast.Name):
        raise ValueError
    if node.func.id not in known:
        near = get_close_matches(node.func.id, known, 1)
        names = f"write {near[0]}" if near else ", ".join(sorted(known))
        raise ConfigurationError(f"there is no {node.func.id!r} here: {names}")
    arguments = [_evaluated(each, known) for each in node.args]
    named = {each.arg: _evaluated(each.value, known) for each in node.keywords if each.arg is not None}
    if len(named) < len(node.keywords):
        raise ValueError
    return known[node.func.id](*arguments, **named)
