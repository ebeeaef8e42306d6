"""The version is the same wherever a user reads it."""

from __future__ import annotations

import re
from pathlib import Path

from commands import run

import videoloader as vl

HEADINGS = re.findall(r"^## (.*)$", (Path(__file__).parents[1] / "CHANGELOG.md").read_text(), re.MULTILINE)


def test_the_command_prints_the_version_of_the_package() -> None:
    assert run("--version").stdout == f"videoloader {vl.__version__}\n"


def test_the_newest_heading_of_the_changelog_is_this_version() -> None:
    version, released = re.fullmatch(r"(\d+\.\d+\.\d+) \((unreleased|\d{4}-\d{2}-\d{2})\)", HEADINGS[0]).groups()
    assert vl.__version__ == (f"{version}.dev0" if released == "unreleased" else version)
