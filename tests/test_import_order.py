"""Imports go one way, in the order that docs/architecture.md shows."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = {
    "videoloader": ROOT / "videoloader",
    "videoloader.indexing": ROOT / "indexing",
    "videoloader.padding": ROOT / "padding",
}


def imported(tree: ast.Module) -> Iterator[str]:
    """The modules that a module imports, whether at once, in a function or for type checkers."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield from (node.module or "", *[f"{node.module}.{alias.name}" for alias in node.names])
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def place(module: str, modules: set[str]) -> str | None:
    """The part of the library that a module belongs to: ``indexing``, a folder of ``videoloader``, or itself."""
    known = module if module in modules else module.rpartition(".")[0]
    return ".".join(known.split(".")[:2]) if known in modules and known != "videoloader" else None


def documented_order() -> dict[str, int]:
    """The position of each part in the drawing of docs/architecture.md; those to the left have smaller ones."""
    page = (ROOT / "docs/architecture.md").read_text()
    drawing = page.partition("\n```text\nerrors ◀")[2].partition("```")[0]
    groups = [group.replace(",", " ").split() for group in f"errors ◀{drawing}".split("◀")]
    return {f"videoloader.{part}": position for position, group in enumerate(groups) for part in group}


def import_graph() -> dict[str, set[str]]:
    """The parts of the library that each part imports."""
    files = {
        ".".join([package, *path.relative_to(folder).with_suffix("").parts]).removesuffix(".__init__"): path
        for package, folder in FOLDERS.items()
        for path in sorted(folder.rglob("*.py"))
    }
    names = set(files)
    graph: dict[str, set[str]] = {}
    for module, path in files.items():
        if (here := place(module, names)) is not None:
            there = {place(each, names) for each in imported(ast.parse(path.read_text()))}
            graph.setdefault(here, set()).update(each for each in there if each and each != here)
    return graph


def test_no_folders_import_each_other() -> None:
    graph = import_graph()
    assert graph["videoloader.loader"] >= {"videoloader.batching", "videoloader.order"}
    assert not graph["videoloader.padding"] - {"videoloader.errors"}
    TopologicalSorter(graph).prepare()  # a CycleError names the folders


def test_imports_go_to_the_left_in_the_documented_order() -> None:
    order, graph = documented_order(), import_graph()
    assert order.keys() == graph.keys() - {"videoloader.__main__"}
    assert order["videoloader.indexing"] < order["videoloader.reading"] < order["videoloader.loader"]
    upward = [
        f"{here} imports {there}"
        for here, imports in graph.items()
        for there in imports
        if here in order and order[there] >= order[here]
    ]
    assert upward == []
