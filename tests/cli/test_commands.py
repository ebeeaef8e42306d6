"""What all commands share: names, exit codes, and output streams."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from child_environment import SAFE_PATH, child_environment
from commands import run, start

import videoloader as vl


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("index", "{0}/none", "-o", "{0}/index.db"), "none: there is no such file or folder"),
        (("index", "{0}", "-o", "{0}/none/index.db"), "cannot be written"),
        (("index", "{0}", "-o", "{0}/h264_mp4/h264_mp4.mp4"), "is not an index store"),
        (("index", "{0}/empty.txt", "-o", "{0}/index.db"), "empty.txt: names no video"),
        (("info", "{0}/none.mp4"), "No such file"),
        (("describe", "{0}/none.csv"), "No such file"),
        (("describe", "{0}", "--mode", "Nothing(3)"), "there is no 'Nothing' here"),
        (("describe", "{0}", "--mode", "RandomWindows(3)"), "there is no 'RandomWindows' here: write RandomWindow"),
        (("describe", "{0}", "--mode", "RandomWindow(0)"), "must be a positive integer"),
        (("describe", "{0}", "--mode", "__import__('os').abort()"), "is not a frame mode"),
        (("describe", "{0}", "--mode", "FrameList({{[1]}})"), "is not a frame mode"),
        (("describe", "{0}", "--mode", "FrameMode()"), "is not a frame mode"),
        (("check", "{0}", "-o", "{0}/h264_mp4/h264_mp4.mp4"), "is an input, which the output would overwrite"),
        (("describe", "{0}", "--html", "{0}/h264_mp4/h264_mp4.mp4"), "is an input, which the output would overwrite"),
        (
            ("describe", "{0}", "--index", "{0}/empty.txt", "--html", "{0}/empty.txt"),
            "is an input, which the output would overwrite",
        ),
        (
            ("check", "{0}", "-o", "{0}/none/report.json"),
            "none/report.json: the report cannot be written (No such file or directory)",
        ),
    ],
)
def test_errors_are_one_line_and_exit_code_2(folder: Path, arguments: tuple[str, ...], message: str) -> None:
    (folder / "empty.txt").write_text("\n")
    done = run(*(argument.format(folder) for argument in arguments))
    assert done.exit_code == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert not done.stdout


def test_a_current_folder_that_was_deleted_is_an_error(folder: Path) -> None:
    python = " ".join((sys.executable, *SAFE_PATH))
    command = f"mkdir gone; cd gone; rmdir ../gone; exec {python} -m videoloader info {folder}/x.mp4"
    done = subprocess.run(["sh", "-c", command], cwd=folder, env=child_environment(), capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (2, "error: the current folder was deleted: change to another one\n")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no device that is always full")
@pytest.mark.parametrize("arguments", [("info", "{0}", "--json"), ("--help",), ("--version",)])
def test_output_that_cannot_be_written_is_one_line_and_exit_code_2(folder: Path, arguments: tuple[str, ...]) -> None:
    given = [argument.format(folder / "h264_mp4/h264_mp4.mp4") for argument in arguments]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    command = [sys.executable, *SAFE_PATH, "-m", "videoloader", *given]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, env=environment)
    assert (done.returncode, done.stderr) == (2, "error: the output cannot be written: No space left on device\n")


def test_characters_that_the_output_cannot_show_are_escaped(folder: Path, tmp_path: Path) -> None:
    path = shutil.copy(folder / "h264_mp4/h264_mp4.mp4", tmp_path / "é.mp4")
    run("index", path, "-o", tmp_path / "index.db")
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    for arguments, shown in [(["describe", path], r"160\xd7128"), (["query", tmp_path / "index.db"], r"\xe9.mp4")]:
        command = [sys.executable, *SAFE_PATH, "-m", "videoloader", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        assert (done.returncode, done.stderr) == (0, "")
        assert shown in done.stdout


def test_a_wrong_name_in_a_mode_is_told_in_a_new_process(folder: Path) -> None:
    command = [sys.executable, *SAFE_PATH, "-m", "videoloader", "describe", str(folder)]
    done = subprocess.run([*command, "--mode", "RandomWindow(16, strides=4)"], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == "error: RandomWindow has no argument strides: write stride\n"


@pytest.mark.parametrize("arguments", [("nothing",), ("index", "a.mp4"), ("info", "a.mp4", "--nothing")])
def test_wrong_use_is_exit_code_2(arguments: tuple[str, ...]) -> None:
    assert run(*arguments).exit_code == 2


def test_ctrl_c_is_exit_code_130(folder: Path) -> None:
    waits = (
        # Shells let what they start in the background ignore it.
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "import time, videoloader.cli.index as module\n"
        "def wait(*_, **__): print('begun', flush=True); time.sleep(600)\n"
        "module.build_store = wait\n"
        "from videoloader.cli import app; app()"
    )
    command = [sys.executable, *SAFE_PATH, "-c", waits, "index", str(folder), "-o", "index.db"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        process.send_signal(signal.SIGINT)
        _, told = process.communicate()
    assert process.returncode == 130
    assert told.startswith("interrupted")
    assert "Traceback" not in told


def test_warnings_and_progress_stay_out_of_stdout(folder: Path, tmp_path: Path) -> None:
    (folder / "h264_mp4" / "film.mxf").write_bytes(b"")
    done = run("index", folder, "-o", tmp_path / "index.db", "--workers", 1, "--json")
    assert done.stdout.startswith("{")
    assert "warning: " in done.stderr


def test_it_tells_its_version() -> None:
    assert run("--version").stdout == f"videoloader {vl.__version__}\n"


def test_a_reader_that_goes_away_is_no_error(folder: Path) -> None:
    with start("info", folder / "h264_mp4/h264_mp4.mp4") as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()


@pytest.mark.parametrize("command", [["check"], ["info", "--json"]], ids=" ".join)
def test_without_standard_output_it_does_its_work(folder: Path, command: list[str]) -> None:
    process = start(*command, folder / "h264_mp4/h264_mp4.mp4", preexec_fn=lambda: os.close(1))
    assert process.communicate() == ("", "")
    assert process.returncode == 0


def test_shells_complete_it() -> None:
    assert "--show-completion" in run("--help").stdout


def test_the_package_can_be_run() -> None:
    done = subprocess.run([sys.executable, *SAFE_PATH, "-m", "videoloader", "--help"], capture_output=True, text=True)
    assert done.returncode == 0
    assert "describe" in done.stdout


def test_without_typer_it_says_what_to_install() -> None:
    code = "import sys; sys.modules['typer'] = None; import videoloader.cli"
    done = subprocess.run([sys.executable, *SAFE_PATH, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.strip() == "the videoloader command needs typer and rich: pip install 'videoloader[cli]'"
