"""The documentation site lists everything that exists."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

import pytest

import videoloader as vl

DOCS = Path(__file__).parents[1] / "docs"
PAGES = {path.relative_to(DOCS).as_posix(): path.read_text() for path in DOCS.rglob("*.md") if "site" not in path.parts}


def test_every_public_name_stands_on_one_page_of_the_reference() -> None:
    shown = [name for page in PAGES.values() for name in re.findall(r"^::: videoloader\.(\S+)", page, re.MULTILINE)]
    # Errors are listed by their module.
    errors = {name for name in vl.__all__ if inspect.isclass(each := getattr(vl, name)) and issubclass(each, Exception)}
    functions = {name for name in vl.__all__ if callable(getattr(vl, name))} - errors
    layouts = {f"layouts.{name}" for name in vl.layouts.__all__}
    assert functions | layouts <= {name.removeprefix("transforms.") for name in shown}
    assert len(shown) == len(set(shown))


def test_every_page_stands_in_the_navigation() -> None:
    named = re.findall(r'"([\w./-]+\.md)"', (DOCS / "zensical.toml").read_text())
    assert sorted(named) == sorted(PAGES)


def test_the_page_of_results_is_made_from_the_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(DOCS.parent / "benchmarks")
    made = importlib.import_module("page").page()
    assert made == PAGES["benchmarks.md"]
    assert "| videoloader | **" in made
