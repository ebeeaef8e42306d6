"""The examples in docstrings and documents run, and print what they show."""

from __future__ import annotations

import ast
import doctest
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from example_files import names_of_examples, write_example_files

import videoloader as vl

ROOT = Path(__file__).parents[1]
NOT_RUN = {
    "decoding.sessions.set_decoder_memory": "needs a GPU",
    "indexing.sources.opening.open_source": "needs a server",
    "indexing.sources.remote.RemoteSource": "needs a bucket",
    "indexing.store.export.torchcodec_frame_mappings": "needs torchcodec",
    "interop.arrays.to_cupy": "needs a GPU",
    "interop.arrays.to_tensorflow": "needs TensorFlow",
    "interop.huggingface.from_huggingface": "writes into the user's cache of data sets",
    "interop.lightning.VideoDataModule": "needs a model to train",
    "interop.ray.clips.read_clips": "needs a Ray cluster",
    "interop.ray.indexing.build_store": "needs a Ray cluster",
    "interop.ray.skipped.SkippedClips": "needs a Ray cluster",
    "interop.torch.decoding_loader.DecodingLoader": "needs a GPU",
    "order.by_column.ByColumn": "needs several machines",
}
# What they print are times, or numbers of a larger data set: the words must be these, the numbers may be others.
OTHER_NUMBERS = {
    "batching.stats.LoaderStats",
    "dataset.dataset.VideoDataset.build_store",
    "indexing.store.building.build_store",
    "indexing.store.frame_table.pack_index",
    "indexing.store.merging.merge_stores",
}


def examples_in(path: Path) -> Iterator[tuple[str, str, str]]:
    """(name, module, text) of all docstrings of a module that hold examples."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    module = ".".join(part for part in ("videoloader", *parts[parts[0] == "videoloader" :]) if part != "__init__")

    def inside(node: ast.AST, name: str) -> Iterator[tuple[str, str, str]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.ClassDef, ast.FunctionDef)):
                text = ast.get_docstring(child) or ""
                if ">>> " in text:
                    yield f"{name}.{child.name}".removeprefix("videoloader."), module, text
                yield from inside(child, f"{name}.{child.name}")

    return inside(ast.parse(path.read_text()), module)


DOCSTRINGS = [
    example
    for package in ("videoloader", "indexing", "padding")
    for path in sorted((ROOT / package).rglob("*.py"))
    for example in examples_in(path)
]


class NumbersMayDiffer(doctest.OutputChecker):
    """Compares what stands between the numbers."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        want, got = (re.sub(r"\d+(\.\d+)?|━+", "0", text) for text in (want, got))
        return super().check_output(want, got, optionflags)


@pytest.fixture(scope="module")
def shared_names(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("examples"))
        write_example_files(Path.cwd())
        public = {name: getattr(vl, name) for name in vl.__all__}
        yield {**public, "vl": vl, "np": np, "torch": torch, **names_of_examples(Path.cwd())}


@pytest.fixture
def names(shared_names: dict[str, Any]) -> dict[str, Any]:
    """What an example finds, which may change it."""
    return dict(shared_names)


@pytest.mark.filterwarnings("ignore:This DataLoader will create", "ignore:'set_vital' is deprecated")
@pytest.mark.parametrize(("name", "module", "text"), DOCSTRINGS, ids=[name for name, _, _ in DOCSTRINGS])
def test_an_example_gives_what_it_says(name: str, module: str, text: str, names: dict[str, Any]) -> None:
    if name in NOT_RUN:
        pytest.skip(f"an example that {NOT_RUN[name]}")
    names = {**vars(importlib.import_module(module)), **names}
    example = doctest.DocTestParser().get_doctest(text, names, name, None, None)
    said: list[str] = []
    checker = NumbersMayDiffer() if name in OTHER_NUMBERS else None
    runner = doctest.DocTestRunner(checker, verbose=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert not runner.run(example, out=said.append).failed, "".join(said)


@pytest.mark.parametrize(
    "document", ["README.md", *sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("docs/**/*.md"))]
)
def test_the_python_in_a_document_runs(document: str, names: dict[str, Any]) -> None:
    for block in re.findall(r"^```python\n(.*?)^```$", (ROOT / document).read_text(), re.MULTILINE | re.DOTALL):
        exec(compile(block, document, "exec"), names)


def test_each_example_runs_or_stands_here_with_a_reason() -> None:
    found = {name for name, _, _ in DOCSTRINGS}
    assert NOT_RUN.keys() | OTHER_NUMBERS <= found
    assert not [name for name, _, text in DOCSTRINGS if "doctest:" in text]
