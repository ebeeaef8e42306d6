"""Decode one file in order with libavcodec, then read it in every other way and compare."""

from __future__ import annotations

import time
import warnings
import zlib
from array import array
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from hashlib import blake2b
from typing import NamedTuple

import av
import av.error
import numpy as np
import numpy.typing as npt
import torch

from videoloader.convert.spec import OutputSpec, full_geometry
from videoloader.decoding.nvdec_codecs import INEXACT_CODECS
from videoloader.errors import DecodeError, VideoLoaderError
from videoloader.errors.of_handlers import raise_of_handler
from videoloader.indexing import ByteSource, FileSource, FolderSource, Openable, VideoIndex, build_index
from videoloader.indexing.sources.opening import open_anew
from videoloader.indexing.sources.part import PartSource
from videoloader.indexing.sources.stream import StreamSource
from videoloader.indexing.video_stream import open_video, packets_to_decode
from videoloader.reading.clip_reader import ClipReader
from videoloader.reading.clip_sink import ClipSink
from videoloader.reading.clip_slots import whole_clip
from videoloader.reading.read_request import ReadRequest
from videoloader.runtime.cores import available_cores
from videoloader.runtime.device import hand_over
from videoloader.verification.report import Fault, FileReport, ranges_of

# Limits in bytes for the frames of one read, and for one piece of a checksum.
_MOST_BYTES, _PIECE = 1 << 28, 1 << 20
# Length and stride of the clips. With a stride, a read may leave packets out, and other ones for each clip.
_LENGTH, _STRIDE = 16, 4
# If a GPU rounds the inverse DCT differently from libavcodec, the means over such tiles of a picture may differ by this
# much, since differences add up from frame to frame.
_TILES, _TILE_TOLERANCE = (9, 16), 6

Numbers = npt.NDArray[np.int64]


class _Sequential(NamedTuple):
    """A decode from start to end. Only fingerprints of pictures are kept, so that memory does not grow with their size.

    Attributes:
        prints: [N, …] for each device, fingerprints of the frames that are also in the index.
        pts: int64, timestamps of all frames; 0 where libavformat gives none.
        known: whether libavformat gives a timestamp, for each frame.
        corrupt: numbers of the frames that libavcodec marks as damaged.
        error: the error that ended the decode early; empty if none.
    """

    prints: dict[torch.device, npt.NDArray[np.generic]]
    pts: array[int]
    known: bytearray
    corrupt: list[int]
    error: str


class _Way(NamedTuple):
    """A way of reading.

    Attributes:
        name: name to show to users.
        device: device of the frames.
        threads: number of decoding threads.
    """

    name: str
    device: torch.device
    threads: int


def verify_file(source: Openable, device: torch.device, threads: int, seed: int) -> FileReport:
    """Decode a whole file in order, and compare every way of reading it with that.

    Args:
        source: the video.
        device: the CPU, or a CUDA device, on which frames are also read by NVDEC.
        threads: number of threads that may decode one clip; 0 for as many as there are cores, at least two.
        seed: seed of the order in which clips are read.
    """
    begin, name = time.perf_counter(), ""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the report has what warnings would say
        try:
            opened = open_anew(source)
            name = opened.name
            with torch.cuda.device(device) if device.type == "cuda" else nullcontext():
                report = _verified(opened, build_index(opened), device, threads, seed)
        except VideoLoaderError as error:
            raise_of_handler(error)
            name = name or str(error.source or source)
            report = FileReport(name, faults=(Fault("unreadable", error.message),))
    return replace(report, seconds=time.perf_counter() - begin)


def _verified(source: ByteSource, index: VideoIndex, device: torch.device, threads: int, seed: int) -> FileReport:
    cpu = torch.device("cpu")
    sequential = _decode_in_order(source, index, list(dict.fromkeys((cpu, device))))
    faults = [*_checksum_faults(source), *_index_faults(index, sequential)]
    check = _PictureCheck(source, index, sequential)
    check.read_from_keyframes()
    several = threads or max(available_cores(), 2)
    ways = [_Way("in one thread", cpu, 1), _Way(f"in {several} threads", cpu, several)]
    if device != cpu:
        ways.append(_Way("by NVDEC", device, 1))
    for number, way in enumerate(ways):
        check.read_in_clips(way, np.random.default_rng([seed, number]))
    return FileReport(
        source=source.name,
        codec=index.stream.codec,
        container=index.container,
        frames=len(index),
        decoded=len(sequential.pts),
        keyframes=int(check.index.packet_key.sum()),
        false_keyframes=tuple(np.flatnonzero(index.packet_key & ~check.index.packet_key).tolist()),
        damaged=ranges_of([*(number for number in sequential.corrupt if number < len(index)), *check.marked]),
        faults=(*faults, *check.faults()),
    )


