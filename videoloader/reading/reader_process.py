"""The life of a process that makes clips for another one, whose memory it writes them to."""

from __future__ import annotations

import traceback
import warnings
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle
from os import chdir, close, getcwd
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from videoloader.convert import Geometry, OutputSpec
from videoloader.errors import VideoLoaderError
from videoloader.indexing import VideoIndex
from videoloader.indexing.sources import SourceState
from videoloader.packets.decode_plan import DecodePlan
from videoloader.reading.cancellation import CancelToken, ReadCancelled
from videoloader.reading.clip_reader import ClipReader, ClipsReport
from videoloader.reading.decode_job import ClipSlots
from videoloader.shared_memory import Place, map_block


class WantedClip(NamedTuple):
    """A ``ClipSlots`` in memory that two processes share.

    Attributes:
        frame_numbers, geometry, positions: as there.
        length: the length of ``corrupt``.
        block: the memory's number.
        place: the place of the slots in that memory.
    """

    frame_numbers: npt.NDArray[np.int64]
    geometry: Geometry
    positions: npt.NDArray[np.int64]
    length: int
    block: int
    place: Place


class Order(NamedTuple):
    """What a process is told of some clips of one video that it is to make; see ``ClipReader.read``.

    Attributes:
        forget_indexes, forget_blocks: numbers of what is not needed any more.
        folder: the working directory, from which relative paths lead.
        path: the path that leads to the video.
        number: the number of the index.
        new_index: the index; None where it was told before.
        new_blocks: numbers of the memory whose descriptors follow.
        clips, output, state, plan: the arguments of the read.
    """

    forget_indexes: list[int]
    forget_blocks: list[int]
    folder: str
    path: str
    number: int
    new_index: VideoIndex | None
    new_blocks: list[int]
    clips: list[WantedClip]
    output: OutputSpec
    state: SourceState | None
    plan: DecodePlan | None


class Told(NamedTuple):
    """A warning that was given in the process."""

    message: Warning | str
    category: type[Warning]
    filename: str
    line: int


@dataclass(frozen=True, eq=False)
class Answer:
    """What came of an order.

    Attributes:
        report: without the index; None where there is an error, or where the index turned out to be wrong. What was
            learned of it cannot be told to another process, which has to read the clips itself.
        corrupt: one array for each clip; see ``ClipSlots.corrupt``.
        error: the error that ended it.
        warnings: those that were given.
    """

    report: ClipsReport | None
    corrupt: list[npt.NDArray[np.bool_]]
    error: BaseException | None
    warnings: list[Told]


class _SharedToken(CancelToken):
    """A token that another process cancels by writing to memory."""

    def __init__(self, flag: npt.NDArray[np.uint8]) -> None:
        super().__init__()
        self._flag = flag

    @property
    def cancelled(self) -> bool:  # type: ignore[override]
        return bool(self._flag[0])


def serve(descriptor: int) -> None:
    """Make the clips that are ordered through a pipe until it is closed."""
    torch.set_num_threads(1)  # there is a process for each core
    connection: Connection[Any, Any] = Connection(descriptor)
    told: list[Told] = []
    warnings.simplefilter("always")  # the other process knows which of them are wanted
    warnings.showwarning = lambda message, category, filename, lineno, *_: told.append(
        Told(message, category, filename, lineno)
    )
    try:
        maker = _Maker(connection)
        connection.send(None)  # it has begun
        while True:
            answer = maker.answer(connection.recv())
            answer.warnings.extend(told)
            told.clear()
            connection.send(answer)
    except (EOFError, ConnectionError):
        return


class _Maker:
    """Carries out orders."""

    def __init__(self, connection: Connection[Any, Any]) -> None:
        self._connection = connection
        self._token = _SharedToken(self._take_block())
        self._reader = ClipReader(torch.device("cpu"))
        self._folder = getcwd()
        self._indexes: dict[int, VideoIndex] = {}
        self._blocks: dict[int, npt.NDArray[np.uint8]] = {}

    def _take_block(self) -> npt.NDArray[np.uint8]:
        descriptor = recv_handle(self._connection)
        try:
            return map_block(descriptor)
        finally:
            close(descriptor)

    def answer(self, order: Order) -> Answer:
        for number in order.forget_indexes:
            del self._indexes[number]
        for number in order.forget_blocks:
            del self._blocks[number]
        for number in order.new_blocks:
            self._blocks[number] = self._take_block()
        if order.folder != self._folder:
            chdir(order.folder)
            self._folder = order.folder
        if order.new_index is not None:
            self._indexes[order.number] = order.new_index
        index = self._indexes[order.number]
        clips = [
            ClipSlots(
                wanted.frame_numbers,
                wanted.geometry,
                wanted.place.tensor(self._blocks[wanted.block]),
                np.zeros(wanted.length, np.bool_),
                wanted.positions,
            )
            for wanted in order.clips
        ]
        try:
            report = self._reader.read(
                order.path, index, clips, order.output, token=self._token, state=order.state, plan=order.plan
            )
        except (VideoLoaderError, ReadCancelled) as error:
            return Answer(None, [], error, [])
        except Exception as error:
            told = RuntimeError("".join(traceback.format_exception(error)))
            return Answer(None, [], told, [])
        if report.corrections:
            return Answer(None, [], None, [])
        return Answer(replace(report, index=None), [clip.corrupt for clip in clips], None, [])  # type: ignore[arg-type]
