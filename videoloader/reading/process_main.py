"""Run in a child process that makes clips and writes them into the parent's shared memory."""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle
from os import chdir, close
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import torch

from videoloader.convert.spec import Geometry, OutputSpec
from videoloader.errors import VideoLoaderError
from videoloader.indexing import VideoIndex
from videoloader.packets.decode_plan import DecodePlan
from videoloader.reading.cancellation import CancelToken, ReadCancelled
from videoloader.reading.clip_reader import ClipReader, ClipsReport
from videoloader.reading.clip_slots import ClipSlots
from videoloader.reading.read_request import ReadRequest
from videoloader.runtime.child_process import current_folder, receive
from videoloader.runtime.shared_memory import Place, map_block

# Work for a process: a function of its reader, an object it knows, tensors in shared memory, and a cancel token. It is
# pickled, so it must be a module-level function or a partial of one.
Work: TypeAlias = Callable[[ClipReader, Any, Sequence[torch.Tensor], CancelToken], Any]


class Task(NamedTuple):
    """A task for a process.

    Attributes:
        forget, forget_blocks: numbers of the objects, and of the memory blocks, that it can drop.
        folder: working directory, against which relative paths are resolved.
        number: number of the object that the work needs.
        known: the object itself; None if it was sent before.
        new_blocks: numbers of the memory blocks whose descriptors follow, or a byte for one that cannot be sent.
        places: number of the memory block of each tensor, and its place there.
        work: the work.
    """

    forget: list[int]
    forget_blocks: list[int]
    folder: str
    number: int
    known: object | None
    new_blocks: list[int]
    places: list[tuple[int, Place]]
    work: Work


# A warning that was given in the process: its message and category, and the file and line that it is about.
GivenWarning: TypeAlias = tuple[Warning | str, type[Warning], str, int]


class Answer(NamedTuple):
    """The answer to a task.

    Attributes:
        result: result of the work; None also if this process cannot do it, for lack of its memory or its folder.
        error: error that ended the work.
        warnings: warnings given during the work.
    """

    result: Any
    error: BaseException | None
    warnings: list[GivenWarning]


def read_in_process(
    path: str,
    wanted: Sequence[tuple[npt.NDArray[np.int64], Geometry, npt.NDArray[np.int64], int]],
    output: OutputSpec,
    plan: DecodePlan | None,
    reader: ClipReader,
    index: VideoIndex,
    slots: Sequence[torch.Tensor],
    token: CancelToken,
) -> tuple[ClipsReport, list[npt.NDArray[np.bool_]]] | None:
    """Do the work of ``ClipReader.read`` for some clips of one video.

    ``wanted`` has the ``frame_numbers``, ``geometry`` and ``positions`` of each ``ClipSlots``, and the length of its
    ``corrupt``.

    Returns:
        The report, and ``ClipSlots.corrupt`` of each clip. None if the index turned out to be wrong:
        corrections cannot be sent to another process, which has to read the clips itself.
    """
    clips = [
        ClipSlots(numbers, geometry, there, np.zeros(length, np.bool_), positions)
        for (numbers, geometry, positions, length), there in zip(wanted, slots, strict=True)
    ]
    report = reader.read(ReadRequest(path, index, clips, output, plan), token)
    if report.corrections:
        return None
    return report, [clip.corrupt for clip in clips]


class _SharedToken(CancelToken):
    """A cancel token that another process sets by writing to shared memory."""

    def __init__(self, flag: npt.NDArray[np.uint8]) -> None:
        super().__init__()
        self._flag = flag

    @property
    def cancelled(self) -> bool:  # type: ignore[override]
        return bool(self._flag[0])


def serve(descriptor: int) -> None:
    """Carry out tasks received through a pipe until it is closed."""
    torch.set_num_threads(1)  # there is a process for each core
    connection: Connection[Any, Any] = Connection(descriptor)
    given: list[GivenWarning] = []
    warnings.simplefilter("always")  # the parent process decides which of them to show
    warnings.showwarning = lambda message, category, filename, lineno, *_: given.append(
        (message, category, filename, lineno)
    )
    try:
        runner = _TaskRunner(connection)
        connection.send(None)  # tells the parent that this process is ready
        while True:
            answer = runner.answer(receive(connection))
            answer.warnings.extend(given)
            given.clear()
            connection.send(answer)
    except (EOFError, ConnectionError):
        return


def _go_to(folder: str) -> bool:
    """Make a folder the current one, unless it is; return whether that worked."""
    # This process is asked, since a folder may have been renamed or deleted, and another one have its path.
    if folder != current_folder():
        try:
            chdir(folder)
        except OSError:  # it has just been deleted
            return False
    return True


class _TaskRunner:
    """Carries out tasks, with one reader for all of them."""

    def __init__(self, connection: Connection[Any, Any]) -> None:
        self._connection = connection
        self._token = _SharedToken(self._take_block())
        self._reader = ClipReader(torch.device("cpu"))
        self._known: dict[int, Any] = {}
        self._blocks: dict[int, npt.NDArray[np.uint8]] = {}

    def _take_block(self) -> npt.NDArray[np.uint8]:
        descriptor = recv_handle(self._connection)
        try:
            return map_block(descriptor)
        finally:
            close(descriptor)

    def answer(self, task: Task) -> Answer:
        for number in task.forget:
            del self._known[number]
        for number in task.forget_blocks:
            self._blocks.pop(number, None)
        for number in task.new_blocks:
            with suppress(RuntimeError):  # no descriptor came
                self._blocks[number] = self._take_block()
        if task.known is not None:
            self._known[task.number] = task.known
        if not all(block in self._blocks for block, _ in task.places) or not _go_to(task.folder):
            return Answer(None, None, [])
        tensors = [place.tensor(self._blocks[block]) for block, place in task.places]
        try:
            return Answer(task.work(self._reader, self._known[task.number], tensors, self._token), None, [])
        except (VideoLoaderError, ReadCancelled) as error:
            return Answer(None, error, [])
        except Exception as error:
            failure = RuntimeError("".join(traceback.format_exception(error)))
            return Answer(None, failure, [])
