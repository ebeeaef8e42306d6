"""Processes of a build that cannot start, are killed or die over a file."""

import errno
import os
import shutil
import signal
import subprocess
import sys
from math import factorial

import pytest
from child_environment import SAFE_PATH
from forked_programs import Program, run_program
from killed_processes import killed_at_the_start
from store_contents import contents
from waiting import becomes, is_running

from videoloader.errors import VideoLoaderError
from videoloader.indexing import IndexStore, build_store
from videoloader.indexing.store import processes
from videoloader.indexing.store.processes import answer_in_processes
from videoloader.indexing.store.tasks import Task
from videoloader.runtime import child_process


def test_a_process_that_is_killed_while_it_starts_is_replaced(videos, tmp_path, monkeypatch):
    killed = killed_at_the_start(monkeypatch, 1)
    assert build_store(videos, tmp_path / "a.db", workers=1).indexed == 5
    assert len(killed) == 1


def test_processes_that_are_killed_whenever_they_start_are_an_error(videos, tmp_path, monkeypatch):
    killed = killed_at_the_start(monkeypatch, 99)
    with pytest.raises(VideoLoaderError, match=r"no process can be started with .*\(exit status -9\)"):
        build_store(videos, tmp_path / "a.db", workers=1)
    assert len(killed) == 2


@pytest.mark.parametrize("python", [None, "", "a\0b", "\ud800"])
def test_a_build_within_a_program_that_is_not_python_says_so(videos, tmp_path, monkeypatch, python):
    monkeypatch.setattr(sys, "executable", python)
    with pytest.raises(VideoLoaderError, match="no process can be started with "):
        build_store(videos, tmp_path / "a.db", workers=1)


