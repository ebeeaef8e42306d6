"""Make clips in other processes, each with a GIL of its own.

With small videos, threads of one process keep about eight cores busy; more of them wait for the GIL. The processes are
started afresh, without a fork, and do not import the program that started them. They write frames into the batch's
memory, which both processes share, and are sent a few hundred bytes for each clip.
"""

from __future__ import annotations

import os
import pickle
import select
import struct
import threading
import time
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from multiprocessing.reduction import send_handle
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch

from videoloader.errors import DecodeError
from videoloader.errors.of_handlers import errors_suppressed, raise_of_handler
from videoloader.indexing.sources.opening import is_remote
from videoloader.reading.cancellation import CancelToken
from videoloader.reading.clip_reader import ClipReader, ClipsReport
from videoloader.reading.process_main import Answer, GivenWarning, Task, Work, read_in_process, serve
from videoloader.reading.read_request import ReadRequest
from videoloader.runtime.child_process import ChildProcess, Starts, current_folder, end_processes, receive
from videoloader.runtime.shared_memory import Place, SharedBlock, block_of, new_shared_block, numbers_in_use

# Milliseconds between checks whether a task has been cancelled.
_LOOK_UP = 50
# Seconds in which a process must end cancelled work. One that is stopped, or waits for a disk, would not.
_MOST_WAITED = 5
# Bytes that a pipe that has room takes without waiting.
_SENT_AT_ONCE = 1 << 15
# Clips that threads make themselves before processes are started, one for each further clip. Starting a process takes
# two seconds of a core, which a few clips do not repay.
_CLIPS_BEFORE = 32
# Number of processes that may die over one clip before it is given up.
_MOST_DEATHS = 2
# Indexes and other objects that a process keeps.
_MOST_KNOWN = 16
_numbers = count()
_number_of_known: weakref.WeakKeyDictionary[object, int] = weakref.WeakKeyDictionary()
# Tensors in shared memory, each with its place there.
Shared: TypeAlias = Sequence[tuple[SharedBlock, Place]]


def _number_of(known: object) -> int:
    """Return the number of an index or another object that processes keep. Numbers are never used again."""
    number = _number_of_known.get(known)
    return _number_of_known.setdefault(known, next(_numbers)) if number is None else number


class _Process(ChildProcess):
    """One of the processes, and what has been sent to it."""

    def __init__(self, starts: Starts) -> None:
        # ``Connection.poll`` and ``send`` create objects on each call, which takes longer than the system call itself.
        self._answered, self._has_room = select.poll(), select.poll()
        # Numbers of the objects it keeps, least recently used first, and of its memory blocks.
        self._known: OrderedDict[int, None] = OrderedDict()
        self._blocks: set[int] = set()
        self._cancelled = new_shared_block(1)
        super().__init__(starts, serve, imports=serve.__module__)
        try:
            self._answered.register(self.connection.fileno(), select.POLLIN)
            self._has_room.register(self.connection.fileno(), select.POLLOUT)
            with errors_suppressed(ConnectionError):  # ``is_ready`` finds that it has died
                send_handle(self.connection, self._cancelled.descriptor, self._process.pid)
        except BaseException:
            self.end()
            raise

    def is_ready(self) -> bool:
        """Whether the process has started up, which takes a second or two.

        Raises:
            EOFError, OSError: the process has died, or the system refuses to tell.
        """
        if self.connection.poll():
            receive(self.connection)
            self.note_begun()
        return self.has_begun

    def do(self, work: Work, known: object, tensors: Shared, token: CancelToken) -> Answer:
        """Have some work done, and wait for the answer.

        Raises:
            EOFError, ConnectionError: the process has died.
            OSError: the system refuses something else. What the process has received is unknown.
            ReadCancelled: the work was cancelled, and the process does not end it.
        """
        in_use = numbers_in_use()
        gone = [block for block in self._blocks if block not in in_use]
        new = {block.number: block for block, _ in tensors if block.number not in self._blocks}
        self._blocks.difference_update(gone)
        self._blocks.update(new)
        number = _number_of(known)
        sent = None if number in self._known else known
        self._known[number] = None
        self._known.move_to_end(number)
        forgotten = [self._known.popitem(last=False)[0]] if len(self._known) > _MOST_KNOWN else []
        places = [(block.number, place) for block, place in tensors]
        self._cancelled.memory[0] = 0
        task = Task(forgotten, gone, current_folder(), number, sent, list(new), places, work)
        self._send(pickle.dumps(task, pickle.HIGHEST_PROTOCOL), token)
        for block in new.values():
            self._wait(self._has_room, token)
            self._send_block(block)
        self._wait(self._answered, token)
        answer: Answer = receive(self.connection)
        return answer

    def _wait(self, ready: select.poll, token: CancelToken) -> None:
        """Wait until the process has answered, or takes more.

        Raises:
            ReadCancelled: the work was cancelled, and the process does neither in time.
        """
        until = None
        while not ready.poll(_LOOK_UP):
            self._cancelled.memory[0] = token.cancelled
            if token.cancelled:
                until = until or time.monotonic() + _MOST_WAITED
                if time.monotonic() > until:
                    token.raise_if_cancelled()

    def _send(self, message: bytes, token: CancelToken) -> None:
        """Send a message as ``Connection.send_bytes`` does, but wait for room as ``_wait`` does."""
        if not _SENT_AT_ONCE < len(message) < 1 << 31:
            self.connection.send_bytes(message)
            return
        rest = memoryview(struct.pack("!i", len(message)) + message)
        while rest:
            self._wait(self._has_room, token)
            rest = rest[os.write(self.connection.fileno(), rest[:_SENT_AT_ONCE]) :]

    def _send_block(self, block: SharedBlock) -> None:
        try:
            send_handle(self.connection, block.descriptor, self._process.pid)
        except ConnectionError:
            raise
        except OSError as error:  # sending takes another descriptor, of which there may be none
            raise_of_handler(error)
            os.write(self.connection.fileno(), b"\0")  # the process takes a byte with each descriptor
            self._blocks.discard(block.number)


