"""Threads that decode: those of NVDEC, and CPU cores that would idle beside them."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, Generic, TypeAlias, TypeVar

import torch

from videoloader.convert import FilterGraphs, by_graphs
from videoloader.decoding import INEXACT_CODECS, Decode, choose_engine, default_workers
from videoloader.device import available_cores
from videoloader.errors import ConfigurationError, VideoLoaderError, check_integer
from videoloader.indexing import VideoIndex
from videoloader.indexing.forks import after_fork
from videoloader.reading.clip_reader import ClipReader, reader_of_thread
from videoloader.reading.fetch_ahead import FetchAhead
from videoloader.reading.reader_processes import ProcessReader, ReaderProcesses
from videoloader.shared_memory import can_share
from videoloader.threads import executor_of

T = TypeVar("T")
Reader: TypeAlias = ClipReader | ProcessReader

# How much the last job counts in the running mean of what jobs take.
_NEWEST = 0.1
# Pixels that a JPEG engine decodes in about the time of Python's part of an image (H200).
_JPEG_PIXELS = 1 << 19
# Threads that decode small videos in one process without waiting much for Python's lock.
_MOST_THREADS_ALONE = 4
# Cores of a GPU loader that no process of its own keeps busy.
_CORES_FOR_OWNER = 2
# Seconds. Long enough that another thread wakes up and takes Python's lock.
_FOR_OTHERS = 20e-6


@dataclass(eq=False)
class _Job(Generic[T]):
    make: Callable[[Reader, Decode], T]
    kind: tuple[str, int]  # jobs of one kind take time in proportion to their packets
    packets: int
    threads: int  # that may work at once while this is the oldest job
    future: Future[T] = field(default_factory=Future)

    def run(self, reader: Callable[[], AbstractContextManager[Reader]], decode: Decode) -> None:
        if self.future.set_running_or_notify_cancel():
            try:
                # A reader that cannot be made is the job's error: the thread lives on, and nobody waits in vain.
                with reader() as each:
                    result = self.make(each, decode)
                self.future.set_result(result)
            except BaseException as error:
                self.future.set_exception(error)
                # The error's traceback holds this frame and its caller's: while one of them knows the future, which
                # holds the error, only the garbage collector frees the job's memory.
                del self


class DecodeWorkers:
    """Runs decoding jobs in threads, each with decoders of its own.

    NVDEC's threads take the oldest job. A CPU thread takes what NVDEC cannot decode; if there is none of that, the
    youngest job of NVDEC's, provided that by the times measured so far the CPU ends it before NVDEC would. So
    the CPU only takes work off a queue that is long enough, and no batch waits longer for it.

    All threads share Python's lock with the consumer, who needs it to launch a network's kernels. So a consumer with
    batches in store says so, and then fewer threads decode, and no CPU thread for NVDEC.

    Args:
        device: device on which frames are wanted.
        decode: engines that may decode; see ``choose_engine``.
        num_workers: threads that feed NVDEC, or decode where there is no NVDEC; without a number five for two NVDEC
            engines, or one for each core, divided by the processes of this machine (``LOCAL_WORLD_SIZE``). With 0 a job
            is done when it is submitted, by the thread that does.
        cpu_workers: threads that decode beside NVDEC, with ``decode="auto"``; without a number half of the cores that
            this process may use, divided likewise. None beside 0 others.
        num_processes: processes that decode on the CPU for these threads, or, where the device is a GPU, read image
            files for its engines; see ``ReaderProcesses``. Without a number one for each of more than four threads, and
            on a GPU two fewer than there are cores at most.

    Attributes:
        num_workers, cpu_workers, num_processes: numbers in use.
        fetch_ahead: fetches bytes of remote videos for jobs that wait.

    Raises:
        ConfigurationError: a number below 0, or an engine that the device does not have.
    """

    def __init__(
        self,
        device: torch.device,
        *,
        decode: Decode = "auto",
        num_workers: int | None = None,
        cpu_workers: int | None = None,
        num_processes: int | None = None,
    ) -> None:
        self._device, self._decode = device, decode
        uses_nvdec = device.type == "cuda" and decode != "cpu"
        cores = available_cores()
        if num_workers is None:
            num_workers = default_workers(device.index) if uses_nvdec else max(cores // _local_processes(), 1)
        if cpu_workers is None:
            cpu_workers = cores // 2 // _local_processes()
        check_integer("num_workers", num_workers, 0)
        check_integer("cpu_workers", cpu_workers, 0)
        self.num_workers = num_workers
        self.cpu_workers = cpu_workers if num_workers and uses_nvdec and decode == "auto" else 0
        possible = can_share() and bool(sys.executable)
        if num_processes is None:
            wanted = num_workers
            if device.type == "cuda":
                # Its own threads hold Python's lock: where the system takes their core away, all others wait.
                wanted = min(wanted, cores // _local_processes() - _CORES_FOR_OWNER)
            num_processes = wanted if possible and wanted > _MOST_THREADS_ALONE else 0
        check_integer("num_processes", num_processes, 0)
        if num_processes and not possible:
            raise ConfigurationError(f"num_processes is {num_processes}, but processes decode on Linux only: write 0")
        self.num_processes = min(num_processes, num_workers)
        # What a thread keeps on a GPU goes with it.
        self._lent = num_workers > 0 and device.type == "cpu"
        self._start()
        after_fork(self._start)

    @contextmanager
    def _reader(self) -> Iterator[Reader]:
        """One for a job of the calling thread. A lent thread takes one of ours, whose decoders end with this object."""
        if not self._lent:
            yield self._with_processes(reader_of_thread(self._device))
            return
        try:
            kept = self._readers.pop()
        except IndexError:
            kept = ClipReader(self._device), FilterGraphs()
        try:
            with by_graphs(kept[1]):
                yield self._with_processes(kept[0])
        finally:
            self._readers.append(kept)

    def _with_processes(self, local: ClipReader) -> Reader:
        return local if self._processes is None else ProcessReader(local, self._processes)

    def _start(self) -> None:
        self._readers: list[tuple[ClipReader, FilterGraphs]] = []
        self._processes = ReaderProcesses(self.num_processes) if self.num_processes else None
        self.fetch_ahead = FetchAhead()
        self._main = executor_of(self.num_workers, "videoloader-decode", lent=self._lent)
        self._beside = ThreadPoolExecutor(self.cpu_workers, "videoloader-cpu") if self.cpu_workers else None
        self._lock = threading.Lock()
        # Threads that may work on ``_waiting``, and do; threads that help. Each ends when it finds nothing to do.
        self._allowed, self._working, self._helping = self.num_workers, 0, 0
        self._in_hurry = True
        self._waiting: deque[_Job[Any]] = deque()  # for NVDEC, or all there are where there is none
        self._waiting_for_cpu: deque[_Job[Any]] = deque()
        self._nvdec_seconds, self._cpu_seconds = _Times(), _Times()

    def submit(
        self, make: Callable[[Reader, Decode], T], index: VideoIndex, packets: int, *, in_process: bool = False
    ) -> Future[T]:
        """Have a job done.

        Args:
            make: function of a thread's reader and the engine to use.
            index: index of the video to decode.
            packets: number of packets that will be decoded, about.
            in_process: whether a process does most of it, where there are processes.
        """
        if not self.num_workers:
            return self._main.submit(self._make_now, make)
        pixels = index.stream.width * index.stream.height
        # Only "auto" leaves a choice. That NVDEC cannot decode a video is the error of the job, not of its caller.
        engine = choose_engine(index, self._device, self._decode) if self._decode == "auto" else self._decode
        for_cpu = self._beside is not None and engine == "cpu"
        # Small images are mostly Python's work, and two threads hand its lock to and fro with each call that lets go.
        threads = self.num_workers
        if in_process and self.num_processes:
            threads = self.num_processes  # another thread would find none that is idle, and do it all by itself
        elif engine == "jpeg":
            threads = 1 + pixels // _JPEG_PIXELS
        job = _Job(make, (index.stream.codec, pixels.bit_length()), packets, threads)
        with self._lock:
            (self._waiting_for_cpu if for_cpu else self._waiting).append(job)
        self._start_work()
        self._call_help()
        return job.future

    def _make_now(self, make: Callable[[Reader, Decode], T]) -> T:
        with self._reader() as reader:
            return make(reader, self._decode)

    def _start_work(self) -> None:
        """Let as many threads work as may and have something to do. To wake one that has not costs as much as a job."""
        missing = 0
        try:
            with self._lock:
                waiting = len(self._waiting) + len(self._waiting_for_cpu)
                missing = max(min(self._may_work() - self._working, waiting), 0)
                self._working += missing
            while missing:
                self._main.submit(self._work)
                missing -= 1
        finally:
            if missing:  # at the interpreter's end, or by a Ctrl-C
                with self._lock:
                    self._working -= missing

    def _call_help(self) -> None:
        """Let one more CPU thread help, if there is something that it should do."""
        with self._lock:
            if self._beside is None or self._helping >= self.cpu_workers or not self._helps():
                return
            self._helping += 1
        # At the interpreter's end no more calls are taken. Jobs that wait are called off, but must come to an end.
        with suppress(RuntimeError):
            self._beside.submit(self._help)

    def set_pace(self, ready: int, asked_for: int) -> None:
        """Set how many threads decode: all while at most half of the batches are ready, fewer the more are ready.

        Args:
            ready: batches that the consumer can take at once.
            asked_for: batches ready or in the making, not none.
        """
        if not self.num_workers:
            return
        missing = asked_for - ready
        with self._lock:
            self._allowed = max(min(-(-2 * missing * self.num_workers // asked_for), self.num_workers), 1)
            self._in_hurry = 2 * missing >= asked_for
        self._start_work()

    def let_others_run(self) -> None:
        """Called between parts of Python's work that nobody is in a hurry for.

        Python takes its lock from a thread only after 5 ms (``sys.setswitchinterval``), in which a GPU may run out of
        work.
        """
        if not self._in_hurry:
            time.sleep(_FOR_OTHERS)

    def close(self) -> None:
        """End the threads' work, once what was begun is done, their decoders, and the processes."""
        for each in (self._main, self._beside):
            if each is not None:
                each.shutdown()
        self.fetch_ahead.close()
        self._readers.clear()
        if self._processes is not None:
            self._processes.close()

    def _work(self) -> None:
        while (job := self._take()) is not None:
            # At the interpreter's end, or where no more threads can be started, this one does what is left.
            with suppress(RuntimeError, VideoLoaderError):
                self._start_work()  # more may take the next one
            start = time.perf_counter()
            job.run(self._reader, self._decode)
            self._nvdec_seconds.add(job, time.perf_counter() - start)
            del job  # see _Job.run
            self._call_help()

    def _take(self) -> _Job[Any] | None:
        """The oldest job; None ends the thread: there is none, or the others are enough."""
        with self._lock:
            if self._working <= self._may_work():
                return (self._waiting or self._waiting_for_cpu).popleft()
            self._working -= 1
            return None

    def _may_work(self) -> int:
        """The number of threads that may work on the oldest job and those after it."""
        queue = self._waiting or self._waiting_for_cpu
        return min(self._allowed, queue[0].threads) if queue else 0

    def _help(self) -> None:
        while (job := self._take_for_cpu()) is not None:
            start = time.perf_counter()
            job.run(self._reader, "cpu")
            self._cpu_seconds.add(job, time.perf_counter() - start)
            del job  # see _Job.run

    def _take_for_cpu(self) -> _Job[Any] | None:
        with self._lock:
            if not self._helps():
                self._helping -= 1
                return None
            job = self._waiting_for_cpu.popleft() if self._waiting_for_cpu else self._waiting.pop()
            self._cpu_seconds.tried.add(job.kind)
            return job

    def _helps(self) -> bool:
        """Whether a CPU thread has something to do."""
        waits_for_nvdec = bool(self._waiting) and self._in_hurry
        return bool(self._waiting_for_cpu) or (waits_for_nvdec and self._pays(self._waiting[-1]))

    def _pays(self, job: _Job[Any]) -> bool:
        """Whether the CPU would end the youngest job before NVDEC does, and with the same pixels."""
        if job.kind[0] in INEXACT_CODECS:
            return False
        on_cpu, on_nvdec = self._cpu_seconds.of(job), self._nvdec_seconds.of(job)
        if on_nvdec is None:
            return False
        if on_cpu is None:  # one is tried, to see how long it takes
            return job.kind not in self._cpu_seconds.tried
        before = sum(self._nvdec_seconds.of(other) or on_nvdec for other in self._waiting) - on_nvdec
        return on_cpu < before / self.num_workers + on_nvdec