def test_a_build_that_cannot_start_python_says_so(videos, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no python"))
    with pytest.raises(VideoLoaderError, match=r"no process can be started with .*no python \(No such file"):
        build_store(videos, tmp_path / "a.db", workers=1)


@pytest.mark.parametrize("answered", [b"", b"\0", b"\0\0\1\0a part of 256 bytes"])
def test_a_file_that_kills_its_process_costs_no_other_its_row(many, monkeypatch, answered):
    """The process is told to die over one of the files, or while it answers; no real file is known to do that."""
    deadly = str(many[7])
    start = (
        "import os, sys; from videoloader.indexing.store import tasks; true = tasks.answer_task; "
        "pipe = lambda: sys._getframe(2).f_locals['connection'].fileno(); "  # that of ``serve``
        f"tasks.answer_task = lambda task: true(task) if task.path != {deadly!r} else "
        f"[os.write(pipe(), {answered!r}), os._exit(9)]; "
    )

    class Popen(subprocess.Popen):
        def __init__(self, command, **settings):
            program = command[2].replace("\nfrom ", f"\n{start}\nfrom ")
            super().__init__([sys.executable, "-c", program], **settings)

    monkeypatch.setattr(child_process.subprocess, "Popen", Popen)
    tasks = [Task(str(path), str(path), None) for path in many[:40]]
    answers = [answer for some in processes.index_in_processes([tasks[:20], tasks[20:]], workers=2) for answer in some]
    rows = {answer.key: answer.row for answer in answers}
    assert len(answers) == len(rows) == 40
    assert rows[deadly].error == "the process that indexed it died"
    assert sum(row.packed is not None for row in rows.values()) == 40 - 7  # 34 good ones before, six texts


def test_processes_that_cannot_start_are_no_fault_of_the_videos(videos, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    with pytest.raises(VideoLoaderError, match=r"no process can be started with .*false"):
        build_store(videos, tmp_path / "index.db", workers=1)
    assert len(IndexStore(tmp_path / "index.db")) == 0


def test_a_build_that_may_start_no_more_processes_names_the_limit(videos, tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(subprocess, "Popen", refuse)
    with pytest.raises(VideoLoaderError, match=r"Resource temporarily unavailable; ulimit -u shows the number of proc"):
        build_store(videos, tmp_path / "a.db", workers=1)


def test_a_process_that_is_forked_in_a_callback_does_not_go_on_with_the_build(many, tmp_path):
    program = f"""
import os, sys
import videoloader as vl
main, children = os.getpid(), []
def progress(done, given):
    if done and not children and os.getpid() == main:
        children.append(os.fork())
try:
    print(vl.build_store({[str(path) for path in many]}, {str(tmp_path / "forked.db")!r}, workers=2, progress=progress))
except vl.ConfigurationError as error:
    assert os.getpid() != main and "before the process was forked" in str(error)
    os._exit(7)
assert os.getpid() == main
assert os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]) == 7
"""
    command = [sys.executable, *SAFE_PATH, "-W", "ignore", "-c", program]
    told = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=200, check=True).stdout
    report = build_store(many, tmp_path / "other.db", workers=2)
    assert told.startswith(f"BuildReport(indexed={report.indexed}, ")
    assert contents(tmp_path / "forked.db") == contents(tmp_path / "other.db")


def test_a_process_that_is_forked_in_a_callback_takes_no_answers_of_the_parent(many, tmp_path):
    """The child comes back from the callback when answers wait in the pipe."""
    program = f"""
import os
import videoloader as vl
calls, children, main, (ready, go) = [], [], os.getpid(), os.pipe()
def progress(done, given):
    calls.append(done)
    if len(calls) == 1:
        children.append(os.fork())
        if not children[0]:
            os.read(ready, 1)  # until the parent waits for answers to the tasks that it has given since
    elif os.getpid() == main and len(calls) == 2:
        os.write(go, b"x")
        os.waitpid(children[0], 0)
paths = {[str(path) for path in many]}
try:
    report = vl.build_store(paths, {str(tmp_path / "forked.db")!r}, workers=1, progress=progress)
except vl.ConfigurationError as error:
    assert os.getpid() != main and "before the process was forked" in str(error)
    os._exit(0)
assert os.getpid() == main
print(report.indexed + len(report.unreadable))
"""
    done = run_program(program)
    assert (done.returncode, done.stdout) == (0, f"{len(contents(tmp_path / 'forked.db'))}\n"), done.stderr


def test_a_process_that_is_forked_while_the_paths_are_taken_does_not_go_on_with_the_build(many, tmp_path):
    program = f"""
import os
import videoloader as vl
main = os.getpid()
def paths():
    for number, path in enumerate({[str(path) for path in many]}):
        if number == 3 and (child := os.fork()):
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        yield path
try:
    report = vl.build_store(paths(), {str(tmp_path / "forked.db")!r}, workers=1)
except vl.ConfigurationError as error:
    assert os.getpid() != main and "before the process was forked" in str(error)
    os._exit(7)
print(report.indexed + len(report.unreadable))
"""
    done = run_program(program)
    assert (done.returncode, done.stdout) == (0, f"{len(contents(tmp_path / 'forked.db'))}\n"), done.stderr


def test_processes_end_with_their_parent_although_a_process_that_it_forked_lives_on(many, tmp_path):
    program = f"""
import os, signal
import videoloader as vl
def progress(done, given):
    if done:
        children = open(f"/proc/self/task/{{os.getpid()}}/children").read()
        if os.fork() == 0:
            os.close(1)
            os.read(0, 1)  # until the test closes the pipe
            os._exit(0)
        print(children, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
vl.build_store({[str(path) for path in many]}, {str(tmp_path / "killed.db")!r}, workers=2, progress=progress)
"""
    running = Program(program)
    children = running.stdout.read().split()
    assert children
    assert becomes(lambda: not any(map(is_running, children)))
    running.stdin.close()


def test_a_build_ends_although_a_process_cannot_be_killed(videos, tmp_path, monkeypatch):
    """As where it waits for a disk that does not answer."""
    monkeypatch.setattr(child_process, "_MOST_WAITED", 0.1)
    started = []

    class Immortal(subprocess.Popen):
        def __init__(self, *arguments, **settings):
            super().__init__(*arguments, **settings)
            started.append(self)

        def kill(self):
            os.kill(self.pid, signal.SIGSTOP)

    monkeypatch.setattr(subprocess, "Popen", Immortal)
    try:
        assert build_store(videos, tmp_path / "a.db", workers=1).indexed == 5
        assert [each.poll() for each in started] == [None]
    finally:
        for each in started:
            os.kill(each.pid, signal.SIGKILL)
            each.wait()


def test_a_process_that_takes_too_long_over_a_task_is_ended():
    """Nothing else ends a call of libavcodec. The others' answers are not lost."""

    def died_over(task, what):
        return f"{task} {what}"

    tasks = [[3, 4], [5, 30_000_000, 6], [7]]
    found = [each for some in answer_in_processes(tasks, 2, factorial, died_over, seconds=0.5) for each in some]
    assert sorted(map(str, found)) == sorted(
        ["6", "24", "120", "720", "5040", "30000000 was ended after 0.5 s of processor time"]
    )
