"""Damage the structure of real files in every way, and see that indexing ends soon, small, and with an answer.

    python tests/soak/fuzz_indexing.py FOLDER [--cases 100000] [--seed 0] [--workers 2] [--only mkv]

Each file of FOLDER is indexed once to learn which bytes decide anything: those that were read. Then Hypothesis changes
some of them (numbers at the edges of their types, flipped bits, runs of bytes from elsewhere), and the file is cut at
every border of its structure, up to a limit. Each case must end within a second of processor time and 200 MB more
memory, with an index that is consistent in itself or with an error of the library. A case that does not is shrunk and
printed; a process that dies or hangs is reported with its last case. Exit code 1 if there was any.

``tests/test_fuzz.py`` runs a small sample of this.
"""

from __future__ import annotations

import argparse
import io
import json
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import av
import numpy as np
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from videoloader.errors import VideoLoaderError
from videoloader.indexing import ByteSource, FileSource, VideoIndex, build_index

SECONDS, MEGABYTES = 1.0, 200
_HANG = 60
_MOST_BORDERS = 400
_EDGES = [
    0,
    1,
    2,
    7,
    8,
    16,
    0x7F,
    0x80,
    0xFF,
    0x7FFF,
    0xFFFF,
    0x10000,
    0x7FFFFFFF,
    0x80000000,
    0xFFFFFFFF,
    2**63,
    2**64 - 1,
]


class PatchedSource:
    """A source with some bytes changed and its end cut off, without a copy of the rest."""

    read_through = 64 << 10

    def __init__(self, source: ByteSource, patches: list[tuple[int, bytes]], size: int) -> None:
        self.name, self.size = source.name, size
        self._source, self._patches = source, patches

    def read(self, offset: int, size: int) -> bytes:
        data = self._source.read(offset, max(min(size, self.size - offset), 0))
        for at, patch in self._patches:
            if offset - len(patch) < at < offset + len(data):
                begin = max(at, offset)
                part = patch[begin - at : offset + len(data) - at]
                data = data[: begin - offset] + part + data[begin - offset + len(part) :]
        return data

    def read_ranges(self, offsets: Sequence[int], sizes: Sequence[int]) -> list[bytes]:
        return [self.read(offset, size) for offset, size in zip(offsets, sizes, strict=True)]

    def open(self) -> io.BufferedIOBase:
        return io.BufferedReader(_File(self))


class _File(io.RawIOBase):
    def __init__(self, source: ByteSource) -> None:
        self._source, self._position = source, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        self._position = max(0, offset + (0, self._position, self._source.size)[whence])
        return self._position

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self._source.read(self._position, len(buffer))
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)


class TracingSource(PatchedSource):
    """A source that remembers what was read."""

    def __init__(self, source: ByteSource) -> None:
        super().__init__(source, [], source.size)
        self.reads: list[tuple[int, int]] = []

    def read(self, offset: int, size: int) -> bytes:
        data = super().read(offset, size)
        self.reads.append((offset, offset + len(data)))
        return data


class Structure(NamedTuple):
    """Byte ranges that decide what the index is, and the places where a cut is most likely to hurt."""

    ranges: list[tuple[int, int]]
    borders: list[int]


