"""An error that a signal's handler raises, such as one that limits the time of a job, reaches the user as it is."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, ClassVar, Literal

import fsspec
import numpy as np
import pytest
from archive_writing import write_lmdb
from forked_programs import run_program

import videoloader as vl
from videoloader.decoding import frame_threads
from videoloader.errors.of_handlers import errors_suppressed
from videoloader.indexing import open_source
from videoloader.indexing.sources import local
from videoloader.indexing.store.columns import pack_column, unpack_column
from videoloader.indexing.store.read_only import Guard
from videoloader.reading import clip_reader
from videoloader.reading.own_code import is_own
from videoloader.runtime import threads

Handler = Callable[[int, FrameType | None], Any]


class TimeUpError(Exception):
    """What a user's handler raises."""


class _Timer:
    def __init__(self, error: Exception) -> None:
        self.error = error

    def __call__(self, number: int, frame: FrameType | None) -> None:
        raise self.error

    def ring(self, number: int, frame: FrameType | None) -> None:
        raise self.error


def _raise(error: Exception, number: int, frame: FrameType | None) -> None:
    raise error


def function_of(error: BaseException) -> Handler:
    def ring(number: int, frame: FrameType | None) -> None:
        raise error

    return ring


def once(error: Exception) -> Handler:
    """A handler that no longer is one when it raises."""

    def ring(*_: object) -> None:
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        raise error

    return ring


HANDLERS: list[Callable[[Exception], Handler]] = [
    function_of,
    once,
    _Timer,
    lambda error: _Timer(error).ring,
    lambda error: partial(_raise, error),
]


class _RingingFileSystem(fsspec.AbstractFileSystem):
    """One during whose calls a signal comes, or that fails by itself."""

    protocol = "ringing"
    cachable = False
    fails: ClassVar[Callable[[], None]]

    def info(self, path: str, **kwargs: object) -> Any:
        type(self).fails()
        return {"name": path, "size": 10, "type": "file"}


@pytest.fixture(autouse=True)
def _ringing() -> Iterator[None]:
    fsspec.register_implementation("ringing", _RingingFileSystem, clobber=True)
    before = signal.getsignal(signal.SIGUSR1)
    yield
    signal.signal(signal.SIGUSR1, before)


def ring() -> None:
    assert threading.current_thread() is threading.main_thread(), "the handler would run at another moment"
    signal.raise_signal(signal.SIGUSR1)


