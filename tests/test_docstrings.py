"""Docstrings document existing arguments, give their defaults, and are written in plain sentences."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import videoloader as vl
from videoloader.interop.torch import BatchStream, ClipDataset, ClipRequest, DecodingLoader

# What users get and do not make: their fields have no defaults for them.
RESULTS = (vl.Batch, vl.Clip, vl.ClipInfo, vl.FileReport, vl.LoaderStats, vl.VideoIndex, vl.indexing.StreamInfo)
ERRORS = (vl.VideoLoaderError, vl.DecodeError)
ROOT = Path(__file__).parents[1]
# Texts that open with these can be read only together with the name before them.
PREPOSITIONS = {"at", "by", "for", "from", "in", "of", "on", "to", "with"}
QUESTIONS = {"how", "that", "what", "when", "where", "which", "who", "whose", "why"}
TOLD = re.compile(r"^    (\w+(?:, \w+)*): ((?:.+\n?)(?: {5,}.+\n?)*)", re.MULTILINE)


def public_doors() -> Iterator[tuple[str, Callable[..., Any]]]:
    """All public functions and classes, and the methods of these, by name."""
    public = {name: getattr(module, name) for module in (vl, vl.layouts, vl.indexing) for name in module.__all__}
    for name, each in (public | {each.__name__: each for each in (BatchStream, ClipDataset, ClipRequest)}).items():
        if inspect.isfunction(each) or (inspect.isclass(each) and not issubclass(each, (BaseException, *RESULTS))):
            yield name, each
        of_library = [base for base in getattr(each, "__mro__", ()) if base.__module__.startswith("videoloader.")]
        for method, function in (member for base in of_library for member in vars(base).items()):
            made = getattr(function, "__func__", function)
            if inspect.isfunction(made) and not method.startswith("_"):
                yield f"{name}.{method}", made
    yield "DecodingLoader", DecodingLoader


def arguments_told(door: Callable[..., Any]) -> dict[str, tuple[list[str], str]]:
    """For each argument that a docstring lists: all that are told together, and what is said of them.

    The arguments of a dataclass are its attributes.
    """
    sections = re.split(r"^(\w+):\n", inspect.cleandoc(door.__doc__ or ""), flags=re.MULTILINE)
    by_title = dict(zip(sections[1::2], sections[2::2], strict=True))
    told = TOLD.findall(by_title.get("Args") or by_title.get("Attributes") or "")
    return {name: (names.split(", "), " ".join(text.split())) for names, text in told for name in names.split(", ")}


def first_sentence(text: str) -> str:
    return re.split(r"\.(?:\s|$)", text, maxsplit=1)[0]


def default_told(text: str) -> object:
    """The value after "default" in the first sentence; an ellipsis where that is said in words."""
    value = first_sentence(text).partition("default ")[2]
    for told in (value, value.partition(": ")[0], value.partition(", ")[0]):
        try:
            return ast.literal_eval(told.strip("`"))
        except (ValueError, SyntaxError):
            continue
    return ...


DOORS = {name: door for name, door in public_doors() if arguments_told(door)}


@pytest.mark.parametrize("name", DOORS)
def test_each_default_is_told_and_is_the_one_of_the_signature(name: str) -> None:
    told = arguments_told(DOORS[name])
    defaults = {each.name: each.default for each in inspect.signature(DOORS[name]).parameters.values()}
    for argument in told.keys() & defaults.keys():
        together, text = told[argument]
        has_default = any(defaults.get(each) is not inspect.Parameter.empty for each in together)
        assert (re.search(r"\bdefaults?\b", first_sentence(text)) is not None) == has_default, (name, argument)
        if len(together) == 1 and default_told(text) is not ...:
            assert default_told(text) == defaults[argument], (name, argument)


@pytest.mark.parametrize("door", [*DOORS.values(), *RESULTS], ids=lambda door: door.__qualname__)
def test_types_come_first(door: Callable[..., Any]) -> None:
    told = arguments_told(door)
    for argument, parameter in inspect.signature(door).parameters.items():
        kind = str(parameter.annotation).removesuffix(" | None")
        if kind in ("bool", "float", "int", "str") and len(told.get(argument, ((), ""))[0]) == 1:
            assert re.match(rf"({kind}|number)\b|default |as in ", told[argument][1]), argument


@pytest.mark.parametrize("door", [*DOORS.values(), *RESULTS, *ERRORS], ids=lambda door: door.__qualname__)
def test_each_attribute_has_an_entry_of_its_own(door: Callable[..., Any]) -> None:
    """The reference takes what follows the first of several names for its type."""
    section = re.search(r"^Attributes:\n((?: .*\n|\n)*)", inspect.cleandoc(door.__doc__ or "") + "\n", re.MULTILINE)
    assert not [names for names, _ in TOLD.findall(section[1] if section else "") if "," in names]


def test_arguments_that_are_told_are_there() -> None:
    with_arguments = [door for door in DOORS.values() if re.search(r"^\s*Args:$", door.__doc__ or "", re.MULTILINE)]
    assert len(with_arguments) > 100
    for door in with_arguments:
        assert arguments_told(door).keys() <= inspect.signature(door).parameters.keys(), door.__qualname__


def all_docstrings() -> Iterator[tuple[str, str]]:
    """(place, docstring) of all modules, classes and functions. Those of ``cli`` are the command line's help."""
    for package in ("videoloader", "indexing", "padding"):
        for path in sorted((ROOT / package).rglob("*.py")):
            if "cli" in (*path.parts, path.stem):
                continue
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                    yield f"{path.relative_to(ROOT)}: {getattr(node, 'name', '')}", ast.get_docstring(node) or ""


def entries(docstring: str) -> Iterator[tuple[str, str]]:
    """(title, text) of all that its lists of arguments, attributes and errors say."""
    parts = re.split(r"^(\w+):\n", docstring, flags=re.MULTILINE)
    for title, section in zip(parts[1::2], parts[2::2], strict=True):
        if title in ("Args", "Attributes", "Raises"):
            yield from ((title, text) for _, text in TOLD.findall(section))


def opening(text: str) -> str:
    """The first word of a text, or of what follows the type and the default."""
    return re.split(r"[^\w]", text.strip(), maxsplit=1)[0]


def test_texts_about_arguments_open_with_a_noun_a_verb_or_the_type() -> None:
    wrong = [
        (place, text)
        for place, docstring in all_docstrings()
        for _, text in entries(docstring)
        if opening(text) in PREPOSITIONS | QUESTIONS or re.match(r"as (for|of|by)\b", text)
    ]
    assert wrong == []


def test_defaults_come_before_what_arguments_do() -> None:
    late = [place for place, docstring in all_docstrings() for _, text in entries(docstring) if "Default: " in text]
    assert late == []


def test_first_lines_open_with_a_noun_or_a_verb() -> None:
    wrong = [
        (place, docstring.splitlines()[0])
        for place, docstring in all_docstrings()
        if opening(docstring).lower() in QUESTIONS | {"of"}
    ]
    assert wrong == []
