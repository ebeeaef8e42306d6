"""Threads that decode clips: they feed a GPU's decoders, or use CPU cores that would idle beside these."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, Generic, TypeAlias, TypeVar

import torch

from videoloader.convert.swscale import FilterGraphs, by_graphs
from videoloader.decoding.capabilities import default_workers
from videoloader.decoding.engine import Decode, choose_engine
from videoloader.decoding.nvdec_codecs import INEXACT_CODECS
from videoloader.errors import ConfigurationError, VideoLoaderError
from videoloader.errors.checks import check_integer
from videoloader.errors.of_handlers import error_of_handler
from videoloader.indexing import VideoIndex
from videoloader.reading.clip_reader import ClipReader, reader_of_thread
from videoloader.reading.fetch_ahead import FetchAhead
from videoloader.reading.process_pool import ProcessPool, ProcessReader
from videoloader.runtime.cores import available_cores
from videoloader.runtime.forks import after_fork
from videoloader.runtime.quiet_time import begin_quiet_time, wait_for_quiet_time
from videoloader.runtime.shared_memory import can_share
from videoloader.runtime.threads import Outcome, executor_of, works_now

T = TypeVar("T")
Reader: TypeAlias = ClipReader | ProcessReader

# Weight of the newest job in the running mean of job times.
_NEWEST = 0.1
# Pixels that a JPEG hardware engine decodes in about the time that Python needs for one image (H200).
_JPEG_PIXELS = 1 << 19
# Threads of one process that decode small videos, or images, without waiting much for the GIL.
_MOST_THREADS_ALONE, _MOST_THREADS_FOR_IMAGES = 4, 1
# As many threads as Linux runs by default.
_MOST_WORKERS = 1 << 15
# Cores of a GPU loader that are left to its own process.
_CORES_FOR_OWNER = 2
# Smaller pictures NVDEC decodes as fast as Python can feed it, so that a CPU thread would only take the GIL.
_HELP_PIXELS = 1 << 19
# Seconds that the CPU needs for a pixel of a packet, before it has been measured (H.264, a core that is not shared).
_CPU_SECONDS = 2e-9
# A CPU thread takes the GIL from those that feed NVDEC, so it must be faster than they are by this factor. With 1,
# mixed videos came 3 % slower than from NVDEC alone (H100, H200), and with 2 in batches of 32 still 1 %.
_LEAST_GAIN = 3
# Seconds: long enough for another thread to wake up and take the GIL.
_FOR_OTHERS = 20e-6


@dataclass(eq=False)
class _Job(Generic[T]):
    make: Callable[[Reader], T]
    codec: str
    pixels: int
    packets: int
    threads: int  # threads that may work while this is the oldest job
    in_process: bool  # see ``DecodeWorkers.submit``
    future: Future[T] = field(default_factory=Outcome)

    @property
    def kind(self) -> tuple[str, int]:
        """Jobs of one kind take time in proportion to their packets."""
        return self.codec, self.pixels.bit_length()

    def run(self, reader: AbstractContextManager[Reader]) -> None:
        if self.future.set_running_or_notify_cancel():
            try:
                # If the reader cannot be made, that is the job's error: the thread survives and nobody waits in vain.
                with reader as each:
                    result = self.make(each)
            except BaseException as error:
                self.future.set_exception(error)
                # The error's traceback holds this frame and its caller's. As long as one of them refers to the future,
                # which holds the error, only the garbage collector can free the job's memory.
                del self
            else:
                self.future.set_result(result)


class DecodeWorkers:
    """Runs decoding jobs in threads, each with decoders of its own.

    The main threads take the oldest job. Where they feed a GPU, a CPU thread takes a job that only the CPU can decode.
    If there is none, it takes the youngest job of the main threads, provided that the CPU would finish it in a third of
    the time that they need, by the times measured so far. So the CPU takes work only from a queue that is long enough,
    and no batch waits longer for it.

    All threads share the GIL with the consumer, who needs it to launch a network's kernels. So a consumer with batches
    in store reports that (``set_pace``), and then fewer threads decode, and CPU threads leave the jobs
    of the main threads alone.

    Args:
        device: device on which frames are wanted.
        decode: engines that may decode; see ``choose_engine``.
        num_workers: number of main threads, which feed a GPU's decoders, or decode on the CPU where there are none.
            None for five for every two hardware engines of NVDEC, or one for each core divided by the processes of this
            machine (``LOCAL_WORLD_SIZE``). With 0, ``submit`` does each job in the calling thread.
        cpu_workers: number of CPU threads, which decode beside a GPU with ``decode="auto"``. None for half of the cores
            that this process may use, divided likewise. There are none if ``num_workers`` is 0.
        num_processes: number of processes that decode on the CPU for these threads, or, if the device is a GPU, that
            read image files for its JPEG engines; see ``ProcessPool``. None for one for each thread if there are more
            than four, or more than one that decode ``images`` on the CPU, and on a GPU for at most the number of cores
            minus two.
        images: whether all jobs are about image files, or folders of them.

    Attributes:
        num_workers, cpu_workers, num_processes: numbers in use.
        fetch_ahead: fetches bytes of remote videos for jobs that wait.

    Raises:
        ConfigurationError: a number is below 0, or processes are asked for where they cannot work.
    """

    def __init__(
        self,
        device: torch.device,
        *,
        decode: Decode = "auto",
        num_workers: int | None = None,
        cpu_workers: int | None = None,
        num_processes: int | None = None,
        images: bool = False,
    ) -> None:
        self._device, self._decode = device, decode
        uses_nvdec = device.type == "cuda" and decode != "cpu"
        cores = available_cores()
        if num_workers is None:
            num_workers = default_workers(device.index) if uses_nvdec else max(cores // _local_processes(), 1)
        if cpu_workers is None:
            cpu_workers = cores // 2 // _local_processes()
        check_integer("num_workers", num_workers, 0, _MOST_WORKERS)
        check_integer("cpu_workers", cpu_workers, 0, _MOST_WORKERS)
        self.num_workers = num_workers
        self.cpu_workers = cpu_workers if num_workers and uses_nvdec and decode == "auto" else 0
        possible = can_share() and bool(sys.executable)
        if num_processes is None:
            wanted, most_threads = num_workers, _MOST_THREADS_ALONE
            if device.type == "cuda":
                # The GPU loader's own threads hold the GIL: if the system takes their core away, all others wait.
                wanted = min(wanted, cores // _local_processes() - _CORES_FOR_OWNER)
            elif images:
                most_threads = _MOST_THREADS_FOR_IMAGES
            num_processes = wanted if possible and wanted > most_threads else 0
        check_integer("num_processes", num_processes, 0)
        if num_processes and not possible:
            raise ConfigurationError(
                f"num_processes is {num_processes}, but processes need Linux and sys.executable: set it to 0"
            )
        self.num_processes = min(num_processes, num_workers)
        # A GPU thread's resources end with the thread, so only CPU threads are lent.
        self._lent = num_workers > 0 and device.type == "cpu"
        self._start()
        after_fork(self._start)

    @contextmanager
    def _reader(self, decode: Decode) -> Iterator[Reader]:
        """Provide a reader for a job of the calling thread.

        A lent thread takes one of this object's readers, whose decoders end with this object.
        """
        if not self._lent:
            yield self._with_processes(reader_of_thread(self._device, decode))
            return
        try:
            kept = self._readers.pop()
        except IndexError:
            kept = ClipReader(self._device, decode), FilterGraphs()
        try:
            with by_graphs(kept[1]):
                yield self._with_processes(kept[0])
        finally:
            self._readers.append(kept)

    def _with_processes(self, local: ClipReader) -> Reader:
        return local if self._processes is None else ProcessReader(local, self._processes)

    def _start(self) -> None:
        self._readers: list[tuple[ClipReader, FilterGraphs]] = []
        self._processes = ProcessPool(self.num_processes) if self.num_processes else None
        self.fetch_ahead = FetchAhead()
        self._main = executor_of(self.num_workers, "videoloader-decode", lent=self._lent)
        self._beside = executor_of(self.cpu_workers, "videoloader-cpu", lent=False) if self.cpu_workers else None
        self._lock = threading.Lock()
        # Threads that may work on ``_waiting`` and those that do; threads that help. Each ends when it finds no job.
        self._allowed, self._working, self._helping = self.num_workers, 0, 0
        self._in_hurry = True
        self._waiting: deque[_Job[Any]] = deque()
        self._waiting_for_cpu: deque[_Job[Any]] = deque()  # jobs that only the CPU can decode, if there are CPU threads
        self._main_seconds, self._cpu_seconds = _Times(), _Times()

    def submit(
        self, make: Callable[[Reader], T], index: VideoIndex, packets: int, *, in_process: bool = False
    ) -> Future[T]:
        """Queue a job.

        Args:
            make: function of a thread's reader.
            index: index of the video to decode.
            packets: approximate number of packets that will be decoded.
            in_process: whether a process does most of the job, if there are processes. CPU threads leave it to others.
        """
        if not self.num_workers:
            return self._main.submit(self._make_now, make)
        pixels = index.stream.width * index.stream.height
        # Only "auto" leaves a choice. If NVDEC cannot decode a video, that is an error of the job, not of the caller.
        engine = choose_engine(index, self._device, self._decode) if self._decode == "auto" else self._decode
        for_cpu = self._beside is not None and engine == "cpu"
        # Small images are mostly Python's work, and two threads would pass the GIL to and fro on every call that
        # releases it.
        threads = self.num_workers
        if in_process and self.num_processes:
            threads = self.num_processes  # another thread would find no idle process, and do the job by itself
        elif engine == "jpeg":
            threads = 1 + pixels // _JPEG_PIXELS
        job = _Job(make, index.stream.codec, pixels, packets, threads, in_process)
        with self._lock:
            (self._waiting_for_cpu if for_cpu else self._waiting).append(job)
        self._start_work()
        self._call_help()
        return job.future

    def _make_now(self, make: Callable[[Reader], T]) -> T:
        with self._reader(self._decode) as reader:
            return make(reader)

    def _start_work(self) -> None:
        """Wake as many threads as may work and have a job. Waking one that has no job costs as much as a job."""
        missing = 0
        try:
            with self._lock:
                waiting = len(self._waiting) + len(self._waiting_for_cpu)
                missing = max(min(self._may_work() - self._working, waiting), 0)
                self._working += missing
            while missing:
                self._main.submit(self._work).add_done_callback(self._after_work)
                missing -= 1
        except BaseException as error:
            self._count_out(missing, error)
            raise

    def _after_work(self, work: Future[None]) -> None:
        if error := work.exception():
            self._count_out(1, error)

    def _count_out(self, threads: int, error: BaseException) -> None:
        """Count threads no longer that do not work after all. Jobs of other threads may rely on them.

        If no thread can be started and none works, jobs that wait end with this error. After an error of a signal's
        handler, such as Ctrl-C, others start.
        """
        refused = isinstance(error, RuntimeError | VideoLoaderError) and error_of_handler(error) is None
        jobs = list[_Job[Any]]()
        with self._lock:
            # A Ctrl-C may have come when a thread had begun that is counted here.
            self._working = max(self._working - threads, 0)
            if refused and not self._working:
                for queue in (self._waiting, self._waiting_for_cpu):
                    jobs += queue
                    queue.clear()
        for job in jobs:
            if job.future.set_running_or_notify_cancel():
                job.future.set_exception(error)
        if threads and not refused:
            with suppress(RuntimeError, VideoLoaderError):
                self._start_work()

    def _call_help(self) -> None:
        """Let one more CPU thread help, if there is work for it."""
        with self._lock:
            if self._beside is None or self._helping >= self.cpu_workers or not self._helps():
                return
            self._helping += 1
        # At interpreter shutdown no more calls are accepted. Waiting jobs are cancelled, but must still finish.
        try:
            self._beside.submit(self._help).add_done_callback(self._after_help)
        except (RuntimeError, VideoLoaderError):
            self._count_out_help()

    def _after_help(self, help_: Future[None]) -> None:
        if help_.exception():
            self._count_out_help()

    def _count_out_help(self) -> None:
        with self._lock:
            self._helping -= 1

    def set_pace(self, ready: int, asked_for: int) -> None:
        """Set how many threads decode: all of them until half of the batches are ready, then fewer and fewer.

        Args:
            ready: number of batches that the consumer can take immediately.
            asked_for: number of batches ready or in the making, at least 1.
        """
        if not self.num_workers:
            return
        missing = asked_for - ready
        if ready > 1 and self._device.type == "cuda":  # one of them is handed over now
            begin_quiet_time()
        with self._lock:
            self._allowed = max(min(-(-2 * missing * self.num_workers // asked_for), self.num_workers), 1)
            self._in_hurry = 2 * missing >= asked_for
        self._start_work()

    def let_others_run(self) -> None:
        """Release the GIL between parts of Python work that nobody urgently waits for, through all of a quiet time.

        Python takes the GIL from a thread only after 5 ms (``sys.setswitchinterval``), in which a GPU may run out of
        work.
        """
        wait_for_quiet_time()
        if not self._in_hurry:
            time.sleep(_FOR_OTHERS)

    def close(self) -> None:
        """End the threads once they have finished their current jobs, then their decoders and the processes."""
        for each in (self._main, self._beside):
            if each is not None:
                each.shutdown()
        self.fetch_ahead.close()
        self._readers.clear()
        if self._processes is not None:
            self._processes.close()

    def works_now(self) -> bool:
        """Whether the current thread is one of these threads."""
        return works_now(self._main) or works_now(self._beside)

    def _work(self) -> None:
        while (job := self._take()) is not None:
            # At interpreter shutdown, or if no more threads can be started, this thread does the rest.
            with suppress(RuntimeError, VideoLoaderError):
                self._start_work()  # more threads may take the next job
            start = time.perf_counter()
            job.run(self._reader(self._decode))
            self._main_seconds.add(job, time.perf_counter() - start)
            del job  # see _Job.run
            self._call_help()

    def _take(self) -> _Job[Any] | None:
        """Return the oldest job; None ends the thread, because there is none or enough others work."""
        with self._lock:
            if self._working <= self._may_work() > 0:
                return (self._waiting or self._waiting_for_cpu).popleft()
            self._working = max(self._working - 1, 0)
            return None

    def _may_work(self) -> int:
        """Return the number of threads that may work on the oldest job and those after it."""
        queue = self._waiting or self._waiting_for_cpu
        return min(self._allowed, queue[0].threads) if queue else 0

    def _help(self) -> None:
        while (job := self._take_for_cpu()) is not None:
            start = time.perf_counter()
            job.run(self._reader("cpu"))
            self._cpu_seconds.add(job, time.perf_counter() - start)
            del job  # see _Job.run

    def _take_for_cpu(self) -> _Job[Any] | None:
        with self._lock:
            if not self._helps():
                self._helping -= 1
                return None
            return self._waiting_for_cpu.popleft() if self._waiting_for_cpu else self._waiting.pop()

    def _helps(self) -> bool:
        """Whether there is work for a CPU thread."""
        takes_from_main = bool(self._waiting) and self._in_hurry
        return bool(self._waiting_for_cpu) or (takes_from_main and self._pays(self._waiting[-1]))

    def _pays(self, job: _Job[Any]) -> bool:
        """Whether the CPU would finish the youngest job much sooner than the main threads, and with the same pixels."""
        # A process already has the CPU's part of such a job, so a thread would only take the GIL from the others.
        if job.in_process or job.pixels < _HELP_PIXELS or job.codec in INEXACT_CODECS:
            return False
        on_cpu, in_main = self._cpu_seconds.of(job), self._main_seconds.of(job)
        if in_main is None:
            return False
        if on_cpu is None:
            on_cpu = _CPU_SECONDS * job.pixels * job.packets
        before = sum(self._main_seconds.of(other) or in_main for other in self._waiting) - in_main
        return _LEAST_GAIN * on_cpu < before / self.num_workers + in_main


def _local_processes() -> int:
    """Return the number of a training run's processes on this machine, as torchrun and others set it."""
    return max(int(os.environ.get("LOCAL_WORLD_SIZE", "1")), 1)


class _Times:
    """Running mean of the seconds per packet for each kind of job."""

    def __init__(self) -> None:
        self._seconds: dict[tuple[str, int], float] = {}

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
# In a forked process PyTorch would wait forever for the threads of the parent, unless only one is to be used.
after_fork(partial(torch.set_num_threads, 1))


@contextmanager
def share_of_cores() -> Iterator[int]:
    """Lend the threads that one read may use: those that PyTorch may use, divided by the reads under way."""
    read = object()
    _reads.append(read)
    try:
        yield max(min(torch.get_num_threads(), available_cores()) // len(_reads), 1)
    finally:
        with suppress(ValueError):  # in a forked process, for a read that was under way
            _reads.remove(read)


@cache
def workers_of_device(device: torch.device, decode: Decode) -> DecodeWorkers:
    """Return the threads shared by all videos that are read on a device without a loader."""
    return DecodeWorkers(device, decode=decode, cpu_workers=0)
