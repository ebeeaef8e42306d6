"""Which worker decodes what: NVDEC's threads take the oldest jobs, CPU threads those that pay off."""

from __future__ import annotations

import signal
import threading
import time
from collections import defaultdict
from concurrent.futures import Future
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from synthetic_index import make_index
from waiting import PATIENCE, becomes

import videoloader.reading.workers
from videoloader.errors import DecodeError, VideoLoaderError
from videoloader.reading.workers import DecodeWorkers
from videoloader.runtime import threads as lent_threads

SMALL = make_index([0, 1], {0})
INDEX = replace(SMALL, stream=replace(SMALL.stream, width=1280, height=720))
FOR_CPU = make_index([0, 1], {0}, codec="av1")


@pytest.fixture
def nvdec_only_h264(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU that decodes H.264, without one."""
    monkeypatch.setattr(
        videoloader.reading.workers,
        "choose_engine",
        lambda index, device, decode: "nvdec" if index.stream.codec == "h264" else "cpu",
    )
    monkeypatch.setattr(
        videoloader.reading.workers, "reader_of_thread", lambda device, decode: SimpleNamespace(decode=decode)
    )


def workers(num_workers: int, cpu_workers: int) -> DecodeWorkers:
    return DecodeWorkers(torch.device("cuda", 0), num_workers=num_workers, cpu_workers=cpu_workers)


class Work:
    """Jobs that take the same time on an engine, and tell which one had them."""

    def __init__(self, nvdec_seconds: float, cpu_seconds: float) -> None:
        self.seconds = {"auto": nvdec_seconds, "cpu": cpu_seconds}
        self.done: list[tuple[int, str]] = []

    def job(self, number: int):
        def make(reader: SimpleNamespace) -> int:
            time.sleep(self.seconds[reader.decode])
            self.done.append((number, reader.decode))
            return number

        return make


def test_every_job_is_done_once_and_gives_its_own_result(nvdec_only_h264: None) -> None:
    pool, work = workers(3, 2), Work(0.002, 0.002)
    futures = [pool.submit(work.job(number), INDEX if number % 3 else FOR_CPU, 1 + number % 5) for number in range(200)]
    assert [future.result() for future in futures] == list(range(200))
    assert sorted(number for number, _ in work.done) == list(range(200))


def test_a_cpu_as_fast_as_nvdec_takes_its_share(nvdec_only_h264: None) -> None:
    pool, work = workers(2, 2), Work(0.01, 0.01)
    for future in [pool.submit(work.job(number), INDEX, 10) for number in range(100)]:
        future.result()
    assert 10 < sum(decode == "cpu" for _, decode in work.done) < 90


def test_codecs_that_engines_round_differently_stay_with_nvdec(
    nvdec_only_h264: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(videoloader.reading.workers, "choose_engine", lambda index, device, decode: "nvdec")
    pool, work = workers(2, 2), Work(0.005, 0.001)
    mpeg4 = make_index([0, 1], {0}, codec="mpeg4")
    for future in [pool.submit(work.job(number), mpeg4, 10) for number in range(60)]:
        future.result()
    assert {decode for _, decode in work.done} == {"auto"}


def test_a_cpu_that_would_be_the_last_to_end_is_left_idle(nvdec_only_h264: None) -> None:
    pool, work = workers(2, 2), Work(0.002, 1.5)
    futures: list[Future[int]] = []
    for number in range(200):
        futures.append(pool.submit(work.job(number), INDEX, 10))
        if number >= 20:
            futures[number - 20].result()  # as a loader does that looks 20 clips ahead
    for future in futures:
        future.result()
    assert sum(decode == "cpu" for _, decode in work.done) <= 2, (
        "one for each thread, until it is known how long it takes"
    )


def test_small_pictures_stay_with_nvdec(nvdec_only_h264: None) -> None:
    pool, work = workers(2, 2), Work(0.005, 0.001)
    for future in [pool.submit(work.job(number), SMALL, 10) for number in range(60)]:
        future.result()
    assert {decode for _, decode in work.done} == {"auto"}


def test_what_the_cpu_would_take_too_long_for_is_not_even_tried(nvdec_only_h264: None) -> None:
    pool, work = workers(2, 2), Work(0.002, 0.001)
    for future in [pool.submit(work.job(number), INDEX, 10_000) for number in range(60)]:
        future.result()
    assert {decode for _, decode in work.done} == {"auto"}


def test_what_nvdec_cannot_decode_goes_to_the_cpu_first_of_all(nvdec_only_h264: None) -> None:
    pool, work, started = workers(1, 1), Work(0.02, 0.001), threading.Event()
    first = pool.submit(lambda reader: started.wait(), INDEX, 1)
    futures = [pool.submit(work.job(number), FOR_CPU, 1) for number in range(5)]
    for future in futures:
        future.result()
    assert [decode for _, decode in work.done] == ["cpu"] * 5
    started.set()
    first.result()


def test_without_helpers_jobs_are_begun_in_order(nvdec_only_h264: None) -> None:
    pool, work = workers(1, 0), Work(0, 0)
    for future in [pool.submit(work.job(number), INDEX if number % 2 else FOR_CPU, 1) for number in range(50)]:
        future.result()
    assert work.done == [(number, "auto") for number in range(50)]


def test_an_error_comes_out_of_the_job_it_is_of(nvdec_only_h264: None) -> None:
    pool, work = workers(1, 1), Work(0, 0)

    def fail(reader: object) -> None:
        raise DecodeError("no frame", "a video")

    bad, good = pool.submit(fail, INDEX, 1), pool.submit(work.job(1), INDEX, 1)
    with pytest.raises(DecodeError, match="a video: no frame"):
        bad.result()
    assert good.result() == 1


def test_a_job_that_is_called_off_is_not_done(nvdec_only_h264: None) -> None:
    pool, work, going = workers(1, 0), Work(0, 0), threading.Event()
    first = pool.submit(lambda reader: going.wait(), INDEX, 1)
    second = pool.submit(work.job(2), INDEX, 1)
    assert second.cancel()
    going.set()
    assert pool.submit(work.job(3), INDEX, 1).result() == 3
    assert first.result()
    assert work.done == [(3, "auto")]


class Crowd:
    """Jobs that wait for a signal, and count how many are under way at a time."""

    def __init__(self) -> None:
        self.go, self.lock, self.running, self.most = threading.Semaphore(0), threading.Lock(), 0, 0

    def make(self, reader: object) -> None:
        with self.lock:
            self.running += 1
            self.most = max(self.most, self.running)
        assert self.go.acquire(timeout=PATIENCE)
        with self.lock:
            self.running -= 1

    def wait_for(self, running: int) -> None:
        assert becomes(lambda: self.running == running), f"{self.running} jobs are under way, not {running}"


def test_jobs_that_processes_do_are_not_taken_by_cpu_threads(nvdec_only_h264: None) -> None:
    pool, work = workers(1, 2), Work(0.01, 0.0001)
    futures = [pool.submit(work.job(number), INDEX, 1, in_process=True) for number in range(40)]
    assert [future.result() for future in futures] == list(range(40))
    assert {engine for _, engine in work.done} == {"auto"}


@pytest.mark.parametrize(("ready", "threads"), [(0, 4), (3, 4), (4, 4), (5, 3), (6, 2), (7, 1), (8, 1)])
def test_a_consumer_with_batches_in_store_is_left_the_interpreter(
    nvdec_only_h264: None, ready: int, threads: int
) -> None:
    pool, crowd = workers(4, 0), Crowd()
    pool.set_pace(ready, 8)
    futures = [pool.submit(crowd.make, INDEX, 1) for _ in range(12)]
    for done in range(12):
        crowd.wait_for(min(threads, 12 - done))
        crowd.go.release()
    for future in futures:
        future.result(timeout=PATIENCE)
    assert crowd.most == threads


def test_small_images_of_a_jpeg_engine_are_left_to_few_threads_and_what_follows_them_to_all(
    nvdec_only_h264: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        videoloader.reading.workers,
        "choose_engine",
        lambda index, device, decode: "jpeg" if index.stream.codec == "mjpeg" else "nvdec",
    )
    small = make_index([0], {0}, codec="mjpeg")
    large = replace(small, stream=replace(small.stream, width=1024, height=1024))
    pool, crowd = workers(4, 0), Crowd()
    futures = [pool.submit(crowd.make, index, 1) for index in [small] * 5 + [large] * 6 + [INDEX] * 8]
    running = [1] * 4 + [3] * 4 + [4] * 8 + [3, 2, 1]
    for threads in running:
        crowd.wait_for(threads)
        crowd.go.release()
    for future in futures:
        future.result(timeout=PATIENCE)


def test_all_threads_go_on_with_what_waits_once_the_store_is_empty(nvdec_only_h264: None) -> None:
    pool, crowd = workers(4, 0), Crowd()
    pool.set_pace(8, 8)
    futures = [pool.submit(crowd.make, INDEX, 1) for _ in range(6)]
    crowd.wait_for(1)
    pool.set_pace(0, 8)
    crowd.wait_for(4)
    pool.set_pace(8, 8)
    for _ in range(3):
        crowd.go.release()
    crowd.wait_for(1)
    crowd.go.release(3)
    for future in futures:
        future.result(timeout=PATIENCE)


def test_cores_that_would_idle_leave_a_consumer_alone_who_is_in_no_hurry(nvdec_only_h264: None) -> None:
    pool, work = workers(1, 2), Work(0.01, 0.001)
    pool.set_pace(8, 8)
    futures = [pool.submit(work.job(number), FOR_CPU if number % 10 == 0 else INDEX, 10) for number in range(40)]
    for future in futures:
        future.result()
    assert {number for number, decode in work.done if decode == "cpu"} <= set(range(0, 40, 10))
    pool.set_pace(0, 8)
    for future in [pool.submit(work.job(number), INDEX, 10) for number in range(60)]:
        future.result()
    assert sum(decode == "cpu" for _, decode in work.done) > 10


def test_at_the_interpreters_end_the_jobs_that_wait_come_to_an_end(nvdec_only_h264: None) -> None:
    pool, work, going = workers(4, 1), Work(0, 0), threading.Event()
    pool.set_pace(8, 8)
    first = pool.submit(lambda reader: going.wait(), INDEX, 1)
    others = [pool.submit(work.job(number), INDEX, 1) for number in range(5)]
    while not pool._main._waiting.empty():  # the threads see that one of them is enough
        time.sleep(0.001)
    # As ``concurrent.futures`` leaves it then: nothing new is taken, what was taken is done.
    pool._beside.shutdown(wait=False)
    pool._main.shutdown(wait=False)
    going.set()
    assert first.result(timeout=PATIENCE)
    assert [future.result(timeout=PATIENCE) for future in others] == list(range(5))


@pytest.mark.parametrize(("cores", "processes"), [(16, 14), (8, 6), (6, 0)])
def test_a_gpu_loader_keeps_two_cores_from_its_processes(
    nvdec_only_h264: None, monkeypatch: pytest.MonkeyPatch, cores: int, processes: int
) -> None:
    monkeypatch.setattr(videoloader.reading.workers, "available_cores", lambda: cores)
    monkeypatch.setattr(videoloader.reading.workers, "can_share", lambda: True)
    assert workers(17, 0).num_processes == processes


@pytest.mark.parametrize(
    ("num_workers", "images", "processes"), [(1, True, 0), (2, True, 2), (2, False, 0), (4, False, 0), (5, False, 5)]
)
def test_several_threads_that_load_images_have_processes(
    monkeypatch: pytest.MonkeyPatch, num_workers: int, images: bool, processes: int
) -> None:
    monkeypatch.setattr(videoloader.reading.workers, "can_share", lambda: True)
    pool = DecodeWorkers(torch.device("cpu"), num_workers=num_workers, images=images)
    assert pool.num_processes == processes
    pool.close()


def test_no_more_threads_have_work_for_processes_than_there_are_processes(
    nvdec_only_h264: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Another thread would find none that is idle, and do the work by itself with Python's lock.
    reader = SimpleNamespace(device=torch.device("cuda", 0))
    monkeypatch.setattr(videoloader.reading.workers, "reader_of_thread", lambda device, decode: reader)
    pool = DecodeWorkers(torch.device("cuda", 0), num_workers=6, cpu_workers=0, num_processes=2)
    crowd = Crowd()
    jobs = [pool.submit(crowd.make, INDEX, 1, in_process=True) for _ in range(12)]
    for done in range(12):
        crowd.wait_for(min(2, 12 - done))
        crowd.go.release()
    for job in jobs:
        job.result(timeout=PATIENCE)
    pool.close()
    assert crowd.most == 2


@pytest.mark.parametrize("cpu_workers", [0, 2])
def test_a_reader_that_cannot_be_made_is_the_error_of_each_job(
    nvdec_only_h264: None, monkeypatch: pytest.MonkeyPatch, cpu_workers: int
) -> None:
    def fail(device: torch.device, decode: str) -> None:
        raise torch.cuda.OutOfMemoryError("no memory for a decoder")

    pool, work = workers(2, cpu_workers), Work(0, 0)
    with monkeypatch.context() as short_of_memory:
        short_of_memory.setattr(videoloader.reading.workers, "reader_of_thread", fail)
        for job in [pool.submit(work.job(number), each, 1) for number, each in enumerate([INDEX, FOR_CPU] * 6)]:
            with pytest.raises(torch.cuda.OutOfMemoryError, match="no memory for a decoder"):
                job.result(timeout=PATIENCE)
    assert not work.done
    assert pool.submit(work.job(7), INDEX, 1).result(timeout=PATIENCE) == 7, "the threads live on"


def test_where_no_thread_starts_no_job_of_another_thread_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = DecodeWorkers(torch.device("cpu"), num_workers=2)
    mine = [threading.Thread(target=lambda: outcomes.append(outcome())) for _ in range(4)]
    start, outcomes = threading.Thread.start, list[set[str]]()
    monkeypatch.setattr(lent_threads, "_idle", defaultdict(lent_threads._Idle))

    def refuse(thread: threading.Thread) -> None:
        if thread in mine:
            return start(thread)
        time.sleep(0.0005)  # in which others submit jobs, too
        raise RuntimeError("can't start new thread")

    def outcome() -> set[str]:
        told = set[str]()
        for _ in range(50):
            try:
                pool.submit(lambda reader: 1, INDEX, 1).result(PATIENCE)
            except VideoLoaderError as error:
                told.add(str(error))
        return told

    monkeypatch.setattr(threading.Thread, "start", refuse)
    for each in mine:
        each.start()
    for each in mine:
        each.join()
    assert outcomes == [{"no thread can be started (can't start new thread): loaders with num_workers=0 need none"}] * 4
    assert not pool._waiting
    monkeypatch.undo()
    assert pool.submit(lambda reader: 2, INDEX, 1).result(PATIENCE) == 2
    pool.close()


def test_jobs_of_other_threads_are_done_where_a_handler_raises_a_runtime_error(monkeypatch: pytest.MonkeyPatch) -> None:
    pool, jobs = DecodeWorkers(torch.device("cpu"), num_workers=1), list[Future[int]]()
    submit = pool._main.submit

    def of_another_thread() -> None:
        jobs.append(pool.submit(lambda reader: 3, INDEX, 1))  # the main thread is about to wake a thread for it

    def handle(number: int, frame: object) -> None:
        monkeypatch.setattr(pool._main, "submit", submit)
        thread = threading.Thread(target=of_another_thread)
        thread.start()
        thread.join()
        raise RuntimeError("too late")

    monkeypatch.setattr(pool._main, "submit", lambda *call: signal.raise_signal(signal.SIGALRM))
    before = signal.signal(signal.SIGALRM, handle)
    try:
        with pytest.raises(RuntimeError, match="too late"):
            pool.submit(lambda reader: 2, INDEX, 1)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert jobs[0].result(PATIENCE) == 3
    pool.close()
