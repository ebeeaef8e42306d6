"""Forks wait for blocks under ``no_forks``, and cached properties do not outlast a fork half computed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from child_environment import SAFE_PATH, child_environment

PREAMBLE = """
import os, signal, sys, threading, time
at_fork = []  # to be called when the process is about to be forked, after the library's own function
os.register_at_fork(before=lambda: [each() for each in at_fork])
from videoloader.runtime import forks
from videoloader.runtime.cached_property import cached_property
from videoloader.runtime.forks import no_forks

signal.alarm(300)

def child(function):
    if not (child := os.fork()):
        signal.alarm(100)
        try:
            os._exit(0 if function() else 8)
        finally:
            os._exit(9)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

def in_block(function, inside, go_on):
    "In another thread: a block during which a function is called, once it may."
    def run():
        with no_forks():
            inside.set()
            go_on.wait()
            function()
    thread = threading.Thread(target=run)
    thread.start()
    inside.wait()
    return thread

def can_enter():
    with no_forks(), no_forks():
        return True
"""


def run(program: str, *arguments: str) -> None:
    command = [sys.executable, "-W", "ignore:This process:DeprecationWarning", *SAFE_PATH, "-c", program, *arguments]
    done = subprocess.run(command, env=child_environment(), capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr[-4000:]


PROGRAMS = {
    "a fork waits for other threads' blocks": """
ended, go_on = [], threading.Event()
thread = in_block(lambda: ended.append(True), threading.Event(), go_on)
threading.Timer(0.3, go_on.set).start()
assert child(lambda: ended and can_enter()) == 0
thread.join()
""",
    "a new thread begins no block while a fork waits": """
order, go_on = [], threading.Event()
thread = in_block(lambda: order.append("first"), threading.Event(), go_on)
def late():
    while forks._registering.acquire(blocking=False):
        forks._registering.release()
    go_on.set()
    with no_forks():
        order.append("late")
other = threading.Thread(target=late)
other.start()
assert child(lambda: order == ["first"]) == 0
other.join(), thread.join()
assert order == ["first", "late"]
""",
    "a thread may fork within its own block": """
with no_forks():
    assert child(can_enter) == 0
    with no_forks():
        assert child(can_enter) == 0
assert child(can_enter) == 0 and can_enter()
""",
    "several threads may fork at once": """
codes = []
threads = [threading.Thread(target=lambda: codes.append(child(can_enter))) for _ in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert codes == [0] * 8 and can_enter()
""",
    "a finalizer that runs while its thread forks does not wait": """
entered = []
at_fork.append(lambda: entered.append(can_enter()))
assert child(lambda: entered == [True] and can_enter()) == 0
assert can_enter()
""",
    "a signal's handler that raises while a process is forked leaves no thread waiting": """
import _thread, random
def used():
    done = []
    thread = threading.Thread(target=lambda: done.append(can_enter()))
    thread.start()
    thread.join(60)
    return done == [True]
assert can_enter() and used()
os.register_at_fork(after_in_parent=_thread.interrupt_main)
with open(os.devnull, "w") as sys.stderr:
    for _ in range(5):
        try:
            if not (pid := os.fork()):
                os._exit(0)
        except KeyboardInterrupt:
            pass
        assert used()
sys.stderr = sys.__stderr__
""",
    "a fork does not wait for longer than its patience": """
forks._PATIENCE = 0.1
go_on = threading.Event()
thread = in_block(lambda: None, threading.Event(), go_on)
assert child(can_enter) == 0
go_on.set()
thread.join()
""",
    "a cached property is computed by another thread": """
computing, go_on = threading.Event(), threading.Event()
class Numbers:
    @cached_property
    def first(self):
        computing.set()
        go_on.wait()
        return 1
numbers = Numbers()
thread = threading.Thread(target=lambda: numbers.first)
thread.start()
computing.wait()
assert child(lambda: go_on.set() or numbers.first == 1) == 0
go_on.set()
thread.join()
assert vars(numbers) == {"first": 1} and isinstance(Numbers.first, cached_property)
""",
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_it_holds_that(program: str) -> None:
    run(PREAMBLE + program)


def test_first_reads_import_nothing_whose_lock_a_fork_could_keep(sample: Callable[[str], Path]) -> None:
    program = """
import sys
import videoloader as vl
vl.Video, vl.VideoLoader, vl.VideoDataset, vl.RandomWindow
before = set(sys.modules)
data = vl.VideoDataset.from_paths([sys.argv[1]] * 3)
vl.Video(sys.argv[1], device="cpu")[0]
list(vl.VideoLoader(data, vl.RandomWindow(4), batch_size=2, device="cpu", num_workers=2))
assert set(sys.modules) == before, set(sys.modules) - before
"""
    run(program, str(sample("h264_mp4")))


@pytest.mark.parametrize("first", ["vl.Video", "import videoloader.interop.torch", "import videoloader.indexing"])
def test_a_fork_waits_for_the_import_of_another_thread(sample: Callable[[str], Path], first: str) -> None:
    program = """
import os, signal, sys, threading, time
from videoloader.runtime import forks
signal.alarm(300)
forks._PATIENCE = 250

def use():
    import videoloader as vl
    exec(sys.argv[2])
    return vl.Video(sys.argv[1], device="cpu")[0].shape

thread = threading.Thread(target=use)
thread.start()
while not {"torch", "av"} & sys.modules.keys():  # of which the first imports ``logging`` by and by
    time.sleep(0.001)
if not (child := os.fork()):
    signal.alarm(100)
    os._exit(0 if use() else 8)
assert os.waitpid(child, 0)[1] == 0
thread.join()
"""
    run(program, str(sample("h264_mp4")), first)


def test_a_process_that_is_forked_beside_one_that_starts_does_not_hold_it_up() -> None:
    program = """
import os, signal, subprocess, sys, threading
from videoloader.indexing.store import processes
from videoloader.runtime import child_process
signal.alarm(300)
order, forking = [], threading.Event()

def fork():
    forking.set()
    if not (child := os.fork()):
        signal.alarm(100)
        signal.pause()
    order.append("forked")
    children.append(child)

children = []
plain = subprocess._fork_exec
def start(*arguments):
    thread = threading.Thread(target=fork)
    thread.start()
    forking.wait()
    thread.join(0.5)  # it has to wait for the start
    return plain(*arguments)

subprocess._fork_exec = start
starts = child_process.Starts()
process = child_process.ChildProcess(starts, processes.serve, "math", "floor", "0", imports="math")
order.append("started")
while len(order) < 2:
    signal.sigtimedwait([], 0.01)
assert order == ["started", "forked"], order
process.connection.close()
assert process._process.wait() == 0
assert os.waitpid(children[0], os.WNOHANG) == (0, 0), "it noticed the end of its pipe only when the child had ended"
os.kill(children[0], signal.SIGKILL)
"""
    run(program)
