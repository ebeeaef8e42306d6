"""The documentation site lists everything that exists."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

import videoloader as vl
from videoloader.interop.torch import DecodingLoader

DOCS = Path(__file__).parents[1] / "docs"
LIBRARY = Path(__file__).parents[1] / "videoloader"
PAGES = {path.relative_to(DOCS).as_posix(): path.read_text() for path in DOCS.rglob("*.md") if "site" not in path.parts}
SHOWN = [name for page in PAGES.values() for name in re.findall(r"^::: videoloader\.(\S+)", page, re.MULTILINE)]


def test_every_public_name_stands_on_one_page_of_the_reference() -> None:
    public = {name for name in vl.__all__ if callable(getattr(vl, name))} | set(vl.layouts.__all__)
    assert public <= {name.rpartition(".")[2] for name in SHOWN}
    assert len(SHOWN) == len(set(SHOWN))
    # A function's name alone would show the module of that name in its place.
    own_files = [name for name in SHOWN if (LIBRARY / f"{name.replace('.', '/')}.py").exists()]
    assert all(name.startswith("interop.") for name in own_files)


@pytest.mark.parametrize("shown", [vl.VideoDataset, vl.VideoLoader, DecodingLoader, vl.Batch, vl.Clip])
def test_what_a_class_inherits_stands_on_its_page(shown: type) -> None:
    page = next(page for page in PAGES.values() if re.search(rf"^::: \S+\.{shown.__name__}$", page, re.MULTILINE))
    options = re.split(rf"^::: \S+\.{shown.__name__}$", page, flags=re.MULTILINE)[1].partition(":::")[0]
    bases = [base for base in shown.__mro__[1:] if base.__module__.startswith("videoloader.")]
    inherited = {name for base in bases for name, each in vars(base).items() if each.__doc__ and name[0] != "_"}
    assert inherited - vars(shown).keys() - {"count", "index"} == set(re.findall(r"[a-z]\w+(?=[,\]\n])", options))


def test_every_page_stands_in_the_navigation() -> None:
    named = re.findall(r'"([\w./-]+\.md)"', (DOCS / "zensical.toml").read_text())
    assert sorted(named) == sorted(PAGES)


def test_the_page_of_results_is_made_from_the_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(DOCS.parent / "benchmarks")
    made = importlib.import_module("page").page()
    assert made == PAGES["benchmarks.md"]
    assert "| videoloader | **" in made
