"""Progress lines appear only in terminals and notebooks; the log always records the job."""

from __future__ import annotations

import io
import logging
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import videoloader as vl
from videoloader import live_line

Sample = Callable[[str], Path]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    screen = Terminal()
    monkeypatch.setattr(live_line, "sys", SimpleNamespace(stderr=screen, modules=sys.modules))
    for name in ("VIDEOLOADER_PROGRESS", "RANK", "TERM"):
        monkeypatch.delenv(name, raising=False)
    # However fast the job is.
    monkeypatch.setattr(live_line, "_SECONDS_BEFORE", 0.0)
    monkeypatch.setattr(live_line, "_SECONDS_BETWEEN", 0.0)
    return screen


def some_job() -> None:
    with live_line.live_line("counting") as tell:
        tell(1, 4)
        tell(2, 4)


def test_a_line_is_written_over_and_taken_away(terminal: io.StringIO) -> None:
    some_job()
    first, second, end = terminal.getvalue().split("\r")[1:]
    assert first.startswith("counting ━━━━━─────────────── 1/4, ")
    assert second.startswith("counting ━━━━━━━━━━────────── 2/4, ")
    assert end == "\x1b[K"


def test_lines_are_no_wider_than_the_terminal(terminal: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_line, "_columns", lambda: 12)
    some_job()
    assert max(len(line.removesuffix("\x1b[K")) for line in terminal.getvalue().split("\r")) == 11


@pytest.mark.parametrize(
    ("name", "value"), [("VIDEOLOADER_PROGRESS", "0"), ("RANK", "1"), ("PMI_RANK", "1"), ("TERM", "dumb")]
)
def test_the_environment_turns_lines_off(
    name: str, value: str, terminal: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    some_job()
    assert not terminal.getvalue()


def test_short_jobs_have_no_line(terminal: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_line, "_SECONDS_BEFORE", 1e9)
    some_job()
    assert not terminal.getvalue()


def test_a_terminal_that_is_gone_stops_no_job(terminal: io.StringIO) -> None:
    terminal.close()
    some_job()


def test_an_error_of_the_job_takes_the_line_away(terminal: io.StringIO) -> None:
    def fail() -> None:
        with live_line.live_line("counting") as tell:
            tell(1, 2)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert terminal.getvalue().endswith("\r\x1b[K")


def test_a_function_of_the_user_is_told_instead(terminal: io.StringIO) -> None:
    seen: list[tuple[int, int]] = []
    with live_line.live_line("counting", lambda done, total: seen.append((done, total))) as tell:
        tell(1, 2)
    assert seen == [(1, 2)]
    assert not terminal.getvalue()


def test_notebooks_have_one_output_that_changes(monkeypatch: pytest.MonkeyPatch, terminal: io.StringIO) -> None:
    shown: list[str] = []

    def display(content: dict[str, str], **settings: Any) -> Any:
        assert settings == {"raw": True, "display_id": True}
        shown.append(content["text/plain"])
        return SimpleNamespace(update=lambda content, raw: shown.append(content["text/plain"]))

    shell = SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=display))  # type: ignore[arg-type]
    some_job()
    assert [text.partition(",")[0].split()[-1:] for text in shown] == [["1/4"], ["2/4"], []]
    assert not terminal.getvalue()


@pytest.mark.parametrize("job", ["build_store", "verify", "describe", "from_folder", "save", "loader"])
def test_each_long_job_has_a_line_and_a_record(
    job: str, sample: Sample, tmp_path: Path, terminal: io.StringIO, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "videos" / "a").mkdir(parents=True)
    path = tmp_path / "videos" / "a" / "clip.mp4"
    path.symlink_to(sample("h264_mp4"))
    data = vl.VideoDataset.from_paths([path])
    what, run = {
        "build_store": ("indexing", lambda: vl.build_store([path], tmp_path / "a.db", workers=1)),
        "verify": ("verifying", lambda: vl.verify([path], device="cpu", workers=1)),
        "describe": ("indexing", data.describe),
        "from_folder": ("listing", lambda: vl.VideoDataset.from_folder(tmp_path / "videos")),
        "save": ("saving columns", lambda: data.save(tmp_path / "a.arrow")),
        "loader": ("indexing", lambda: vl.VideoLoader(data, vl.RandomWindow(2), batch_size=1, device="cpu")),
    }[job]
    if job == "save":
        pytest.importorskip("pyarrow")
    with caplog.at_level(logging.INFO, "videoloader"):
        run()
    assert f"\r{what} " in terminal.getvalue()
    assert terminal.getvalue().endswith("\r\x1b[K")
    assert any(record.getMessage().startswith(f"{what}: ") for record in caplog.records)
    assert {record.name for record in caplog.records} == {"videoloader"}


def test_the_logger_is_silent_unless_asked(tmp_path: Path) -> None:
    program = (
        "from videoloader.live_line import live_line\n"
        "with live_line('counting') as tell: tell(1, 1)\n"
        "from videoloader.live_line import LOG; LOG.error('told')"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout == ran.stderr == ""


class Closed(io.StringIO):
    def isatty(self) -> bool:
        raise OSError("the terminal is gone")


@pytest.mark.parametrize("screen", [None, object(), Closed(), io.StringIO()])
def test_no_stream_for_errors_stops_a_job(monkeypatch: pytest.MonkeyPatch, screen: Any) -> None:
    if isinstance(screen, io.StringIO):
        screen.close()
    monkeypatch.setattr(live_line, "sys", SimpleNamespace(stderr=screen, modules=sys.modules))
    monkeypatch.delenv("RANK", raising=False)
    assert list(live_line.counted_live("counting", range(3), 3)) == [0, 1, 2]


def test_one_filter_takes_all_warnings(tmp_path: Path) -> None:
    for name in ("train", "val"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.mp4").write_bytes(b"")
    with pytest.warns(vl.VideoLoaderWarning, match="look like splits"):
        vl.VideoDataset.from_folder(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", vl.VideoLoaderWarning)
        vl.VideoDataset.from_folder(tmp_path)
    assert issubclass(vl.CorruptFramesWarning, vl.VideoLoaderWarning)
    assert issubclass(vl.VideoWarning, (vl.VideoLoaderWarning))


def test_every_warning_of_the_library_is_of_its_own_category() -> None:
    root = Path(vl.__file__).parents[1]
    sources = [path for name in ("videoloader", "indexing", "padding") for path in (root / name).rglob("*.py")]
    calls = [
        line
        for path in sources
        for line in path.read_text("utf-8").splitlines()
        if "warnings.warn(" in line and "VideoLoaderWarning" not in line and "VideoWarning" not in line
    ]
    assert [line for line in calls if "CorruptFramesWarning" not in line and "DeprecationWarning" not in line] == []