class ProcessPool:
    """Processes that make clips on the CPU, each for one thread at a time.

    Args:
        most: maximum number of processes. They are started when there is work for them, and end with this object.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._idle: list[_Process] = []
        self._all: list[_Process] = []
        self._clips = 0.0
        self._starts = Starts(": num_processes=0 decodes in threads")
        self._finalize = weakref.finalize(self, end_processes, self._all)

    def close(self) -> None:
        """End the processes, when no thread waits for any of them."""
        self._finalize()

    def take(self, clips: float = 1) -> _Process | None:
        """Return an idle process, or None if the calling thread has to do the work itself.

        Args:
            clips: number of clips to be made; see ``do``.

        Raises:
            VideoLoaderError: no process can be started: one ended by itself, or two in a row were killed.
        """
        with self._lock:
            self._clips += clips
            while len(self._all) < min(self._most, self._clips - _CLIPS_BEFORE):
                try:
                    process = _Process(self._starts)
                except (OSError, ValueError) as error:
                    raise_of_handler(error)
                    raise self._starts.error(error) from error
                self._all.append(process)
                self._idle.insert(0, process)
            for process in reversed(self._idle.copy()):
                try:
                    ready = process.is_ready()
                except (EOFError, OSError) as error:
                    raise_of_handler(error)
                    self._idle.remove(process)
                    self._remove(process)
                    continue
                if ready:
                    self._idle.remove(process)
                    return process
            return None

    def give_back(self, process: _Process) -> None:
        """Return a process to the idle ones."""
        with self._lock:
            self._idle.append(process)

    def bury(self, process: _Process) -> int:
        """Remove a process that died, and return its exit status."""
        with self._lock:
            return self._remove(process)

    def _remove(self, process: _Process) -> int:
        self._all.remove(process)
        return process.bury()


class ProcessDied(DecodeError):
    """Several processes have died over the same work."""


class ProcessReader:
    """Makes clips as a ``ClipReader`` does, in another process if possible.

    Sources that only this process can open are read here: URLs, for which the program may have registered file systems
    of its own, and sources that were made in this process. So is everything that is wanted on a GPU, which the other
    processes do not use.

    Args:
        local: the calling thread's own reader.
        processes: processes that threads share.

    Attributes:
        local: as given.
    """

    def __init__(self, local: ClipReader, processes: ProcessPool) -> None:
        self.device = local.device
        self.local, self._processes = local, processes

    def read(self, request: ReadRequest, token: CancelToken | None = None) -> ClipsReport:
        """Read as ``ClipReader.read`` does. A process decodes in one thread, and without the cache, which is on a GPU.

        Raises:
            DecodeError: also if processes died over the clips.
            VideoLoaderError: no process can be started.
        """
        token = token or CancelToken()
        token.raise_if_cancelled()
        source, index, clips = request.source, request.index, request.clips
        if self.device.type == "cpu" and isinstance(source, str) and not is_remote(source):
            wanted = [(each.frame_numbers, each.geometry, each.positions, len(each.corrupt)) for each in clips]
            work = partial(read_in_process, source, wanted, request.output, request.plan)
            try:
                done = self.do(work, index, [clip.slots for clip in clips], token)
            except ProcessDied as error:
                raise DecodeError(error.message, index.source) from None
            if done is not None:
                report: ClipsReport = done[0]
                damaged: list[npt.NDArray[np.bool_]] = done[1]
                for clip, corrupt in zip(clips, damaged, strict=True):
                    clip.corrupt[clip.positions] = corrupt[clip.positions]
                return replace(report, decoded_by=index)
        return self.local.read(request, token)

    def do(
        self, work: Work, known: object, tensors: Sequence[torch.Tensor], token: CancelToken, clips: float = 1
    ) -> Any:
        """Have some work done by another process.

        Args:
            work: the work. It and its result are pickled.
            known: object that the work needs beside its arguments; a process is sent it once. It must be weakly
                referenceable, and equal only to itself.
            tensors: tensors that the work writes to.
            token: cancels the work.
            clips: number of clips that it makes, or that take as long.

        Returns:
            The work's result; None if no process can do it, and the thread has to, with ``local``.

        Raises:
            ProcessDied: several processes have died over it.
            VideoLoaderError: no process can be started, or an error of the work.
        """
        found = [block_of(each) for each in tensors]
        shared = [each for each in found if each is not None]
        if len(shared) < len(found):
            return None
        status = 0
        for _ in range(_MOST_DEATHS):
            process = self._processes.take(clips)
            if process is None:
                return None
            try:
                answer = process.do(work, known, shared, token)
            except (EOFError, ConnectionError) as error:
                status = self._processes.bury(process)
                raise_of_handler(error)
                continue  # it may have been killed for lack of memory
            except OSError as error:  # the system lacks something, which the thread may do without
                self._processes.bury(process)
                raise_of_handler(error)
                return None
            except BaseException:
                self._processes.bury(process)  # its state is unknown
                raise
            self._processes.give_back(process)
            _tell(answer.warnings)
            if answer.error is not None:
                raise answer.error
            return answer.result
        raise ProcessDied(f"{_MOST_DEATHS} processes died over it, the last with exit status {status}")


# Where Python remembers which warnings it has shown.
_registry: dict[Any, Any] = {}


def _tell(given: Sequence[GivenWarning]) -> None:
    """Give the warnings of another process again in this one."""
    for message, category, filename, line in given:
        warnings.warn_explicit(message, category, filename, line, registry=_registry)
