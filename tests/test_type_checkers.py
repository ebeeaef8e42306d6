"""How type checkers and editors see the public names."""

from __future__ import annotations

import inspect
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest

import videoloader as vl
from videoloader import padding
from videoloader.errors.argument_names import hints_of
from videoloader.interop.torch import ClipDataset, ClipRequest, DecodingLoader
from videoloader.transforms.automatic import PolicyName
from videoloader.transforms.policies import POLICIES

# Text that may be anything.
FREE = {"CropToBox.__init__": "column", "activitynet": "subset", "show_progress": "description"}
TESTS = Path(__file__).parent


def public_functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    public = {name: getattr(module, name) for module in (vl, vl.layouts) for name in module.__all__}
    public |= {each.__name__: each for each in (ClipDataset, ClipRequest, DecodingLoader)}
    for name, each in public.items():
        if inspect.isfunction(each):
            yield name, each
        elif inspect.isclass(each) and not issubclass(each, BaseException):
            for method, function in inspect.getmembers(each, callable):
                if method == "__init__" or not method.startswith("_"):
                    yield f"{name}.{method}", function


def literals(hint: Any) -> set[object]:
    """All values of the Literals of a type."""
    inner = get_args(hint)
    return set(inner) if get_origin(hint) is Literal else set().union(*map(literals, inner)) if inner else set()


def text_arguments() -> Iterator[tuple[str, str, str, Any]]:
    """Arguments whose default is a word: function, name, default, and type."""
    for called, function in public_functions():
        try:
            parameters = inspect.signature(function).parameters.values()
        except ValueError:  # of Python itself
            continue
        hints = hints_of(function, (getattr(vl, called.partition(".")[0], None),))
        for each in parameters:
            if isinstance(each.default, str) and each.default and each.name != "device":
                yield called, each.name, each.default, hints[each.name]


def test_arguments_with_a_fixed_set_of_values_are_literals() -> None:
    found = [each for each in text_arguments() if FREE.get(each[0]) != each[1]]
    assert len(found) > 50
    assert [(called, name) for called, name, default, hint in found if default not in literals(hint)] == []


def test_literals_are_complete() -> None:
    assert literals(padding.Mode) == {*padding.MODES, *import_module("videoloader.padding.pad")._ALIASES}
    assert literals(padding.Filling) == literals(padding.Mode) - {"none"}
    assert literals(padding.Repeating) == literals(padding.Filling) - {"constant"}
    assert literals(PolicyName) == set(POLICIES)


def test_basedpyright_finds_no_error_in_ordinary_user_code(tmp_path: Path) -> None:
    checker = shutil.which("basedpyright", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    if checker is None:
        pytest.skip("basedpyright is not here, which brings 280 MB: pip install basedpyright")
    # As an install lays them out: type checkers read no path hooks.
    (tmp_path / "videoloader").mkdir()
    for part in Path(vl.__file__).parent.iterdir():
        (tmp_path / "videoloader" / part.name).symlink_to(part)
    for part in ("indexing", "padding"):
        if not (tmp_path / "videoloader" / part).exists():
            (tmp_path / "videoloader" / part).symlink_to(TESTS.parent / part)
    shutil.copy(TESTS / "user_page.py", tmp_path)
    settings = {"include": ["user_page.py"], "typeCheckingMode": "recommended", "extraPaths": [str(tmp_path)]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    run = [checker, "--outputjson", "--pythonpath", sys.executable, "-p", str(tmp_path)]
    answer = subprocess.run(run, capture_output=True, text=True, check=False, cwd=tmp_path)
    # Warnings tell of what is Any or unknown in NumPy and PyTorch.
    told = [each for each in json.loads(answer.stdout)["generalDiagnostics"] if each["severity"] == "error"]
    assert [f"{each['range']['start']['line'] + 1}: {each['message']}" for each in told] == []