def _local_processes() -> int:
    """The number of a training run's processes that share this machine, as torchrun and others tell."""
    return max(int(os.environ.get("LOCAL_WORLD_SIZE", "1")), 1)


class _Times:
    """Seconds a packet that each kind of job takes, as a running mean.

    Attributes:
        tried: kinds of which a job was begun.
    """

    def __init__(self) -> None:
        self._seconds: dict[tuple[str, int], float] = {}
        self.tried: set[tuple[str, int]] = set()

    def add(self, job: _Job[Any], seconds: float) -> None:
        each = seconds / max(job.packets, 1)
        known = self._seconds.get(job.kind, each)
        self._seconds[job.kind] = known + _NEWEST * (each - known)

    def of(self, job: _Job[Any]) -> float | None:
        each = self._seconds.get(job.kind)
        return None if each is None else each * job.packets


# One entry for each read under way.
_reads: list[object] = []
after_fork(_reads.clear)
# PyTorch waits for ever for threads that a process had before it was forked, unless there is to be one only.
after_fork(partial(torch.set_num_threads, 1))


@contextmanager
def share_of_cores() -> Iterator[int]:
    """The threads that one read may use: those that PyTorch's operations may, shared by all reads under way."""
    read = object()
    _reads.append(read)
    try:
        yield max(min(torch.get_num_threads(), available_cores()) // len(_reads), 1)
    finally:
        with suppress(ValueError):  # in a forked process, of a read that was under way
            _reads.remove(read)


@cache
def workers_of_device(device: torch.device, decode: Decode) -> DecodeWorkers:
    """The threads that all videos share which are read on a device without a loader."""
    return DecodeWorkers(device, decode=decode, cpu_workers=0)
