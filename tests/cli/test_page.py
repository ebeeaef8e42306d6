"""The commands on the documentation's command-line page run, and print what it shows."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from commands import run
from example_files import write_example_files
from typer.main import get_command

from videoloader.cli import app, terminal

PAGE = (Path(__file__).parents[2] / "docs" / "command-line.md").read_text()
# What a command prints here depends on the machine.
OTHER_ON_EACH_MACHINE = ("bench", "doctor")
NOT_WELL = "videoloader check kinetics/a.mp4 kinetics/broken.mp4 -o report.json"


def plain(printed: str) -> str:
    """What stands between numbers and lines of tables."""
    return " ".join(re.sub(r"[\d.]+|[━─┏┓┗┛┳┻┡┩╇├┤┼└┘┴]+", " ", printed).split())


def test_the_commands_of_the_page_print_what_it_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(terminal.out, "_width", 100)
    write_example_files(tmp_path)
    (tmp_path / "kinetics/index.db").unlink()  # the page begins without one
    blocks = re.findall(r"^```console\n\$ (.*?)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert len(blocks) > 8
    for command, shown in blocks:
        name, *arguments = shlex.split(command)[1:]
        done = run(name, *arguments)
        assert done.exit_code == (command == NOT_WELL), (command, done.stderr)
        if name not in OTHER_ON_EACH_MACHINE:
            assert plain(done.stdout) == plain(shown), command


def test_each_command_has_its_section() -> None:
    commands = {name for name, each in get_command(app).commands.items() if not each.hidden}  # type: ignore[attr-defined]
    assert commands == set(re.findall(r"^## (\w+)$", PAGE, re.MULTILINE))


def test_all_options_of_the_page_are_there() -> None:
    group = get_command(app)
    commands = [group, *group.commands.values()]  # type: ignore[attr-defined]
    known = {option for each in commands for parameter in each.params for option in parameter.opts}
    assert set(re.findall(r"--[a-z][a-z-]*", PAGE)) <= known | {"--help"}
