"""Imports go one way: no two folders of the library import each other, whether directly or through others."""

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
    """The modules that are imported when a module is; what functions and type checkers import does not count."""
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            yield from (node.module or "", *[f"{node.module}.{alias.name}" for alias in node.names])
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def place(module: str, modules: set[str]) -> str | None:
    """The part of the library that a module belongs to: ``indexing``, a folder of ``videoloader``, or itself."""
    known = module if module in modules else module.rpartition(".")[0]
    return ".".join(known.split(".")[:2]) if known in modules and known != "videoloader" else None


def test_no_folders_import_each_other() -> None:
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
    assert graph["videoloader.loader"] >= {"videoloader.batching", "videoloader.order"}
    assert not graph["videoloader.padding"] - {"videoloader.checks", "videoloader.errors"}
    TopologicalSorter(graph).prepare()  # a CycleError names the folders