def _decode_in_order(source: ByteSource, index: VideoIndex, devices: Sequence[torch.device]) -> _Sequential:
    """Decode every frame with libavcodec in one thread, and convert it as a read would."""
    geometry = full_geometry(index.stream)
    shown = {device: torch.empty((1, 3, *geometry.size), dtype=torch.uint8, device=device) for device in devices}
    prints: dict[torch.device, npt.NDArray[np.generic]] = {}
    pts, known, corrupt, error = array("q"), bytearray(), list[int](), ""
    try:
        for frame in _pictures(source):
            number = len(pts)
            pts.append(frame.pts or 0)
            known.append(frame.pts is not None)
            if frame.is_corrupt:
                corrupt.append(number)
            if number >= len(index):
                continue
            for device, picture in shown.items():
                stream = torch.cuda.current_stream(device) if device.type == "cuda" else None
                clip = whole_clip(np.array([number]), geometry, picture)
                ClipSink(index, [clip], OutputSpec(), stream).write_frame(int(index.frame_packet[number]), frame)
                given = _print_of(picture[0], index)
                # One array instead of an object for each frame, for videos of several hours.
                prints.setdefault(device, np.zeros((len(index), *given.shape), given.dtype))[number] = given
    except (av.error.FFmpegError, VideoLoaderError) as raised:
        raise_of_handler(raised)
        error = str(raised)
    decoded = {device: prints.get(device, np.zeros((0, 2), np.uint64))[: len(pts)] for device in devices}
    return _Sequential(decoded, pts, known, corrupt, error)


def _pictures(source: ByteSource) -> Iterator[av.VideoFrame]:
    files = map(FileSource, source.files) if isinstance(source, FolderSource) else [source]
    for file in files:
        with open_video(file) as (container, stream):
            last: av.VideoFrame | None = None
            incomplete: list[int] = []
            for packet in packets_to_decode(container, stream, file, incomplete):
                if not packet.size and packet.pts is not None:
                    # libavcodec would take it for the end of the stream. Theora repeats the last picture (section
                    # 7.11).
                    if stream.codec_context.name == "theora" and last is not None:
                        last.pts = packet.pts
                        yield last
                    continue
                for frame in packet.decode():
                    assert isinstance(frame, av.VideoFrame)
                    last = frame
                    yield frame
            if incomplete:
                raise DecodeError(f"the file is cut off: its last packet has only {incomplete[0]} bytes", file.name)


def _print_of(picture: torch.Tensor, index: VideoIndex) -> npt.NDArray[np.generic]:
    """Return a hash of a picture, or the means of its tiles if decoders may round differently."""
    if picture.is_cuda and index.stream.codec in INEXACT_CODECS:
        tiles = torch.nn.functional.adaptive_avg_pool2d(picture.float(), _TILES)
        return tiles.round().byte().cpu().numpy()
    return np.frombuffer(blake2b(picture.cpu().contiguous().numpy().data, digest_size=16).digest(), np.uint64)


def _alike(one: npt.NDArray[np.generic], other: npt.NDArray[np.generic]) -> bool:
    if one.dtype != np.uint8:
        return bool((one == other).all())
    return bool(np.abs(one.astype(np.int16) - other.astype(np.int16)).max() <= _TILE_TOLERANCE)


def _checksum_faults(source: ByteSource) -> Iterator[Fault]:
    """Report a stored member of a zip archive whose checksum is wrong, which reading clips cannot notice."""
    file = source.file if isinstance(source, StreamSource) else source
    if isinstance(file, PartSource) and file.crc is not None:
        crc = 0
        for start in range(0, file.size, _PIECE):
            crc = zlib.crc32(file.read(start, _PIECE), crc)
        if crc != file.crc:
            yield Fault("checksum", "its bytes do not match the checksum stored in the archive")