def find_structure(source: ByteSource) -> Structure:
    tracing = TracingSource(source)
    borders: set[int] = set()
    try:
        index = build_index(tracing)
        borders.update(index.packet_offset.tolist())
        borders.update((index.packet_offset + index.packet_size).tolist())
    except VideoLoaderError:
        pass
    reads = [read for read in tracing.reads if read[1] > read[0]]
    # A large read is of payload, or of a table: both begin with what matters most.
    ranges = [(start, min(stop, start + (64 << 10))) for start, stop in reads] or [(0, source.size)]
    for start, stop in reads:
        borders.update((start, stop))
    borders.update(_mp4_borders(source.read(0, min(source.size, 32 << 20))))
    kept = sorted(border for border in borders if 0 < border < source.size)
    step = max(1, -(-len(kept) // _MOST_BORDERS))
    return Structure(ranges, kept[::step])


def _mp4_borders(data: bytes, start: int = 0, stop: int | None = None, depth: int = 0) -> Iterator[int]:
    """Where boxes begin, in any nesting; nothing for files that are no mp4."""
    stop = len(data) if stop is None else stop
    while start + 8 <= stop:
        size = int.from_bytes(data[start : start + 4], "big")
        if size < 8 or start + size > stop or not data[start + 4 : start + 8].isalnum():
            return
        yield start
        if depth < 8 and data[start + 4 : start + 8] in _NESTED:
            yield from _mp4_borders(data, start + 8, start + size, depth + 1)
        start += size


_NESTED = {b"moov", b"trak", b"mdia", b"minf", b"stbl", b"edts", b"mvex", b"moof", b"traf", b"dinf", b"udta"}


def patches_of(structure: Structure, size: int) -> st.SearchStrategy[list[tuple[int, bytes]]]:
    place = st.sampled_from(structure.ranges).flatmap(lambda r: st.integers(r[0], r[1] - 1))
    edge = st.sampled_from([1, 2, 4, 8]).flatmap(
        lambda width: st.tuples(st.sampled_from(_EDGES), st.sampled_from(["big", "little"])).map(
            lambda drawn: (drawn[0] % 256**width).to_bytes(width, drawn[1])
        )
    )
    patch = st.tuples(place, edge | st.binary(min_size=1, max_size=8))
    return st.lists(patch.filter(lambda p: p[0] + len(p[1]) <= size), min_size=1, max_size=4)


def check_index(index: VideoIndex, source: ByteSource) -> None:
    """What every index keeps, whatever the file."""
    packets, frames = len(index.packet_size), len(index)
    assert packets >= 1
    assert frames >= 1
    for name in ("offset", "size", "pts", "key", "disposable", "config"):
        assert len(getattr(index, f"packet_{name}")) == packets, name
    assert len(index.frame_pts) == frames
    assert 0 <= index.frame_packet.min() <= index.frame_packet.max() < packets
    assert (np.diff(index.clock) >= 0).all()
    assert index.packet_config.max() < len(index.stream.codec_configs)
    if index.byte_ranges:
        assert index.packet_size.min() >= 0
        assert index.packet_offset.min() >= 0
        assert (index.packet_offset + index.packet_size).max() <= source.size
    assert index.stream.width > 0
    assert index.stream.height > 0
    assert index.stream.time_base > 0
    index.start_packet(np.arange(frames))


class Outcome(NamedTuple):
    cases: Counter[str]
    slowest: float
    memory: float


def run_case(source: ByteSource) -> str:
    """``index`` or the name of the error; AssertionError where neither came, or not in bounds."""
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begin = time.process_time()
    try:
        check_index(build_index(source), source)
        result, message = "index", source.name
    except VideoLoaderError as error:
        result, message = type(error).__name__, str(error)
    seconds = time.process_time() - begin
    more = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory) / 1024
    assert source.name in message, f"does not name the file: {message}"
    assert seconds < SECONDS, f"took {seconds:.2f} s"
    assert more < MEGABYTES, f"took {more:.0f} MB"
    return result


def fuzz_file(path: Path, cases: int, number: int, last_case: Path | None = None) -> Outcome:
    """Cut and patch one file.

    Args:
        path: of the file.
        cases: how many in all; cuts come first.
        number: seed of the patches.
        last_case: file in which the case at hand is written down, for when the process does not survive it.
    """
    source = FileSource(path)
    structure = find_structure(source)
    cases_by_result: Counter[str] = Counter()
    slowest = memory = 0.0

    def run(patches: list[tuple[int, bytes]], size: int) -> None:
        nonlocal slowest, memory
        if last_case is not None:
            last_case.write_text(json.dumps([size, [[at, patch.hex()] for at, patch in patches]]))
        before, begin = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
        try:
            cases_by_result[run_case(PatchedSource(source, patches, size))] += 1
        finally:
            slowest = max(slowest, time.process_time() - begin)
            memory = max(memory, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)

    for border in structure.borders[: cases // 2]:
        try:
            run([], border)
        except Exception as error:
            raise AssertionError(f"{path.name} cut at byte {border}: {error}") from error

    @seed(number)
    @settings(
        max_examples=max(cases - sum(cases_by_result.values()), 1),
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
    )
    @given(patches_of(structure, source.size))
    def patch(patches: list[tuple[int, bytes]]) -> None:
        run(patches, source.size)

    patch()
    return Outcome(cases_by_result, slowest, memory)


def _in_this_process(arguments: argparse.Namespace) -> None:
    warnings.simplefilter("ignore")
    av.logging.set_level(None)
    outcome = fuzz_file(arguments.file, arguments.cases, arguments.seed, arguments.last_case)
    print(json.dumps([outcome.cases, outcome.slowest, outcome.memory]))


def _in_another_process(path: Path, cases: int, number: int) -> tuple[Path, Outcome | str]:
    with tempfile.NamedTemporaryFile(prefix="case") as note:
        command = [sys.executable, "-P", __file__, "--file", path, "--last-case", note.name]
        try:
            done = subprocess.run(
                [*map(str, command), "--cases", str(cases), "--seed", str(number)],
                capture_output=True,
                text=True,
                timeout=_HANG + cases * SECONDS,
            )
        except subprocess.TimeoutExpired:
            return path, f"hangs; the last case was {Path(note.name).read_text()}"
        if done.returncode == 0:
            counts, slowest, memory = json.loads(done.stdout.splitlines()[-1])
            return path, Outcome(Counter(counts), slowest, memory)
        return path, f"exit code {done.returncode}; last case {Path(note.name).read_text()}\n{done.stderr[-2500:]}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--cases", type=int, default=100_000, help="over all files")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", default="", help="files with this in their name")
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--last-case", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.file is not None:
        _in_this_process(arguments)
        return 0
    files = sorted(
        path
        for path in arguments.folder.rglob("*")
        if path.is_file() and path.suffix not in (".tsv", ".md", ".txt") and arguments.only in path.name
    )
    each = max(arguments.cases // len(files), 2)
    total: Counter[str] = Counter()
    slowest, memory, failures = (0.0, ""), (0.0, ""), 0
    with ThreadPoolExecutor(arguments.workers) as pool:
        for path, outcome in pool.map(lambda path: _in_another_process(path, each, arguments.seed), files):
            if isinstance(outcome, str):
                failures += 1
                print(f"FAILED {path.name}: {outcome}", flush=True)
                continue
            total += outcome.cases
            slowest, memory = max(slowest, (outcome.slowest, path.name)), max(memory, (outcome.memory, path.name))
    print(f"{sum(total.values())} cases over {len(files)} files: {dict(total.most_common())}")
    print(f"slowest {slowest[0]:.2f} s ({slowest[1]}), most memory {memory[0]:.0f} MB ({memory[1]})")
    print(f"{failures} files failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