@pytest.mark.parametrize("handler", HANDLERS, ids=["function", "once", "object", "method", "partial"])
@pytest.mark.parametrize("kind", [TimeUpError, TimeoutError, ValueError])
def test_it_is_not_told_as_an_error_of_a_video(
    handler: Callable[[Exception], Handler], kind: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    error = kind("stop")
    monkeypatch.setattr(_RingingFileSystem, "fails", staticmethod(ring), raising=False)
    data = vl.VideoDataset.from_paths(["ringing://a/b.mp4"])
    for use in (
        lambda: vl.Video("ringing://a/b.mp4", device="cpu"),
        lambda: list(vl.VideoLoader(data, [0], batch_size=1, device="cpu", num_workers=0, num_processes=0)),
    ):
        signal.signal(signal.SIGUSR1, handler(error))
        with pytest.raises(kind) as told:
            use()
        assert told.value is error


def test_it_may_be_an_error_of_the_library_in_a_stream(
    sample: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    error = vl.DecodeError("stop")
    signal.signal(signal.SIGUSR1, function_of(error))
    make_packet = frame_threads.make_packet

    def ringing(*arguments: Any) -> Any:
        ring()
        return make_packet(*arguments)

    monkeypatch.setattr(frame_threads, "make_packet", ringing)
    with pytest.raises(vl.DecodeError) as told:
        list(vl.Video(sample("h264_mp4"), device="cpu").stream())
    assert told.value is error


@pytest.mark.parametrize("on_error", ["raise", "skip", "replace"])
def test_it_may_be_of_any_kind(
    sample: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, on_error: Literal["raise", "skip", "replace"]
) -> None:
    error = vl.CorruptFramesError("stop")
    signal.signal(signal.SIGUSR1, function_of(error))
    data = vl.VideoDataset.from_paths([sample("h264_mp4")])
    loader = vl.VideoLoader(data, [0], batch_size=1, device="cpu", num_workers=0, num_processes=0, on_error=on_error)
    list(loader)
    plain = clip_reader.ClipReader.read

    def ringing(reader: clip_reader.ClipReader, *arguments: Any, **others: Any) -> Any:
        ring()
        return plain(reader, *arguments, **others)

    monkeypatch.setattr(clip_reader.ClipReader, "read", ringing)
    with pytest.raises(vl.CorruptFramesError) as told:
        list(loader)
    assert told.value is error


def test_nothing_is_left_out_because_of_it(sample: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    signal.signal(signal.SIGUSR1, function_of(TimeUpError()))
    monkeypatch.setattr(_RingingFileSystem, "fails", staticmethod(ring), raising=False)
    data = vl.VideoDataset.from_paths([str(sample("h264_mp4")), "ringing://a/b.mp4"])
    with pytest.raises(TimeUpError):
        list(vl.VideoLoader(data, [0], batch_size=1, device="cpu", num_workers=0, num_processes=0, on_error="skip"))


def test_files_and_databases_are_read_as_before(
    sample: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = TimeoutError("stop")
    signal.signal(signal.SIGUSR1, function_of(error))
    database = write_lmdb(tmp_path / "a.lmdb", {"k": b"value"})
    sources = [open_source(sample("h264_mp4")), open_source(f"{database}::k")]
    expected = [source.read(0, 5) for source in sources]

    def pread(*given: Any) -> bytes:
        ring()
        raise AssertionError

    with monkeypatch.context() as patched:
        patched.setattr(os, "pread", pread)
        patched.setattr(os, "fsencode", pread)  # as a key of LMDB is
        for source in sources:
            with pytest.raises(TimeoutError) as told:
                source.read(0, 5)
            assert told.value is error
    assert [source.read(0, 5) for source in sources] == expected
    assert local._open_files


def test_the_same_error_of_a_file_system_is_told_as_the_video_s(monkeypatch: pytest.MonkeyPatch) -> None:
    signal.signal(signal.SIGUSR1, function_of(TimeUpError()))
    monkeypatch.setattr(
        _RingingFileSystem, "fails", staticmethod(partial(_raise, TimeUpError("own"), 0, None)), raising=False
    )
    with pytest.raises(vl.SourceError, match="cannot be opened \\(TimeUpError: own\\)"):
        vl.Video("ringing://a/b.mp4", device="cpu")


def test_errors_that_arose_from_each_other_have_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = OSError("one"), OSError("other")
    for error in (one, other, one):
        fail = partial(_raise, error, 0, None)
        monkeypatch.setattr(_RingingFileSystem, "fails", staticmethod(fail), raising=False)
        with pytest.raises(vl.SourceError, match=str(error)):
            vl.Video("ringing://a/b.mp4", device="cpu")
        one.__context__, other.__context__ = other, one


def test_a_user_who_handles_it_gets_the_library_s_errors_again() -> None:
    signal.signal(signal.SIGUSR1, function_of(TimeUpError()))
    try:
        ring()
    except TimeUpError:
        with pytest.raises(vl.SourceError, match="No such file"):
            vl.Video("missing.mp4", device="cpu")


@contextmanager
def raising_at(chosen: int, code: CodeType) -> Iterator[list[int]]:
    """Raise an error at the line of this number of a function, of those that are run; yield the numbers of all."""
    lines: list[int] = []

    def trace(frame: FrameType, event: str, _: object) -> object:
        if frame.f_code is code and event in ("call", "line"):
            lines.append(frame.f_lineno)
            if len(lines) == chosen:
                raise TimeUpError
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield lines
    finally:
        sys.settrace(before)


def test_the_guard_of_queries_outlives_it_at_any_line() -> None:
    for chosen in count(1):
        looks = Guard()._looks()
        next(looks)
        with raising_at(chosen, Guard._looks.__code__) as lines:
            ends = [next(looks) for _ in range(4)]
        if len(lines) < chosen:
            break
        assert ends.count(True) == 1
    assert chosen > 8


@pytest.mark.parametrize("kind", [TimeUpError, GeneratorExit])
def test_it_ends_a_query(sample: Callable[[str], Path], tmp_path: Path, kind: type[BaseException]) -> None:
    vl.build_store([sample("h264_mp4")], tmp_path / "s.db", workers=1)
    store = vl.IndexStore(tmp_path / "s.db")
    error = kind()
    signal.signal(signal.SIGUSR1, function_of(error))
    endless = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c"
    timer = threading.Timer(0.2, signal.pthread_kill, (threading.get_ident(), signal.SIGUSR1))

    def interrupted() -> None:
        timer.start()  # in here, since it may ring before the query begins
        store.query(endless, timeout=600)

    with pytest.raises(kind) as told:
        interrupted()
    timer.join()
    assert told.value is error
    assert store.query("SELECT frames FROM videos") == [(60,)]
    with pytest.raises(vl.ConfigurationError, match="takes longer than timeout"):
        store.query(endless, timeout=0.1)


def test_it_is_not_taken_for_a_thread_that_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    error = RuntimeError("stop")
    signal.signal(signal.SIGUSR1, function_of(error))
    monkeypatch.setattr(threads, "_starter", [])
    idle = threads._Idle()
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", lambda _: ring())
        with pytest.raises(RuntimeError) as told:
            threads.LentThreads(1, "videoloader-test", idle).submit(int)
        assert told.value is error
    assert threads.LentThreads(1, "videoloader-test", idle).submit(int).result() == 0


def test_no_descriptor_stays_open(sample: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    signal.signal(signal.SIGUSR1, function_of(TimeUpError()))
    path = sample("h264_mp4")
    before = len(os.listdir("/proc/self/fd"))
    for name in 20 * ["fstat", "set_blocking"]:
        with monkeypatch.context() as patched:
            patched.setattr(os, name, lambda *given: ring())
            with pytest.raises(TimeUpError):
                open_source(path)
    assert len(os.listdir("/proc/self/fd")) < before + 20  # other threads open files, too


class _Ringing:
    """An object of a user's class that is pickled when a signal comes."""

    def __call__(self, frames: Any) -> Any:
        return frames

    def __reduce__(self) -> Any:
        ring()
        raise AssertionError


def test_a_column_of_a_store_is_not_made_twice_because_of_it() -> None:
    packed = pack_column(np.cumsum(np.arange(100)))

    def profile(frame: FrameType, event: str, called: object) -> None:
        if event == "c_return" and getattr(called, "__name__", "") == "cumsum":
            raise TypeError("stop")

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        with pytest.raises(TypeError, match="stop"):
            unpack_column(packed, 0)
    finally:
        sys.setprofile(before)


@pytest.mark.parametrize("kind", [TimeoutError, EOFError, BrokenPipeError])
def test_a_build_does_not_take_it_for_the_death_of_a_process(
    sample: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[Exception]
) -> None:
    signal.signal(signal.SIGUSR1, function_of(kind("stop")))
    for name in ("send", "recv"):
        plain = getattr(Connection, name)

        def ringing(connection: Connection, *arguments: Any, plain: Callable[..., Any] = plain) -> Any:
            ring()
            return plain(connection, *arguments)

        with monkeypatch.context() as changed:
            changed.setattr(Connection, name, ringing)
            with pytest.raises(kind, match="stop"):
                vl.build_store([sample("h264_mp4")], tmp_path / f"{name}.db", workers=1)


def test_it_is_not_suppressed(monkeypatch: pytest.MonkeyPatch) -> None:
    signal.signal(signal.SIGUSR1, function_of(TimeUpError()))
    with pytest.raises(TimeUpError):
        is_own(_Ringing())
    monkeypatch.setattr(_RingingFileSystem, "fails", staticmethod(ring), raising=False)
    with pytest.raises(TimeUpError), errors_suppressed():
        vl.Video("ringing://a/b.mp4", device="cpu")
    with errors_suppressed():
        vl.Video("missing.mp4", device="cpu")


def test_packages_are_looked_for_once(sample: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """To look for one takes Python's lock for imports, which a handler's error may leave taken."""
    vl.Video(sample("h264_mp4"))

    def find(name: str) -> None:
        raise AssertionError(name)

    monkeypatch.setattr("importlib.util.find_spec", find)
    vl.Video(sample("h264_mp4"))


def test_it_comes_while_no_thread_is_started(sample: Callable[[str], Path]) -> None:
    """The main thread starts the first one only. A thread whose start is interrupted may wait for ever."""
    program = f"""
import threading
import videoloader as vl
from videoloader.runtime.threads import executor_of

started = []
plain = threading.Thread.start
threading.Thread.start = lambda thread: (started.append(threading.current_thread().name), plain(thread))
for lent in (True, False):
    with executor_of(3, "test", lent=lent) as pool:
        assert sorted(pool.map(abs, range(9))) == list(range(9))
with vl.VideoLoader(vl.VideoDataset.from_paths([{str(sample("h264_mp4"))!r}]), [0], batch_size=1) as loader:
    list(loader)
print(started.count("MainThread"), len(started) > 4)
"""
    assert run_program(program).stdout.split() == ["1", "True"]