def _index_faults(index: VideoIndex, sequential: _Sequential) -> Iterator[Fault]:
    """Report where the index and the decode differ in the number of frames or in their times."""
    if sequential.error:
        yield Fault("decode", f"the decode ends after {len(sequential.pts)} frames: {sequential.error}")
    elif len(sequential.pts) != len(index):
        yield Fault("count", f"the index has {len(index)} frames, a decode gives {len(sequential.pts)}")
    count = min(len(index), len(sequential.pts))
    known = np.flatnonzero(np.frombuffer(sequential.known, np.uint8)[:count])
    # Image files in a folder all have the timestamp zero.
    if index.container == "images" or not len(known):
        return
    theirs, ours = np.array(sequential.pts, np.int64)[known], index.frame_pts[known]
    if index.container == "avi":
        # AVI stores no presentation times: libavformat gives reordered frames the numbers of their packets.
        theirs, ours = np.sort(theirs), np.sort(ours)
    if (wrong := known[theirs != ours]).size:
        yield Fault("times", "frame times differ from libavformat's", ranges_of(wrong.tolist()))


class _PictureCheck:
    """Reads frames in many ways, and remembers those that differ from the sequential decode.

    Attributes:
        index: the index with all corrections so far: reading removes false keyframes.
        marked: frames that a read marked as corrupt.
    """

    def __init__(self, source: ByteSource, index: VideoIndex, sequential: _Sequential) -> None:
        self._source, self.index, self._sequential = source, index, sequential
        self.marked: set[int] = set()
        self._other: dict[str, list[int]] = {}
        # For each way of reading, the first error and all frames of reads that failed.
        self._failed: dict[str, tuple[str, list[int]]] = {}
        size = 3 * int(np.prod(index.stream.display_size))
        self._most = max(_MOST_BYTES // size, 1)

    def read_from_keyframes(self) -> None:
        """Read all frames, those of each keyframe with a new decoder."""
        way = _Way("from a keyframe by a new decoder", torch.device("cpu"), 1)
        start = self.index.start_packet(np.arange(len(self.index)))
        order = np.argsort(start, kind="stable")
        for frames in np.split(order, np.flatnonzero(np.diff(start[order])) + 1):
            reader = ClipReader(way.device)
            for some in np.array_split(np.sort(frames), -(-len(frames) // self._most)):
                self._read(way, reader, some)

    def read_in_clips(self, way: _Way, rng: np.random.Generator) -> None:
        """Read all frames in strided clips, in shuffled order, half of the clips backwards."""
        reader = ClipReader(way.device)
        length = min(_LENGTH, self._most)
        clips = [
            np.arange(first + phase, min(first + _STRIDE * length, len(self.index)), _STRIDE)
            for first in range(0, len(self.index), _STRIDE * length)
            for phase in range(_STRIDE)
        ]
        for number in rng.permutation(len(clips)).tolist():
            if len(clips[number]):
                self._read(way, reader, clips[number][:: rng.choice((-1, 1))])

    def faults(self) -> Iterator[Fault]:
        for name, frames in self._other.items():
            yield Fault("pictures", f"differs from a decode in order when read {name}", ranges_of(frames))
        for name, (message, frames) in self._failed.items():
            yield Fault("read", f"an error when read {name} ({message})", ranges_of(frames))

    def _read(self, way: _Way, reader: ClipReader, frames: Numbers) -> None:
        pixels = torch.empty((len(frames), 3, *self.index.stream.display_size), dtype=torch.uint8, device=way.device)
        clip = whole_clip(frames, full_geometry(self.index.stream), pixels)
        try:
            report = reader.read(ReadRequest(self._source, self.index, [clip], OutputSpec(), threads=way.threads))
        except VideoLoaderError as error:
            raise_of_handler(error)
            self._failed.setdefault(way.name, (error.message, []))[1].extend(frames.tolist())
            return
        self.index = report.index
        hand_over(way.device, report.ready, [])
        expected = self._sequential.prints[way.device]
        for number, picture, corrupt in zip(frames.tolist(), pixels, clip.corrupt.tolist(), strict=True):
            if corrupt:
                self.marked.add(number)
            elif number < len(expected) and not _alike(_print_of(picture, self.index), expected[number]):
                self._other.setdefault(way.name, []).append(number)
