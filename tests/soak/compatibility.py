"""Run a part of the tests with each Python that is here, the oldest and the newest packages, and each extra.

    python tests/soak/compatibility.py [--pythons PATH ...] [--packages lowest newest] [--extras none all] [--only TEXT]

The wheel is built once for each Python. Each combination gets an environment of its own outside the checkout, made by
``uv`` (``pip install uv``), which must be on the path: ``lowest`` takes the oldest version of each package that
``pyproject.toml`` names and for which there is a wheel, ``newest`` the newest. ``--extras`` are ``none``, ``all`` and
names of extras; unless it is given, ``none`` and ``all`` for each Python, and each extra alone for the last one. The
tests are copied beside the environment, so that nothing of the checkout is imported. A table says what was installed
and how many tests passed; what a combination could not install or did not pass stands below its line. Exit code 1 if
there is any. Python without an interpreter here is not run, and the table's end says so.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
VERSIONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
TOOLS = ["pytest", "pytest-timeout", "hypothesis", "pillow"]
SHOWN = ("av", "numpy", "torch")
# What needs no extra: from bytes to batches, in threads and processes.
CORE = [
    "tests/test_video.py",
    "tests/test_no_workers.py",
    "tests/test_stored_loader.py",
    "tests/convert/test_native.py",
    "tests/indexing/test_containers.py",
    "tests/indexing/store/test_index_store.py",
    "tests/indexing/sources/test_tar.py",
    "tests/interop/test_clip_dataset.py",
]
EXTRAS = {
    "cli": ["tests/cli/test_commands.py", "tests/cli/test_index_command.py"],
    "lightning": ["tests/interop/test_lightning.py"],
    "lmdb": ["tests/indexing/sources/test_records.py::test_values_of_lmdb_by_key"],
    "parquet": ["tests/dataset/test_table_files.py", "tests/dataset/test_saving.py"],
    "ray": ["tests/interop/on_ray/test_ray_indexing.py"],
    "remote": ["tests/indexing/sources/test_remote.py", "tests/indexing/sources/test_patience.py"],
}


class Combination(NamedTuple):
    """An interpreter, which versions of the packages, and which extras."""

    python: Path
    packages: str
    extras: str

    def __str__(self) -> str:
        return f"{_version(self.python)} {self.packages} {self.extras}"


class Outcome(NamedTuple):
    """What was installed, how many tests passed, failed and were skipped, and what was told of failures."""

    versions: dict[str, str]
    counts: dict[str, int]
    seconds: float
    failure: str = ""


def _version(python: Path) -> str:
    told = subprocess.run([python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"], **_TEXT)
    return told.stdout.strip()


_TEXT = {"capture_output": True, "text": True}


def interpreters() -> list[Path]:
    """One of each version that can be started, from the path or from pyenv."""
    found: dict[str, Path] = {}
    for version in VERSIONS:
        places = [
            shutil.which(f"python{version}"),
            *sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python")),
        ]
        for place in places:
            if place is not None and _version(Path(place)) == version:
                found.setdefault(version, Path(place))
    return list(found.values())


def combinations(arguments: argparse.Namespace) -> Iterator[Combination]:
    for python, packages in product(arguments.pythons, arguments.packages):
        for extras in arguments.extras or ["none", "all"]:
            yield Combination(python, packages, extras)
    if arguments.extras is None:
        for extra in EXTRAS:
            yield Combination(arguments.pythons[-1], arguments.packages[-1], extra)


def run(combination: Combination, folder: Path) -> Outcome:
    """Install and test one; ``folder`` keeps wheels and copies of the tests for all."""
    begin = time.monotonic()
    try:
        python = _environment(combination, folder)
    except subprocess.CalledProcessError as error:
        return Outcome({}, {}, time.monotonic() - begin, f"cannot be installed:\n{error.stderr[-3000:]}")
    listed = _uv("pip", "freeze", "--python", python).stdout
    versions = dict(re.findall(r"^([\w-]+)==(\S+)$", listed, re.M))
    names = EXTRAS if combination.extras == "all" else [combination.extras]
    files = CORE if combination.extras == "none" else [file for name in names for file in EXTRAS[name]]
    tests = [python, "-P"] if _version(python) >= "3.11" else [python]
    tests += ["-m", "pytest", "-q", "-p", "no:cacheprovider", "--timeout", "300", *files]
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | {"CI": "1"}
    done = subprocess.run(tests, cwd=folder / "outside", env=environment, **_TEXT)
    counts = {
        what: int(number) for number, what in re.findall(r"(\d+) (passed|failed|skipped|errors?)", done.stdout[-300:])
    }
    failure = "" if done.returncode == 0 else f"exit code {done.returncode}:\n{(done.stdout + done.stderr)[-4000:]}"
    return Outcome(versions, counts, time.monotonic() - begin, failure)


def _environment(combination: Combination, folder: Path) -> Path:
    """The interpreter of a new environment with the wheel, outside the checkout."""
    wheels = folder / f"wheel-{_version(combination.python)}"
    if not wheels.is_dir():
        _uv("build", "--wheel", "--out-dir", wheels, "--python", combination.python, folder / "source")
    (wheel,) = wheels.glob("*.whl")
    place = folder / "environment"
    _uv("venv", "--clear", "--python", combination.python, place)
    python = place / "bin" / "python"
    chosen = (
        list(EXTRAS) if combination.extras == "all" else [] if combination.extras == "none" else [combination.extras]
    )
    # The wheel's own requirements, named here, so that they are the ones of which the lowest versions are wanted.
    wanted = [*_requirements(wheel, chosen), f"videoloader @ {wheel.as_uri()}"]
    lowest = ["--resolution", "lowest-direct"] if combination.packages == "lowest" else []
    _uv("pip", "install", "--python", python, "--only-binary", ":all:", *lowest, *wanted)
    _uv("pip", "install", "--python", python, "--only-binary", ":all:", *TOOLS)
    return python


def _requirements(wheel: Path, extras: Sequence[str]) -> list[str]:
    """What the wheel asks for, by itself and for these extras."""
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        lines = re.findall(
            r"^Requires-Dist: ([^;\n]+)(?:; extra == .([\w-]+).)?$", archive.read(metadata).decode(), re.M
        )
    return [requirement for requirement, extra in lines if extra in ("", *extras)]


def _uv(*arguments: object) -> subprocess.CompletedProcess[str]:
    environment = {"UV_PYTHON_DOWNLOADS": "never"} | os.environ
    return subprocess.run(["uv", *map(str, arguments)], check=True, env=environment, **_TEXT)


def _copy_source(folder: Path) -> None:
    """What the wheel is built of, and the tests, each in a folder of its own."""
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, **_TEXT).stdout.splitlines()
    for name in tracked:
        kept = "outside" if name.startswith("tests/") else "source"
        for place in {kept} | ({"outside"} if name == "pyproject.toml" else set()):
            (folder / place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / place / name)


def _row(cells: Sequence[object]) -> str:
    widths = (7, 8, 10, 9, 9, 14, 7, 7, 8)
    return " ".join(f"{cell!s:{width}}" for cell, width in zip(cells, widths, strict=True))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pythons", nargs="+", type=Path, help="interpreters; those found here unless given")
    parser.add_argument("--packages", nargs="+", choices=("lowest", "newest"), default=["lowest", "newest"])
    parser.add_argument("--extras", nargs="+", choices=("none", "all", *EXTRAS))
    parser.add_argument("--only", default="", help="combinations with this in their line, such as '3.12 lowest'")
    arguments = parser.parse_args()
    arguments.pythons = arguments.pythons or interpreters()
    failures = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _copy_source(folder)
        print(_row(["Python", "packages", "extras", *SHOWN, "passed", "skipped", "seconds"]), flush=True)
        for combination in combinations(arguments):
            if arguments.only not in str(combination):
                continue
            outcome = run(combination, folder)
            shown = [outcome.versions.get(package, "-") for package in SHOWN]
            counts = [outcome.counts.get(what, 0) for what in ("passed", "skipped")]
            line = [*str(combination).split(), *shown, *counts, f"{outcome.seconds:.0f}"]
            print(_row(line), "FAILED" * bool(outcome.failure), flush=True)
            if outcome.failure:
                failures.append(str(combination))
                print(outcome.failure, flush=True)
    print(f"failed: {', '.join(failures) or 'none'}")
    missing = sorted(set(VERSIONS) - {_version(python) for python in arguments.pythons})
    print(f"not run, for want of an interpreter: {', '.join(missing) or 'none'}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
