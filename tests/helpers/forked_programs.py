"""Programs that tests run in processes of their own, each forked from one process that has imported torch for all.

The imports take seconds of a core, and most programs do little else. The process that is forked has done nothing but
import: no thread has started, and nothing of the tests is in it. What a program does, where it writes, what it gets as
arguments and how it ends is as with ``python -c program arguments`` or ``python program.py arguments``. Programs that
are about a fresh interpreter, its options or its imports need ``subprocess``.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

from child_environment import SAFE_PATH, child_environment
from waiting import PATIENCE

# Forks twice for each program: the first process waits for the second, which runs it, and reports its number and end.
SERVER = """
import gc, json, os, signal, socket, sys

import torch, torch.distributed, torch.utils.data
import videoloader as vl
import videoloader.interop.torch

for name in vl.__all__:
    getattr(vl, name)

def next_program(asking):
    "Return in the process of each program; forks it, and ends with what asks."
    while True:
        message, given, *_ = socket.recv_fds(asking, 1 << 20, 4)
        if not message:
            os._exit(0)
        if not os.fork():
            os.setsid()
            if not (child := os.fork()):
                for target, number in enumerate(given[:3]):
                    os.dup2(number, target)
                for number in (*given, asking.detach()):
                    os.close(number)
                return json.loads(message)
            asking.close()
            os.write(given[3], f"{child}\\n".encode())
            for number in (0, 1, 2, *given[:3]):
                os.close(number)
            os.write(given[3], f"{os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}\\n".encode())
            os._exit(0)
        for number in given:
            os.close(number)
        while True:
            try:
                if not os.waitpid(-1, os.WNOHANG)[0]:
                    break
            except ChildProcessError:
                break

gc.freeze()  # an end would look at all that was imported
program = next_program(socket.socket(fileno=int(sys.argv[1])))
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has programs in the background ignore it
os.chdir(program["cwd"])
os.environ.clear()
os.environ.update(program["env"])
torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", os.cpu_count())))
sys.argv[:] = program["argv"]
sys.path[:0] = [place for place in program["path"] if place not in sys.path]
if program["file"]:
    __file__ = sys.argv[0]
code = compile(program["source"], program["file"] or "<string>", "exec")
del gc, json, os, signal, socket, torch, vl, videoloader, name, next_program, program
exec(code)
"""


# Part of a program: in_child(function) returns 7 if the function returns something true in a forked process.
IN_CHILD = """
import os, signal, sys

def in_child(function):
    sys.stdout.flush()
    if not (child := os.fork()):
        signal.alarm(60)
        os._exit(7 if function() else 8)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
"""


@cache
def _server() -> socket.socket:
    """The process that forks, as a connection to it: it ends with the connection."""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, *SAFE_PATH, "-W", "ignore:This process:DeprecationWarning", "-c", SERVER]
    process = subprocess.Popen(
        [*command, str(its.fileno())], env=child_environment(), cwd="/", pass_fds=[its.fileno()], start_new_session=True
    )
    its.close()

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


class Program:
    """A program that runs, with the methods of a ``subprocess.Popen`` of text.

    Args:
        program: the program's text, or its file.
        arguments: what ``sys.argv`` holds after the program.
        cwd: its folder, this process's by default.
        env: its environment, ``child_environment()`` by default.
    """

    def __init__(
        self, program: str | Path, *arguments: object, cwd: Path | None = None, env: Mapping[str, str] | None = None
    ) -> None:
        env = child_environment() if env is None else dict(env)
        file = str(program) if isinstance(program, Path) else ""
        place = [str(Path(file).parent)] if file and not env.get("PYTHONSAFEPATH") else []
        asked = {
            "source": program.read_text("utf-8") if isinstance(program, Path) else program,
            "file": file,
            "argv": [file or "-c", *map(str, arguments)],
            "path": [*place, *env.get("PYTHONPATH", "").split(os.pathsep)],
            "cwd": str(cwd or Path.cwd()),
            "env": env,
        }
        pipes = [os.pipe() for _ in range(3)]
        self.stdin, self.stdout = os.fdopen(pipes[0][1], "w"), os.fdopen(pipes[1][0])
        self._report = os.fdopen(pipes[2][0])
        self._stderr = tempfile.TemporaryFile("w+")  # noqa: SIM115 - read at the end, so that it is never full
        given = [pipes[0][0], pipes[1][1], self._stderr.fileno(), pipes[2][1]]
        socket.send_fds(_server(), [json.dumps(asked).encode()], given)
        for number in (pipes[0][0], pipes[1][1], pipes[2][1]):
            os.close(number)
        self.pid = int(self._report.readline())
        self.returncode: int | None = None

    def communicate(self, timeout: float = PATIENCE) -> tuple[str, str]:
        """Wait for its end, and return what it wrote to its two streams. A test that ends before kills it."""
        self.stdin.close()
        begin, late = time.monotonic(), threading.Timer(timeout, self.kill)
        late.start()
        try:
            said = self.stdout.read()
            assert time.monotonic() - begin < timeout, f"the program did not end within {timeout} s"
            self.returncode = int(self._report.readline())
        except BaseException:
            self.kill()
            raise
        finally:
            late.cancel()
        with self._stderr, self.stdout, self._report:
            self._stderr.seek(0)
            return said, self._stderr.read()

    def send_signal(self, number: int) -> None:
        """Send it a signal. That must come before ``communicate``."""
        os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill it and all processes of its session, if it still runs."""
        if self.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(os.getpgid(self.pid), signal.SIGKILL)


def run_program(
    program: str | Path,
    *arguments: object,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float = PATIENCE,
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end; see ``Program``."""
    running = Program(program, *arguments, cwd=cwd, env=env)
    said, errors = running.communicate(timeout)
    return subprocess.CompletedProcess([str(program), *map(str, arguments)], running.returncode, said, errors)
