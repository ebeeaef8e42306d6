"""Make the notebook ``tour.ipynb``, and the page and pictures of the documentation's gallery, from ``examples.py``.

python samples/tour/make.py
"""

from __future__ import annotations

import ast
import json
import os
import re
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from PIL.Image import Image

sys.path.insert(0, str(Path(__file__).parents[1]))
from tour.examples import SECTIONS, SETUP

HERE = Path(__file__).parent
NOTEBOOK = HERE / "tour.ipynb"
DOCS = HERE.parents[1] / "docs"
PAGE, PICTURES = DOCS / "gallery.md", DOCS / "gallery"
# The size of frames in the gallery, whose pictures load all at once.
SMALL = 80
TITLE = """\
# A tour in pictures

This notebook shows every frame mode, padding mode and transform on two small videos that it makes itself. The number
and time of each frame are below it. Run it with `jupyter lab tour.ipynb`, and change whatever you like.
"""
GALLERY = """\
# Gallery

This page shows every frame mode, padding mode and transform on two small videos. Each picture is the result of the code
above it. [The notebook](notebooks.md) has the same code, to run and change. `samples/tour/make.py` makes this page.
"""
CODE = """\
??? note "The setup code behind these pictures"

    ```py
{}
    ```
"""


def notebook() -> str:
    """The notebook file, without outputs, which appear when it is run."""
    cells = [_text(TITLE), _code(SETUP)]
    for section in SECTIONS:
        cells.append(_text(f"## {section.title}\n\n{section.text}"))
        for name, code in section.pictures.items():
            cells += [_text(f"### {name}"), _code(code)]
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    content = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def _text(text: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "metadata": {}, "source": text.strip()}


def _code(code: str) -> dict[str, Any]:
    return {
        "cell_type": "code",
        "execution_count": None,
        "metadata": {},
        "outputs": [],
        "source": code.strip(),
    }


def run_cells(cells: list[str], folder: Path) -> list[Any]:
    """The value of the last expression of each cell; None for a cell without one.

    Args:
        cells: list of str. The code, run in order with shared names, as in a notebook.
        folder: Path. The folder in which they run.
    """
    before, names = Path.cwd(), {"__name__": "__main__"}
    given: list[Any] = []
    sys.path.insert(0, str(HERE))
    os.chdir(folder)
    try:
        for cell in cells:
            program = ast.parse(cell)
            last, value = program.body[-1], None
            if isinstance(last, ast.Expr):
                program.body.pop()
            exec(compile(program, "<cell>", "exec"), names)
            if isinstance(last, ast.Expr):
                value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)
            given.append(value)
    finally:
        os.chdir(before)
        sys.path.remove(str(HERE))
    return given


def page() -> str:
    """The gallery's page."""
    setup = "\n".join(f"    {line}".rstrip() for line in SETUP.splitlines())
    parts = [GALLERY, CODE.format(setup)]
    for section in SECTIONS:
        parts.append(f"## {section.title}\n\n{section.text}\n")
        for name, code in section.pictures.items():
            picture = f"![The result of {name}]({PICTURES.name}/{file_of(name)}){{ loading=lazy }}"
            parts.append(f"### {name}\n\n```py\n{code}\n```\n\n{picture}\n")
    return "\n".join(parts)


def file_of(name: str) -> str:
    """The name of a picture's file."""
    return f"{re.sub(r'(?<!^)(?=[A-Z])', '-', name).lower()}.webp"


def draw(folder: Path) -> dict[str, Image]:
    """All pictures of the gallery, by name; videos are written into the folder."""
    cells = [code for section in SECTIONS for code in section.pictures.values()]
    names = [name for section in SECTIONS for name in section.pictures]
    _, _, *pictures = run_cells([SETUP, f"size = {SMALL}", *cells], folder)
    return dict(zip(names, pictures, strict=True))


def main() -> None:
    """Write all."""
    NOTEBOOK.write_text(notebook(), "utf-8")
    PAGE.write_text(page(), "utf-8")
    PICTURES.mkdir(exist_ok=True)
    for old in PICTURES.glob("*.webp"):
        old.unlink()
    with TemporaryDirectory() as folder:
        for name, picture in draw(Path(folder)).items():
            picture.save(PICTURES / file_of(name), quality=20, method=6)
    total = sum(file.stat().st_size for file in PICTURES.iterdir())
    print(f"{NOTEBOOK.name}, {PAGE.name}, {len(list(PICTURES.iterdir()))} pictures of {total / 1000:.0f} kB")


if __name__ == "__main__":
    main()
